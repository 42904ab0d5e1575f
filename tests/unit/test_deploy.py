"""`ioh deploy`: a copy on a host that has none, complete or not at all."""

from __future__ import annotations

import io
import shlex
import subprocess
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.hosts import deploy
from ioh.hosts.ssh import ssh_command
from ioh.model.errors import ExitCode

# The remote shell has its own home and no ioh.
SSH = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" != nowhere ] || {{ echo 'ssh: Could not resolve hostname nowhere' >&2; exit 255; }}
there="env -i HOME={home} PATH={bin}:/usr/bin:/bin sh -c"
case $2 in
cut) head -c 3000 | $there "$3" ;;
*) exec $there "$3" ;;
esac
"""
LAUNCHER = """\
#!/bin/sh
case $1 in
--setup) printf 'fetching \\033[31mpackages\\n'; exit {status} ;;
--version) echo ioh 1.2.3 ;;
*) echo "$0" "$@" ;;
esac
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The remote user's home; a small checkout is what gets copied."""
    home, binaries, root = (tmp_path / name for name in ("home", "bin", "root"))
    for each in (home, binaries, root, root / "ioh", root / "ioh" / "__pycache__"):
        each.mkdir()
    for name in ("LICENSE", "contrib", "probes", "pyproject.toml", "requirements.lock"):
        (root / name).write_text(name)
    (root / "ioh" / "model.py").write_bytes(b"x" * 5000)
    (root / "ioh" / "__pycache__" / "model.pyc").write_text("no")
    (root / "ioh" / ".hidden").write_text("no")
    set_launcher(root, 0)
    (binaries / "ssh").write_text(SSH.format(home=home, bin=tmp_path / "far"))
    (binaries / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    copy = deploy.make_copy
    monkeypatch.setattr(deploy, "make_copy", lambda: copy(root))
    return home


def set_launcher(root: Path, status: int) -> None:
    (root / "ioh.sh").write_text(LAUNCHER.format(status=status))
    (root / "ioh.sh").chmod(0o755)


def left(home: Path) -> list[str]:
    folder = home / ".cache" / "ioh"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def why_not(host: str, capfd: pytest.CaptureFixture[str]) -> str:
    assert main(["deploy", host, "--yes"]) == ExitCode.FAILED
    return capfd.readouterr().err


def test_a_host_gets_the_same_copy_only_once(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "db01", "--yes"]) == ExitCode.OK
    said = capfd.readouterr()
    name = deploy.make_copy().name
    assert left(home) == [name, "current"]
    there = home / ".cache" / "ioh" / "current"
    files = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    copied = {"LICENSE", "contrib", "probes", "pyproject.toml", "requirements.lock", "ioh.sh"}
    assert files == {*copied, "ioh/model.py", ".deployed"}
    assert (there / "ioh" / "model.py").read_bytes() == b"x" * 5000
    assert "copies 7 files" in said.out
    assert "db01 now has ioh 1.2.3" in said.out
    assert "ioh text --host db01" in said.out
    assert "fetching \\x1b[31mpackages" in said.err
    assert main(["deploy", "db01", "--yes"]) == ExitCode.OK
    assert "already exists" in capfd.readouterr().out
    assert left(home) == [name, "current"]
    # A host without ioh on its PATH uses the copy.
    command = ssh_command("db01", None, ["record", "-o", "-"])
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    assert shlex.split(done.stdout) == [str(there / "ioh.sh"), "record", "-o", "-"]


def test_it_asks_first_or_requires_yes(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["deploy", "db01"]) == ExitCode.USAGE
    assert "Give --yes" in capfd.readouterr().err
    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["deploy", "db01"]) == ExitCode.OK
    said = capfd.readouterr()
    assert said.out.endswith("Continue? [y/N] ")
    assert said.err == "ioh: nothing was done\n"
    assert left(home) == []


def test_a_broken_connection_leaves_nothing_on_the_host(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    err = why_not("cut", capfd)
    assert err.startswith("ioh: cut: ")
    assert err.count("\n") == 1
    assert left(home) == []


def test_a_failed_set_up_is_reported_and_not_used(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    set_launcher(home.parent / "root", 3)
    err = why_not("db01", capfd)
    assert err.splitlines()[-1].startswith("ioh: db01: the set-up ended with status 3. Fix")
    assert "current" not in left(home)


def test_a_failed_mkdir_on_the_host_is_reported(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / ".cache").write_text("in the way")
    err = why_not("db01", capfd)
    assert "mkdir" in err
    assert "Fix that there" in err


def test_an_unknown_host_is_reported_with_what_to_try(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    err = why_not("nowhere", capfd)
    assert err == (
        "ioh: nowhere: ssh: Could not resolve hostname nowhere. "
        "Try: ssh -o BatchMode=yes nowhere true\n"
    )
    assert main(["deploy", "-oProxyCommand=x", "--yes"]) == ExitCode.USAGE
    assert left(home) == []
