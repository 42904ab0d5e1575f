"""The demo's layer ``syscall``."""

from __future__ import annotations

from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Value
from ioh.sources.demo.counts import Dice, OpCounter
from ioh.sources.demo.names import DISK_ROOT
from ioh.sources.demo.rows import FlowRows, column_of
from ioh.sources.demo.traffic import Traffic


class DemoSyscall:
    """Calls of the made-up programs, and the READs, WRITEs and bios that they became."""

    def __init__(self, spec: LayerSpec) -> None:
        self._ops = {name: OpCounter(queue=False, started=True) for name in spec.ops}
        self._tables = {"process": FlowRows(), "file": FlowRows(), "mount": FlowRows()}
        self._metrics = {m.name: 0 for m in spec.metrics if m.kind == "counter"}
        self._lost = dict.fromkeys(spec.lost, 0)

    def take(self, traffic: Traffic) -> None:
        """Count one tick."""
        reads = writes = 0
        for op, batch, _, who, _ in traffic.app:
            self._ops[op].add(batch)
            column = column_of(op)
            if op.startswith("read"):
                reads += batch.operations
            elif op != "copy":
                writes += batch.operations
            for keys, *increments in who.of(batch):
                count, size, ns = increments
                for rows, key in zip(self._tables.values(), keys, strict=True):
                    rows.add(key, column, (count, size, ns))
        nfs = [w.batch for w in traffic.client if w.op == "read"]
        local = [w.batch for w in traffic.block if w.op == "read" and w.place == DISK_ROOT]
        below = sum(b.bytes_total for b in (*nfs, *local))
        rpcs = sum(b.operations for b in nfs)
        for name, value in {
            "read_calls_total": reads,
            "read_calls_cached_total": reads - traffic.local_misses - traffic.read_through,
            "read_calls_at_end_total": 0,
            "read_lower_ops_total": traffic.local_misses + rpcs,
            "read_lower_bytes_total": below,
            "write_calls_total": writes,
            "write_lower_ops_total": traffic.local_syncs + traffic.written_through,
            "lower_requests_total": traffic.local_misses + traffic.local_syncs,
        }.items():
            self._metrics[name] += value

    def sample(self, interval_ns: int, dice: Dice) -> LayerSample:
        """The layer as it is now."""
        metrics: dict[str, Value] = dict(self._metrics)
        return LayerSample(
            source="demo",
            ops={name: op.totals(op.inflight(interval_ns, dice)) for name, op in self._ops.items()},
            metrics=metrics,
            tables={name: rows.table() for name, rows in self._tables.items()},
            lost=self._lost,
        )
