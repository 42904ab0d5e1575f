"""bpf(2) itself: create maps, load programs, attach them; what the loader needs of it.

What the kernel refuses is an OSError, unless a function says otherwise.
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
# By the kernel's number, which is never given to two of a kind.
Object = tuple[Kind, int]

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_BPF_MAP_CREATE = 0
_BPF_MAP_UPDATE_ELEM = 2
_BPF_PROG_LOAD = 5
_BPF_OBJ_GET_INFO_BY_FD = 15
_BPF_RAW_TRACEPOINT_OPEN = 17
_BPF_ENABLE_STATS = 32
_FD_BY_ID: dict[Kind, int] = {"map": 14, "program": 13, "link": 30}
_PROG_TYPE_KPROBE = 2  # of functions in user space, too
_PROG_TYPE_RAW_TRACEPOINT = 17
_PROG_TYPE_TRACING = 26
_ATTACH_RAW_TRACEPOINT = 23
ATTACH_UPROBE_MULTI = 48
_LOG_BYTES = 1 << 24
_NAME_CHARS = 15
# union bpf_attr of each command (uapi, never changed).
_MAP = struct.Struct("=IIIIIII16s")  # type, key, value, entries, flags, inner map, node, name
# Type, instructions and where, licence; level, bytes and place of the log; kernel version, flags,
# name, interface, attach type; BTF id.
_LOAD = struct.Struct("=IIQQIIQII16sII36xI16x")
_ELEMENT = struct.Struct("=IxxxxQQQ")  # map, key, value, flags
_INFO = struct.Struct("=IIQ")
_OPEN = struct.Struct("=QII")
_MAP_INFO = struct.Struct("=I4xIIII64x")  # type, key, value, entries, flags
_ID_INFO = struct.Struct("=4xI")  # of maps, programs and links alike
# run_time_ns (Linux 5.1) and recursion_misses (5.12), which is 0 before.
_PROGRAM_COUNTS = struct.Struct("=192xQ8xQ16x")
_BY_ID = struct.Struct("=III")
_LICENCE = b"Dual MIT/GPL"
_libc = ctypes.CDLL(None, use_errno=True)
_machine = os.uname().machine


class Made(NamedTuple):
    """What attaching has made.

    ``live`` objects are gone once it is detached; ``late`` are those that a layer's late part is
    attached by: its map of offsets, then a program for each point.  ``handed_on``: a tracepoint,
    and the number of the program array by which its events are handed on.
    """

    live: tuple[Object, ...] = ()
    late: tuple[Object, ...] = ()
    handed_on: tuple[tuple[str, int], ...] = ()


# Of attaching: what to tell ioh, the descriptors for it, and what they are.
Outcome = tuple[dict[str, Any], list[int], Made]


def bpf_call(command: int, attr: bytes) -> int:
    """bpf(2): a descriptor."""
    buffer = ctypes.create_string_buffer(attr, len(attr))
    return system_call(_BPF_SYSCALL, command, buffer, len(attr))


def system_call(numbers: Mapping[str, int], *args: object) -> int:
    """A system call by its number on each machine: a descriptor."""
    number = numbers.get(_machine)
    if number is None:
        raise OSError(0, f"unknown machine {_machine}")
    fd: int = _libc.syscall(number, *args)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def lift_memory_limit() -> None:
    """Let maps be as large as they need: before 5.11 they count as locked memory."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    # Where it is too little, the kernel says so itself.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def create_map(spec: MapSpec) -> int:
    """The descriptor of a new, empty map."""
    sizes = (spec.kind, spec.key_size, spec.value_size, spec.max_entries, spec.flags)
    try:
        return bpf_call(_BPF_MAP_CREATE, _MAP.pack(*sizes, 0, 0, _short(spec.name)))
    except OSError as error:
        raise OSError(error.errno, f"map {spec.name}: {error.strerror}") from error


def _short(name: str) -> bytes:
    return name.encode()[:_NAME_CHARS]


def set_element(array: int, index: int, value: int | bytes) -> None:
    """Set one element of an array; an int is 32 bits, or a program's descriptor."""
    raw = value if isinstance(value, bytes) else value.to_bytes(4, sys.byteorder)
    key, cell = ctypes.c_uint32(index), ctypes.create_string_buffer(raw, len(raw))
    at = (ctypes.addressof(key), ctypes.addressof(cell))
    bpf_call(_BPF_MAP_UPDATE_ELEM, _ELEMENT.pack(array, *at, 0))


def map_shape(fd: int) -> tuple[int, ...]:
    """What a map was created with: type, bytes of key and value, entries, flags."""
    return _info(fd, _MAP_INFO)


def program_counts(fds: Iterable[int]) -> list[tuple[int, ...]]:
    """Of each program: CPU time in ns, while that is counted, and runs that the kernel skipped."""
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
    """What descriptors stand for, as far as the kernel tells."""
    found: list[Object] = []
    for fd in fds:
        with suppress(OSError):
            found.append((kind, _info(fd, _ID_INFO)[0]))
    return tuple(found)


def open_object(made: Object) -> int:
    """A descriptor of a map, program or link; takes CAP_SYS_ADMIN."""
    kind, number = made
    return bpf_call(_FD_BY_ID[kind], _BY_ID.pack(number, 0, 0))


def is_gone(made: Object) -> bool:
    """Whether nothing holds it any more; False where the kernel does not say."""
    try:
        os.close(open_object(made))
    except OSError as error:
        return error.errno == errno.ENOENT
    return False


def count_run_time() -> int:
    """A descriptor that makes the kernel count BPF run time for as long as it is open."""
    return bpf_call(_BPF_ENABLE_STATS, bytes(4))


def load_program(
    name: str, instructions: bytes, btf_id: int | None, *, of_user_space: bool = False
) -> int:
    """Load a raw tracepoint's program, or one of functions in user space: its descriptor.

    Args:
        name: Of the function, for error messages and for who lists programs.
        instructions: Eight bytes each, maps by descriptor.
        btf_id: Of the tracepoint's prototype, for a program whose arguments carry their BTF
            types; None for a plain one.
        of_user_space: Whether it is of functions there.

    Raises:
        OSError: The kernel refused; its message ends with the verifier's last line.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(_LICENCE)
    if of_user_space:  # kernels that do not know this attach type do not look at it
        kind, attach_type = _PROG_TYPE_KPROBE, ATTACH_UPROBE_MULTI
    elif btf_id is None:
        kind, attach_type = _PROG_TYPE_RAW_TRACEPOINT, 0
    else:
        kind, attach_type = _PROG_TYPE_TRACING, _ATTACH_RAW_TRACEPOINT
    head = (kind, len(instructions) // 8, ctypes.addressof(code), ctypes.addressof(licence))
    tail = (0, 0, _short(name), 0, attach_type, btf_id or 0)
    try:
        return bpf_call(_BPF_PROG_LOAD, _LOAD.pack(*head, 0, 0, 0, *tail))
    except OSError as error:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        told_at = (1, _LOG_BYTES, ctypes.addressof(log))
        try:
            return bpf_call(_BPF_PROG_LOAD, _LOAD.pack(*head, *told_at, *tail))
        except OSError:
            lines = log.value.decode(errors="replace").splitlines()
        told = [line for line in lines if line and not line.startswith("processed")]
        raise OSError(error.errno, f"{name}: {told[-1] if told else error.strerror}") from error


def attach_plain(program_fd: int, tracepoint: str) -> int:
    """Attach a plain program to a raw tracepoint; the descriptor returned keeps it attached."""
    name = ctypes.create_string_buffer(tracepoint.encode())
    try:
        return bpf_call(_BPF_RAW_TRACEPOINT_OPEN, _OPEN.pack(ctypes.addressof(name), program_fd, 0))
    except OSError as error:
        raise OSError(error.errno, f"cannot attach to {tracepoint}: {error.strerror}") from error


def attach_typed(program_fd: int) -> int:
    """Attach a BTF-typed program to what it was loaded for; keeps it as attach_plain() does."""
    return bpf_call(_BPF_RAW_TRACEPOINT_OPEN, _OPEN.pack(0, program_fd, 0))
