"""libaio's system calls by number: needs no library, and allows every wrong use."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

_LIBC = ctypes.PyDLL(None)  # the GIL is kept: waiting for it would be another sleep
_MACHINE = os.uname().machine
# io_setup, io_destroy, io_submit, io_cancel, io_getevents
_NUMBERS = {"x86_64": (206, 207, 209, 210, 208), "aarch64": (0, 1, 2, 3, 4)}
_SETUP, _DESTROY, _SUBMIT, _CANCEL, _GETEVENTS = _NUMBERS[_MACHINE]
PREAD, PWRITE, FSYNC = 0, 1, 2
PATIENCE = (ctypes.c_long * 2)(30, 0)  # struct timespec


class Iocb(ctypes.Structure):
    """struct iocb of linux/aio_abi.h, little-endian."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("result_fd", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    """struct io_event."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("iocb", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    ]


class Aio:
    """One context; results are the kernel's, -1 where submit() failed."""

    def __init__(self, depth: int) -> None:
        self._context = ctypes.c_ulong()
        assert _LIBC.syscall(_SETUP, depth, ctypes.byref(self._context)) == 0
        self._buffer = ctypes.create_string_buffer(1 << 16)
        self._iocbs: list[Iocb] = []

    def prepare(self, fd: int, opcode: int, size: int = 4096, offset: int = 0) -> Iocb:
        address = -(-ctypes.addressof(self._buffer) // 4096) * 4096
        made = Iocb(opcode=opcode, fd=fd, bytes=size, offset=offset)
        made.buffer = 0 if opcode == FSYNC else address
        self._iocbs.append(made)
        return made

    def submit(self, iocbs: Sequence[Iocb]) -> int:
        pointers = (ctypes.c_void_p * len(iocbs))(*[ctypes.addressof(one) for one in iocbs])
        done: int = _LIBC.syscall(_SUBMIT, self._context, len(iocbs), pointers)
        return done

    def reap(self, least: int, most: int) -> list[int]:
        """Wait for at least so many completions, and return their results."""
        events = (Event * most)()
        got = _LIBC.syscall(_GETEVENTS, self._context, least, most, events, PATIENCE)
        return [event.result for event in events[:got]]

    def close(self) -> None:
        assert _LIBC.syscall(_DESTROY, self._context) == 0
