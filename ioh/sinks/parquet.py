"""Snapshots as a Parquet file; the only module that uses pyarrow, which is optional."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from typing import get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from ioh.model.hist import FINE_EDGES_US, LatencyHist
from ioh.model.in_progress import oldest_us
from ioh.model.printable import printable, printable_keys
from ioh.model.sample import Value
from ioh.model.snapshot import HOST_NUMBERS, OP_NUMBERS, LayerSnapshot, OpStats, Snapshot

# A row group stays in memory: at most this many rows, and buckets of their histograms.
GROUP_ROWS, GROUP_BUCKETS = 1 << 15, 1 << 18
_MOST_COUNT = 1 << 63
_EDGES_US = (*FINE_EDGES_US, math.inf)
_HINTS = get_type_hints(OpStats)
SCHEMA = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        **dict.fromkeys(("host", "layer", "part", "op"), pa.string()),
        "interval_s": pa.float64(),
        **{name: pa.int64() if _HINTS[name] == int | None else pa.float64() for name in OP_NUMBERS},
        "oldest_us": pa.float64(),
        "latency_hist": pa.list_(pa.struct({"le_us": pa.float64(), "operations": pa.int64()})),
        "metrics": pa.map_(pa.string(), pa.float64()),
    }
)

_Pairs = list[tuple[float, int]] | list[tuple[str, float]] | None
_Cell = Value | str | _Pairs
_NO_OP = (None,) * (len(OP_NUMBERS) + 2)


class ParquetSink:
    """Renders Snapshots as pieces of one Parquet file, compressed by zstd.

    Shape:
        One row per time, host, layer, part and op.  ``part`` is "" for the whole layer.  ``op`` is
        "" for a layer's own numbers, which ``metrics`` has by name; layer ``host`` is the machine.
        ``latency_hist`` has the buckets in use, each with its upper edge, the last one infinite;
        unlike percentiles, they can be summed over rows.  Null is not known, 0 is measured none.

    Units:
        ``time`` in UTC; all others as the names say.
    """

    def __init__(self) -> None:
        self._buffer = io.BytesIO()  # bytes not yet returned
        file = pa.PythonFile(self._buffer, mode="w")  # keeps its own position
        self._writer = pq.ParquetWriter(file, SCHEMA, compression="zstd")
        self._rows: list[tuple[_Cell, ...]] = []
        self._buckets = 0

    def render(self, snapshot: Snapshot) -> bytes:
        """The next bytes of the file; none until a row group is full."""
        for row in _rows(snapshot):
            self._rows.append(row)
            self._buckets += len(row[-2]) if isinstance(row[-2], list) else 0
            if len(self._rows) >= GROUP_ROWS or self._buckets >= GROUP_BUCKETS:
                self._write_group()
        return self._take()

    def finish(self) -> bytes:
        """The rest of the file, with the footer that readers need."""
        self._write_group()
        self._writer.close()
        return self._take()

    def _take(self) -> bytes:
        data = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return data

    def _write_group(self) -> None:
        if self._rows:
            columns = map(pa.array, zip(*self._rows, strict=True), SCHEMA.types)
            self._writer.write_table(pa.Table.from_arrays(list(columns), schema=SCHEMA))
            self._rows.clear()
            self._buckets = 0


def _rows(snapshot: Snapshot) -> Iterator[tuple[_Cell, ...]]:
    """The rows of an interval, in the order of SCHEMA."""
    when = (round(snapshot.time_unix_s * 1e6), printable(snapshot.hostname))
    machine = {name: getattr(snapshot.host, name) for name in HOST_NUMBERS}
    yield (*when, "host", "", "", snapshot.interval_s, *_NO_OP, _known(machine))
    for name, layer in snapshot.layers.items():
        if not isinstance(layer, LayerSnapshot):
            continue
        key = (*when, printable(name))
        lost = {f"lost_{reason}": count for reason, count in layer.lost.items()}
        metrics = _known({**layer.metrics, **lost})
        yield (*key, "", "", layer.interval_s, *_NO_OP, metrics)
        names = printable_keys(layer.parts)
        parts = {names[part]: ops for part, ops in layer.parts.items()}
        for part, ops in [("", layer.ops), *parts.items()]:
            for op, stats in ops.items():
                numbers = (_sane(getattr(stats, number)) for number in OP_NUMBERS)
                of = (part, printable(op), layer.interval_s)
                age_us = None if part else _sane(oldest_us(layer, op))
                yield (*key, *of, *numbers, age_us, _in_use(stats.latency), None)


def _sane(value: Value) -> Value:
    """The number if a column can hold it, else None: a forged recording may have others."""
    is_sane = value is not None and math.isfinite(value) and abs(value) < _MOST_COUNT
    return value if is_sane else None


def _known(metrics: Mapping[str, Value]) -> list[tuple[str, float]]:
    names = printable_keys(metrics)
    sane = ((names[name], _sane(value)) for name, value in metrics.items())
    return [(name, float(value)) for name, value in sane if value is not None]


def _in_use(hist: LatencyHist | None) -> list[tuple[float, int]] | None:
    if hist is None:
        return None
    pairs = zip(_EDGES_US, hist.counts, strict=False)
    return [(edge_us, count) for edge_us, count in pairs if 0 < count < _MOST_COUNT]
