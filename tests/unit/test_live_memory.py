"""What a busy second took goes back to the kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ioh.live import source as source_module
from tests.unit.live_host import Host, source

RESIDENT = """
from ioh.live.memory import give_back, give_back_large

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""

# Of 54 MB that were freed.
FRAGMENTED = """
kept = [bytes(3000) for _ in range(20_000)][::10]
before = resident()
give_back()
print(before - resident())
"""

# Of 30 MB.
LARGE = """
give_back_large()
bytearray(2 << 20)  # by which glibc learns to keep pieces of that size
large, kept = zip(*[(bytearray(b"x" * 300_000), bytes(20_000)) for _ in range(100)])
before = resident()
del large
print(before - resident())
"""


@pytest.mark.parametrize("script", [LARGE, FRAGMENTED], ids=["large pieces", "holes"])
def test_what_is_freed_goes_back(script: str) -> None:
    command = [sys.executable, "-c", RESIDENT + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 25_000_000


def test_a_live_source_does_so_now_and_then(host: Host) -> None:
    given: list[float] = []
    host.patch.setattr(source_module, "give_back", lambda: given.append(1.0))
    host.patch.setattr(source_module, "COST_PERIOD_S", 0.05)
    host.patch.setattr(source_module, "FIRST_INTERVAL_S", 0.01)
    with source(interval_s=0.02, use_bpf=False) as running:
        samples = iter(running)
        for _ in range(12):
            next(samples)
    assert len(given) > 1
