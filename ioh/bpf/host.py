"""Facts about this kernel, found by trying; what to do with them is decided elsewhere."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ioh.bpf.maps import possible_cpus

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What one layer's probe may build upon; facts only, no rules.

    Shape:
        ``btf`` answers for struct offsets and tracepoint prototypes (a test gives a fake with
        the same methods).  ``cpu_count`` is of possible CPUs, as per-CPU maps have them.
        ``trusted_loads``: raw tracepoint programs may follow kernel pointers directly
        (BPF_PROG_TYPE_TRACING, kernel 5.5, and bpf_get_current_task_btf, 5.11) instead of by
        a helper call for each.
    """

    btf: Btf
    machine: str = field(default_factory=platform.machine)
    cpu_count: int = field(default_factory=possible_cpus)
    page_bytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE"))
    trusted_loads: bool = True
