"""Makes known numbers of calls on names and attributes: python -m tests.kernel.meta_calls FOLDER.

For each line on stdin it runs the workload of that name in FOLDER, and prints a JSON object: by op
the number of calls that succeeded and of those that failed, as it saw them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import struct
import sys
import time
from collections import Counter

from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from tests.kernel.uring import Uring

COMM = "metacalls"
LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = SYSCALL_NUMBERS[platform.machine()]
_AT_FDCWD, _AT_REMOVEDIR, _AT_EMPTY_PATH = -100, 0x200, 0x1000
_CREATE = os.O_CREAT | os.O_RDWR
_BUFFER = ctypes.create_string_buffer(8192)
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73)


class Calls:
    """Makes calls and counts them by op."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def make(self, op: str, name: str, *args: object, fails: int = 0) -> int:
        """One call; ``fails``: with this errno, or ENOSYS on an older kernel."""
        number = _NUMBERS[name]
        if number >= 1 << 16:  # another machine's
            return -1
        values = [x if isinstance(x, (bytes, ctypes.Array)) else ctypes.c_long(x) for x in args]  # type: ignore[arg-type]
        result: int = LIBC.syscall(number, *values)
        if result >= 0 and not fails:
            self.done[op] += 1
            return result
        code = ctypes.get_errno()
        assert code in (fails, errno.ENOSYS), (name, args, result, os.strerror(code))
        assert result < 0
        self.failed[op] += 1
        return -1

    def report(self) -> str:
        return json.dumps({"done": self.done, "failed": self.failed})


def _open(calls: Calls, path: bytes, flags: int = os.O_RDONLY) -> int:
    return calls.make("open", "openat", _AT_FDCWD, path, flags, 0)


def _opened(calls: Calls, op: str, name: str, *args: object) -> None:
    fd = calls.make(op, name, *args)
    if fd >= 0:
        os.close(fd)


def opens(calls: Calls, folder: bytes) -> None:
    """Every form of open and create, of existing, new and missing files."""
    fd, how = _open(calls, folder), struct.pack("=3Q", os.O_RDONLY, 0, 0)
    forms: list[tuple[object, ...]] = [
        ("open", b"f", os.O_RDONLY, 0),
        ("open", folder + b"/f", os.O_WRONLY, 0),
        ("openat", fd, b"f", os.O_RDWR, 0),
        ("openat", _AT_FDCWD, b".", os.O_DIRECTORY, 0),
        ("openat2", fd, b"f", how, len(how)),
        ("creat", b"f", 0o600),
    ]
    for form, count in zip(forms, _PRIMES, strict=False):
        for _ in range(count):
            _opened(calls, "open", str(form[0]), *form[1:])
    for number in range(41):
        name = b"new%d" % number
        _opened(calls, "create", "openat", fd, name, _CREATE | os.O_EXCL * (number & 1), 0o600)
        _opened(calls, "open", "openat", fd, name, _CREATE, 0o600)
        if number & 1:
            calls.make("open", "openat", fd, name, _CREATE | os.O_EXCL, 0, fails=errno.EEXIST)
        calls.make("open", "openat", fd, b"none", os.O_RDONLY, 0, fails=errno.ENOENT)
        calls.make("unlink", "unlinkat", fd, name, 0)
    os.close(fd)


def stats(calls: Calls, folder: bytes) -> None:
    """Every form of stat, access, readlink, statfs, and of reading extended attributes."""
    fd, path, to, size = _open(calls, b"f"), folder + b"/f", _BUFFER, len(_BUFFER)
    at = _open(calls, folder)
    calls.make("rename", "symlinkat", b"f", at, b"s")
    calls.make("setattr", "fsetxattr", fd, b"user.a", b"1", 1, 0)
    forms: list[tuple[object, ...]] = [
        ("stat", path, to),
        ("lstat", b"s", to),
        ("fstat", fd, to),
        ("newfstatat", at, b"f", to, 0),
        ("newfstatat", fd, b"", to, _AT_EMPTY_PATH),
        ("statx", _AT_FDCWD, b"f", 0, 0x7FF, to),
        ("statx", fd, b"", _AT_EMPTY_PATH, 0x7FF, to),
        ("access", b"f", os.R_OK),
        ("faccessat", at, b"f", os.R_OK),
        ("faccessat2", at, b"f", os.R_OK, 0),
        ("readlink", b"s", to, size),
        ("readlinkat", at, b"s", to, size),
        ("statfs", folder, to),
        ("fstatfs", fd, to),
        ("getxattr", path, b"user.a", to, size),
        ("lgetxattr", path, b"user.a", to, size),
        ("fgetxattr", fd, b"user.a", to, size),
        ("listxattr", path, to, size),
        ("llistxattr", b"f", to, size),
        ("flistxattr", fd, to, size),
    ]
    for form, count in zip(forms, _PRIMES, strict=False):
        for _ in range(count):
            calls.make("stat", str(form[0]), *form[1:])
            calls.make("stat", "newfstatat", at, b"none", to, 0, fails=errno.ENOENT)
    for _ in range(7):
        calls.make("stat", "getxattr", b"f", b"user.b", to, size, fails=errno.ENODATA)
    calls.make("unlink", "unlinkat", at, b"s", 0)
    os.close(fd)
    os.close(at)


def changes(calls: Calls, folder: bytes) -> None:
    """Every form of unlink, rename, link, mkdir, chmod, truncate, utime; readdir."""
    fd, at = _open(calls, b"f", os.O_RDWR), _open(calls, folder)
    times = bytes(16)
    for number in range(13):
        for made, gone in (
            (("mkdir", b"d", 0o700), ("rmdir", b"d")),
            (("mkdirat", at, b"d", 0o700), ("unlinkat", at, b"d", _AT_REMOVEDIR)),
            (("mknod", b"n", 0o100600, 0), ("unlink", b"n")),
            (("mknodat", at, b"n", 0o100600, 0), ("unlinkat", at, b"n", 0)),
            (("link", b"f", b"l"), ("unlink", folder + b"/l")),
            (("linkat", at, b"f", at, b"l", 0), ("unlinkat", _AT_FDCWD, b"l", 0)),
            (("symlink", b"f", b"s"), ("unlink", b"s")),
            (("symlinkat", b"f", at, b"s"), ("unlinkat", at, b"s", 0)),
        ):
            calls.make("rename", *made)
            calls.make("unlink", *gone)
        calls.make("unlink", "unlinkat", at, b"none", 0, fails=errno.ENOENT)
        calls.make("rename", "mkdirat", at, b".", 0o700, fails=errno.EEXIST)
        calls.make("rename", "renameat", at, b"f", at, b"g")
        calls.make("rename", "renameat2", at, b"g", at, b"f", 0)
        calls.make("rename", "rename", b"f", b"f")
        for form in (
            ("chmod", b"f", 0o600),
            ("fchmod", fd, 0o600),
            ("fchmodat", at, b"f", 0o600),
            ("chown", b"f", -1, -1),
            ("fchown", fd, -1, -1),
            ("lchown", b"f", -1, -1),
            ("fchownat", at, b"f", -1, -1, 0),
            ("truncate", b"f", 100 + number),
            ("ftruncate", fd, 10 + number),
            ("fallocate", fd, 0, 0, 4096),
            ("utime", b"f", 0),
            ("utimes", b"f", 0),
            ("futimesat", at, b"f", 0),
            ("utimensat", at, b"f", 0, 0),
            ("utimensat", fd, 0, times * 2, 0),
            ("setxattr", b"f", b"user.a", b"1", 1, 0),
            ("lsetxattr", b"f", b"user.a", b"1", 1, 0),
            ("fsetxattr", fd, b"user.a", b"1", 1, 0),
            ("fremovexattr", fd, b"user.a"),
        ):
            calls.make("setattr", *form)
        calls.make("setattr", "removexattr", b"f", b"user.a", fails=errno.ENODATA)
        os.lseek(at, 0, os.SEEK_SET)
        while calls.make("readdir", "getdents64", at, _BUFFER, len(_BUFFER)):
            pass
    os.close(fd)
    os.close(at)


def others(calls: Calls, folder: bytes) -> None:
    """Calls that do not count: on /proc, /sys, devices, pipes, sockets, memory, without waiting."""
    one, two = os.pipe()
    memory = os.memfd_create("ioh")
    fd = os.open(b"/proc/self", os.O_RDONLY)
    for _ in range(17):
        for path in (b"/proc/self/stat", b"/sys/kernel/vmcoreinfo", b"/dev/null", b"/proc"):
            os.close(os.open(path, os.O_RDONLY))
            os.stat(path)  # noqa: PTH116 (pathlib makes more calls)
            os.access(path, os.R_OK)
        os.readlink(b"/proc/self/exe")  # noqa: PTH115
        os.stat("stat", dir_fd=fd)
        os.listdir(fd)  # noqa: PTH208
        for each in (one, two, memory):
            os.fstat(each)
            os.close(os.dup(each))
            fcntl.fcntl(each, fcntl.F_GETFL)
        os.ftruncate(memory, 4096)
    for each in (one, two, memory, fd):
        os.close(each)


def locks(calls: Calls, folder: bytes) -> None:
    """Locks that another process holds for a known time; others are free."""
    for number, kind in enumerate((b"flock", b"fcntl")):
        fd = os.open(b"f", os.O_RDWR)
        ready, told = os.pipe()
        child = os.fork()
        if not child:
            own = os.open(b"f", os.O_RDWR)
            _lock(kind, own, fcntl.LOCK_EX)
            os.write(told, b"1")
            time.sleep(0.4 + 0.3 * number)
            os._exit(0)
        os.read(ready, 1)
        begun = time.monotonic_ns()
        _lock(kind, fd, fcntl.LOCK_EX)
        calls.done["lock"] += 1
        calls.done["lock_ns"] += time.monotonic_ns() - begun
        os.waitpid(child, 0)
        for _ in range(23):
            _lock(kind, fd, fcntl.LOCK_UN)
            _lock(kind, fd, fcntl.LOCK_EX)
        for each in (fd, ready, told):
            os.close(each)


def _lock(kind: bytes, fd: int, how: int) -> None:
    (fcntl.flock if kind == b"flock" else fcntl.lockf)(fd, how)


def requests(calls: Calls, folder: bytes) -> None:
    """Requests of io_uring, one at a time."""
    ring, at, fd = Uring(8), _open(calls, folder), _open(calls, b"f", os.O_RDWR)
    keep = [ctypes.create_string_buffer(name) for name in (b"f", b"m", b"none", b"/proc/version")]
    here, made, none, proc = map(ctypes.addressof, keep)
    to = ctypes.addressof(_BUFFER)
    # op, opcode, descriptor, address, length, offset, flags, errno
    forms: tuple[tuple[str, int, int, int, int, int, int, int], ...] = (
        ("open", 18, at, here, 0, 0, os.O_RDONLY, 0),
        ("create", 18, at, made, 0o600, 0, _CREATE, 0),
        ("unlink", 36, at, made, 0, 0, 0, 0),
        ("stat", 21, at, here, 0x7FF, to, 0, 0),
        ("stat", 21, at, none, 0x7FF, to, 0, errno.ENOENT),
        ("open", 18, at, none, 0, 0, os.O_RDONLY, errno.ENOENT),
        ("", 18, at, proc, 0, 0, os.O_RDONLY, 0),
        ("rename", 37, at, made, 0o700, 0, 0, 0),
        ("unlink", 36, at, made, 0, 0, _AT_REMOVEDIR, 0),
        ("rename", 39, at, here, at, made, 0, 0),
        ("unlink", 36, at, made, 0, 0, 0, 0),
        ("rename", 38, at, here, 0, made, 0, 0),
        ("unlink", 36, at, made, 0, 0, 0, 0),
        ("rename", 35, at, here, at, made, 0, 0),
        ("rename", 35, at, made, at, here, 0, 0),
        ("setattr", 17, fd, 4096, 0, 0, 0, 0),
    )
    for _ in range(19):
        for op, opcode, where, address, length, offset, flags, fails in forms:
            ring.queue(opcode, where, length, offset, address=address, rw_flags=flags)
            ring.submit(1)
            (answer,) = ring.reap()
            assert answer.result == -fails or (answer.result > 0 and not fails), (
                op,
                opcode,
                answer,
            )
            if op:
                (calls.failed if fails else calls.done)[op] += 1
            if opcode == 18 and not fails:
                os.close(answer.result)
    for each in (at, fd):
        os.close(each)
    ring.close()


def failures(calls: Calls, _: bytes) -> None:
    """Opens beyond the limit of open files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    for _again in range(7):
        calls.make("open", "openat", _AT_FDCWD, b"f", os.O_RDONLY, 0, fails=errno.EMFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


WORKLOADS = {
    each.__name__: each for each in (opens, stats, changes, others, requests, locks, failures)
}


def main() -> None:
    """Work off stdin."""
    folder = os.fsencode(sys.argv[1])
    os.chdir(folder)
    os.close(os.open(b"f", _CREATE, 0o600))
    assert LIBC.prctl(15, COMM.encode(), 0, 0, 0) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        calls = Calls()
        WORKLOADS[line.strip()](calls, folder)
        print(calls.report(), flush=True)


if __name__ == "__main__":
    main()
