"""The bpf(2) calls that the loader needs: create maps, load and attach programs.

Functions raise OSError if the kernel refuses, unless they say otherwise.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from ioh.bpf.maps import MapSpec

Kind = Literal["map", "program", "link"]
# Kind and the kernel's id, which is unique within a kind.
Object = tuple[Kind, int]

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_BPF_MAP_CREATE = 0
_BPF_MAP_UPDATE_ELEM = 2
_BPF_PROG_LOAD = 5
_BPF_OBJ_GET_INFO_BY_FD = 15
_BPF_RAW_TRACEPOINT_OPEN = 17
_BPF_ENABLE_STATS = 32
_FD_BY_ID: dict[Kind, int] = {"map": 14, "program": 13, "link": 30}
BPF_LINK_CREATE = 28
ATTACH_UPROBE_MULTI = 48
_LOG_BYTES = 1 << 24
_NAME_CHARS = 15
# union bpf_attr of each command (uapi, stable).
_MAP = struct.Struct("=IIIIIII16s")  # type, key, value, entries, flags, inner map, node, name
# Type, instructions (count, address), licence; log (level, bytes, address); kernel version, flags,
# name, interface, attach type; BTF id.
_LOAD = struct.Struct("=IIQQIIQII16sII36xI16x")
_ELEMENT = struct.Struct("=IxxxxQQQ")  # map, key, value, flags
_INFO = struct.Struct("=IIQ")
_OPEN = struct.Struct("=QII")
_MAP_INFO = struct.Struct("=I4xIIII64x")  # type, key, value, entries, flags
_ID_INFO = struct.Struct("=4xI")  # of maps, programs and links alike
# run_time_ns (Linux 5.1) and recursion_misses (5.12; 0 before).
_PROGRAM_COUNTS = struct.Struct("=192xQ8xQ16x")
_BY_ID = struct.Struct("=III")
_LICENCE = b"Dual MIT/GPL"
_libc = ctypes.CDLL(None, use_errno=True)
_machine = os.uname().machine


class ProgramKind(NamedTuple):
    """The kernel's numbers: BPF_PROG_TYPE_ and the attach type."""

    program_type: int
    attach_type: int = 0


PLAIN = ProgramKind(17)  # for raw tracepoints
TYPED = ProgramKind(26, 23)  # the same, BTF-typed
AT_EVENT = ProgramKind(5)  # for trace events
# For functions in user space; kernels without this attach type ignore it.
OF_USER_SPACE = ProgramKind(2, ATTACH_UPROBE_MULTI)


class KernelObjects(NamedTuple):
    """The kernel objects of an attached probe.

    ``live`` objects are gone once it is detached.  ``on_demand``: those of its on-demand part, a
    map of offsets, then a program for each point.  ``handed_on``: a tracepoint, and the id of the
    program array that passes its events on.
    """

    live: tuple[Object, ...] = ()
    on_demand: tuple[Object, ...] = ()
    handed_on: tuple[tuple[str, int], ...] = ()


# The result of attaching: the answer for ioh, its descriptors, and their objects.
Outcome = tuple[dict[str, Any], list[int], KernelObjects]


def bpf_call(command: int, attr: bytes) -> int:
    """Call bpf(2); return a descriptor."""
    buffer = ctypes.create_string_buffer(attr, len(attr))
    return system_call(_BPF_SYSCALL, command, buffer, len(attr))


def system_call(numbers: Mapping[str, int], *args: object) -> int:
    """Make a system call, given its number on each machine; return a descriptor."""
    number = numbers.get(_machine)
    if number is None:
        raise OSError(0, f"unknown machine {_machine}")
    fd: int = _libc.syscall(number, *args)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def lift_memory_limit() -> None:
    """Allow large maps: before 5.11 they count as locked memory."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    # If the limit is too low, creating a map fails with a reason.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def create_map(spec: MapSpec) -> int:
    """Create an empty map; return its descriptor."""
    sizes = (spec.kind, spec.key_size, spec.value_size, spec.max_entries, spec.flags)
    try:
        return bpf_call(_BPF_MAP_CREATE, _MAP.pack(*sizes, 0, 0, _short(spec.name)))
    except OSError as error:
        raise OSError(error.errno, f"map {spec.name}: {error.strerror}") from error


def _short(name: str) -> bytes:
    return name.encode()[:_NAME_CHARS]


def set_element(array: int, index: int, value: int | bytes) -> None:
    """Set an element of an array; an int is 32 bits: a number or a program's descriptor."""
    raw = value if isinstance(value, bytes) else value.to_bytes(4, sys.byteorder)
    key, cell = ctypes.c_uint32(index), ctypes.create_string_buffer(raw, len(raw))
    at = (ctypes.addressof(key), ctypes.addressof(cell))
    bpf_call(_BPF_MAP_UPDATE_ELEM, _ELEMENT.pack(array, *at, 0))


def map_shape(fd: int) -> tuple[int, ...]:
    """The parameters of a map: type, bytes of key and value, entries, flags."""
    return _info(fd, _MAP_INFO)


def program_counts(fds: Iterable[int]) -> list[tuple[int, ...]]:
    """CPU time in ns (while it is counted) and skipped runs of each program."""
    counts: list[tuple[int, ...]] = []
    for fd in fds:
        with suppress(OSError):
            counts.append(_info(fd, _PROGRAM_COUNTS))
    return counts


def _info(fd: int, layout: struct.Struct) -> tuple[int, ...]:
    info = ctypes.create_string_buffer(layout.size)
    bpf_call(_BPF_OBJ_GET_INFO_BY_FD, _INFO.pack(fd, layout.size, ctypes.addressof(info)))
    return layout.unpack(info)


def object_ids(kind: Kind, fds: Iterable[int]) -> tuple[Object, ...]:
    """The objects of descriptors, as far as the kernel reports their ids."""
    found: list[Object] = []
    for fd in fds:
        with suppress(OSError):
            found.append((kind, _info(fd, _ID_INFO)[0]))
    return tuple(found)


def open_object(made: Object) -> int:
    """Open a map, program or link; needs CAP_SYS_ADMIN."""
    kind, number = made
    return bpf_call(_FD_BY_ID[kind], _BY_ID.pack(number, 0, 0))


def is_gone(made: Object) -> bool:
    """Whether the object is gone; False if unknown."""
    try:
        os.close(open_object(made))
    except OSError as error:
        return error.errno == errno.ENOENT
    return False


def count_run_time() -> int:
    """A descriptor: while it is open, the kernel counts BPF run time."""
    return bpf_call(_BPF_ENABLE_STATS, bytes(4))


def load_program(name: str, instructions: bytes, kind: ProgramKind = PLAIN, btf_id: int = 0) -> int:
    """Load a program.

    Args:
        name: The function's name, for error messages and program lists.
        instructions: Eight bytes each, maps by descriptor.
        kind: What it is for.
        btf_id: The tracepoint's prototype, for a BTF-typed program.

    Returns:
        Its descriptor.

    Raises:
        OSError: The kernel refused; the message ends with the verifier's last line.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(_LICENCE)
    size = len(instructions) // 8
    head = (kind.program_type, size, ctypes.addressof(code), ctypes.addressof(licence))
    tail = (0, 0, _short(name), 0, kind.attach_type, btf_id)
    try:
        return bpf_call(_BPF_PROG_LOAD, _LOAD.pack(*head, 0, 0, 0, *tail))
    except OSError as error:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        logged = (1, _LOG_BYTES, ctypes.addressof(log))
        try:
            return bpf_call(_BPF_PROG_LOAD, _LOAD.pack(*head, *logged, *tail))
        except OSError:
            text = log.value.decode(errors="replace").splitlines()
        lines = [line for line in text if line and not line.startswith("processed")]
        raise OSError(error.errno, f"{name}: {lines[-1] if lines else error.strerror}") from error


def attach_plain(program_fd: int, tracepoint: str) -> int:
    """Attach a plain program to a raw tracepoint, for as long as the descriptor is open."""
    name = ctypes.create_string_buffer(tracepoint.encode())
    try:
        return bpf_call(_BPF_RAW_TRACEPOINT_OPEN, _OPEN.pack(ctypes.addressof(name), program_fd, 0))
    except OSError as error:
        raise OSError(error.errno, f"cannot attach to {tracepoint}: {error.strerror}") from error


def attach_typed(program_fd: int) -> int:
    """Attach a BTF-typed program to its tracepoint; otherwise like attach_plain()."""
    return bpf_call(_BPF_RAW_TRACEPOINT_OPEN, _OPEN.pack(0, program_fd, 0))
