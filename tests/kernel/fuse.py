"""A FUSE file system with one file, by the kernel's protocol; needs no library."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import run

_LIBC = ctypes.CDLL(None, use_errno=True)
_IN = struct.Struct("=IIQQ16x")  # struct fuse_in_header: len, opcode, unique, nodeid
_OUT = struct.Struct("=IiQ")
_LOOKUP, _GETATTR, _OPEN, _READ, _INIT, _RELEASE, _FLUSH = 1, 3, 14, 15, 26, 18, 25
_FORGET = 2  # has no reply
_ROOT, _FILE = 1, 2  # node ids
_VALID_S = 3600


class Fuse(threading.Thread):
    """Answers the kernel's requests for the file ``data`` in a mounted folder."""

    def __init__(self, fd: int, data: bytes) -> None:
        super().__init__(daemon=True)
        self._fd = fd
        self._data = data
        self.reads = 0

    def run(self) -> None:
        with contextlib.suppress(OSError):  # ENODEV: unmounted
            while True:
                asked = os.read(self._fd, 1 << 20)
                _, opcode, unique, node = _IN.unpack_from(asked)
                if opcode == _FORGET:
                    continue
                body = self._answer(opcode, node, asked[40:])
                error = -errno.ENOSYS if body is None else 0
                body = body or b""
                os.write(self._fd, _OUT.pack(_OUT.size + len(body), error, unique) + body)

    def _answer(self, opcode: int, node: int, body: bytes) -> bytes | None:
        if opcode == _INIT:
            return struct.pack("=4I2H2I2H32x", 7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 0, 0)
        if opcode == _LOOKUP:
            return struct.pack("=4Q8x", _FILE, 0, _VALID_S, _VALID_S) + self._attributes(_FILE)
        if opcode == _GETATTR:
            return struct.pack("=Q8x", _VALID_S) + self._attributes(node)
        if opcode == _READ:
            self.reads += 1
            _, offset, size = struct.unpack_from("=QQI", body)
            return self._data[offset : offset + size]
        return {_OPEN: bytes(16), _RELEASE: b"", _FLUSH: b""}.get(opcode)

    def _attributes(self, node: int) -> bytes:
        mode, size = (stat.S_IFDIR | 0o755, 0)
        if node == _FILE:
            mode, size = stat.S_IFREG | 0o644, len(self._data)
        return struct.pack("=3Q36x2I20x", node, size, -(-size // 512), mode, 1)


@contextlib.contextmanager
def fuse(folder: Path, data: bytes) -> Iterator[Fuse]:
    """Mount such a file system."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
        done = _LIBC.mount(b"ioh-test", str(folder).encode(), b"fuse", 0, options)
        assert done == 0, os.strerror(ctypes.get_errno())
        server = Fuse(fd, data)
        server.start()
        try:
            yield server
        finally:
            run("umount", "--lazy", folder)
    finally:
        os.close(fd)  # whoever still waits for an answer gets an error
