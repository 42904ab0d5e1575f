"""Attaches a program to places in a file's code, with one link for all or one for each."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import NamedTuple

from ioh.bpf.calls import ATTACH_UPROBE_MULTI, BPF_LINK_CREATE, bpf_call
from ioh.bpf.trace_events import link_event

_TYPE_PATH = "/sys/bus/event_source/devices/uprobe/type"
# struct perf_event_attr up to config2 (PERF_ATTR_SIZE_VER1): type, size, config, period, sample
# type, read format, flags, wakeup, breakpoint type, path, offset.
_ATTR = struct.Struct("=IIQQQQQIIQQ")
_AT_RETURN = 1
_SEMAPHORE_SHIFT = 32
# Program, none, attach type, flags, path, offsets, counters, cookies, count, flags, process.
_MULTI_LINK = struct.Struct("=IIIIQQQQIIIxxxx")


class Place(NamedTuple):
    """An instruction in a file, the offset of its semaphore or 0, and the program's cookie."""

    offset: int
    semaphore: int
    cookie: int


def attach_uprobes(
    program_fd: int, path: str, places: Sequence[Place], *, at_return: bool
) -> list[int]:
    """Attach a program to several places, for all processes that map the file now or later.

    Args:
        program_fd: The program.
        path: The file; resolved once, now.
        places: Where; the kernel raises their semaphores while the program is attached.
        at_return: Whether to run it when the functions that start there return.

    Returns:
        The links' descriptors: one for all places since Linux 6.6, else one for each.  The kernel
        takes 0.1 s to detach a link, however many places it has.

    Raises:
        OSError: The kernel refused; links made before end with the caller's process.
    """
    if _knows_multi(program_fd):
        return [_attach_multi(program_fd, path, places, at_return=at_return)]
    return [_attach_one(program_fd, path, place, at_return=at_return) for place in places]


def _knows_multi(program_fd: int) -> bool:
    """Whether the kernel has multi links; tried as in libbpf: on "/", they fail with EBADF."""
    try:
        os.close(_attach_multi(program_fd, "/", [Place(1, 0, 0)], at_return=False))
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def _attach_multi(program_fd: int, path: str, places: Sequence[Place], *, at_return: bool) -> int:
    where = ctypes.create_string_buffer(path.encode())
    columns = [(ctypes.c_uint64 * len(places))(*column) for column in zip(*places, strict=True)]
    link = _MULTI_LINK.pack(
        program_fd,
        0,
        ATTACH_UPROBE_MULTI,
        0,
        ctypes.addressof(where),
        *(ctypes.addressof(column) for column in columns),
        len(places),
        _AT_RETURN * at_return,
        0,
    )
    return bpf_call(BPF_LINK_CREATE, link)


def _attach_one(program_fd: int, path: str, place: Place, *, at_return: bool) -> int:
    with open(_TYPE_PATH, encoding="ascii") as file:
        kind = int(file.read())
    where = ctypes.create_string_buffer(path.encode())
    config = _AT_RETURN * at_return | place.semaphore << _SEMAPHORE_SHIFT
    attr = _ATTR.pack(
        kind, _ATTR.size, config, 0, 0, 0, 0, 0, 0, ctypes.addressof(where), place.offset
    )
    return link_event(program_fd, attr, place.cookie)
