"""Attaches a program to a place in a file's code: perf_event_open(2) and a link with a cookie."""

from __future__ import annotations

import ctypes
import os
import struct

from ioh.bpf.calls import bpf_call

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_TYPE_PATH = "/sys/bus/event_source/devices/uprobe/type"
# struct perf_event_attr up to config2 (PERF_ATTR_SIZE_VER1): type, size, config, period, sample
# type, read format, flags, wakeup, breakpoint type, path, offset.
_ATTR = struct.Struct("=IIQQQQQIIQQ")
_AT_RETURN = 1
_SEMAPHORE_SHIFT = 32
_FD_CLOEXEC = 8
_BPF_LINK_CREATE = 28
_BPF_PERF_EVENT = 41
_LINK = struct.Struct("=IIIIQ")  # program, event, attach type, flags, cookie


def attach_uprobe(  # noqa: PLR0913 (what the kernel wants to know)
    program_fd: int, path: str, offset: int, *, at_return: bool, semaphore: int, cookie: int
) -> int:
    """Attach it for all processes that have the file mapped, now or later.

    Args:
        program_fd: The program.
        path: Of the file; it is resolved once, now.
        offset: Of the instruction, in the file.
        at_return: Whether it shall run where the function that begins there returns.
        semaphore: Offset in the file of the counter that the kernel raises for as long as the
            program is attached; 0 where there is none.
        cookie: What the program is told.

    Returns:
        The link's descriptor, which keeps it attached, however its holder ends.

    Raises:
        OSError: The kernel refused.
    """
    with open(_TYPE_PATH, encoding="ascii") as file:
        kind = int(file.read())
    where = ctypes.create_string_buffer(path.encode())
    config = _AT_RETURN * at_return | semaphore << _SEMAPHORE_SHIFT
    attr = _ATTR.pack(kind, _ATTR.size, config, 0, 0, 0, 0, 0, 0, ctypes.addressof(where), offset)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attr, len(attr))
    number = _PERF_EVENT_OPEN[os.uname().machine]
    event: int = libc.syscall(number, buffer, -1, 0, -1, ctypes.c_ulong(_FD_CLOEXEC))
    if event < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        return bpf_call(_BPF_LINK_CREATE, _LINK.pack(program_fd, event, _BPF_PERF_EVENT, 0, cookie))
    finally:
        os.close(event)
