"""Samples as OpenMetrics text with time stamps, such as ``promtool tsdb create-blocks-from`` takes.

A family's lines must stand together, so each family is gathered in a temporary file of its own.
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
        self._families: dict[str, IO[str]] = {}

    def __enter__(self) -> OpenMetrics:  # noqa: PYI034 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._families.values():
            file.close()

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
        for file in self._families.values():
            file.seek(0)
            while piece := file.read(1 << 16):
                yield piece
        yield "# EOF\n"

    def _family(self, name: str, kind: str, unit: str, text: str) -> IO[str]:
        file = self._families.get(name)
        if file is None:
            file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            self._families[name] = file
            file.write(f"# TYPE {name} {kind}\n")
            if unit:
                file.write(f"# UNIT {name} {unit}\n")
            file.write(f"# HELP {name} {_label(text)}\n")
        return file

    def _line(self, family: IO[str], name: str, labels: str, value: Value) -> None:
        if value is not None and math.isfinite(value):
            both = f"{self._host},{labels}" if labels else self._host
            family.write(f"{name}{{{both}}} {_number(value)} {self._now}\n")

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
            self._line(family, f"{name}_bucket", f'{labels},le="{edge_us / 1e6!r}"', count)
        self._line(family, f"{name}_bucket", f'{labels},le="+Inf"', running[-1])
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
