"""The demo's layers ``nfs_client`` and ``nfs_server``."""

from __future__ import annotations

from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, OpTotals, Row, Table, Value
from ioh.sources.demo import names
from ioh.sources.demo.counts import Dice, OpCounter
from ioh.sources.demo.names import Key
from ioh.sources.demo.rows import FlowRows, column_of, make_row, table_of
from ioh.sources.demo.traffic import RSIZE_BYTES, WSIZE_BYTES, Traffic, Work

_VERSION = "v4"
_OTHER_CALLS = {"GETATTR": (40, 90), "ACCESS": (15, 80), "LOOKUP": (3, 110)}  # a second, µs
_MOUNTS = {  # by the part: mount point, export
    names.PART_DB: (names.MOUNT_DB, f"{names.SERVER}:{names.FS_DB}"),
    names.PART_LOG: (names.MOUNT_LOG, f"{names.SERVER}:{names.FS_LOG}"),
}


class _Ops:
    """Totals of all ops, and of each part alone."""

    def __init__(self, ops: tuple[str, ...], parts: tuple[str, ...], *, queue: bool) -> None:
        self.whole = {op: OpCounter(queue=queue, started=True) for op in ops}
        self.parts = {
            part: {op: OpCounter(queue=queue, started=True) for op in ops} for part in parts
        }

    def add(self, work: Work) -> None:
        self.whole[work.op].add(work.batch, work.queue_us)
        self.parts[work.place][work.op].add(work.batch, work.queue_us)

    def sample(
        self, interval_ns: int, dice: Dice
    ) -> tuple[dict[str, OpTotals], dict[str, dict[str, OpTotals]]]:
        """All, whose gauge is the sum of the parts' gauges, and the parts."""
        parts = {
            part: {op: c.totals(c.inflight(interval_ns, dice)) for op, c in ops.items()}
            for part, ops in self.parts.items()
        }
        whole = {
            op: counter.totals(sum(ops[op].inflight or 0 for ops in parts.values()))
            for op, counter in self.whole.items()
        }
        return whole, parts


class _Procedures:
    """Of each procedure: calls, errors, queue, rtt and whole ns, retransmits, timeouts."""

    def __init__(self) -> None:
        self.rows: dict[Key, list[int]] = {}

    def add(self, procedure: str, *increments: int) -> None:
        row = self.rows.setdefault((_VERSION, procedure), [0] * 7)
        for at, increment in enumerate(increments):
            row[at] += increment

    def add_others(self, dice: Dice, interval_s: float, extra_us: float) -> None:
        """What a client asks beside READ, WRITE and COMMIT; some LOOKUPs find nothing."""
        for name, (rate, time_us) in _OTHER_CALLS.items():
            calls = dice.count(rate * interval_s)
            rtt_ns = int(calls * dice.around(time_us + extra_us) * 1000)
            queue_ns = calls * 3_000
            errors = calls // 3 if name == "LOOKUP" else 0
            self.add(name, calls, errors, queue_ns, rtt_ns, queue_ns + rtt_ns)


def _procedure(op: str) -> str:
    return op.partition("_")[0].upper()


class DemoNfsClient:
    """The made-up machine's NFS mounts."""

    def __init__(self, spec: LayerSpec) -> None:
        self._spec = spec
        self._counted = spec.ops[:-1]  # all but read_cached, which is bytes alone
        self._ops = _Ops(self._counted, tuple(_MOUNTS), queue=True)
        self._tables = {"process": FlowRows(), "file": FlowRows()}
        self._mounts, self._servers = FlowRows(), FlowRows()
        self._procedures = _Procedures()
        self._metrics = {m.name: 0 for m in spec.metrics if m.kind == "counter"}
        self._cached_bytes = 0
        self._again = [0, 0]  # RPC retransmits, timeouts

    def take(self, traffic: Traffic, dice: Dice, interval_s: float, wire_us: float) -> None:
        """Count one tick."""
        for work in traffic.client:
            self._ops.add(work)
            self._take_rpcs(work)
        self._procedures.add_others(dice, interval_s, wire_us)
        # A segment that is late for long makes the client ask anew on the next connection.
        again = traffic.late // 20
        self._procedures.add("READ", 0, 0, 0, 0, 0, again, again)
        self._again[0] += again
        self._again[1] += again
        for name, value in {
            "app_read_bytes_total": traffic.nfs_read_bytes,
            "cached_read_bytes_total": traffic.cached_bytes,
            "rpc_retransmits_total": again,
            "rpc_timeouts_total": again,
        }.items():
            self._metrics[name] += value
        self._cached_bytes += traffic.cached_bytes

    def _take_rpcs(self, work: Work) -> None:
        op, batch, place, who, queue_us = work
        column = column_of(op)
        for (process, file), *increments in who.of(batch):
            count, size, ns = increments
            self._tables["process"].add(process, column, (count, size, ns))
            self._tables["file"].add(file, column, (count, size, ns))
        increments = [batch.operations, batch.bytes_total, batch.ns_total]
        self._mounts.add((place,), column, (batch.operations, batch.bytes_total, batch.ns_total))
        self._servers.add(
            (names.SERVER,), column, (batch.operations, batch.bytes_total, batch.ns_total)
        )
        queue_ns = min(batch.ns_total, int(batch.operations * queue_us * 1000))
        rtt_ns = batch.ns_total - queue_ns
        name = _procedure(op)
        self._procedures.add(name, batch.operations, 0, queue_ns, rtt_ns, batch.ns_total)
        verb = name.lower()
        self._metrics[f"rpc_{verb}s_total"] += batch.operations
        self._metrics[f"rpc_{verb}_queue_ns_total"] += queue_ns
        self._metrics[f"rpc_{verb}_rtt_ns_total"] += rtt_ns
        self._metrics[f"rpc_{verb}_execute_ns_total"] += batch.ns_total
        if verb == "write":
            self._metrics[f"granted_{op.removeprefix('write_')}_total"] += batch.operations

    def sample(self, interval_ns: int, dice: Dice) -> LayerSample:
        """The layer as it is now."""
        ops, parts = self._ops.sample(interval_ns, dice)
        metrics: dict[str, Value] = dict(self._metrics)
        return LayerSample(
            source="demo",
            ops={**ops, self._spec.ops[-1]: OpTotals(bytes_total=self._cached_bytes)},
            metrics=metrics,
            tables={
                **{name: rows.table() for name, rows in self._tables.items()},
                "mount": self._mount_table(),
                "server": self._server_table(),
                "procedure": {key: tuple(row) for key, row in self._procedures.rows.items()},
            },
            parts=parts,
            lost=dict.fromkeys(self._spec.lost, 0),
        )

    def _mount_table(self) -> Table:
        spec = table_of(self._spec, "mount")
        made: dict[Key, Row] = {}
        for (part,), row in self._mounts.table().items():
            point, export = _MOUNTS[part]
            # READs alone are late, and they are all of the first mount.
            again = self._again if part == names.PART_DB else [0, 0]
            settings = {
                "rsize_bytes": RSIZE_BYTES,
                "wsize_bytes": WSIZE_BYTES,
                "connections": len(names.PORTS),
                "slots_used": 48,
                "slots_limit": 64,
                "unanswered": 0,
                "silent_s": 0.0,
            }
            values = {**_flow_values(row), **_again_values(again), **settings}
            made[point, export, "4.2", "sys", "tcp"] = make_row(spec, values)
        return made

    def _server_table(self) -> Table:
        spec = table_of(self._spec, "server")
        return {
            key: make_row(spec, {**_flow_values(row), **_again_values(self._again)})
            for key, row in self._servers.table().items()
        }


_FLOW_COLUMNS = (
    "reads_total",
    "read_bytes_total",
    "read_ns_total",
    "writes_total",
    "write_bytes_total",
    "write_ns_total",
    "commits_total",
    "commit_ns_total",
)


def _flow_values(row: Row) -> dict[str, Value]:
    return dict(zip(_FLOW_COLUMNS, row, strict=True))


def _again_values(again: list[int]) -> dict[str, Value]:
    return {"retransmits_total": again[0], "timeouts_total": again[1]}


class DemoNfsServer:
    """The made-up machine's NFS server."""

    def __init__(self, spec: LayerSpec) -> None:
        self._spec = spec
        self._ops = _Ops(spec.ops, (names.FS_DB, names.FS_LOG), queue=False)
        self._tables = {"file": FlowRows(), "client": FlowRows(), "export": FlowRows()}
        self._procedures = _Procedures()
        self._calls = 0

    def take(self, traffic: Traffic, dice: Dice, interval_s: float) -> None:
        """Count one tick."""
        for work in traffic.server:
            self._ops.add(work)
            batch, column = work.batch, column_of(work.op)
            self._calls += batch.operations
            self._procedures.add(_procedure(work.op), batch.operations, 0, 0, 0, batch.ns_total)
            for keys, *increments in work.who.of(batch):
                count, size, ns = increments
                for rows, key in zip(self._tables.values(), keys, strict=True):
                    rows.add(key, column, (count, size, ns))
        self._procedures.add_others(dice, interval_s, -40)

    def sample(self, interval_ns: int, dice: Dice) -> LayerSample:
        """The layer as it is now."""
        ops, parts = self._ops.sample(interval_ns, dice)
        busy = min(16, sum(op.inflight or 0 for op in ops.values()))
        metrics: dict[str, Value] = {
            "threads": 16,
            "max_block_bytes": 1 << 20,
            "busy_threads": busy,
            "replayed_calls_total": 0,
            "queued_total": self._calls,
            "woken_total": self._calls,
            "unlisted_total": 0,
        }
        procedures = {key: (row[0], row[1], row[4]) for key, row in self._procedures.rows.items()}
        return LayerSample(
            source="demo",
            ops=ops,
            metrics=metrics,
            tables={
                **{name: rows.table() for name, rows in self._tables.items()},
                "procedure": procedures,
            },
            parts=parts,
            lost=dict.fromkeys(self._spec.lost, 0),
        )
