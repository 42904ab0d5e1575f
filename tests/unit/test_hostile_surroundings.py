"""Every command in a directory and an environment that lead to foreign code: none of it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.bench.results import save
from ioh.bpf import checkup
from ioh.commands import commands
from tests.support import fakes
from tests.support.sessions import recorded
from tests.unit.bench_results import results

MODULES = (
    "_ctypes", "argparse", "bcc", "ctypes", "ioh", "json", "locale", "msgspec", "multiprocessing",
    "numpy", "prometheus_client", "pwd", "rich", "sitecustomize", "socket", "subprocess", "textual",
    "usercustomize", "zstandard",
)  # fmt: skip
PROGRAMS = (
    "cc", "gcc", "id", "ld", "ldconfig", "objdump", "python3", "sh", "stty", "tput", "uname",
)  # fmt: skip
PROC = ["--proc", "-c", "0.1", "-t", "0.2"]
ARGUMENTS = {
    "text": PROC,
    "json": PROC,
    "serve": ["--listen", "127.0.0.1:0", *PROC],
    "live": ["--no-tui", *PROC],
    "record": ["-o", "made.ioh", *PROC],
    "replay": ["run.ioh", "--no-tui", "--speed", "100"],
    "report": ["run.ioh"],
    "compare": ["run.ioh", "run.ioh"],
    "export": ["run.ioh"],
    "join": ["run.ioh", "other.ioh"],
    "verify": ["run.ioh"],
    "explain": [],
    "demo": ["-t", "1", "--speed", "10"],
    "bench report": ["bench", "--html", "made.html"],
    "bench compare": ["bench", "bench"],
    "bench card": ["--from", "bench", "--csv"],
    "bench": ["--plans"],  # what it runs comes from the system's directories
    "mark": ["now", "--file", "made.ioh"],
    "deploy": ["--help"],  # its ssh is the user's own
    "doctor": ["--help"],  # itself as root: tests/kernel/test_rights.py; its import of bcc: below
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory full of modules and programs that leave a mark."""
    mark = tmp_path / "mark"
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    for name in PROGRAMS:
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >>'{mark}'\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "run.ioh").write_bytes(recorded(fakes.first(5)))
    other = [replace(sample, hostname="nfs01") for sample in fakes.first(5)]
    (tmp_path / "other.ioh").write_bytes(recorded(other))
    (tmp_path / "bench").mkdir()
    save(results(), str(tmp_path / "bench"))
    return tmp_path


def variables(folder: Path) -> dict[str, str]:
    here = str(folder)
    python = {"PATH": here, "HOME": here, "STARTUP": f"{here}/bcc.py", "USERBASE": here}
    python |= {"INSPECT": "1", "BREAKPOINT": "bcc.x", "PLATLIBDIR": here}
    python |= {"PYCACHEPREFIX": here, "IOENCODING": "cp037", "WARNINGS": "error", "UTF8": "7"}
    found = {f"PYTHON{name}": value for name, value in python.items()}
    found |= {"IOH_PYTHON": f"{here}/python3", "IOH_LINKS": here, "IOH_KERNEL_TESTS": "x"}
    found |= {"LC_ALL": "../../x", "LANG": here, "LANGUAGE": here, "LOCPATH": here}
    found |= {"TZ": f":{here}"}
    found |= {"PATH": here, "HOME": here, "TERMINFO": here, "GCONV_PATH": here, "NLSPATH": here}
    return found | {"LD_LIBRARY_PATH": "", "LD_BIND_NOW": "1", "CDPATH": here, "ENV": f"{here}/sh"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-B", "-m", "ioh", *arguments], cwd=folder, env=variables(folder),
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def test_all_commands_are_tried() -> None:
    assert {command.name for command in commands()} == ARGUMENTS.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_no_foreign_code_runs(hostile: Path, name: str) -> None:
    done = run(hostile, *name.split(), *ARGUMENTS[name])
    marks = (hostile / "mark").read_text() if (hostile / "mark").exists() else ""
    assert marks == ""
    assert b"Traceback" not in done.stderr
    assert done.returncode == (name == "mark"), done.stderr


def test_bcc_is_searched_for_only_where_root_installed_it(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    # Python itself would obey the other variables, and not start.
    for name in ("PYTHONPATH", "PATH", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, variables(hostile)[name])
    monkeypatch.setenv("LD_LIBRARY_PATH", os.fspath(hostile))
    checkup.read_bpf_facts()
    assert not (hostile / "mark").exists()
