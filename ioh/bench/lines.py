"""What a bench prints while it runs: a line a test in the manner of fioparse.sh."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.bench.results import Figures, Run, Test
from ioh.bench.runner import rate_of
from ioh.model.printable import printable

WIDTH = 29
_LITTLE_OFF = 0.1  # of the operations asked for
HEAD = (
    f"{'test':<{WIDTH}} {'':10} {'MB/s':>8} {'ms':>8} {'p95':>8} {'p99':>8} {'p99.9':>8} "
    f"{'max':>8} {'IOPS':>9}  verdict"
)


def test_lines(test: Test) -> Iterator[str]:
    """A finished test: a line for each direction, then what was found meanwhile."""
    run = test.run
    verdict = "ok" if test.verdict.ok else f"not the storage: {test.verdict.sentence}"
    name = test.spec.name
    for op, figures in run.fio.items():
        yield figures_line(name, op, figures, verdict)
        name = verdict = ""
    if not run.fio:
        yield f"{printable(name):<{WIDTH}} {printable(verdict)}"
    yield from (figures_line("", f"rival {op}", figures, "") for op, figures in run.rival.items())
    yield from (f"  | {printable(fact)}" for fact in test.verdict.evidence)
    if test.spread_pct is not None:
        rates = ", ".join(f"{rate_of(each.fio):,.0f}" for each in test.runs)
        yield f"  | {len(test.runs)} runs: {rates} a second; spread {test.spread_pct:.1f} %"
    if test.spec.knee_pct:
        yield f"  | {little(run, test.spec.depth_all)}"
    if test.spec.kind == "seeks" and test.spec.users > 1:
        yield f"  | {rate_of(run.fio) / test.spec.users:,.0f} a second for each thread"
    yield from (f"  | {printable(f'{each.kind}: {each.sentence}')}" for each in run.disturbances)
    said = {test.verdict.sentence}
    for found in run.findings:
        if found.cause not in said and found.severity != "info":
            said.add(found.cause)
            yield f"  ! {printable(found.rule)}: {printable(found.cause)}"


def little(run: Run, depth: int) -> str:
    """Little's law: operations a second × seconds each must be the operations under way."""
    under_way = sum((f.iops or 0.0) * (f.mean_us or 0.0) / 1e6 for f in run.fio.values())
    holds = "" if abs(under_way - depth) <= _LITTLE_OFF * depth else ": fio itself was held up"
    return f"rate × latency = {under_way:.1f} under way, {depth} asked for{holds}"


def figures_line(name: str, op: str, figures: Figures, verdict: str = "") -> str:
    """One direction under HEAD: MB/s of 1,000,000 bytes, latencies in ms."""
    us = (figures.mean_us, figures.p95_us, figures.p99_us, figures.p999_us, figures.max_us)
    moved = "" if figures.bytes_per_s is None else f"{figures.bytes_per_s / 1e6:,.1f}"
    iops = "" if figures.iops is None else f"{figures.iops:,.0f}"
    cells = " ".join(f"{show_ms(each and each / 1000):>8}" for each in us)
    name, op = printable(name), printable(op)
    line = f"{name:<{WIDTH}} {op:<10} {moved:>8} {cells} {iops:>9}  {printable(verdict)}"
    return line.rstrip()


def show_ms(ms: float | None) -> str:
    """Milliseconds, down to the µs where they are few; "-" where unknown."""
    if ms is None:
        return "-"
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:,.0f}"
