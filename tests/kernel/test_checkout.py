"""A checkout that only root can read: once root is given up, nothing of ioh can be imported."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.kernel.rig import ended
from tests.kernel.test_screen import PROGRAMS, attached
from tests.pty_screen import ESC, LEFT, ROOT, PtyScreen

# As the launcher starts it, but for the checkout's place, which the environment's own path names.
START = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
START += "runpy.run_module('ioh', run_name='__main__', alter_sys=True)"
NOBODY = {"SUDO_UID": "65534", "SUDO_GID": "65534"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir(mode=0o700)
    for name in ("ioh", "probes"):
        shutil.copytree(ROOT / name, made / name)
    return made


def ioh_of(checkout: Path) -> list[str]:
    return [sys.executable, "-I", "-c", START, str(checkout)]


@pytest.fixture
def elsewhere(folder: Path) -> Path:
    """A directory that everybody may use."""
    folder.chmod(0o777)
    return folder


def test_the_screen(checkout: Path, elsewhere: Path) -> None:
    env = {**NOBODY, "TMPDIR": str(elsewhere)}
    with PtyScreen(ioh_of(checkout), checkout, env=env) as shown:
        shown.wait_until(lambda: attached(shown) >= PROGRAMS)
        shown.wait_until(lambda: Path(f"/proc/{shown.pid}").stat().st_uid == 65534)
        shown.press("\x10")
        shown.wait_for("command: ")
        shown.press(ESC, "?", ESC, "2", ESC, "l", "g", "f", ESC, "S", "R")
        shown.wait_for("since the current directory cannot be written")
        shown.press("R", "q")
        assert shown.wait() == 0
        assert LEFT in shown.shown
        assert "Traceback" not in shown.text
        assert "Error" not in shown.text


def test_a_recording_on_a_terminal(checkout: Path, elsewhere: Path) -> None:
    command = [*ioh_of(checkout), "record", "-o", str(elsewhere / "a.ioh"), "-t", "2"]
    command += ["--layers", "block"]
    with PtyScreen(command, checkout, env=NOBODY) as shown:
        shown.wait_for("block")
        assert shown.wait() == 0
        assert "REC 00:00:0" in shown.text
        assert "Traceback" not in shown.text


@pytest.mark.parametrize("arguments", ["text -d all", "json --db-all"])
def test_what_scrolls(checkout: Path, elsewhere: Path, arguments: str) -> None:
    env = {**os.environ, **NOBODY, "TMPDIR": str(elsewhere)}
    done = ended(*ioh_of(checkout), *arguments.split(), "-t", "2", cwd=checkout, env=env)
    assert (done.stderr, done.returncode) == ("", 0)
    if arguments == "json":
        sources = {
            layer["source"] for layer in json.loads(done.stdout.splitlines()[-1])["layers"].values()
        }
        assert "bpf" in sources
