"""Facts about this kernel, found by trying; what to do with them is decided elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ioh.bpf.maps import possible_cpus

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

_PREEMPTED_SINCE = 7


def are_probes_preempted() -> bool:
    """Whether this kernel can preempt a raw tracepoint's program.

    Linux 7.0 guards tracepoints by SRCU instead of disabling preemption (commits a46023d5616e,
    f7d327654b88).  Nothing in BTF says so, so the version decides.
    """
    return int(os.uname().release.split(".")[0]) >= _PREEMPTED_SINCE


def run_alone(btf: Btf) -> bool:
    """Whether an interrupt skips a raw tracepoint's program that it has interrupted.

    Linux 6.1 (commit 05b24ff9b2cf) brought that together with this function.
    """
    return btf.function_id("bpf_prog_inc_misses_counter") is not None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What one layer's probe may build upon; facts only, no rules.

    Shape:
        ``btf`` answers for struct offsets and tracepoint prototypes (a test gives a fake with
        the same methods).  ``cpu_count`` is of possible CPUs, as per-CPU maps have them.
        ``trusted_loads``: raw tracepoint programs may follow kernel pointers directly
        (BPF_PROG_TYPE_TRACING, kernel 5.5, and bpf_get_current_task_btf, 5.11) instead of by
        a helper call for each; ``cast`` is the BTF id of what lets them follow any address
        (bpf_rdonly_cast(), 6.2), None where it cannot be used.  ``alone``: no program
        runs on top of itself on a CPU.  ``preempted``: a program can be preempted, and is
        skipped meanwhile for everybody else on that CPU.
    """

    btf: Btf
    machine: str = field(default_factory=lambda: os.uname().machine)
    cpu_count: int = field(default_factory=possible_cpus)
    trusted_loads: bool = True
    cast: int | None = None
    alone: bool = False
    preempted: bool = field(default_factory=are_probes_preempted)
