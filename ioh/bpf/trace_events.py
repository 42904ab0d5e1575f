"""Programs at trace events.

Since Linux 7.0 a program at a raw tracepoint can be preempted, and is then skipped for all other
tasks of that CPU.  At a trace event, the kernel still calls it with preemption off.  It sees a
record of numbers there, not the tracepoint's arguments, and each call takes longer.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from pathlib import Path

from ioh.bpf.calls import BPF_LINK_CREATE, bpf_call, system_call

# By tracepoint.
_SYSTEMS = {
    "sys_enter": "raw_syscalls",
    "sys_exit": "raw_syscalls",
    "io_uring_submit_req": "io_uring",
    "io_uring_complete": "io_uring",
}
_FOLDERS = ("/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events")
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_TYPE_TRACEPOINT = 2
# struct perf_event_attr up to PERF_ATTR_SIZE_VER0: type, size, event.
_ATTR = struct.Struct("=IIQ48x")
_FD_CLOEXEC = 8
_BPF_PERF_EVENT = 41
_LINK = struct.Struct("=IIIIQ")  # program, event, attach type, flags, cookie


def event_id(tracepoint: str) -> int | None:
    """The kernel's number of a tracepoint's trace event; None without tracefs or its rights."""
    for folder in _FOLDERS:
        with suppress(OSError, ValueError):
            return int(Path(folder, _SYSTEMS[tracepoint], tracepoint, "id").read_text())
    return None


def has_trace_events() -> bool:
    """Whether they can be used here."""
    return event_id("sys_enter") is not None


def attach_to_event(program_fd: int, tracepoint: str) -> int:
    """Attach a program to a tracepoint's trace event, for as long as the descriptor is open."""
    number = event_id(tracepoint)
    if number is None:
        raise OSError(0, f"no trace event for {tracepoint}")
    # The event is one CPU's, and never enabled; its programs run on every CPU.
    return link_event(program_fd, _ATTR.pack(_PERF_TYPE_TRACEPOINT, _ATTR.size, number))


def link_event(program_fd: int, attr: bytes, cookie: int = 0) -> int:
    """Open a perf event and attach a program to it; the link keeps the event."""
    buffer = ctypes.create_string_buffer(attr, len(attr))
    event = system_call(_PERF_EVENT_OPEN, buffer, -1, 0, -1, ctypes.c_ulong(_FD_CLOEXEC))
    try:
        return bpf_call(BPF_LINK_CREATE, _LINK.pack(program_fd, event, _BPF_PERF_EVENT, 0, cookie))
    finally:
        os.close(event)
