"""Hosts that lack or refuse something: ioh says what and why in one line, and goes on with less."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from tests.kernel.rig import ioh_command

REPO = Path(__file__).resolve().parents[2]
IOH = ioh_command()
# Not isolated, unlike a user's: the only way to put a library in the place of another one.
IOH_WITH_PATH = [sys.executable, "-m", "ioh"]
TIMEOUT_S = 60

# Runs a command in which bpf(2) answers EPERM, as a container's seccomp profile makes it.
REFUSE_BPF = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("=HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(program)
filter_ = ctypes.create_string_buffer(
    struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter_, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def run(
    argv: list[str], env: dict[str, str] | None = None, cwd: Path = REPO
) -> tuple[list[dict[str, Any]], str, int]:
    """Run one command that prints JSON lines; the objects, stderr and the exit status."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


def reasons(ticks: list[dict[str, Any]]) -> str:
    """All that the last tick says of why layers come from /proc."""
    layers = ticks[-1]["layers"].values()
    assert all(layer["source"] == "proc" for layer in layers)
    return " ".join(note for layer in layers for note in layer["notes"])


def with_own_sys(change: str) -> list[str]:
    """A command prefix: /sys changed for that command alone.

    Only /sys is made private: in a chroot / is no mount point, so it has no propagation to set.
    """
    script = f'mount --make-rprivate /sys && {change} && exec "$@"'
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, "sh"]


def test_not_root() -> None:
    # A copy that anybody may read: a checkout below /root is not.  /proc needs psutil alone.
    with tempfile.TemporaryDirectory(dir="/tmp") as copy:
        Path(copy).chmod(0o755)
        shutil.copytree(REPO / "ioh", Path(copy) / "ioh")
        shutil.copytree(Path(psutil.__file__).parent, Path(copy) / "psutil")
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        command = [*nobody, "/usr/bin/python3", "-m", "ioh", "json", "-c", "0.3", "-t", "0.6"]
        ticks, errors, code = run(command, cwd=Path(copy))
    assert (errors, code) == ("", 0)
    assert "BPF needs root: start with sudo" in reasons(ticks)
    assert ticks[-1]["layers"]["block"]["ops"]["read"]["count"] is not None


def test_no_bcc(tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError('No module named bcc')\n")
    path = {"PYTHONPATH": f"{tmp_path}:{REPO}"}
    ticks, errors, code = run([*IOH_WITH_PATH, "json", "-c", "0.3", "-t", "0.6"], path)
    assert (errors, code) == ("", 0)
    assert "bcc cannot be imported: No module named bcc" in reasons(ticks)
    doctor = subprocess.run(
        [*IOH_WITH_PATH, "doctor"],
        cwd=REPO,
        env={**os.environ, **path},
        capture_output=True,
        check=False,
    )
    assert b"apt-get install python3-bpfcc" in doctor.stdout
    assert (doctor.returncode, doctor.stderr) == (3, b"")


def test_another_module_called_bcc(tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text("")
    ticks, errors, code = run(
        [*IOH_WITH_PATH, "json", "-c", "0.3", "-t", "0.6"], {"PYTHONPATH": f"{tmp_path}:{REPO}"}
    )
    assert (errors, code) == ("", 0)
    assert "PyPI's bcc" in reasons(ticks)


def test_no_btf() -> None:
    wrap = with_own_sys("mount -t tmpfs none /sys/kernel/btf")
    ticks, errors, code = run([*wrap, *IOH, "json", "-c", "0.3", "-t", "0.6"])
    assert (errors, code) == ("", 0)
    assert "no readable BTF at /sys/kernel/btf/vmlinux" in reasons(ticks)


def test_bpf_refused() -> None:
    wrap = [sys.executable, "-c", REFUSE_BPF]
    ticks, errors, code = run([*wrap, *IOH, "json", "-c", "0.3", "-t", "0.6"])
    assert (errors, code) == ("", 0)
    assert "BPF refused" in reasons(ticks)


def test_without_capabilities() -> None:
    wrap = ["setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-all"]
    ticks, errors, code = run([*wrap, *IOH, "json", "-c", "0.3", "-t", "0.6"])
    assert (errors, code) == ("", 0)
    assert "BPF needs root" in reasons(ticks)


def test_tracefs_is_not_needed() -> None:
    wrap = with_own_sys("umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null || true")
    ticks, errors, code = run([*wrap, *IOH, "json", "-c", "0.3", "-t", "0.6"])
    assert (errors, code) == ("", 0)
    assert {layer["source"] for layer in ticks[-1]["layers"].values()} == {"bpf"}


def test_a_missing_library_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise ImportError('No module named psutil')\n")
    _, errors, code = run([*IOH_WITH_PATH, "json", "-t", "1"], {"PYTHONPATH": f"{tmp_path}:{REPO}"})
    assert code == 1
    assert errors.count("\n") == 1
    assert "psutil" in errors
