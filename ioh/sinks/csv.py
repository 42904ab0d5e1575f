"""Snapshots as tidy CSV: one number per line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from ioh.model.printable import printable
from ioh.model.sample import Value
from ioh.model.snapshot import HOST_NUMBERS, OP_NUMBERS, LayerSnapshot, Snapshot

HEADER = ("time", "layer", "op", "metric", "value")
# With a Japanese locale, spreadsheets accept the full-width forms too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_DECIMALS = 6


def guarded(name: str) -> str:
    """Make a name safe for spreadsheets (formulas) and terminals (escapes)."""
    safe = printable(name)
    return "'" + safe if safe.startswith(_FORMULA) else safe


class CsvSink:
    """Renders Snapshots as CSV lines, with one heading.

    ``time`` is in Unix seconds; ``layer`` is ``host`` for the machine itself; ``op`` is empty for a
    layer's own metrics, ``part/op`` for a device or mount.  Unknown numbers have no line.
    """

    def __init__(self) -> None:
        self._begun = False

    def render(self, snapshot: Snapshot) -> str:
        """The lines of one interval."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if not self._begun:
            self._begun = True
            writer.writerow(HEADER)
        now = round(snapshot.time_unix_s, _DECIMALS)
        for layer, op, metric, value in _numbers(snapshot):
            if value is not None and math.isfinite(value):
                number = round(value, _DECIMALS) if isinstance(value, float) else value
                writer.writerow((now, layer, op, metric, number))
        return out.getvalue()


def _numbers(snapshot: Snapshot) -> Iterator[tuple[str, str, str, Value]]:
    yield "host", "", "interval_s", snapshot.interval_s
    for name in HOST_NUMBERS:
        yield "host", "", name, getattr(snapshot.host, name)
    for layer, each in snapshot.layers.items():
        if not isinstance(each, LayerSnapshot):
            continue
        title = guarded(layer)
        yield title, "", "interval_s", each.interval_s
        ops_of = [(op, stats) for op, stats in each.ops.items()]
        for part, ops in each.parts.items():
            ops_of += [(f"{part}/{op}", stats) for op, stats in ops.items()]
        for op, stats in ops_of:
            for field in OP_NUMBERS:
                yield title, guarded(op), field, getattr(stats, field)
        for metric, value in each.metrics.items():
            yield title, "", guarded(metric), value
        for reason, count in each.lost.items():
            yield title, "", guarded(f"lost_{reason}"), count
