"""Measure what a fleet costs Prometheus, for docs/fleet.md.

Usage: python -m tests.fleet [HOSTS [MINUTES]]

Each host is the page of `ioh serve` with a recording played into it, all in this process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.servers.played import Played, Recorded
from tests.servers.prometheus import Prometheus

SCRAPE_S = 15
RULES = Path(__file__).parents[1] / "contrib" / "prometheus" / "ioh.rules.yml"


def own(prometheus: Prometheus, name: str) -> float:
    """One of Prometheus' metrics about itself."""
    with urllib.request.urlopen(f"http://{prometheus.address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.split()[0] == name))


def measure(hosts: int, minutes: float) -> None:
    recorded = Recorded()
    with ExitStack() as stack:
        targets = [
            stack.enter_context(
                Played(recorded, f"host{n:03}", 5.0, first=n % (len(recorded.samples) - 1))
            ).target
            for n in range(hosts)
        ]
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = stack.enter_context(Prometheus(home, targets, [RULES], scrape_s=SCRAPE_S))
        made.wait_until(f"sum(up) == {hosts}")
        time.sleep(4 * SCRAPE_S)  # warm up: what is measured is the steady state
        began, cpu_s = time.monotonic(), own(made, "process_cpu_seconds_total")
        time.sleep(minutes * 60)
        cpu_s = own(made, "process_cpu_seconds_total") - cpu_s
        of_core = cpu_s / (time.monotonic() - began)
        series = own(made, "prometheus_tsdb_head_series")
        print(f"hosts {hosts}, scraped every {SCRAPE_S} s, for {minutes:g} minutes")
        print(f"series a host          {made.value('avg(scrape_samples_scraped)'):.0f}")
        print(f"series in all          {series:.0f}")
        print(f"memory                 {own(made, 'process_resident_memory_bytes') / 1e6:.0f} MB")
        print(f"CPU of one core        {of_core:.1%}")
        for q in (0.5, 0.99, 1):
            took = made.value(f"quantile({q}, max_over_time(scrape_duration_seconds[5m]))")
            print(f"slowest scrape, q{q:<4}   {took * 1e3:.1f} ms")
        print(f"up                     {made.value('sum(up)'):.0f}")


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    given = sys.argv[1:]
    measure(int(given[0]) if given else 100, float(given[1]) if given[1:] else 3)
