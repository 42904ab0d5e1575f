"""Snapshots as JSON, one object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias

from ioh.model.finding import Evidence, Finding, NotEvaluated
from ioh.model.hist import (
    FINE_EDGES_US,
    LATENCY_EDGES_US,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    LatencyHist,
    SizeLatencyHist,
)
from ioh.model.in_progress import oldest_us
from ioh.model.io_path import IoPath
from ioh.model.path import paths_and_failures
from ioh.model.printable import printable, printable_keys
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import HOST_NUMBERS, OP_NUMBERS, LayerSnapshot, OpStats, Snapshot, TableRow

Json: TypeAlias = "str | int | float | list[Json] | dict[str, Json] | None"

# Enough for 1 ns in every unit used (s, us, pct), and far fewer characters than repr().
_DECIMALS = 6
# Numbers of 64 bits that only name something; most readers would round them as numbers.
_IDS = frozenset({"queryid"})
_LATENCY_EDGES: tuple[int | None, ...] = (*LATENCY_EDGES_US, None)


class JsonSink:
    """Renders Snapshots as JSON lines, with ``top`` rows per breakdown; None for all."""

    def __init__(self, top: int | None = 10) -> None:
        self._top = top

    def render(self, snapshot: Snapshot) -> str:
        """One object on one line, ASCII only, for every terminal and locale."""
        return to_line(self.to_json(snapshot))

    def to_json(self, snapshot: Snapshot) -> dict[str, Json]:
        """Everything in a Snapshot, by names with units; null is not known, 0 is measured none.

        ``layers`` were measured; ``unavailable`` has the others with reason and hint.
        """
        present: dict[str, Json] = {}
        absent: dict[str, Json] = {}
        for name, layer in snapshot.layers.items():
            if isinstance(layer, Unavailable):
                absent[name] = {"reason": printable(layer.reason), "hint": printable(layer.hint)}
            else:
                present[name] = self._layer(layer)
        host: dict[str, Json] = {
            "hostname": printable(snapshot.hostname),
            "kernel": printable(snapshot.kernel),
        }
        by_kind, failures = paths_and_failures(snapshot)
        host |= {name: number_to_json(getattr(snapshot.host, name)) for name in HOST_NUMBERS}
        return {
            "time_unix_s": number_to_json(snapshot.time_unix_s),
            "interval_s": number_to_json(snapshot.interval_s),
            "host": host,
            "layers": present,
            "unavailable": absent,
            "path": {name: _path(path) for name, path in by_kind.items()},
            "findings": [_finding(finding) for finding in snapshot.findings],
            "not_evaluated": [_fields_of(each) for each in (*snapshot.not_evaluated, *failures)],
            "ioh": {
                "self_cpu_pct": number_to_json(snapshot.self_cpu_pct),
                "bpf_cpu_pct": number_to_json(snapshot.bpf_cpu_pct),
            },
        }

    def _layer(self, layer: LayerSnapshot) -> Json:
        keys = printable_keys(layer.parts)
        parts: Json = {keys[part]: _ops(ops) for part, ops in layer.parts.items()}
        top: dict[str, Json] = {}
        for table in layer.spec.tables:
            if table.name in layer.tables:
                rows = layer.tables[table.name][: self._top]
                top[table.name] = [_row(table.keys, row) for row in rows]
        return {
            "source": layer.source,
            "interval_s": number_to_json(layer.interval_s),
            "ops": {
                name: {**_op(stats), "oldest_us": number_to_json(oldest_us(layer, name))}
                for name, stats in layer.ops.items()
            },
            "metrics": {name: number_to_json(value) for name, value in layer.metrics.items()},
            "parts": {layer.spec.part: parts} if layer.spec.part else {},
            "top": top,
            "gauge_hists": {
                name: latencies_to_json(counts)
                for name, counts in layer.gauge_hists.items()
                if any(counts)
            },
            "lost": dict(layer.lost),
            "lost_pct": number_to_json(layer.lost_pct),
            "notes": [printable(note) for note in layer.notes],
        }


def to_line(line: dict[str, Json]) -> str:
    """Return the object as one line of ASCII."""
    return json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"


def _path(path: IoPath) -> Json:
    """Where the time of one direction goes; the step next to a null step includes its time."""
    cached = path.cached
    return {
        "top": path.top,
        "ops_per_s": number_to_json(path.ops_per_s),
        "mean_us": number_to_json(path.mean_us),
        "size_bytes": number_to_json(path.size_bytes),
        "rpcs_per_call": number_to_json(path.rpcs_per_call),
        "cached": None
        if cached is None
        else {
            "ops_per_s": number_to_json(cached.ops_per_s),
            "mean_us": number_to_json(cached.mean_us),
        },
        "segments": [
            {
                "name": segment.name,
                "us": number_to_json(segment.us),
                "share_pct": number_to_json(path.share_pct(segment)),
                "is_cache": segment.is_cache,
            }
            for segment in path.segments
        ],
        "notes": [printable(note) for note in path.notes],
    }


def number_to_json(value: Value) -> Json:
    """A number for JSON, which has no NaN and no infinity: those become null."""
    if not isinstance(value, float):
        return value
    return round(value, _DECIMALS) if math.isfinite(value) else None


def _finding(finding: Finding) -> Json:
    evidence: Json = [_fields_of(item) for item in finding.evidence]
    return _fields_of(finding) | {"ways": list(finding.ways), "evidence": evidence}


def _fields_of(value: Finding | Evidence | NotEvaluated) -> dict[str, Json]:
    """The fields of a dataclass except ``evidence``, as JSON."""
    values = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "evidence"}
    return {k: printable(v) if isinstance(v, str) else number_to_json(v) for k, v in values.items()}


def _row(keys: tuple[str, ...], row: TableRow) -> Json:
    texts: dict[str, Json] = {key: printable(part) for key, part in zip(keys, row.key, strict=True)}
    numbers = {name: number_to_json(value) for name, value in row.values.items()}
    for name in _IDS & numbers.keys():
        numbers[name] = None if numbers[name] is None else str(numbers[name])
    return texts | numbers


def _ops(ops: Mapping[str, OpStats]) -> Json:
    return {name: _op(stats) for name, stats in ops.items()}


def _op(stats: OpStats) -> dict[str, Json]:
    numbers: dict[str, Json] = {name: number_to_json(getattr(stats, name)) for name in OP_NUMBERS}
    if stats.size_lat is not None and stats.size_lat.total:
        numbers["hist"] = hist_to_json(stats.size_lat)
    return numbers


def hist_to_json(hist: SizeLatencyHist) -> Json:
    """The used part of a histogram, with its edges.

    Shape:
        ``counts[i][j]`` operations of at most ``size_edges_bytes[i]`` bytes that took at most
        ``latency_edges_us[j]``, and more than half of each (the very first bucket, 512 bytes or
        1 us, begins at 0).  Sizes without an operation are omitted; latencies run without a gap
        from the fastest to the slowest bucket in use.  An edge of null means "larger".
    """
    size_edges = (*SIZE_EDGES_BYTES, None)
    used_sizes = [i for i in range(SIZE_BUCKETS) if any(hist.row(i))]
    buckets = _used(hist.by_latency())
    return {
        "size_edges_bytes": [size_edges[i] for i in used_sizes],
        "latency_edges_us": list(_LATENCY_EDGES[buckets]),
        "counts": [list(hist.row(i)[buckets]) for i in used_sizes],
    }


def latencies_to_json(counts: Sequence[int]) -> Json:
    """The used part of a distribution over latency; edges as in hist_to_json()."""
    buckets = _used(counts)
    return {"latency_edges_us": list(_LATENCY_EDGES[buckets]), "counts": list(counts[buckets])}


def fine_latencies_to_json(hist: LatencyHist | None) -> Json:
    """The same for the finer one, 16 buckets per doubling; null if nothing was counted."""
    if hist is None or not hist.total:
        return None
    buckets = _used(hist.counts)
    edges = (*FINE_EDGES_US, None)
    return {"latency_edges_us": list(edges[buckets]), "counts": list(hist.counts[buckets])}


def _used(counts: Sequence[int]) -> slice:
    """The slice from the first to the last bucket in use, of which there must be one."""
    buckets = [bucket for bucket, count in enumerate(counts) if count]
    return slice(buckets[0], buckets[-1] + 1)
