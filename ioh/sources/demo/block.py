"""The demo's layer ``block``."""

from __future__ import annotations

import math

from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, OpTotals, Row, Table, Value
from ioh.sources.demo import names
from ioh.sources.demo.counts import Dice, OpCounter
from ioh.sources.demo.names import Key
from ioh.sources.demo.rows import make_row, table_of
from ioh.sources.demo.traffic import Traffic

_LIMITS = {  # nr_requests, max_sectors_kb
    names.DISK_DB: (1023, 512 << 10),
    names.DISK_LOG: (1023, 512 << 10),
    names.DISK_ROOT: (64, 1280 << 10),
}
_GAUGED = ("read", "write")  # the kernel says of these alone how many are in flight
_BACKUP = ("/system.slice/backup.service", names.DISK_DB)  # may read 200 MB/s
_MAPPED = ("dm-0", f"vg0-root on {names.DISK_ROOT}")


class DemoBlock:
    """The made-up machine's disks."""

    def __init__(self, spec: LayerSpec) -> None:
        self._spec = spec
        self._whole = {op: OpCounter(queue=True, started=False) for op in spec.ops}
        self._parts = {
            disk: {op: OpCounter(queue=True, started=False) for op in spec.ops} for disk in _LIMITS
        }
        self._metrics = {m.name: 0 for m in spec.metrics if m.kind == "counter"}
        self._submitted: dict[Key, list[int]] = {}
        self._merges = dict.fromkeys(_LIMITS, 0)
        self._busy_ns = dict.fromkeys(_LIMITS, 0)
        self._tick_ns = dict.fromkeys(_LIMITS, 0)

    def take(self, traffic: Traffic) -> None:
        """Count one tick."""
        positioned = 0
        for op, batch, disk, who, queue_us in traffic.block:
            self._whole[op].add(batch, queue_us)
            self._parts[disk][op].add(batch, queue_us)
            self._tick_ns[disk] += batch.ns_total
            if op not in _GAUGED:
                continue
            positioned += batch.operations
            for (key,), count, size, _ in who.of(batch):
                row = self._submitted.setdefault(key, [0, 0, 0, 0])
                at = 2 if op == "write" else 0
                row[at] += count
                row[at + 1] += size
        self._merges[names.DISK_DB] += traffic.write_merges
        for name, value in {
            "write_merges_total": traffic.write_merges,
            "splits_total": traffic.splits,
            "sequential_total": traffic.sequential,
            "positioned_total": positioned,
        }.items():
            self._metrics[name] += value

    def sample(self, interval_ns: int, dice: Dice) -> LayerSample:
        """The layer as it is now."""
        parts = {
            disk: {
                op: c.totals(c.inflight(interval_ns, dice) if op in _GAUGED else None)
                for op, c in ops.items()
            }
            for disk, ops in self._parts.items()
        }
        whole = {
            op: counter.totals(
                sum(ops[op].inflight or 0 for ops in parts.values()) if op in _GAUGED else None
            )
            for op, counter in self._whole.items()
        }
        for disk, ns in self._tick_ns.items():
            # The share of time with a request in flight, were they to come by chance.
            self._busy_ns[disk] += int(interval_ns * (1 - math.exp(-ns / interval_ns)))
        self._tick_ns = dict.fromkeys(_LIMITS, 0)
        metrics: dict[str, Value] = dict(self._metrics)
        return LayerSample(
            source="demo",
            ops=whole,
            metrics=metrics,
            tables={
                "device": self._device_table(parts),
                "process": {key: tuple(row) for key, row in self._submitted.items()},
                "limit": {_BACKUP: (200_000_000, None, None, None)},
                "job": {},
            },
            parts=parts,
            lost=dict.fromkeys(self._spec.lost, 0),
        )

    def _device_table(self, parts: dict[str, dict[str, OpTotals]]) -> Table:
        rows: dict[Key, Row] = {
            (disk, disk): self._device_row(disk, ops) for disk, ops in parts.items()
        }
        return {**rows, _MAPPED: rows[names.DISK_ROOT, names.DISK_ROOT]}

    def _device_row(self, disk: str, ops: dict[str, OpTotals]) -> Row:
        read, write = ops["read"], ops["write"]
        depth, largest = _LIMITS[disk]
        values: dict[str, Value] = {
            "reads_total": read.count_total,
            "read_bytes_total": read.bytes_total,
            "read_ns_total": read.latency_ns_total,
            "writes_total": write.count_total,
            "write_bytes_total": write.bytes_total,
            "write_ns_total": write.latency_ns_total,
            "flushes_total": ops["flush"].count_total,
            "discards_total": ops["discard"].count_total,
            "read_merges_total": 0,
            "write_merges_total": self._merges[disk],
            "busy_ns_total": self._busy_ns[disk],
            "weighted_ns_total": sum(op.latency_ns_total or 0 for op in ops.values()),
            "inflight": (read.inflight or 0) + (write.inflight or 0),
            "queue_depth_limit": depth,
            "max_request_bytes": largest,
            "max_hw_request_bytes": largest,
            "max_segments": 128,
            "read_ahead_bytes": 128 << 10,
            "chunk_bytes": None,
            "rotational": 0,
            "stacked": 0,
        }
        return make_row(table_of(self._spec, "device"), values)
