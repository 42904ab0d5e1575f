"""Measure what ioh costs: print the tables of docs/benchmarks.md; see ./ioh.sh --bench --help."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import (
    db_cost,
    large_hosts,
    losses,
    own_cost,
    probe_cost,
    recording,
    scrape,
    screen,
    start_time,
)
from tests.bench.machine_load import StealClock, tracefs
from tests.bench.report import Report, say
from tests.bench.workloads import Targets

SECTIONS = ("losses", "own", "start", "probes", "recording", "screen", "db", "large")


@dataclass(frozen=True)
class Plan:
    """How often and how long to measure."""

    rounds: int
    fio_s: float
    own_s: float
    files_s: float
    starts: int
    record_s: int
    session_s: int
    db_s: float


FULL = Plan(
    rounds=5, fio_s=2.0, own_s=20.0, files_s=60.0, starts=5, record_s=60, session_s=21_600, db_s=8.0
)
QUICK = Plan(
    rounds=2, fio_s=1.0, own_s=6.0, files_s=10.0, starts=3, record_s=10, session_s=3600, db_s=3.0
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ioh.sh --bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 minutes: a first look, no proof")
    parser.add_argument(
        "--day", action="store_true", help="the long session is of 24 hours (6; --quick: 1)"
    )
    parser.add_argument("--rounds", type=int, help="rounds of the comparisons (5; --quick: 2)")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="only this part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit 1 when over a budget")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("/var/tmp"),
        help="where the test files go, 512 MB on a file system with O_DIRECT (%(default)s)",
    )
    return parser.parse_args()


def measure(args: argparse.Namespace, plan: Plan, report: Report) -> None:
    wanted = args.only or SECTIONS
    with contextlib.ExitStack() as stack:
        if not {"losses", "probes"}.isdisjoint(wanted):
            stack.enter_context(tracefs(report))
        targets = stack.enter_context(Targets(args.dir))
        if "losses" in wanted:
            losses.measure(report, targets, args.rounds or plan.rounds, plan.fio_s)
        if "own" in wanted:
            own_cost.measure(report, targets, plan.own_s, plan.files_s)
        if "start" in wanted:
            start_time.measure(report, plan.starts)
        if "probes" in wanted:
            probe_cost.measure(report, targets, plan.fio_s)
        if "recording" in wanted:
            recording.measure(report, targets, plan.record_s, plan.session_s)
        if "screen" in wanted:
            screen.measure(report, targets, plan.own_s, plan.starts, plan.session_s)
        if "db" in wanted:
            db_cost.measure(report, args.rounds or plan.rounds, plan.db_s)
        if "large" in wanted:
            large_hosts.measure(report)
            scrape.measure(report)


def main() -> int:
    args = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("ioh.sh --bench: needs root: start it with sudo")
    # End as with Ctrl-C, so that loop devices, files and processes are removed: a lost connection
    # must not leave fio behind, which reads for a day.  With nohup, a lost connection is ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    report = Report(f"Linux {platform.release()}, {os.cpu_count()} CPUs")
    started, clock, status = time.monotonic(), StealClock(), 0
    plan = QUICK if args.quick else FULL
    if args.day:
        plan = replace(plan, session_s=recording.DAY_S)
    try:
        measure(args, plan, report)
    except KeyboardInterrupt:
        say("interrupted; what was measured so far:")
        status = 130
    report.host += f", {time.monotonic() - started:.0f} s, steal {clock.steal_pct():.1f} %"
    print(report.text())
    if args.json:
        args.json.write_text(report.json())
    return status or int(args.check and not report.within_budget())


if __name__ == "__main__":
    sys.exit(main())
