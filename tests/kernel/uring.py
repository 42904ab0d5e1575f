"""io_uring by its system calls and its two rings in memory; needs no library."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import NamedTuple

_LIBC = ctypes.CDLL(None, use_errno=True)
_SETUP, _ENTER, _REGISTER = 425, 426, 427
_SQE = struct.Struct("=BBHiQQIIQHHiQQ")  # opcode … buf_index, personality, file_index, 2 × 8
_CQE = struct.Struct("=QiI")
_SQ_OFFSETS = struct.Struct("=7I4xQ")  # head, tail, mask, entries, flags, dropped, array
_CQ_OFFSETS = struct.Struct("=7I4xQ")  # head, tail, mask, entries, overflow, cqes, flags
_CQ_RING, _SQES = 0x8000000, 0x10000000
READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, SYNC_FILE_RANGE = 1, 2, 3, 4, 5, 8
READ, WRITE, READV_FIXED, WRITEV_FIXED = 22, 23, 60, 61
SPLICE, ANYWHERE = 30, (1 << 64) - 1
FIXED_FILE, LINK, ASYNC, CQE_SKIP = 1, 4, 16, 64  # IOSQE_
REGISTER_BUFFERS, REGISTER_FILES = 0, 2
_GETEVENTS = 1  # IORING_ENTER_


class Completion(NamedTuple):
    """The kernel's answer to one request."""

    user_data: int
    result: int


class Uring:
    """One ring; queue() requests, then submit() them."""

    def __init__(self, entries: int) -> None:
        params = ctypes.create_string_buffer(120)
        self.fd: int = _LIBC.syscall(_SETUP, entries, params)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        raw = params.raw
        self._sq_entries, self._cq_entries = struct.unpack_from("=II", raw)
        sq, cq = _SQ_OFFSETS.unpack_from(raw, 40), _CQ_OFFSETS.unpack_from(raw, 80)
        self._sq = mmap.mmap(self.fd, sq[6] + 4 * self._sq_entries, offset=0)
        self._cq = mmap.mmap(self.fd, cq[5] + 16 * self._cq_entries, offset=_CQ_RING)
        self._sqes = mmap.mmap(self.fd, 64 * self._sq_entries, offset=_SQES)
        self._sq_at, self._cq_at = sq, cq
        self._buffer = mmap.mmap(-1, 1 << 20)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._queued = 0

    def queue(
        self,
        opcode: int,
        fd: int,
        size: int = 4096,
        offset: int = 0,
        *,
        flags: int = 0,
        rw_flags: int = 0,
        address: int | None = None,
        user_data: int = 0,
        source: int = 0,
    ) -> None:
        """Write one entry into the submission ring."""
        tail = self._word(self._sq, self._sq_at[1])
        index = tail & (self._sq_entries - 1)
        where = 0 if opcode in (FSYNC, SYNC_FILE_RANGE) else address or self.address
        _SQE.pack_into(
            self._sqes, 64 * index, opcode, flags, 0, fd, offset, where, size, rw_flags, user_data,
            0, 0, source, 0, 0,
        )  # fmt: skip
        struct.pack_into("=I", self._sq, self._sq_at[6] + 4 * index, index)
        struct.pack_into("=I", self._sq, self._sq_at[1], tail + 1 & 0xFFFFFFFF)
        self._queued += 1

    def submit(self, wait: int = 0) -> int:
        """Submit what is queued and wait for so many completions; return how many were taken."""
        count, self._queued = self._queued, 0
        flags = _GETEVENTS if wait else 0
        done: int = _LIBC.syscall(_ENTER, self.fd, count, wait, flags, None, 0)
        return done

    def reap(self) -> list[Completion]:
        """Take all completions out of their ring."""
        head, tail = self._word(self._cq, self._cq_at[0]), self._word(self._cq, self._cq_at[1])
        done = []
        while head != tail:
            at = self._cq_at[5] + 16 * (head & (self._cq_entries - 1))
            user_data, result, _ = _CQE.unpack_from(self._cq, at)
            done.append(Completion(user_data, result))
            head = head + 1 & 0xFFFFFFFF
        struct.pack_into("=I", self._cq, self._cq_at[0], head)
        return done

    def register(self, what: int, argument: bytes, count: int) -> None:
        assert _LIBC.syscall(_REGISTER, self.fd, what, argument, count) == 0

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _word(ring: mmap.mmap, at: int) -> int:
        word: int = struct.unpack_from("=I", ring, at)[0]
        return word
