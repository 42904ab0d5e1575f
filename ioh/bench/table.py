"""Format a bench as text, like fioparse.sh: conditions, a line per test, layers, histograms."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.bench.results import HIST_COLUMNS, METADATA, Conditions, Figures, Results, Run, Test
from ioh.model.printable import printable

WIDTH = 29
_LITTLE_OFF = 0.1  # of the requested operations
HEAD = (
    f"{'test':<{WIDTH}} {'':10} {'MB/s':>8} {'ms':>8} {'p95':>8} {'p99':>8} {'p99.9':>8} "
    f"{'max':>8} {'IOPS':>9}  verdict"
)
_GIB = 1 << 30
# The layers' operations that make data durable.
_SYNCS = {"fsync", "sync", "flush", "commit"}


def conditions_of(conditions: Conditions) -> list[tuple[str, str]]:
    """All known conditions of a bench, by name."""
    devices = [
        ", ".join(
            filter(
                None,
                (
                    device.name,
                    device.model,
                    device.transport,
                    f"{device.size_bytes / _GIB:,.1f} GiB" if device.size_bytes else "",
                    "rotating" if device.rotational else "",
                    f"scheduler {device.scheduler}" if device.scheduler else "",
                    *(f"{name} {value}" for name, value in device.limits.items()),
                ),
            )
        )
        for device in conditions.devices
    ]
    rows = [
        ("host", conditions.host),
        ("kernel", f"{conditions.kernel} {conditions.machine}"),
        ("cpu", f"{conditions.cpus} × {conditions.cpu or 'unknown'}"),
        ("memory", f"{conditions.memory_bytes / _GIB:,.1f} GiB"),
        ("governor", conditions.governor),
        ("target", conditions.target),
        ("file system", f"{conditions.file_system} of {conditions.source}"),
        ("mount options", conditions.mount_options),
        *(("device", device) for device in devices),
        *(("limit", limit) for limit in conditions.io_limits),
        ("work file", f"{conditions.size_bytes / _GIB:,.2f} GiB"),
        ("cache", f"{conditions.cache_bytes / _GIB:,.1f} GiB" if conditions.cache_bytes else ""),
        ("plan", conditions.plan),
        ("fio", conditions.fio_version),
        ("ioh", conditions.ioh_version),
        ("command", conditions.command),
        *(("remark", remark) for remark in conditions.remarks),
    ]
    return [(name, printable(value)) for name, value in rows if value.strip()]


def table_text(results: Results) -> Iterator[str]:
    """Format conditions, each test with its layers, then all histograms."""
    for name, value in conditions_of(results.conditions):
        yield f"{name:<14} {value}"
    if not results.is_complete:
        missing = len(results.planned) - len(results.tests)
        yield f"{'not finished':<14} {missing} of {len(results.planned)} tests are missing"
    yield ""
    yield HEAD
    for test in results.tests:
        yield from test_lines(test)
        yield from (figures_line(f"  {name}", "", figures) for name, figures in layers_of(test))
    yield ""
    yield f"{'% of operations up to':<{WIDTH + 11}}{''.join(f'{c:>6}' for c in HIST_COLUMNS)}"
    for test in results.tests:
        name = test.spec.name
        rows = [(name if at == 0 else "", op, f) for at, (op, f) in enumerate(test.run.fio.items())]
        rows += [(f"  {layer}", "", figures) for layer, figures in layers_of(test)]
        for first, op, figures in rows:
            if sum(figures.hist):
                cells = "".join(_percent(figures))
                yield f"{printable(first):<{WIDTH}} {printable(op):<10}{cells}".rstrip()


def layers_of(test: Test) -> Iterator[tuple[str, Figures]]:
    """Each layer's figures during a test, by layer and operation.

    Idle operations are left out, also sums whose parts are listed, and parts that equal the sum.
    """
    active = [each for each in test.run.layers if each.figures.ops and is_of(test, each.op)]
    whole = {(each.layer, each.op): each.figures for each in active if not each.part}
    for each in active:
        if each.part and each.figures == whole.get((each.layer, each.op)):
            continue
        kinds = [f.ops or 0 for (layer, op), f in whole.items()
                 if layer == each.layer and op.startswith(f"{each.op}_")]  # fmt: skip
        if kinds and sum(kinds) == each.figures.ops:
            continue
        part = f" {each.part}" if each.part else ""
        yield printable(f"{each.layer} {each.op}{part}"), each.figures


def is_of(test: Test, op: str) -> bool:
    """Whether a layer's operation has a direction of the test: ``read_direct`` if it reads."""
    does_sync = bool(test.spec.sync or "sync" in test.run.fio)
    if op in _SYNCS:
        return does_sync
    wanted = {each for name in test.run.fio for each in METADATA.get(name, (name,))}
    return op.removeprefix("fault_").split("_", 1)[0] in {*wanted, *test.run.rival}


def _percent(figures: Figures) -> Iterator[str]:
    whole = sum(figures.hist)
    for count in figures.hist:
        share = count / whole * 100
        yield f"{'.' if not count else '<1' if share < 1 else f'{share:.0f}':>6}"


def test_lines(test: Test) -> Iterator[str]:
    """Format a finished test: a line for each direction, then what was found."""
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
        rates = ", ".join(f"{each.ops_per_s:,.0f}" for each in test.runs)
        yield f"  | {len(test.runs)} runs: {rates} a second; spread {test.spread_pct:.1f} %"
    if test.spec.knee_pct:
        yield f"  | {little(run, test.spec.depth_all)}"
    if test.spec.kind == "seeks" and test.spec.users > 1:
        yield f"  | {run.ops_per_s / test.spec.users:,.0f} a second for each thread"
    yield from (f"  | {printable(f'{each.kind}: {each.sentence}')}" for each in run.disturbances)
    causes = {test.verdict.sentence}
    for finding in run.findings:
        if finding.cause not in causes and finding.severity != "info":
            causes.add(finding.cause)
            yield f"  ! {printable(finding.rule)}: {printable(finding.cause)}"


def little(run: Run, depth: int) -> str:
    """Check Little's law: rate × latency must equal the number of operations in flight."""
    in_flight = sum((f.iops or 0.0) * (f.mean_us or 0.0) / 1e6 for f in run.fio.values())
    holds = "" if abs(in_flight - depth) <= _LITTLE_OFF * depth else ": fio itself was delayed"
    return f"rate × latency = {in_flight:.1f} in flight, {depth} requested{holds}"


def figures_line(name: str, op: str, figures: Figures, verdict: str = "") -> str:
    """Format one direction below HEAD: MB/s of 1,000,000 bytes, latencies in ms."""
    us = (figures.mean_us, figures.p95_us, figures.p99_us, figures.p999_us, figures.max_us)
    mb_per_s = f"{figures.bytes_per_s / 1e6:,.1f}" if figures.bytes_per_s else ""
    iops = "" if figures.iops is None else f"{figures.iops:,.0f}"
    cells = " ".join(f"{show_ms(each and each / 1000):>8}" for each in us)
    name, op = printable(name), printable(op)
    line = f"{name:<{WIDTH}} {op:<10} {mb_per_s:>8} {cells} {iops:>9}  {printable(verdict)}"
    return line.rstrip()


def show_ms(ms: float | None) -> str:
    """Format milliseconds, small ones down to the µs; "-" if unknown."""
    if ms is None:
        return "-"
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:,.0f}"
