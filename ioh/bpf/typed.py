"""BTF-typed raw tracepoint programs: their arguments are pointers that may be followed."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from ioh.bpf.calls import load_program

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

_INSTRUCTION = struct.Struct("=BBhi")
_CALL, _EXIT, _SET, _LOAD_U64 = 0x85, 0x95, 0xB7, 0x79
_IS_KERNEL_FUNCTION = 2 << 4  # BPF_PSEUDO_KFUNC_CALL, in place of the source register
_GET_CURRENT_TASK_BTF = 158
_END = _INSTRUCTION.pack(_SET, 0, 0, 0) + _INSTRUCTION.pack(_EXIT, 0, 0, 0)
# What a trusted program needs of the kernel.
_TRIAL = _INSTRUCTION.pack(_CALL, 0, 0, _GET_CURRENT_TASK_BTF) + _END

CASTS = 0x7FFF0000  # the helper that a probe's casts call: there is none of this number


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
    return load_program(name, instructions, type_id)


def resolve_casts(instructions: bytes, cast: int | None) -> bytes:
    """The same with calls of the kernel's bpf_rdonly_cast() in the place of those of CASTS."""
    call = _INSTRUCTION.pack(_CALL, 0, 0, CASTS)
    if cast is None or call not in instructions:
        return instructions
    whole = bytearray(instructions)
    for at in range(0, len(whole), _INSTRUCTION.size):
        if whole[at : at + _INSTRUCTION.size] == call:
            _INSTRUCTION.pack_into(whole, at, _CALL, _IS_KERNEL_FUNCTION, 0, cast)
    return bytes(whole)


def find_cast(btf: Btf) -> int | None:
    """BTF id of bpf_rdonly_cast(), by which a trusted program may follow any address (6.2).

    Returns:
        None where the kernel has none or refuses a program that calls it.
    """
    cast, kind = btf.function_id("bpf_rdonly_cast"), btf.struct_id("list_head")
    if cast is None or kind is None:
        return None
    # An address from nowhere, then what lies there.
    trial = _INSTRUCTION.pack(_CALL, 0, 0, _GET_CURRENT_TASK_BTF)
    trial += _INSTRUCTION.pack(_SET, 1, 0, 0) + _INSTRUCTION.pack(_SET, 2, 0, kind)
    trial += _INSTRUCTION.pack(_CALL, 0, 0, CASTS) + _INSTRUCTION.pack(_LOAD_U64, 0, 0, 0) + _END
    try:
        fd = load_typed("ioh_trial", resolve_casts(trial, cast), "sys_enter", btf)
    except OSError:
        return None
    os.close(fd)
    return cast


def can_trust_pointers(btf: Btf) -> bool:
    """Whether the kernel takes such programs and has bpf_get_current_task_btf (5.11)."""
    try:
        fd = load_typed("ioh_trial", _TRIAL, "sys_enter", btf)
    except OSError:
        return False
    os.close(fd)
    return True
