"""Reads the whole machine: CPU, load, memory, write-back, I/O pressure."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress

import psutil

from ioh.model.sample import HostSample
from ioh.procfs.files import PAGE_BYTES, read_numbers, read_pressure

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# user nice system idle iowait irq softirq steal; then guest and guest_nice, which user and nice
# include.
_SUMMED = 8
_VMSTAT = {
    "nr_dirty": "dirty_bytes",
    "nr_writeback": "writeback_bytes",
    "nr_dirty_threshold": "dirty_limit_bytes",
    "nr_dirty_background_threshold": "dirty_background_bytes",
}
# psutil warns of missing numbers and sets them to 0: make it an error.
warnings.filterwarnings("error", "[a-z, ]* memory stats couldn't be determined", RuntimeWarning)


def read_host() -> HostSample:
    """Read the machine; numbers that the kernel does not report stay None.

    ``cached_bytes`` is buff/cache of free(1), including shared memory.  The dirty limits are the
    current ones, which the kernel computes from dirty_ratio or dirty_bytes and available memory.
    """
    values: dict[str, int] = {}
    loads: tuple[float | None, ...] = (None, None, None)
    # What psutil raises if a file is hidden or malformed.
    unreadable = suppress(OSError, ValueError, LookupError, TypeError, RuntimeWarning)
    with unreadable:
        ticks = [round(seconds * _TICKS_PER_S) for seconds in psutil.cpu_times()]
        values |= {
            "cpu_total_ticks": sum(ticks[:_SUMMED]),
            "cpu_idle_ticks": ticks[3],
            "cpu_iowait_ticks": ticks[4],
            "cpu_steal_ticks": ticks[7],
        }
    with unreadable:
        memory = psutil.virtual_memory()
        values |= {
            "mem_total_bytes": memory.total,
            "mem_available_bytes": memory.available,
            "cached_bytes": memory.cached + memory.buffers,
        }
    with unreadable:
        loads = psutil.getloadavg()
    pages = read_numbers(f"{psutil.PROCFS_PATH}/vmstat", _VMSTAT)
    values |= {_VMSTAT[name]: number * PAGE_BYTES for name, number in pages.items()}
    pressure = read_pressure(f"{psutil.PROCFS_PATH}/pressure/io")
    return HostSample(
        **values,
        cpu_count=psutil.cpu_count(),
        load1=loads[0],
        load5=loads[1],
        load15=loads[2],
        psi_io_some_us_total=pressure.get("some"),
        psi_io_full_us_total=pressure.get("full"),
    )
