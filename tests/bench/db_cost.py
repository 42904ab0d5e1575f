"""Throughput of PostgreSQL watched by layer ``db``, by a bpftrace script, and by nobody."""

from __future__ import annotations

import os
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from ioh.bpf.server_files import read_servers
from tests.bench.report import Report, Table, number, say
from tests.bench.watchers import NOBODY, Watcher, WatcherError, bpftrace, ioh, watching
from tests.servers.postgres import Cluster

BUDGET_PCT = 3.0
ATTACH_S = 7.0  # ioh finds a server within 6 s, and its first interval does not wait for that
PER_S = 2500
# Eight clients that write, as fast as they can and at the rate of the budget; and one client with
# the shortest statements, which is the worst case.
PACED = f"pgbench -N -c 8 -R {PER_S}"
WORKLOADS = ("pgbench -N -c 8", PACED, "pgbench -S -c 1")


@dataclass(frozen=True)
class Run:
    """The result of pgbench."""

    per_s: float
    cpu_us: float  # of its sessions, for each transaction


def script(program: Path) -> str:
    """A script with probes at the same places as ioh's; it keeps only latency histograms."""
    (server,) = [found for found in read_servers() if found.title == "PostgreSQL"]
    made = []
    for n, probe in enumerate(server.probes):
        starts = [_place(event, program) for event in probe.starts]
        done = _place(probe.done, program) or starts[0].replace("uprobe", "uretprobe", 1)
        made += [f"{start} {{ @s[tid, {n}] = nsecs; }}" for start in starts]
        made.append(
            f"{done} /@s[tid, {n}]/ {{ @h{n} = hist(nsecs - @s[tid, {n}]); delete(@s[tid, {n}]); }}"
        )
    return "\n".join(made)


def _place(event: str, program: Path) -> str:
    kind, _, name = event.partition(":")
    return f"{'usdt' if kind == 'usdt' else 'uprobe'}:{program}:{name}" if event else ""


def measure(report: Report, rounds: int, seconds: float) -> None:
    """Measure in turns, so that changes of the disk and the machine affect all watchers alike."""
    say("a PostgreSQL of its own")
    try:
        cluster = Cluster()
    except (AssertionError, LookupError) as error:
        say(f"layer db is not measured: {error}")
        report.figure(_figure(), "%", [], BUDGET_PCT)
        return
    try:
        _measure(report, cluster, rounds, seconds)
    finally:
        cluster.close()


def _measure(report: Report, cluster: Cluster, rounds: int, seconds: float) -> None:
    program = Path(f"/proc/{cluster.pid}/exe").readlink()
    watched = (ioh("ioh --layers db", "--layers", "db"), bpftrace("bpftrace", script(program)))
    table = Table(
        "Transactions of a PostgreSQL that is watched",
        ("workload", "watched by", "transactions/s", "lost, %", "CPU, µs each", "added, µs each"),
    )
    report.tables.append(table)
    for workload in WORKLOADS:
        alone: list[Run] = []
        runs: dict[str, list[Run]] = {watcher.name: [] for watcher in watched}
        for turn in range(rounds):
            say(f"{workload}, round {turn + 1} of {rounds}")
            alone.append(_run(cluster, NOBODY, workload, seconds))
            for watcher in watched:
                runs[watcher.name].append(_run(cluster, watcher, workload, seconds))
        rates = [number(statistics.median(run.per_s for run in alone))]
        cpu = [number(statistics.median(run.cpu_us for run in alone))]
        table.rows.append((workload, "nobody", *rates, "", *cpu, ""))
        for name, found in runs.items():
            pairs = list(zip(found, alone, strict=True))
            lost = [100 * (1 - run.per_s / free.per_s) for run, free in pairs]
            added = [run.cpu_us - free.cpu_us for run, free in pairs]
            columns = ([run.per_s for run in found], lost, [run.cpu_us for run in found], added)
            cells = [number(statistics.median(column)) for column in columns]
            table.rows.append((workload, name, *cells))
            if name == watched[0].name and workload == PACED:
                shares = [us * PER_S / (os.cpu_count() or 1) / 1e4 for us in added]
                report.figure(_figure(), "%", shares, BUDGET_PCT)


def _figure() -> str:
    """The figure's name: a server without spare CPU loses this share, a paced one nothing."""
    return f"db: of all CPUs, at {PER_S:,} transactions a second"


def _run(cluster: Cluster, watcher: Watcher, workload: str, seconds: float) -> Run:
    options = workload.split()[1:]
    try:
        with watching(watcher):
            time.sleep(ATTACH_S if watcher.command else 0.0)
            server = psutil.Process(cluster.pid)
            others, before = set(server.children()), _spent_s(server)
            told = cluster.pgbench(*options, "-T", str(round(seconds)))
            psutil.wait_procs(
                set(server.children()) - others, 10
            )  # they may not have ended when pgbench ends
            spent_s = _spent_s(server) - before
    except WatcherError as error:
        say(str(error))
        return Run(float("nan"), float("nan"))
    rate = re.search(r"tps = ([\d.]+)", told)
    done = re.search(r"actually processed: (\d+)", told)
    assert rate, told
    assert done, told
    return Run(float(rate[1]), 1e6 * spent_s / int(done[1]))


def _spent_s(server: psutil.Process) -> float:
    """CPU time of the server's ended sessions, which includes their traps."""
    spent = server.cpu_times()
    return float(spent.children_user + spent.children_system)
