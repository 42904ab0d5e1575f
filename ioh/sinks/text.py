"""Scrolling text: a block for each Snapshot, in the style of ioh.sh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ioh.model.failures import Failure, failures, summed
from ioh.model.finding import Failed
from ioh.model.io_path import META
from ioh.model.rates import scaled
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import (
    UNKNOWN,
    ZERO,
    clock,
    format_fixed,
    format_scaled,
    format_unit,
    pad_left,
    safe_name,
)
from ioh.sinks.findings import (
    render_advice,
    render_evidence,
    render_headline,
    render_not_evaluated,
)
from ioh.sinks.histogram import HistRow, HistStyle, render_by_size, render_columns
from ioh.sinks.metrics import mega, render_failure, render_metrics, render_paths
from ioh.sinks.rows import OpRow, lowest_iops, op_rows
from ioh.sinks.tables import render_table
from ioh.sinks.waits import render_waits

LEGEND = """\
# MB = 1,000,000 bytes, kb = 1,024 bytes; MB/s and count/s are per second.
# . none   - not known, or too few to tell   R reads  W writes  M metadata
# p99_ms: 99 % took at most this long.  max_ms: the slowest operation;
# mx_sz_kb: its size.  infl: in flight at the end of the interval.
"""
LEGEND_HIST = """\
# Histograms count operations in the whole interval, not per second.  A column
# has times up to its heading and above the one before: u .001 ms, m ms, s 1 s.
"""
_MIN_LABEL = 8
_MOST_FAILED = 4
_DIRECTIONS = ("R", "W", "")


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What to print.

    Shape:
        ``sections`` by name; ``top`` rows per breakdown and direction, None for all;
        ``hist.width`` is that of the terminal; ``utc`` instead of local time.
    """

    sections: frozenset[str] = frozenset()
    top: int | None = 5
    hist: HistStyle = field(default_factory=HistStyle)
    utc: bool = False

    def shows(self, section: str) -> bool:
        """Whether a section was requested, by its name or by ``all``."""
        return section in self.sections or "all" in self.sections


class TextSink:
    """Renders Snapshots as text; remembers the lines that are printed only once.

    ``with_legend``: begin the first interval with the legend.
    """

    def __init__(self, options: TextOptions | None = None, *, with_legend: bool = True) -> None:
        self._options = options or TextOptions()
        self._shows, self._width = self._options.shows, self._options.hist.width
        self._with_legend = with_legend
        self._notes: set[str] = set()

    def render(self, snapshot: Snapshot) -> str:
        """One interval, followed by an empty line."""
        every = "all" in self._options.sections
        lines = self._legend()
        lines += _header(snapshot, utc=self._options.utc)
        lines += self._remarks(snapshot)
        layers = [x for x in snapshot.layers.values() if isinstance(x, LayerSnapshot)]
        rows: list[OpRow] = []
        for layer in layers:
            lines += render_metrics(layer, self._width, every=every)
            rows += op_rows(layer.spec, layer.ops, safe_name(layer.spec.title), every_op=every)
        lines += _render_rows(rows)
        if self._shows("path"):
            for line in render_paths(snapshot):
                lines += self._once(line) if line.startswith("!") else [line]
        lines += self._histograms(rows, layers, snapshot.interval_s)
        for layer in layers:
            lines += self._parts(layer)
        for layer in layers:
            lines += self._tables(layer)
        lines += self._findings(snapshot)
        lines.append(_footer(snapshot, layers))
        return "\n".join(lines) + "\n\n"

    def _once(self, text: str) -> list[str]:
        if text in self._notes:
            return []
        self._notes.add(text)
        return [text]

    def _legend(self) -> list[str]:
        if not self._with_legend:
            return []
        wants_hist = any(map(self._shows, ("hist", "histsz", "histszw")))
        return self._once((LEGEND + (LEGEND_HIST if wants_hist else "")).rstrip("\n"))

    def _remarks(self, snapshot: Snapshot) -> Iterator[str]:
        """What is missing or inexact and why; the sources, if not only BPF."""
        sources: dict[str, list[str]] = {}
        for name, layer in snapshot.layers.items():
            title = safe_name(snapshot.title(name))
            if isinstance(layer, LayerSnapshot):
                if sum(layer.lost.values()):
                    yield render_lost(title, layer)
                if failed := failures(layer):
                    yield _render_failures(title, failed)
                yield from render_waits(title, layer)
                for note in layer.notes:
                    yield from self._once(f"# {title}: {safe_name(note)}")
                sources.setdefault(layer.source, []).append(title)
            elif layer.is_idle:
                yield from self._once(f"# {title}: {safe_name(layer.reason)}")
            else:
                yield f"! {title} not shown: {safe_name(layer.reason)}"
                if layer.hint:
                    yield from self._once(f"!   {title}: {safe_name(layer.hint)}")
        if set(sources) - {"bpf"}:
            listed = (f"{safe_name(source)}: {', '.join(of)}" for source, of in sources.items())
            yield f"source {'; '.join(listed)}"

    def _findings(self, snapshot: Snapshot) -> Iterator[str]:
        """The findings, with their advice the first time."""
        in_full = self._shows("findings")
        titles = {name: spec.title for name, spec in snapshot.specs.items()}
        for finding in snapshot.findings:
            yield from render_headline(finding, self._width)
            if in_full:
                yield from render_evidence(finding, titles, self._width, utc=self._options.utc)
            key = f"{finding.rule} {finding.subject} {finding.since_unix_s}"
            if self._once(key) or in_full:
                yield from render_advice(finding, self._width)
        for rule in snapshot.not_evaluated:
            if isinstance(rule, Failed):
                yield from self._once(render_failure(replace(rule, title=f"rule {rule.rule}")))
        if in_full:
            yield from render_not_evaluated(snapshot.not_evaluated, self._width)

    def _histograms(
        self, rows: list[OpRow], layers: list[LayerSnapshot], interval_s: float
    ) -> Iterator[str]:
        style = self._options.hist
        period = f"counts over {interval_s:.3f} s"
        if self._shows("hist"):
            yield f"---- histograms ---- ({period})"
            yield from _latencies(rows, style)
            for layer in layers:
                yield from _gauge_hists(layer, style)
        for section, where, verb in (("histsz", "R", "reads"), ("histszw", "W", "writes")):
            if not self._shows(section):
                continue
            yield f"---- latency by size, {verb} ---- ({period})"
            for row in rows:
                hist = row.stats.size_lat
                if row.is_main and row.direction == where and hist is not None and hist.total:
                    yield f"{where} {row.label}"
                    yield from render_by_size(where, hist, style)

    def _parts(self, layer: LayerSnapshot) -> Iterator[str]:
        if not (layer.parts and self._shows("parts")):
            return
        what = f"{layer.spec.title} by {layer.spec.part}"
        yield f"---- {safe_name(what)} ---- (per second)"
        rows: list[OpRow] = []
        for part, ops in layer.parts.items():
            rows += op_rows(layer.spec, ops, safe_name(part, 24), every_op=True)
        yield from _render_rows([row for row in rows if row.stats.count or row.stats.inflight])

    def _tables(self, layer: LayerSnapshot) -> Iterator[str]:
        for table in layer.spec.tables:
            is_files = "path" in table.keys or table.name.startswith("file")
            if not (self._shows("top") or (is_files and self._shows("topfile"))):
                continue
            rows, top = layer.tables.get(table.name, ()), self._options.top
            if lines := render_table(table, rows, top=top, width=self._width):
                title = f"{safe_name(layer.spec.title)} {safe_name(table.title)}"
                yield f"---- top {title} ---- (per second)"
                yield from lines


def _header(snapshot: Snapshot, *, utc: bool) -> Iterator[str]:
    """The lines with date, host, CPU, memory and pressure."""
    when = time.gmtime(snapshot.time_unix_s) if utc else time.localtime(snapshot.time_unix_s)
    day = f"{when.tm_mday}/{when.tm_mon}/{when.tm_year} {clock(snapshot.time_unix_s, utc=utc)}"
    yield f"date: {int(snapshot.time_unix_s)} , {day}  interval {snapshot.interval_s:.3f} s"
    host = snapshot.host
    cpu = f"cpu {_pct(host.cpu_pct)}  iowait {_pct(host.iowait_pct)}"
    if host.steal_pct:
        cpu += f"  steal {_pct(host.steal_pct)}"
    load = format_fixed(host.load1, 6, 2)
    yield f"{safe_name(snapshot.hostname)}  {safe_name(snapshot.kernel)}  {cpu}  load {load}"
    limit = format_scaled(host.dirty_limit_bytes, 1024)
    yield (
        f"dirty {format_scaled(host.dirty_bytes, 1024)} of {limit}"
        f"  writeback {format_scaled(host.writeback_bytes, 1024)}"
        f"  available {format_scaled(host.mem_available_bytes, 1024)}"
        f"  io pressure some {_pct(host.psi_io_some_pct)} full {_pct(host.psi_io_full_pct)}"
    )


def _pct(value: Value) -> str:
    return format_unit("_pct", "", value)


def render_lost(title: str, layer: LayerSnapshot) -> str:
    """Events that a probe saw but could not count, by reason."""
    counts = {safe_name(reason): count for reason, count in layer.lost.items() if count}
    listed = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    reasons = listed if len(counts) > 1 else "".join(counts)
    share = "" if layer.lost_pct is None else f" ({_pct(layer.lost_pct)})"
    count = sum(layer.lost.values())
    return f"! {title}: {count} event{'s' * (count != 1)} not measured{share}: {reasons}"


def _render_failures(title: str, failed: list[Failure]) -> str:
    """What failed most; direct and buffered reads together."""
    kinds = summed(each._replace(op=each.word) for each in failed)
    kinds.sort(key=lambda kind: -kind.number)
    most = (safe_name(str(kind)) for kind in kinds[:_MOST_FAILED])
    more = f", and {len(kinds) - _MOST_FAILED} more" if len(kinds) > _MOST_FAILED else ""
    return f"! {title}: {', '.join(most)}{more}"


_COLUMNS = (
    ("MB/s", 8),
    ("avg_ms", 7),
    ("avg_sz_kb", 9),
    ("count/s", 7),
    ("p99_ms", 6),
    ("max_ms", 6),
    ("mx_sz_kb", 8),
    ("infl", 4),
)
_HEADS = "".join(f"|{title:>{width}}" for title, width in _COLUMNS)
_RULES = "".join("|" + "-" * width for _, width in _COLUMNS)
_CELLS = "".join(f"|%{width}s" for _, width in _COLUMNS)


def _numbers(stats: OpStats) -> tuple[str, ...]:
    """The cells of one op; if its count is 0, unknown numbers are ``.`` too."""
    rate = stats.ops_per_s
    cells = (
        mega(stats.bytes_per_s, 8),
        format_fixed(scaled(stats.latency_us, 1e-3), 7, 4),
        format_fixed(scaled(stats.avg_bytes, 1 / 1024), 9, 3),
        format_fixed(rate, 7, 0 if rate is not None and rate >= 100 else 1),
        format_fixed(scaled(stats.p99_us, 1e-3), 6, 4),
        format_fixed(scaled(stats.max_us, 1e-3), 6, 4),
        format_fixed(scaled(stats.max_bytes, 1 / 1024), 8, 3),
        format_fixed(stats.inflight, 4, 0),
    )
    return tuple(ZERO if stats.count == 0 and text == UNKNOWN else text for text in cells)


def _render_rows(rows: list[OpRow]) -> Iterator[str]:
    """The table of layers: reads, then writes, then everything else."""
    label_width = max([_MIN_LABEL, *(len(row.label) for row in rows)])
    yield " " * (label_width + 4) + _HEADS
    yield "-" * (label_width + 4) + _RULES
    blocks = ([row for row in rows if row.direction == where] for where in _DIRECTIONS)
    for number, block in enumerate(filter(None, blocks)):
        if number:
            yield "-"
        for row in block:
            cells = _CELLS % _numbers(row.stats)
            letter = "M" if row.op == META else row.direction or " "
            yield f"{letter} |{pad_left(row.label, label_width)}:{cells}"


def _latencies(rows: list[OpRow], style: HistStyle) -> list[str]:
    width = max([_MIN_LABEL, *(len(row.label) for row in rows)])
    hists = []
    for row in sorted(rows, key=lambda row: _DIRECTIONS.index(row.direction)):
        hist = row.stats.size_lat
        nothing = () if row.stats.count == 0 else None
        counts = nothing if hist is None else hist.by_latency()
        hists.append(HistRow(f"{row.direction or ' '} {pad_left(row.label, width)}", counts))
    return render_columns(pad_left("area", width + 2), hists, style) if hists else []


def _gauge_hists(layer: LayerSnapshot, style: HistStyle) -> Iterator[str]:
    """Distributions of current values, such as connections by round-trip time."""
    head = " " * (_MIN_LABEL + 2)
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name)
        if counts is not None and any(counts):
            what = f"{spec.title or spec.name}, now: {spec.help}"
            yield f"{safe_name(layer.spec.title)} {safe_name(what)}"
            yield from render_columns(head, [HistRow(head, counts)], style)


def _footer(snapshot: Snapshot, layers: list[LayerSnapshot]) -> str:
    """IOPS (reads and writes) of the lowest layer that counts them, and ioh's own cost."""
    iops = lowest_iops(layers)
    total = UNKNOWN if iops is None else f"{format_fixed(iops[0], 10, 0)} ({iops[1]})"
    cost = f"ioh cpu {_pct(snapshot.self_cpu_pct)} probes {_pct(snapshot.bpf_cpu_pct)} of one core"
    return f"IOPs {total}   {cost}"
