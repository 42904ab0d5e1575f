"""A layer's findings, and its operations in the next layer: ``1 read of 1M → 8 READs of 128K``."""

from __future__ import annotations

from ioh.model.finding import Finding
from ioh.model.metric import LayerSpec
from ioh.model.sizes import Pieces, pieces_of
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import display_width, format_scaled, safe_name
from ioh.sinks.rows import all_op, direction, is_flow, main_stats
from ioh.terminal.line import Span
from ioh.tui.render.findings import reasons

_CORRESPOND = 0.1  # two layers carry the same bytes if they differ by at most this share
_RPC = "nfs_"  # layers whose operations are named as in the protocol: READ, WRITE
# Layers with a table of processes, and the names of reads and writes there.
_BY_PROCESS = {
    "syscall": ("reads", "writes"),
    "nfs_client": ("READs", "WRITEs"),
    "block": ("requests", "requests"),
}
_LEAST_FOLLOWED = 0.5  # share of the reads; fewer do not speak for the others
_LEAST = 0.005  # operations per statement: fewer round to nothing


def fan_out(snapshot: Snapshot, layer: LayerSnapshot, width: int) -> list[Span]:
    """The layer's findings, reads, then writes, as far as they fit.

    Operations are left out if their number below is unknown.
    """
    spans: list[Span] = []
    for text, style in reasons(snapshot.findings, layer.spec.name):
        width -= display_width(text)
        if width >= 0:
            spans.append((text, style))
    if layer.spec.name == "db":
        text = _of_statements(snapshot, layer, width - 2)
        return [*spans, (f" {text} ", "dim")] if text else spans
    for op, _ in main_stats(layer.spec, layer.ops):
        for text, style in becomes(snapshot, layer, op):
            width -= display_width(text)
            if width >= 0:
                spans.append((text, style))
    return spans


def becomes(snapshot: Snapshot, layer: LayerSnapshot, op: str) -> list[Span]:
    """What an op of main_stats() becomes in the next layer; nothing if that is not known."""
    stats, names = layer.ops.get(op, OpStats()), [*snapshot.measured, ""]
    below = snapshot.layer(names[names.index(layer.spec.name) + 1])
    if below is None or not stats.count or is_flow(layer.spec):
        return []
    text = _becomes(snapshot, layer, below, op, stats)
    is_found = any(_is_about(finding, layer, op) for finding in snapshot.findings)
    return [(f" {text} ", "warn" if is_found else "dim")] if text else []


def _of_statements(snapshot: Snapshot, layer: LayerSnapshot, width: int) -> str:
    """Operations per statement, by layer, of the sessions that had statements."""
    statements = {
        row.key[0]: rate
        for row in layer.rows("session")
        if (rate := row.values.get("statements_per_s"))
    }
    made: dict[str, float] = {}
    for name, nouns in _BY_PROCESS.items():
        for row in snapshot.rows(name, "process"):
            for column, noun in zip(("reads_per_s", "writes_per_s"), nouns, strict=True):
                if row.key[0] in statements and (rate := row.values.get(column)):
                    made[noun] = made.get(noun, 0.0) + rate / sum(statements.values())
    words = [_many(n, noun) for noun, n in made.items() if n >= _LEAST]
    while words and len(text := f"1 statement → {', '.join(words)}") > width:
        words.pop()
    return text if words else ""


def _is_about(finding: Finding, layer: LayerSnapshot, op: str) -> bool:
    """Whether a finding says that calls are split."""
    verb = all_op(op)
    is_here = layer.spec.name == "syscall" and finding.rule.endswith("fragmentation")
    name = f"{verb}_lower_ops_per_op"
    measured = name in layer.metrics and any(each.metric == name for each in finding.evidence)
    return (is_here and verb in finding.ways) or measured


def _many(count: float, nouns: str) -> str:
    """``8 READs``, ``1 request``, ``0.42 reads``."""
    text = format_scaled(count)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if text == "1":
        nouns = nouns.replace("s and ", " or ").removesuffix("s")
    return f"{text} {nouns}"


def _of(size: float | None) -> str:
    return f" of {format_scaled(size, 1024)}" if size else ""


def _becomes(
    snapshot: Snapshot, layer: LayerSnapshot, below: LayerSnapshot, op: str, stats: OpStats
) -> str:
    """``1 read of 1M → 8 READs of 128K``, ``2 reads of 4K → 1 request of 8K``; "" if unknown."""
    verb, name = all_op(op), _name(layer.spec, all_op(op))
    if f"{verb}_lower_ops_per_op" in layer.metrics:  # counted call by call
        made = _followed(layer, op, stats)
        if made is None:
            return ""
        nouns = _counted(snapshot, verb)
        return _arrow(f"{name}s", made, nouns)
    same = ((n, s) for n, s in main_stats(below.spec, below.ops) if direction(n) == direction(op))
    lower_name, lower = next(same, ("", OpStats()))
    above, under = stats.bytes_per_s, lower.bytes_per_s
    if not above or not under or not lower.ops_per_s or not stats.ops_per_s:
        return ""
    if abs(above - under) > _CORRESPOND * above:
        return ""
    count, nouns = lower.ops_per_s / stats.ops_per_s, _nouns(below.spec, lower_name)
    pieces = Pieces(stats.avg_bytes or 0.0, count, lower.avg_bytes or 0.0)
    return _arrow(f"{name}s", pieces, nouns)


def _arrow(names: str, made: Pieces, nouns: str) -> str:
    """Whole operations on one side: those that are merged are several, of those split is one."""
    above, below = (1.0, made.per_op) if made.per_op >= 1 else (1 / made.per_op, 1.0)
    whole = f"{_many(above, names)}{_of(made.size_bytes)}"
    return f"{whole} → {_many(below, nouns)}{_of(made.piece_bytes)}"


def _followed(layer: LayerSnapshot, op: str, stats: OpStats) -> Pieces | None:
    """What the calls became that reached a lower layer; None if unknown."""
    metrics, verb = layer.metrics, all_op(op)
    ops, moved, mean = (
        metrics.get(f"{verb}_lower_{name}") for name in ("ops_per_s", "bytes_per_s", "ops_per_op")
    )
    if not mean:
        return None
    if op == verb:  # a recording that does not tell the calls apart
        return Pieces(stats.avg_bytes or 0.0, mean, moved / ops if moved and ops else 0.0)
    if not moved or not ops:
        return None
    # Requests of fsyncs, of copies, and of writes that read first are counted with the writes'.
    others = (layer.ops.get(name, OpStats()).count for name in ("fsync", "copy"))
    has_others = verb == "write" and (any(others) or metrics.get("write_reads_per_s"))
    if has_others and abs(moved - (stats.bytes_per_s or 0.0)) > _CORRESPOND * moved:
        return None
    share = _followed_share(layer, verb, stats)
    return pieces_of(stats, ops / share, moved / share) if share else None


def _followed_share(layer: LayerSnapshot, verb: str, stats: OpStats) -> float | None:
    """Of the reads that waited, the share whose requests are counted; None if too few are.

    Not those that another thread did, as for io_uring.  Asynchronous reads are counted when they
    begin, the others when they end.
    """
    calls, cached = (layer.metrics.get(f"{verb}_calls_{name}per_s") for name in ("", "cached_"))
    if not calls or cached is None or not stats.ops_per_s:  # of writes none are cached
        return 1.0
    share = (calls - cached) / stats.ops_per_s
    return share if _LEAST_FOLLOWED <= share <= 1 / _LEAST_FOLLOWED else None


def _counted(snapshot: Snapshot, op: str) -> str:
    """The next layers' names for calls: READs of NFS, requests to a device, or both."""
    layers = (snapshot.layer(name) for name in ("nfs_client", "block"))
    remote, local = (layer.ops.get(op, OpStats()).count if layer else 0 for layer in layers)
    if not remote:
        return "requests"
    return f"{op.upper()}s and requests" if local else f"{op.upper()}s"


def _name(spec: LayerSpec, op: str) -> str:
    return op.upper() if spec.name.startswith(_RPC) else safe_name(op)


def _nouns(spec: LayerSpec, op: str) -> str:
    if is_flow(spec):
        return "segments"
    return f"{_name(spec, op)}s" if spec.name.startswith(_RPC) else "requests"
