"""Samples as OpenMetrics text with time stamps, such as ``promtool tsdb create-blocks-from`` takes.

A family's lines must stand together, and in it those of one op of one device: each family is
gathered apart, in a temporary file of its own where it is long.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import IO

from ioh.model.hist import LATENCY_EDGES_US
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, OpTotals, Sample, Value

# Field of OpTotals, name, unit, scale, and what it is since ioh attached; counters all.
_COUNTERS = (
    ("count_total", "operations", "", 1.0, "Operations that ended"),
    ("bytes_total", "bytes", "bytes", 1.0, "Bytes of operations that ended"),
    ("errors_total", "errors", "", 1.0, "Operations that failed"),
    ("queue_ns_total", "queue_seconds", "seconds", 1e-9, "Time waited before the service began"),
)


# So much of one op is held in memory before it goes to the file.
_HELD_BYTES = 4096


class _Family:
    """The lines of one family, those of each metric (by its labels) together."""

    def __init__(self, head: str) -> None:
        self._head = head
        self._held: dict[str, list[str]] = {}
        self._held_chars: dict[str, int] = {}
        self._written: dict[str, list[tuple[int, int]]] = {}  # where in the file, how many bytes
        self._file: IO[bytes] | None = None

    def add(self, metric: str, line: str) -> None:
        held = self._held.setdefault(metric, [])
        held.append(line)
        chars = self._held_chars[metric] = self._held_chars.get(metric, 0) + len(line)
        if chars < _HELD_BYTES:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        data = "".join(held).encode()
        self._written.setdefault(metric, []).append((self._file.tell(), len(data)))
        self._file.write(data)
        held.clear()
        self._held_chars[metric] = 0

    def render(self) -> Iterator[str]:
        yield self._head
        for metric, held in self._held.items():
            for at, size in self._written.get(metric, ()):
                assert self._file is not None  # noqa: S101 (it was written to)
                self._file.seek(at)
                yield self._file.read(size).decode()
            yield "".join(held)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _label(value: str) -> str:
    return printable(value).replace("\\", "\\\\").replace('"', '\\"')


def _name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def _number(value: float) -> str:
    return repr(float(value)) if isinstance(value, float) else str(value)


class OpenMetrics:
    """Gathers Samples; a context manager that removes its temporary files.

    Shape:
        ``ioh_<layer>_operations_total{host,op}`` and so on, ``part`` where it is of one device;
        ``ioh_<layer>_latency_seconds`` a histogram over the edges of the text view; metrics of
        the layer under their own names; totals since ioh attached, as Prometheus wants them.
    """

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def __enter__(self) -> OpenMetrics:  # noqa: PYI034 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        for family in self._families.values():
            family.close()

    def take(self, sample: Sample) -> None:
        """Add one sample."""
        self._now = f"{sample.time_unix_s:.3f}"
        self._host = f'host="{_label(sample.hostname)}"'
        for name, layer in sample.layers.items():
            if isinstance(layer, LayerSample):
                prefix = f"ioh_{_name(name)}"
                self._ops(prefix, layer.ops, "")
                for part, ops in layer.parts.items():
                    self._ops(prefix, ops, f',part="{_label(part)}"')
                self._metrics(prefix, sample.specs[name], layer.metrics)
                for reason, count in layer.lost.items():
                    labels = f'reason="{_label(reason)}"'
                    family = self._family(f"{prefix}_lost_events", "counter", "", "Events lost.")
                    self._line(family, f"{prefix}_lost_events_total", labels, count)

    def render(self) -> Iterator[str]:
        """The whole text in pieces, its end mark last."""
        for family in self._families.values():
            yield from family.render()
        yield "# EOF\n"

    def _family(self, name: str, kind: str, unit: str, text: str) -> _Family:
        found = self._families.get(name)
        if found is None:
            head = f"# TYPE {name} {kind}\n"
            head += f"# UNIT {name} {unit}\n" if unit else ""
            found = self._families[name] = _Family(f"{head}# HELP {name} {_label(text)}\n")
        return found

    def _line(self, family: _Family, name: str, labels: str, value: Value, le: str = "") -> None:
        if value is not None and math.isfinite(value):
            metric = f"{self._host},{labels}" if labels else self._host
            family.add(metric, f"{name}{{{metric}{le}}} {_number(value)} {self._now}\n")

    def _ops(self, prefix: str, ops: Mapping[str, OpTotals], part: str) -> None:
        for op, totals in ops.items():
            labels = f'op="{_label(op)}"{part}'
            for field, title, unit, scale, what in _COUNTERS:
                value = getattr(totals, field)
                if value is not None:
                    name = f"{prefix}_{title}"
                    family = self._family(name, "counter", unit, f"{what} since ioh attached.")
                    self._line(family, f"{name}_total", labels, value * scale)
            if totals.inflight is not None:
                name = f"{prefix}_inflight"
                family = self._family(name, "gauge", "", "Begun and not ended.")
                self._line(family, name, labels, totals.inflight)
            if totals.size_lat is not None and totals.latency_ns_total is not None:
                self._histogram(f"{prefix}_latency_seconds", labels, totals)

    def _histogram(self, name: str, labels: str, totals: OpTotals) -> None:
        family = self._family(name, "histogram", "seconds", "Time from start to end.")
        counts = totals.size_lat.by_latency() if totals.size_lat is not None else ()
        running = list(accumulate(counts))
        for edge_us, count in zip(LATENCY_EDGES_US, running, strict=False):
            self._line(family, f"{name}_bucket", labels, count, f',le="{edge_us / 1e6!r}"')
        self._line(family, f"{name}_bucket", labels, running[-1], ',le="+Inf"')
        self._line(family, f"{name}_count", labels, running[-1])
        self._line(family, f"{name}_sum", labels, (totals.latency_ns_total or 0) / 1e9)

    def _metrics(self, prefix: str, spec: LayerSpec, metrics: Mapping[str, Value]) -> None:
        for metric in spec.metrics:
            value = metrics.get(metric.name)
            if value is None or metric.kind == "ratio":
                continue
            is_counter = metric.kind == "counter"
            name = f"{prefix}_{_name(metric.name.removesuffix('_total'))}"
            if is_counter and name in {f"{prefix}_{title}" for _, title, *_ in _COUNTERS}:
                name += "_of_layer"
            family = self._family(name, "counter" if is_counter else "gauge", "", metric.help)
            self._line(family, f"{name}_total" if is_counter else name, "", value)
