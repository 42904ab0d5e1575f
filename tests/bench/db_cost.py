"""What layer ``db`` takes of a PostgreSQL's throughput, beside nobody and a bpftrace script."""

from __future__ import annotations

import re
import statistics
import time
from pathlib import Path

from ioh.bpf.server_files import read_servers
from tests.bench.report import Report, Table, number, say
from tests.bench.watchers import NOBODY, Watcher, WatcherError, bpftrace, ioh, watching
from tests.servers.postgres import Cluster

BUDGET_PCT = 3.0
ATTACH_S = 7.0  # a server is seen within 6 s, and ioh's first interval does not wait for that
# Eight clients that write, and one whose statements are as short as can be: the worst case.
WORKLOADS = {"pgbench -N -c 8": ("-N", "-c", "8"), "pgbench -S -c 1": ("-S", "-c", "1")}


def script(program: Path) -> str:
    """The same places, and of what ioh keeps the latency histogram alone."""
    (server,) = [found for found in read_servers() if found.title == "PostgreSQL"]
    made = []
    for n, probe in enumerate(server.probes):
        start, done = _place(probe.start, program), _place(probe.done, program)
        done = done or start.replace("uprobe", "uretprobe", 1)
        made.append(f"{start} {{ @s[tid, {n}] = nsecs; }}")
        made.append(
            f"{done} /@s[tid, {n}]/ {{ @h{n} = hist(nsecs - @s[tid, {n}]); delete(@s[tid, {n}]); }}"
        )
    return "\n".join(made)


def _place(event: str, program: Path) -> str:
    kind, _, name = event.partition(":")
    return f"{'usdt' if kind == 'usdt' else 'uprobe'}:{program}:{name}" if event else ""


def measure(report: Report, rounds: int, seconds: float) -> None:
    """In turns, so that what the disk and the machine do meets all of them."""
    say("a PostgreSQL of its own")
    try:
        cluster = Cluster()
    except (AssertionError, LookupError) as error:
        say(f"layer db is not measured: {error}")
        report.figure("db: lost by pgbench -N -c 8", "%", [], BUDGET_PCT)
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
        ("workload", "watched by", "transactions/s", "added, µs each", "lost, %"),
    )
    report.tables.append(table)
    for workload, options in WORKLOADS.items():
        alone: list[float] = []
        per_s: dict[str, list[float]] = {watcher.name: [] for watcher in watched}
        for turn in range(rounds):
            say(f"{workload}, round {turn + 1} of {rounds}")
            alone.append(_per_s(cluster, NOBODY, options, seconds))
            for watcher in watched:
                per_s[watcher.name].append(_per_s(cluster, watcher, options, seconds))
        table.rows.append((workload, "nobody", number(statistics.median(alone)), "", ""))
        for name, rates in per_s.items():
            lost = [100 * (1 - rate / free) for rate, free in zip(rates, alone, strict=True)]
            added = [1e6 / rate - 1e6 / free for rate, free in zip(rates, alone, strict=True)]
            cells = [number(statistics.median(found)) for found in (rates, added, lost)]
            table.rows.append((workload, name, *cells))
            if name == watched[0].name and "-N" in options:
                report.figure(f"db: lost by {workload}", "%", lost, BUDGET_PCT)


def _per_s(cluster: Cluster, watcher: Watcher, options: tuple[str, ...], seconds: float) -> float:
    try:
        with watching(watcher):
            time.sleep(ATTACH_S if watcher.command else 0.0)
            told = cluster.pgbench(*options, "-T", str(round(seconds)))
    except WatcherError as error:
        say(str(error))
        return float("nan")
    found = re.search(r"tps = ([\d.]+)", told)
    assert found is not None, told
    return float(found[1])
