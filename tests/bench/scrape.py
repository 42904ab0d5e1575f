"""Cost of a scrape of ``ioh serve``, relative to prometheus_client's page of as many series."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from ioh.serve.page import Page
from tests.bench.report import Report, say
from tests.unit.serve_samples import large_host

SERIES, RATIO_BUDGET = 1000, 4.0
_ACCEPT = "application/openmetrics-text;version=1.0.0"
_TIMES = 20


def cpu_s(what: Callable[[], object]) -> float:
    """The lowest CPU time of several runs."""
    found = []
    for _ in range(_TIMES):
        began_s = time.process_time()
        what()
        found.append(time.process_time() - began_s)
    return min(found)


def measure(report: Report) -> None:
    """A host with 20 disks, 10 mounts; the library's page has no units, findings, compression."""
    say(f"a scrape of {SERIES:,} series")
    registry = CollectorRegistry()
    gauge = Gauge("calls", "Calls.", ("device", "op"), registry=registry)
    for at in range(SERIES):
        gauge.labels(f"sd{at}", "read").set(at / 3)
    page, sample = Page(0, {"slow_disk": "block"}), large_host()

    def ours() -> None:
        page.publish(sample)
        page.encoded(_ACCEPT, zipped=True)

    ratio = cpu_s(ours) / cpu_s(lambda: generate_latest(registry))  # type: ignore[no-untyped-call]
    name = f"a scrape of {SERIES:,} series, against prometheus_client's own page"
    report.figure(name, "times its CPU", [ratio], RATIO_BUDGET)
