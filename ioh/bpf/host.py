"""Facts about this kernel, found by trial, and loading programs accordingly."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ioh.bpf.calls import TYPED, load_program
from ioh.bpf.maps import possible_cpus
from ioh.bpf.trace_events import has_trace_events

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

_PREEMPTED_SINCE = 7
_INSTRUCTION = struct.Struct("=BBhi")
_CALL, _EXIT, _SET, _LOAD_U64 = 0x85, 0x95, 0xB7, 0x79
_IS_KERNEL_FUNCTION = 2 << 4  # BPF_PSEUDO_KFUNC_CALL instead of the source register
_GET_TASK = _INSTRUCTION.pack(_CALL, 0, 0, 158)  # bpf_get_current_task_btf
_END = _INSTRUCTION.pack(_SET, 0, 0, 0) + _INSTRUCTION.pack(_EXIT, 0, 0, 0)

CASTS = 0x7FFF0000  # stands for bpf_rdonly_cast() in a probe's code; no helper has this number


def are_probes_preempted() -> bool:
    """Whether this kernel can preempt a raw tracepoint's program.

    Linux 7.0 protects tracepoints with SRCU instead of disabling preemption (commits a46023d5616e,
    f7d327654b88).  BTF does not show this, so check the version.
    """
    return int(os.uname().release.split(".")[0]) >= _PREEMPTED_SINCE


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a layer's probe can rely on; facts only, no rules.

    ``btf`` has struct offsets and tracepoint prototypes; tests pass a fake.  ``cpu_count`` counts
    possible CPUs, as per-CPU maps do.  ``trusted_loads``: raw tracepoint programs may follow kernel
    pointers directly (BPF_PROG_TYPE_TRACING, kernel 5.5, and bpf_get_current_task_btf, 5.11),
    without a helper call for each.  ``cast``: BTF id of bpf_rdonly_cast() (6.2), which lets them
    follow any address, None if unusable.  ``alone``: no program runs on top of itself on a CPU.
    ``preempted``: a program can be preempted; until it continues, it is skipped on that CPU.
    ``trace_events``: programs at trace events cannot, and this process may attach them there.
    """

    btf: Btf
    machine: str = field(default_factory=lambda: os.uname().machine)
    cpu_count: int = field(default_factory=possible_cpus)
    trusted_loads: bool = True
    cast: int | None = None
    alone: bool = False
    preempted: bool = field(default_factory=are_probes_preempted)
    trace_events: bool = False


def find_facts(btf: Btf) -> HostFacts:
    """Find the facts."""
    trusted = _takes(_GET_TASK + _END, btf)
    preempted = are_probes_preempted()
    return HostFacts(
        btf,
        trusted_loads=trusted,
        cast=find_cast(btf) if trusted else None,
        # Linux 6.1 (commit 05b24ff9b2cf) brought this function together with the guard.
        alone=btf.function_id("bpf_prog_inc_misses_counter") is not None,
        preempted=preempted,
        trace_events=preempted and has_trace_events(),
    )


def find_cast(btf: Btf) -> int | None:
    """BTF id of bpf_rdonly_cast() (6.2), which lets a trusted program follow any address.

    None if the kernel lacks it or refuses a program that calls it.
    """
    cast, kind = btf.function_id("bpf_rdonly_cast"), btf.struct_id("list_head")
    if cast is None or kind is None:
        return None
    # Cast a null address, then load from it.
    trial = _GET_TASK + _INSTRUCTION.pack(_SET, 1, 0, 0) + _INSTRUCTION.pack(_SET, 2, 0, kind)
    trial += _INSTRUCTION.pack(_CALL, 0, 0, CASTS) + _INSTRUCTION.pack(_LOAD_U64, 0, 0, 0) + _END
    return cast if _takes(resolve_casts(trial, cast), btf) else None


def _takes(trial: bytes, btf: Btf) -> bool:
    try:
        os.close(load_typed("ioh_trial", trial, "sys_enter", btf))
    except OSError:
        return False
    return True


def load_typed(name: str, instructions: bytes, tracepoint: str, btf: Btf) -> int:
    """Load a program for a raw tracepoint whose arguments carry their BTF types."""
    type_id = btf.tracepoint_id(tracepoint)
    if type_id is None:
        raise OSError(0, f"no raw tracepoint {tracepoint}")
    return load_program(name, instructions, TYPED, type_id)


def resolve_casts(instructions: bytes, cast: int | None) -> bytes:
    """Replace calls of CASTS by calls of the kernel's bpf_rdonly_cast()."""
    call = _INSTRUCTION.pack(_CALL, 0, 0, CASTS)
    if cast is None or call not in instructions:
        return instructions
    whole = bytearray(instructions)
    for at in range(0, len(whole), _INSTRUCTION.size):
        if whole[at : at + _INSTRUCTION.size] == call:
            _INSTRUCTION.pack_into(whole, at, _CALL, _IS_KERNEL_FUNCTION, 0, cast)
    return bytes(whole)
