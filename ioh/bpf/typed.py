"""BTF-typed raw tracepoint programs: their arguments are pointers that may be followed."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from ioh.bpf.calls import load_program

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

# r0 = bpf_get_current_task_btf(); r0 = 0; exit: what a trusted program needs of the kernel.
_TRIAL = struct.pack("=BBhi", 0x85, 0, 0, 158) + struct.pack("=BBhi", 0xB7, 0, 0, 0)
_TRIAL += struct.pack("=BBhi", 0x95, 0, 0, 0)


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


def can_trust_pointers(btf: Btf) -> bool:
    """Whether the kernel takes such programs and has bpf_get_current_task_btf (5.11)."""
    try:
        fd = load_typed("ioh_trial", _TRIAL, "sys_enter", btf)
    except OSError:
        return False
    os.close(fd)
    return True
