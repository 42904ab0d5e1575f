"""Reads what goes to swap and comes back, and how long programs wait for memory."""

from __future__ import annotations

from pathlib import Path

from ioh.model.sample import Value
from ioh.procfs.files import PAGE_BYTES, path_under, read_numbers, read_pressure

# Not psutil.swap_memory(): it takes each page for 4 KiB.
_NAMES = {"pswpin": "swap_in_bytes_total", "pswpout": "swap_out_bytes_total"}


def read_swap(root: Path) -> dict[str, Value]:
    """Totals since boot, by metric of layer block; what the kernel does not count is left out.

    Pages that zram compresses count as they were before.
    """
    pages = read_numbers(path_under(root, "proc/vmstat"), _NAMES)
    found: dict[str, Value] = {_NAMES[name]: n * PAGE_BYTES for name, n in pages.items()}
    pressure = read_pressure(path_under(root, "proc/pressure/memory"))
    if "some" in pressure:
        found["memory_wait_us_total"] = pressure["some"]
    return found
