"""Time that each probe program takes for a run, as the kernel counts it."""

from __future__ import annotations

from tests.bench.bpf_info import counted, read_program
from tests.bench.losses import IOH_ALL, IOH_BLOCK
from tests.bench.report import Report, Table, number, say
from tests.bench.watchers import EMPTY_PAIR, Watcher, WatcherError, watching
from tests.bench.workloads import Job, Targets, run
from tests.kernel.test_lifecycle import held

TARGET_IOPS = 80_000
BUDGET_PCT = 5.0
CACHED_BUDGET_NS, ASYNC_BUDGET_NS, BLOCK_BUDGET_NS = 140, 550, 220
RUNS_MIN = 1000


def measure(report: Report, targets: Targets, seconds: float) -> None:
    """Count while fio runs; counting itself makes every run more expensive, even an empty one."""
    head = ("probe program", "ns a run", "runs for an operation", "ns an operation")
    name = f"block probes at {TARGET_IOPS:,} IOPS"
    made = Table("Probe programs, by the kernel's own statistics (with its clock reads)", head)
    report.tables.append(made)
    disk, memory = targets.devices[0], targets.devices[-1]
    try:
        for watcher, job, budget_ns in (
            (EMPTY_PAIR, targets.cached, None),
            (IOH_ALL, targets.cached, CACHED_BUDGET_NS),
            (IOH_ALL, memory, ASYNC_BUDGET_NS),
            (IOH_ALL, targets.uring, ASYNC_BUDGET_NS),
            (IOH_BLOCK, memory, BLOCK_BUDGET_NS),
            (IOH_BLOCK, disk, None),
        ):
            total = add_rows(made, watcher, job, seconds)
            if budget_ns is not None:
                at = f"probes, {watcher.name}: {job.name}"
                report.figure(at, "ns an operation", [total], budget_ns)
        share = 100 * total * TARGET_IOPS / 1e9
        report.figure(name, "% of a core", [share], BUDGET_PCT)
    except (OSError, WatcherError) as error:
        report.figure(name, "% of a core", [], BUDGET_PCT)
        report.note(f"probe programs: {error}")


def add_rows(made: Table, watcher: Watcher, job: Job, seconds: float) -> float:
    """Add a row for each program with RUNS_MIN runs; returns ns of all programs an operation."""
    say(f"probe cost: {watcher.name}, {job.name}")
    with watching(watcher) as at_work, counted():
        programs = sorted(held({at_work.pid}, "prog_id"))
        before = [read_program(n) for n in programs]
        ops = run(job, seconds).ops
        after = [read_program(n) for n in programs]
    total = 0.0
    made.rows.append((f"{watcher.name}: {job.name}", "", "", ""))
    for early, late in zip(before, after, strict=True):
        ns, runs = late.ns - early.ns, late.runs - early.runs
        total += ns / ops
        if runs >= RUNS_MIN:
            cells = (number(ns / runs), f"{runs / ops:.2f}", number(ns / ops))
            made.rows.append((f"— {late.name}", *cells))
    made.rows.append(("— together", "", "", number(total)))
    return total
