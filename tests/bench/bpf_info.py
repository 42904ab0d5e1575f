"""What the kernel reports about loaded BPF programs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ioh.bpf.libbpf import libbpf

_STATS_RUN_TIME = 0
# struct bpf_prog_info (uapi): type, name, run_time_ns and run_cnt.
_INFO_BYTES, _TYPE_AT, _NAME_AT, _RUN_TIME_AT = 232, 0, 64, 192
_TRACING_TYPES = {2, 5, 7, 17, 26}  # kprobe, tracepoint, perf event, raw tracepoint, BTF-typed


@dataclass(frozen=True)
class Spent:
    """Run time and number of runs of one program, so far."""

    name: str
    kind: int
    ns: int
    runs: int


def _failure() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


def read_program(number: int) -> Spent:
    lib = libbpf()
    fd = lib.bpf_prog_get_fd_by_id(ctypes.c_uint32(number))
    if fd < 0:
        raise _failure()
    info = ctypes.create_string_buffer(_INFO_BYTES)
    length = ctypes.c_uint32(_INFO_BYTES)
    try:
        if lib.bpf_obj_get_info_by_fd(fd, info, ctypes.byref(length)) != 0:
            raise _failure()
    finally:
        os.close(fd)
    (kind,) = struct.unpack_from("=I", info, _TYPE_AT)
    name = info.raw[_NAME_AT : _NAME_AT + 16].split(b"\0")[0].decode()
    return Spent(name, kind, *struct.unpack_from("=QQ", info, _RUN_TIME_AT))


def tracing_programs() -> set[int]:
    """Ids of all programs that may be attached to a traced event, whoever loaded them."""
    lib = libbpf()
    found, number = set(), ctypes.c_uint32(0)
    while lib.bpf_prog_get_next_id(number, ctypes.byref(number)) == 0:
        with contextlib.suppress(OSError):  # unloaded meanwhile
            if read_program(number.value).kind in _TRACING_TYPES:
                found.add(number.value)
    return found


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Have the kernel (since 5.8) count the run time of all programs inside the block."""
    fd = libbpf().bpf_enable_stats(_STATS_RUN_TIME)
    if fd < 0:
        raise _failure()
    try:
        yield
    finally:
        os.close(fd)
