"""Facts about this kernel, found by trying; what to do with them is decided elsewhere."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ioh.bpf.maps import possible_cpus

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

_PREEMPTED_SINCE = 7


def are_probes_preempted() -> bool:
    """Whether this kernel can preempt a raw tracepoint's program.

    Linux 7.0 guards tracepoints by SRCU instead of disabling preemption (commits a46023d5616e,
    f7d327654b88).  Nothing in BTF tells, so the version does.
    """
    return int(platform.release().split(".")[0]) >= _PREEMPTED_SINCE


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What one layer's probe may build upon; facts only, no rules.

    Shape:
        ``btf`` answers for struct offsets and tracepoint prototypes (a test gives a fake with
        the same methods).  ``cpu_count`` is of possible CPUs, as per-CPU maps have them.
        ``trusted_loads``: raw tracepoint programs may follow kernel pointers directly
        (BPF_PROG_TYPE_TRACING, kernel 5.5, and bpf_get_current_task_btf, 5.11) instead of by
        a helper call for each.  ``preempted``: a program can be preempted, and is skipped
        meanwhile for everybody else on that CPU.
    """

    btf: Btf
    machine: str = field(default_factory=platform.machine)
    cpu_count: int = field(default_factory=possible_cpus)
    page_bytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE"))
    trusted_loads: bool = True
    preempted: bool = field(default_factory=are_probes_preempted)
