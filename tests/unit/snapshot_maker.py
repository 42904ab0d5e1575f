"""Snapshots of the real layers to test rules on, from a few numbers or at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any

from ioh.findings.engine import Engine
from ioh.layers import all_layers
from ioh.model.finding import Finding
from ioh.model.hist import FINE_BUCKETS, LatencyHist, fine_index
from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot, TableRow

SPECS = {name: layer.spec for name, layer in all_layers().items()}
START_S = 1_700_000_000.0
Layers = Mapping[str, LayerSnapshot | Unavailable]
_INTS = frozenset({"count", "bytes", "max_bytes", "inflight"})
_VALUES: tuple[Value, ...] = (None, 0, 1, 0.5, 7, 95.0, 1000, 33.3e3, 1e6, 250e6, 1 << 40)


def op(
    ops_per_s: float, avg_bytes: float, latency_us: float, interval_s: float = 1.0, **more: Any
) -> OpStats:
    """An op whose numbers agree with each other; percentiles only where given."""
    count = round(ops_per_s * interval_s)
    made = OpStats(
        count=count,
        bytes=round(count * avg_bytes),
        ops_per_s=ops_per_s,
        bytes_per_s=ops_per_s * avg_bytes,
        avg_bytes=avg_bytes if count else None,
        latency_us=latency_us if count else None,
        max_us=latency_us * 2 if count else None,
        max_bytes=int(avg_bytes),
        avg_inflight=ops_per_s * latency_us / 1e6,
    )
    return replace(made, **more)


def spread(fast: int, fast_us: float, slow: int, slow_us: float) -> LatencyHist:
    """A histogram of operations of two latencies."""
    counts = [0] * FINE_BUCKETS
    counts[fine_index(int(fast_us * 1e3))] += fast
    counts[fine_index(int(slow_us * 1e3))] += slow
    return LatencyHist(tuple(counts))


def layer(
    name: str,
    ops: Mapping[str, OpStats] | None = None,
    *,
    source: str = "bpf",
    metrics: Mapping[str, Value] | None = None,
    tables: Mapping[str, list[tuple[tuple[str, ...], dict[str, Value]]]] | None = None,
    parts: Mapping[str, Mapping[str, OpStats]] | None = None,
    lost: Mapping[str, int] | None = None,
) -> LayerSnapshot:
    """One layer; ops and metrics that are not given are idle."""
    spec = SPECS[name]
    nothing = op(0.0, 0.0, 0.0)
    return LayerSnapshot(
        spec=spec,
        source=source,
        interval_s=1.0,
        ops={**dict.fromkeys((*spec.ops, *spec.groups), nothing), **(ops or {})},
        metrics={**{m.derived_name: 0.0 for m in spec.metrics}, **(metrics or {})},
        tables={
            table.name: tuple(TableRow(k, v) for k, v in (tables or {}).get(table.name, []))
            for table in spec.tables
        },
        parts=parts or {},
        lost=lost or {},
    )


def calls(
    kind: str, done: OpStats, tables: Mapping[str, Any] | None = None, **metrics: Value
) -> LayerSnapshot:
    """Calls of one kind, such as ``read_direct``, and no others."""
    ops = {kind.partition("_")[0]: done, kind: done}
    return layer("syscall", ops, tables=tables, metrics=metrics)


def disk(
    name: str, read: OpStats | None = None, write: OpStats | None = None, **settings: Value
) -> dict[str, Any]:
    """Arguments for layer("block"): one device that did all of it."""
    ops = {"read": read or op(0, 0, 0), "write": write or op(0, 0, 0)}
    row = {
        "max_request_bytes": 1 << 20,
        "max_hw_request_bytes": 4 << 20,
        "max_segments": 254,
        "read_ahead_bytes": 131072,
        "queue_depth_limit": 256,
        "stacked": 0,
    }
    return {
        "ops": ops,
        "parts": {name: ops},
        "tables": {"device": [((name, name), {**row, **settings})]},
    }


def ticks(
    count: int,
    layers: Mapping[str, LayerSnapshot | Unavailable],
    *,
    host: HostStats | None = None,
    start: int = 0,
) -> list[Snapshot]:
    """The same second, ``count`` times."""
    calm = HostStats(cpu_pct=20.0, cached_bytes=1 << 30, dirty_bytes=0, writeback_bytes=0)
    return [
        Snapshot(
            time_unix_s=START_S + start + i + 1,
            interval_s=1.0,
            hostname="db01",
            kernel="6.1.0",
            host=host or calm,
            layers=layers,
            specs=SPECS,
        )
        for i in range(count)
    ]


def found(layers: Layers, seconds: int = 15, host: HostStats | None = None) -> dict[str, Finding]:
    """Findings after this many equal seconds, by rule."""
    return judged(ticks(seconds, layers, host=host))[-1]


def judged(seconds: Iterable[Snapshot | Layers]) -> list[dict[str, Finding]]:
    """Findings of each second, by rule; a second may be given by its layers alone."""
    engine = Engine()
    made = (
        each if isinstance(each, Snapshot) else ticks(1, each, start=at)[0]
        for at, each in enumerate(seconds)
    )
    return [{finding.rule: finding for finding in engine.judge(s).findings} for s in made]


def by_chance(random: Random, time_unix_s: float) -> Snapshot:
    """Random numbers, many of them unknown: no rule may fail on them."""
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, spec in SPECS.items():
        if random.random() < 0.9:
            layers[name] = _layer_by_chance(random, spec)
        elif random.random() < 0.5:
            layers[name] = Unavailable("not here")
    host = HostStats(**{f.name: random.choice(_VALUES) for f in fields(HostStats)})  # type: ignore[arg-type]
    return Snapshot(time_unix_s, 1.0, "db01", "6.1.0", host, layers, SPECS)


def _layer_by_chance(random: Random, spec: LayerSpec) -> LayerSnapshot:
    def ops() -> dict[str, OpStats]:
        return {
            o: _op_by_chance(random) for o in (*spec.ops, *spec.groups) if random.random() < 0.9
        }

    names = [f"{spec.name}{i}" for i in range(3)] + ["2049", "btrfs", "nfs", "md0_resync"]
    return LayerSnapshot(
        spec=spec,
        source="bpf" if random.random() < 0.9 else "proc",
        interval_s=1.0,
        ops=ops(),
        metrics={m.derived_name: random.choice(_VALUES) for m in spec.metrics},
        tables={
            table.name: tuple(
                TableRow(
                    tuple(random.choice(names) for _ in table.keys),
                    {c.derived_name: random.choice(_VALUES) for c in table.columns},
                )
                for _ in range(random.randrange(4))
            )
            for table in spec.tables
            if random.random() < 0.95
        },
        parts={name: ops() for name in names[:2]},
        lost={"map_full": random.choice((0, 5, 10**9))},
    )


def _op_by_chance(random: Random) -> OpStats:
    values: dict[str, Any] = {}
    for field in fields(OpStats):
        if field.name == "latency":
            values["latency"] = random.choice((None, LatencyHist(), spread(5000, 100, 900, 9e6)))
        elif field.name == "size_lat":
            values["size_lat"] = None
        else:
            value = random.choice(_VALUES)
            values[field.name] = int(value) if field.name in _INTS and value else value
    return OpStats(**values)
