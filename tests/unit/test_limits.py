"""How a lack of descriptors, processes or memory is reported: one line and an exit status."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ioh import commands
from ioh.model.errors import ExitCode
from ioh.model.limits import lack_behind, require_limits

REPO = Path(__file__).resolve().parents[2]
PROCESSES = "too few processes"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "too few file descriptors (ulimit -n"),
        (OSError(errno.ENFILE, "?"), "too few file descriptors on this machine"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "too little memory"),
        (MemoryError(), "too little memory"),
        (ImportError("x.so: failed to map segment from shared object"), "too little memory"),
        (OSError("libbpf.so.1: cannot open: Too many open files"), "too few file descriptors"),
        (RuntimeError("can't start new thread"), PROCESSES),
    ],
)
def test_the_resource_that_is_lacking_is_named(error: Exception, cause: str) -> None:
    lack = lack_behind(error)
    assert lack is not None
    assert lack.cause.startswith(cause)
    assert lack.hint


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "No such file"),
        OSError(errno.EAGAIN, "of a pipe"),
        OSError("libbpf.so.1: cannot open shared object file: No such file or directory"),
        KeyError(errno.EMFILE),
    ],
)
def test_other_errors_are_no_lack_of_resources(error: Exception) -> None:
    assert lack_behind(error) is None


def test_a_refused_fork_is_a_lack_of_processes() -> None:
    lack = lack_behind(OSError(errno.EAGAIN, "?"), of_fork=True)
    assert lack is not None
    assert lack.cause.startswith(PROCESSES)


def test_a_command_that_lacks_a_resource_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Lacking:
        name, summary, examples = "doctor", "", ""

        def add_arguments(self, parser: object) -> None:
            del parser

        def run(self, args: object) -> int:
            del args
            raise RuntimeError("can't start new thread")  # noqa: EM101, TRY003

    monkeypatch.setattr(commands, "commands", lambda _: (Lacking(),))
    assert commands.main(["doctor"]) == ExitCode.FAILED
    told = capsys.readouterr().err
    assert told.startswith(f"ioh: {PROCESSES}")
    assert told.count("\n") == 1


def test_a_soft_limit_of_descriptors_below_512_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        require_limits()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, before[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, before[1]))
        require_limits()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("limit", ["-n 10", "-n 47", "-v 60000", "-v 200000"])
@pytest.mark.parametrize("command", ["text", "record -o x.ioh"])
def test_limits_too_low_to_start_are_reported_in_one_line(
    limit: str, command: str, tmp_path: Path
) -> None:
    script = f"ulimit {limit}; exec {sys.executable} -m ioh {command}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.startswith("ioh: too ")
    assert f"(ulimit {limit}). Raise to " in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
