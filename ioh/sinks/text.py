"""The classic scrolling output: a block of text for each Snapshot, in ioh.sh's manner."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import (
    UNKNOWN,
    ZERO,
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
from ioh.sinks.metrics import mega, render_metrics
from ioh.sinks.path import render_paths
from ioh.sinks.rows import OpRow, main_stats, op_rows
from ioh.sinks.tables import render_table

SECTIONS = {
    "hist": "latency histogram of each layer's reads and writes",
    "histsz": "latency by size, reads",
    "histszw": "latency by size, writes",
    "topfile": "the busiest files",
    "top": "the busiest processes, files, mounts, connections and devices",
    "path": "where the time of a read, a write and a sync goes, layer by layer",
    "parts": "each device or mount alone, every kind of operation",
    "findings": "the evidence of each finding, and rules that could not be checked",
    "all": "all of these",
}

LEGEND = """\
# MB = 1,000,000 bytes, kb = 1,024 bytes; MB/s and count/s are per second.
# . none   - not known, or too few operations to tell   R reads  W writes
# p99_ms: 99 % took at most this long.  max_ms: the slowest operation;
# mx_sz_kb: its size.  infl: begun, not completed, at this moment.
"""
LEGEND_HIST = """\
# Histograms count operations of the whole interval, not per second.  A column
# holds times up to its heading and above the one before: u .001 ms, m ms, s 1 s.
"""
_MIN_LABEL = 8


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What to print.

    Shape:
        ``sections`` of SECTIONS; ``top`` rows of each breakdown and direction, None for all;
        ``hist`` also says how wide the terminal is; ``utc`` instead of local time.
    """

    sections: frozenset[str] = frozenset()
    top: int | None = 5
    hist: HistStyle = field(default_factory=HistStyle)
    utc: bool = False

    def shows(self, section: str) -> bool:
        """Whether a section was asked for, by its name or by ``all``."""
        return section in self.sections or "all" in self.sections


class TextSink:
    """Renders Snapshots as text; remembers only what need not be said twice.

    Args:
        options: What to print.
        with_legend: Whether the first interval begins with it.
    """

    def __init__(self, options: TextOptions | None = None, *, with_legend: bool = True) -> None:
        self._options = options or TextOptions()
        self._with_legend = with_legend
        self._said: set[str] = set()

    def render(self, snapshot: Snapshot) -> str:
        """One interval, ending in an empty line; the first one begins with a legend."""
        lines = self._legend()
        lines += render_header(snapshot, utc=self._options.utc)
        lines += self._remarks(snapshot)
        layers = [x for x in snapshot.layers.values() if isinstance(x, LayerSnapshot)]
        for layer in layers:
            every = "all" in self._options.sections
            lines += render_metrics(layer, self._options.hist.width, every=every)
        rows = [row for layer in layers for row in self._rows(layer)]
        lines += render_rows(rows)
        if self._options.shows("path"):
            lines += render_paths(snapshot)
        lines += self._histograms(rows, layers, snapshot.interval_s)
        for layer in layers:
            lines += self._parts(layer)
        if self._options.shows("top") or self._options.shows("topfile"):
            for layer in layers:
                lines += self._tables(layer)
        lines += self._findings(snapshot)
        lines.append(render_footer(snapshot, layers))
        return "\n".join(lines) + "\n\n"

    def _once(self, text: str) -> list[str]:
        if text in self._said:
            return []
        self._said.add(text)
        return [text]

    def _legend(self) -> list[str]:
        if not self._with_legend:
            return []
        wants_hist = any(map(self._options.shows, ("hist", "histsz", "histszw")))
        return self._once((LEGEND + (LEGEND_HIST if wants_hist else "")).rstrip("\n"))

    def _remarks(self, snapshot: Snapshot) -> Iterator[str]:
        """What is not shown, not counted or not exact, and why."""
        for name, layer in snapshot.layers.items():
            title = safe_name(_title(snapshot.specs.get(name), name))
            if isinstance(layer, Unavailable) and layer.is_idle:
                yield from self._once(f"# {title}: {safe_name(layer.reason)}")
                continue
            if isinstance(layer, Unavailable):
                yield f"! {title} not shown: {safe_name(layer.reason)}"
                if layer.hint:
                    yield from self._once(f"!   {title}: {safe_name(layer.hint)}")
                continue
            if sum(layer.lost.values()):
                yield render_lost(title, layer)
            for note in layer.notes:
                yield from self._once(f"# {title}: {safe_name(note)}")
        yield from _render_sources(snapshot)

    def _rows(self, layer: LayerSnapshot) -> list[OpRow]:
        title = safe_name(layer.spec.title)
        return op_rows(layer.spec, layer.ops, title, every_op="all" in self._options.sections)

    def _findings(self, snapshot: Snapshot) -> Iterator[str]:
        """What is wrong, and, when it is first said, what to do about it."""
        width, utc = self._options.hist.width, self._options.utc
        titles = {name: spec.title for name, spec in snapshot.specs.items()}
        for finding in snapshot.findings:
            yield from render_headline(finding, width)
            if self._options.shows("findings"):
                yield from render_evidence(finding, titles, width, utc=utc)
            key = f"{finding.rule} {finding.subject} {finding.since_unix_s}"
            if self._once(key) or self._options.shows("findings"):
                yield from render_advice(finding, width)
        if self._options.shows("findings"):
            yield from render_not_evaluated(snapshot.not_evaluated, width)

    def _histograms(
        self, rows: list[OpRow], layers: list[LayerSnapshot], interval_s: float
    ) -> Iterator[str]:
        style = self._options.hist
        period = f"counts over {interval_s:.3f} s"
        if self._options.shows("hist"):
            yield f"---- histograms ---- ({period})"
            yield from _render_latencies(rows, style)
            for layer in layers:
                yield from _render_gauge_hists(layer, style)
        for section, where, verb in (("histsz", "R", "reads"), ("histszw", "W", "writes")):
            if not self._options.shows(section):
                continue
            yield f"---- latency by size, {verb} ---- ({period})"
            for row in rows:
                hist = row.stats.size_lat
                if row.is_main and row.direction == where and hist is not None and hist.total:
                    yield f"{where} {row.label}"
                    yield from render_by_size(where, hist, style)

    def _parts(self, layer: LayerSnapshot) -> Iterator[str]:
        if not (layer.parts and self._options.shows("parts")):
            return
        what = f"{layer.spec.title} by {layer.spec.part}"
        yield f"---- {safe_name(what)} ---- (per second)"
        rows: list[OpRow] = []
        for part, ops in layer.parts.items():
            rows += op_rows(layer.spec, ops, safe_name(part, 24), every_op=True)
        yield from render_rows([row for row in rows if row.stats.count or row.stats.inflight])

    def _tables(self, layer: LayerSnapshot) -> Iterator[str]:
        for table in layer.spec.tables:
            is_files = "path" in table.keys or table.name.startswith("file")
            if not (self._options.shows("top") or (is_files and self._options.shows("topfile"))):
                continue
            lines = render_table(
                table,
                layer.tables.get(table.name, ()),
                top=self._options.top,
                width=self._options.hist.width,
            )
            if lines:
                title = f"{safe_name(layer.spec.title)} {safe_name(table.title)}"
                yield f"---- top {title} ---- (per second)"
                yield from lines


def _title(spec: LayerSpec | None, name: str) -> str:
    return spec.title if spec else name


def render_header(snapshot: Snapshot, *, utc: bool = False) -> Iterator[str]:
    """Date, host, CPU, memory and pressure."""
    when = time.gmtime(snapshot.time_unix_s) if utc else time.localtime(snapshot.time_unix_s)
    clock = f"{when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02}"
    day = f"{when.tm_mday}/{when.tm_mon}/{when.tm_year}"
    yield f"date: {int(snapshot.time_unix_s)} , {day} {clock}  interval {snapshot.interval_s:.3f} s"
    host = snapshot.host
    yield f"{safe_name(snapshot.hostname)}  {safe_name(snapshot.kernel)}  {_render_cpu(host)}"
    limit = format_scaled(host.dirty_limit_bytes, 1024)
    yield (
        f"dirty {format_scaled(host.dirty_bytes, 1024)} of {limit}"
        f"  writeback {format_scaled(host.writeback_bytes, 1024)}"
        f"  available {format_scaled(host.mem_available_bytes, 1024)}"
        f"  io pressure some {_pct(host.psi_io_some_pct)} full {_pct(host.psi_io_full_pct)}"
    )


def _render_cpu(host: HostStats) -> str:
    shown = [f"cpu {_pct(host.cpu_pct)}", f"iowait {_pct(host.iowait_pct)}"]
    if host.steal_pct:
        shown.append(f"steal {_pct(host.steal_pct)}")
    return "  ".join([*shown, f"load {format_fixed(host.load1, 6, 2)}"])


def _pct(value: Value) -> str:
    return format_unit("_pct", "", value)


def render_lost(title: str, layer: LayerSnapshot) -> str:
    """Events that a probe saw and could not account for, by reason."""
    counts = {safe_name(reason): count for reason, count in layer.lost.items() if count}
    listed = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    reasons = listed if len(counts) > 1 else "".join(counts)
    share = "" if layer.lost_pct is None else f" ({_pct(layer.lost_pct)})"
    count = sum(layer.lost.values())
    return f"! {title}: {count} event{'s' * (count != 1)} not measured{share}: {reasons}"


def _render_sources(snapshot: Snapshot) -> Iterator[str]:
    """Who counted, unless it was the probes everywhere."""
    sources: dict[str, list[str]] = {}
    for layer in snapshot.layers.values():
        if isinstance(layer, LayerSnapshot):
            sources.setdefault(layer.source, []).append(safe_name(layer.spec.title))
    if set(sources) - {"bpf"}:
        listed = "; ".join(
            f"{safe_name(source)}: {', '.join(names)}" for source, names in sources.items()
        )
        yield f"source {listed}"


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


_IDLE = (ZERO,) * (len(_COLUMNS) - 1)


def format_op(stats: OpStats) -> tuple[str, ...]:
    """The numbers of one op, in the order of the columns.

    Returns:
        An average or a maximum over no operation is ``.`` when the count is known to be 0.
    """
    idle = stats.count == 0
    if idle and not stats.bytes:
        return (*_IDLE, ZERO if stats.inflight is None else format_fixed(stats.inflight, 4, 0))
    rate = stats.ops_per_s
    shown = (
        mega(stats.bytes_per_s, 8),
        _scaled(stats.latency_us, 1e-3, 7, 4),
        _scaled(stats.avg_bytes, 1 / 1024, 9, 3),
        format_fixed(rate, 7, 0 if rate is not None and rate >= 100 else 1),
        _scaled(stats.p99_us, 1e-3, 6, 4),
        _scaled(stats.max_us, 1e-3, 6, 4),
        _scaled(stats.max_bytes, 1 / 1024, 8, 3),
        format_fixed(stats.inflight, 4, 0),
    )
    return tuple(ZERO if idle and text == UNKNOWN else text for text in shown)


def _scaled(value: Value, scale: float, width: int, decimals: int) -> str:
    return format_fixed(None if value is None else value * scale, width, decimals)


_HEADS = "".join(f"|{title:>{width}}" for title, width in _COLUMNS)
_RULES = "".join("|" + "-" * width for _, width in _COLUMNS)
_CELLS = "".join(f"|%{width}s" for _, width in _COLUMNS)


def render_rows(rows: Iterable[OpRow]) -> Iterator[str]:
    """The table of layers: reads, then writes, then everything else."""
    ordered = list(rows)
    label_width = max([_MIN_LABEL, *(len(row.label) for row in ordered)])
    yield " " * (label_width + 4) + _HEADS
    yield "-" * (label_width + 4) + _RULES
    begun = False
    for where in ("R", "W", ""):
        block = [row for row in ordered if row.direction == where]
        if block and begun:
            yield "-"
        begun = begun or bool(block)
        for row in block:
            cells = _CELLS % format_op(row.stats)
            yield f"{where or ' '} |{pad_left(row.label, label_width)}:{cells}"


def _render_latencies(rows: list[OpRow], style: HistStyle) -> list[str]:
    width = max([_MIN_LABEL, *(len(row.label) for row in rows)])
    ordered = sorted(rows, key=lambda row: ("R", "W", "").index(row.direction))
    hists = [
        HistRow(
            f"{row.direction or ' '} {pad_left(row.label, width)}",
            _by_latency(row.stats),
        )
        for row in ordered
    ]
    return render_columns(pad_left("area", width + 2), hists, style) if hists else []


def _render_gauge_hists(layer: LayerSnapshot, style: HistStyle) -> Iterator[str]:
    """Distributions of things as they are now, such as connections by round-trip time."""
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name)
        if counts is not None and any(counts):
            what = f"{spec.title or spec.name}, now: {spec.help}"
            yield f"{safe_name(layer.spec.title)} {safe_name(what)}"
            yield from render_columns(
                " " * (_MIN_LABEL + 2), [HistRow(" " * (_MIN_LABEL + 2), counts)], style
            )


def _by_latency(stats: OpStats) -> tuple[int, ...] | None:
    if stats.size_lat is not None:
        return stats.size_lat.by_latency()
    return () if stats.count == 0 else None


def render_footer(snapshot: Snapshot, layers: list[LayerSnapshot]) -> str:
    """Reads plus writes a second of the lowest layer that counts them, and ioh's own cost."""
    total = UNKNOWN
    for layer in sorted(layers, key=lambda layer: -layer.spec.rank):
        rates = [stats.ops_per_s for _, stats in main_stats(layer.spec, layer.ops)]
        known = [rate for rate in rates if rate is not None]
        if known:
            total = f"{format_fixed(sum(known), 10, 0)} ({safe_name(layer.spec.title)})"
            break
    cost = f"ioh cpu {_pct(snapshot.self_cpu_pct)} probes {_pct(snapshot.bpf_cpu_pct)} of one core"
    return f"IOPs {total}   {cost}"
