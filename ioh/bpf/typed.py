"""Loads BTF-typed raw tracepoint programs, which bcc compiles but cannot load before 0.30."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_LOAD = 5
_BPF_RAW_TRACEPOINT_OPEN = 17
_PROG_TYPE_TRACING = 26
_ATTACH_RAW_TRACEPOINT = 23
_LOG_BYTES = 1 << 20
_ATTR_BYTES = 128
# union bpf_attr of BPF_PROG_LOAD (uapi, never changed): type, instructions, licence, log …
_LOAD_HEAD = struct.Struct("=IIQQIIQII16sII")
_ATTACH_BTF_ID_AT = 108
# r0 = bpf_get_current_task_btf(); r0 = 0; exit: what a trusted program needs of the kernel.
_TRIAL = struct.pack("=BBhi", 0x85, 0, 0, 158) + struct.pack("=BBhi", 0xB7, 0, 0, 0)
_TRIAL += struct.pack("=BBhi", 0x95, 0, 0, 0)


def _bpf(command: int, attr: bytes) -> int:
    """bpf(2): a descriptor.

    Raises:
        OSError: The kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = _BPF_SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(0, f"unknown machine {platform.machine()}")
    buffer = ctypes.create_string_buffer(attr, len(attr))
    fd: int = libc.syscall(number, command, buffer, len(attr))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def load_typed(name: str, instructions: bytes, tracepoint: str, btf: Btf) -> int:
    """Load a program for a raw tracepoint whose arguments carry their BTF types.

    Returns:
        The program's descriptor.

    Raises:
        OSError: The kernel refused; its message ends with the verifier's last line.
    """
    type_id = btf.tracepoint_id(tracepoint)
    if type_id is None:
        raise OSError(0, f"no raw tracepoint {tracepoint}")
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"Dual MIT/GPL")

    def attributes(log_level: int, log: ctypes.Array[ctypes.c_char] | None) -> bytes:
        head = _LOAD_HEAD.pack(
            _PROG_TYPE_TRACING,
            len(instructions) // 8,
            ctypes.addressof(code),
            ctypes.addressof(licence),
            log_level,
            _LOG_BYTES if log is not None else 0,
            ctypes.addressof(log) if log is not None else 0,
            0,
            0,
            name.encode()[:15],
            0,
            _ATTACH_RAW_TRACEPOINT,
        )
        padded = head.ljust(_ATTACH_BTF_ID_AT, b"\0") + struct.pack("=I", type_id)
        return padded.ljust(_ATTR_BYTES, b"\0")

    try:
        return _bpf(_BPF_PROG_LOAD, attributes(0, None))
    except OSError as error:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        try:
            return _bpf(_BPF_PROG_LOAD, attributes(1, log))
        except OSError:
            lines = log.value.decode(errors="replace").splitlines()
        told = [line for line in lines if line and not line.startswith("processed")]
        raise OSError(error.errno, f"{name}: {told[-1] if told else error.strerror}") from error


def attach_typed(program_fd: int) -> int:
    """Attach such a program; the descriptor returned keeps it attached.

    Raises:
        OSError: The kernel refused.
    """
    return _bpf(_BPF_RAW_TRACEPOINT_OPEN, struct.pack("=QII", 0, program_fd, 0))


def can_trust_pointers(btf: Btf) -> bool:
    """Whether the kernel takes such programs and has bpf_get_current_task_btf (5.11)."""
    try:
        fd = load_typed("ioh_trial", _TRIAL, "sys_enter", btf)
    except OSError:
        return False
    os.close(fd)
    return True
