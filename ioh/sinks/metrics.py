"""A layer's own numbers, and the path of an operation's time, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.model.finding import Failed
from ioh.model.io_path import IoPath, Segment
from ioh.model.path import paths_and_failures
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.cells import (
    fixed_ms,
    format_fixed,
    format_scaled,
    format_share,
    format_unit,
    safe_name,
)
from ioh.sinks.rows import format_beside, is_flow, main_stats

_LETTERS = {"read": "R", "write": "W", "sync": "S", "meta": "M", "copy": "C", "fault": "F"}
_CACHED = {"read": "cached", "write": "buffered", "meta": "cached"}


def render_metrics(layer: LayerSnapshot, width: int, *, every: bool) -> Iterator[str]:
    """A layer's own numbers that have a title, wrapped to ``width``.

    ``every``: also those that are zero or unknown.  The MB/s of a flow are always shown, as in
    ioh.sh's TCP line.
    """
    flows, items = is_flow(layer.spec), []
    if flows:
        main = reversed(main_stats(layer.spec, layer.ops))
        items = [f"{op}: {mega(stats.bytes_per_s, 8)} MB/s" for op, stats in main]
    for metric in layer.spec.metrics:
        name, title = metric.derived_name, safe_name(metric.title)
        is_rate, value = name.endswith("_bytes_per_s"), layer.metrics.get(name)
        if not title or not (value or every or (flows and is_rate)):
            continue
        if is_rate:
            items.append(f"{title.removesuffix('B/s').rstrip()}: {mega(value, 8)} MB/s")
        else:
            items.append(f"{title} {format_unit(name, title, value)}")
    line = own = safe_name(layer.spec.title)
    for number, item in enumerate(items):
        if number and len(line) + len(item) + 2 > width:
            yield line
            line = " " * len(own)
        line += f"  {item}"
    if items:
        yield line


def mega(value: Value, width: int) -> str:
    """Millions, as in MB/s."""
    return format_fixed(None if value is None else value / 1e6, width, 3)


def render_paths(snapshot: Snapshot) -> Iterator[str]:
    """One line per kind of call: the mean and its steps; then the notes."""
    by_direction, failures = paths_and_failures(snapshot)
    if by_direction:
        yield "---- path ---- (ms of the mean operation)"
    for direction, path in by_direction.items():
        steps = " + ".join(_step(path, segment) for segment in path.segments)
        yield f"{_LETTERS[direction]} |{fixed_ms(path.mean_us):>8} = {steps}"
        yield from (f"  | {safe_name(note)}" for note in path_notes(path))
    yield from map(render_failure, failures)


def render_failure(failed: Failed) -> str:
    """What ioh does not show because of a defect in it."""
    return f"! {safe_name(failed.title)} {safe_name(failed.reason)}"


def path_notes(path: IoPath) -> Iterator[str]:
    """The calls beside the path, ``+ 52.1k/s cached, 1 µs``, and what the steps cannot show."""
    if path.cached is not None:
        kind, cached = _CACHED[path.direction], path.cached
        yield format_beside(kind, cached.ops_per_s, cached.mean_us)
    if path.rpcs_per_call:
        yield f"each becomes {format_scaled(path.rpcs_per_call)} RPCs"
    yield from path.notes
    if path.size_bytes:
        yield f"mostly {format_scaled(path.size_bytes, 1024)} each"


def _step(path: IoPath, segment: Segment) -> str:
    share_pct = path.share_pct(segment)
    share = "" if share_pct is None else f" ({format_share(share_pct)})"
    return f"{segment.title} {fixed_ms(segment.us)}{share}"
