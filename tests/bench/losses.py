"""Throughput and CPU time of the workloads with and without a watcher, in turns."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.bpf_info import tracing_programs
from tests.bench.report import Report, Table, number, say
from tests.bench.watchers import (
    BLOCK_SCRIPT,
    EMPTY_ALL,
    EMPTY_PAIR,
    FULL_SCRIPT,
    NOBODY,
    SYSCALL_SCRIPT,
    Watcher,
    WatcherError,
    bpftrace,
    ioh,
    watching,
)
from tests.bench.workloads import Done, Job, Targets, run
from tests.kernel.test_lifecycle import held

IOH_ALL = ioh("ioh, all layers")
IOH_BLOCK = ioh("ioh --layers block", "--layers", "block")
SYSCALL_RIVAL = bpftrace("bpftrace size × latency", SYSCALL_SCRIPT)
FULL_RIVAL = bpftrace("bpftrace, process and file too", FULL_SCRIPT)
BLOCK_RIVAL = bpftrace("bpftrace issue/complete", BLOCK_SCRIPT)
CACHED = (
    NOBODY,
    EMPTY_PAIR,
    IOH_ALL,
    ioh("ioh --no-layer syscall", "--no-layer", "syscall"),
    SYSCALL_RIVAL,
    FULL_RIVAL,
)
DIRECT = (NOBODY, IOH_BLOCK, IOH_ALL, EMPTY_ALL, BLOCK_RIVAL)
SEEN_ENOUGH = 0.99
QUIET_TIMEOUT_S = 3.0
BLOCK_BUDGET_PCT = 5.0
ADDED_BUDGET = 0.40
BENCH_BUDGET_PCT = 3.0


@dataclass
class Series:
    """Results of one watcher with one job, by round."""

    done: dict[int, Done] = field(default_factory=dict)
    # Rounds in which no other program traced, and the watcher counted what fio did.
    sound: set[int] = field(default_factory=set)


Results = dict[tuple[Watcher, Job], Series]


def measure(report: Report, targets: Targets, rounds: int, seconds: float) -> None:
    """Compare every watcher with nobody, and ioh with bpftrace."""
    cached = in_turns(report, CACHED, [targets.cached], rounds, seconds)
    report.tables.append(table(cached, CACHED, targets.cached))
    ours = losses(cached, IOH_ALL, targets.cached, cpu_bound_rate)
    for rival, budget in ((SYSCALL_RIVAL, ADDED_BUDGET), (FULL_RIVAL, None)):
        theirs = losses(cached, rival, targets.cached, cpu_bound_rate)
        both = [n for n in ours if theirs.get(n, 0) > 0]
        # A loss l means that each read takes 1 / (1 - l) times as long.
        added = [(1 / (1 - ours[n]) - 1) / (1 / (1 - theirs[n]) - 1) for n in both]
        report.figure(f"cached reads: time added to each, ioh / {rival.name}", "", added, budget)

    disk = targets.fastest_disk()
    jobs = [disk, *(job for job in targets.devices[2:] if job is not disk)]
    direct = in_turns(report, DIRECT, jobs, rounds, seconds)
    for job in jobs:
        report.tables.append(table(direct, DIRECT, job))
        found = losses(direct, IOH_BLOCK, job, wall_rate).values()
        at = number(median_of(direct, NOBODY, job, wall_rate))
        name = f"{job.name}, {at} IOPS: loss by block alone"
        budget = BLOCK_BUDGET_PCT if job is disk else None
        report.figure(name, "%", [100 * n for n in found], budget)
    watched = losses(direct, IOH_ALL, disk, wall_rate).values()
    name = f"{disk.name}: loss by every layer, as ioh bench watches"
    report.figure(name, "%", [100 * n for n in watched], BENCH_BUDGET_PCT, below=True)


def in_turns(
    report: Report, watchers: Sequence[Watcher], jobs: Sequence[Job], rounds: int, seconds: float
) -> Results:
    """A B C A B C … A: each round is between two runs of the first watcher, NOBODY."""
    results: Results = {(w, j): Series() for w in watchers for j in jobs}
    turns = [(n, w) for n in range(rounds) for w in watchers] + [(rounds, NOBODY)]
    failed: set[Watcher] = set()
    doubts: Counter[str] = Counter()
    for round_, watcher in turns:
        if watcher in failed:
            continue
        say(f"{jobs[0].name}, round {round_ + 1} of {rounds}: {watcher.name}")
        try:
            doubt = one_turn({j: results[watcher, j] for j in jobs}, watcher, round_, seconds)
        except WatcherError as error:
            doubt = str(error)
            failed.add(watcher)
        if doubt:
            say(f"does not count: {doubt}")
            doubts[doubt] += 1
    for doubt, times in doubts.items():
        report.note(f"{jobs[0].name}: {times} of {len(turns)} turns do not count: {doubt}")
    return results


def one_turn(all_series: dict[Job, Series], watcher: Watcher, round_: int, seconds: float) -> str:
    """Run every job once; returns why the result does not count, or ""."""
    wait_for_quiet()
    done = {}
    with watching(watcher) as at_work:
        own = held({at_work.pid}, "prog_id")
        others = tracing_programs() - own
        for job, series in all_series.items():
            series.done[round_] = done[job] = run(job, seconds)
        others |= tracing_programs() - own
    if others:
        return "others had tracing programs loaded"
    for job in done:
        seen = watcher.count(at_work.output, job.layer, job.op)
        ops = sum(d.ops for j, d in done.items() if (j.layer, j.op) == (job.layer, job.op))
        if seen is not None and seen < SEEN_ENOUGH * ops:
            return f"{watcher.name} did not count all of fio's reads"
    for series in all_series.values():
        series.sound.add(round_)
    return ""


def wait_for_quiet() -> None:
    """Wait until no program traces, but at most QUIET_TIMEOUT_S."""
    deadline = time.monotonic() + QUIET_TIMEOUT_S
    while tracing_programs() and time.monotonic() < deadline:
        time.sleep(0.1)


def cpu_bound_rate(done: Done) -> float:
    """The rate on a CPU of its own: from CPU time, which other programs disturb least."""
    return 1e9 / done.cpu_ns_per_op


def wall_rate(done: Done) -> float:
    return done.rate


def losses(
    results: Results, watcher: Watcher, job: Job, rate: Callable[[Done], float]
) -> dict[int, float]:
    """Share of the rate lost in each sound round, compared with NOBODY before and after it."""
    base, series = results[NOBODY, job], results[watcher, job]
    found = {}
    for n in sorted(series.sound):
        if {n, n + 1} <= base.sound:
            before, after = rate(base.done[n]), rate(base.done[n + 1])
            found[n] = 1 - 2 * rate(series.done[n]) / (before + after)
    return found


def median_of(
    results: Results, watcher: Watcher, job: Job, value: Callable[[Done], float]
) -> float:
    """The median over the sound rounds, or over all if none is sound."""
    series = results[watcher, job]
    return statistics.median(value(series.done[n]) for n in series.sound or series.done)


def table(results: Results, watchers: Sequence[Watcher], job: Job) -> Table:
    head = ("watched by", "reads/s", "loss %", "range", "CPU ns/read", "loss %", "range")
    made = Table(f"4 KiB random reads, {job.name}", head)
    for watcher in watchers:
        if not results[watcher, job].done:
            made.rows.append((watcher.name, *("not measured", "", "", "", "", "")))
            continue
        cells = [watcher.name, number(median_of(results, watcher, job, wall_rate))]
        cells += loss_cells(results, watcher, job, wall_rate)
        cells.append(number(1e9 / median_of(results, watcher, job, cpu_bound_rate)))
        cells += loss_cells(results, watcher, job, cpu_bound_rate)
        made.rows.append(tuple(cells))
    return made


def loss_cells(
    results: Results, watcher: Watcher, job: Job, rate: Callable[[Done], float]
) -> tuple[str, str]:
    if watcher is NOBODY:
        return "", ""
    found = [100 * n for n in losses(results, watcher, job, rate).values()]
    if not found:
        return "not measured", ""
    return f"{statistics.median(found):.1f}", f"{min(found):.1f} – {max(found):.1f}"
