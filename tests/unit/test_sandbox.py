"""What seccomp and Landlock forbid a process, and what they allow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ioh.rights import sandbox

FORBID_CALLS = "from ioh.rights import sandbox\nassert sandbox.forbid_calls()\n"
FORBID_PATHS = "from ioh.rights import sandbox\nassert sandbox.forbid_paths()\n"


def run(program: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-I", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.strip()


# System calls by number: x86-64's, else ARM64's.
REFUSED = {
    "another program": "os.execv('/bin/true', ['true'])",
    "typing": "fcntl.ioctl(0, 0x5412, b'x')",
    "typing, with bits above": "call(16 if x86 else 29, 0, 1 << 40 | 0x5412, 0)",
    "the network": "socket.socket(socket.AF_INET)",
    "tracing": "call(101 if x86 else 117, 16, os.getppid(), 0, 0)",
    "other memory": "call(310 if x86 else 270, os.getppid(), 0, 0, 0, 0, 0)",
    "a user name space": "call(272 if x86 else 97, 0x10000000)",
    "a user name space by clone": "call(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "keys": "call(250 if x86 else 219, 0, 0, 0, 0)",
    "io_uring": "call(425, 1, 0)",
    "loading BPF": "call(321 if x86 else 280, 5, 0, 0)",
    "pinning BPF": "call(321 if x86 else 280, 6, 0, 0)",
    "x32": "call(0x40000000 | 59, 0, 0, 0) if x86 else call(221, 0, 0, 0)",
}
CALLS = (
    FORBID_CALLS
    + """
import ctypes, fcntl, os, platform, socket
x86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
def call(*numbers):
    if libc.syscall(*map(ctypes.c_long, numbers)) < 0:
        raise OSError(ctypes.get_errno(), "")
print(sandbox.held())
for what, attempt in REFUSED.items():
    try:
        exec(attempt)
        print(what, "was allowed")
    except OSError as error:
        if error.errno != 1:
            print(what, error)
"""
)


def test_a_confined_process_cannot_make_these_calls() -> None:
    held, *allowed = run(f"REFUSED = {REFUSED}\n{CALLS}").splitlines()
    assert held.endswith("no_new_privs, seccomp filter, no Landlock")
    assert allowed == []
    assert "no seccomp filter" in run("from ioh.rights import sandbox; print(sandbox.held())")


def test_a_login_allows_ip_and_unix_sockets_only() -> None:
    program = """
import socket
from ioh.rights import sandbox
assert sandbox.forbid_calls(network=True)
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_PACKET", "AF_VSOCK"):
    try:
        socket.socket(getattr(socket, family), socket.SOCK_DGRAM).close()
        print(family)
    except PermissionError:
        pass
"""
    assert run(program).split() == ["AF_INET", "AF_INET6", "AF_UNIX"]


def test_a_confined_process_still_works() -> None:
    """Threads, children, asyncio, temporary files, netlink sockets, numpy."""
    program = FORBID_CALLS + (
        "import os, threading, socket, subprocess, multiprocessing, tempfile, time, asyncio\n"
        "thread = threading.Thread(target=lambda: None); thread.start(); thread.join()\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "    assert pool.map(abs, [-1]) == [1]\n"
        "socket.socketpair(); socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n"
        "asyncio.run(asyncio.sleep(0)); tempfile.TemporaryFile(); time.sleep(0.001)\n"
        "import numpy; numpy.ones(9).sum()\n"
        "print('done')\n"
    )
    assert run(program) == "done"


def test_an_architecture_without_a_list_is_not_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (*os.uname()[:4], "riscv64")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(names))
    assert not sandbox.forbid_calls()


def test_only_paths_that_ioh_needs_can_be_read(tmp_path: Path) -> None:
    if not sandbox.landlock_abi():
        assert not sandbox.forbid_paths()
        return
    (tmp_path / "open").touch()
    (tmp_path / "secret").write_text("secret")
    program = (
        FORBID_PATHS
        + """
import json, os, sys
os.chdir(sys.argv[1])
refused = []
kept = 0
def tried(what, *arguments):
    try:
        what(*arguments)
    except PermissionError:
        refused.append(what.__name__)
tried(open, "secret")
tried(open, "new", "w")
tried(os.listdir, ".")
tried(os.unlink, "secret")
tried(os.mkdir, "made")
tried(os.symlink, "a", "b")
for path in ("/proc/self/status", "/sys", "/etc/passwd", "/dev/null"):
    os.close(os.open(path, os.O_RDONLY))
os.close(os.open("/dev/null", os.O_WRONLY))
import textual, email.message
print(*refused)
"""
    )
    assert run(program, tmp_path) == "open open listdir unlink mkdir symlink"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["open", "secret"]
