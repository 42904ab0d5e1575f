"""Block devices: requests from acceptance by the block layer to completion by the device."""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.totals import advance_epoch, decode_lost, decode_op_totals
from ioh.layers.base import Event, Layer, raw
from ioh.layers.block_probe import block_defines
from ioh.layers.block_specs import JOBS, LIMITS, MachineTables
from ioh.layers.block_unseen import UnseenRequests
from ioh.layers.submitters import SubmitterTable
from ioh.model.derive import add_ops
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec, TableSpec, counter, gauge, ratio
from ioh.model.sample import LayerSample, OpTotals, Row, Table, Unavailable, Value
from ioh.procfs.block_fallback import BlockFallback
from ioh.procfs.blockdev import BlockDevices, read_block_device
from ioh.procfs.files import path_under, read_text

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map, Maps

SPEC = LayerSpec(
    name="block",
    title="block",
    rank=50,
    ops=("read", "write", "flush", "discard", "write_zeroes", "zone_append", "other"),
    groups={},
    part="device",
    metrics=(
        counter("read_merges_total", "Reads joined with a neighbour before issue.", "rmerge/s"),
        counter("write_merges_total", "Writes joined with a neighbour before issue.", "wmerge/s"),
        counter("discard_merges_total", "Discards joined before issue.", "dmerge/s"),
        counter("splits_total", "Times one bio was cut because of a limit.", "split/s"),
        counter("requeues_total", "Requests the driver gave back to the queue.", "requeue/s"),
        counter("sequential_total", "Requests that began where a recent one ended.", ""),
        counter("positioned_total", "Reads and writes whose position was judged.", ""),
        ratio(
            "sequential_pct",
            "sequential_total",
            "positioned_total",
            "Share of reads and writes that began where one of the last 8 ended.",
            scale=100.0,
            title="seq%",
        ),
    ),
    tables=(
        TableSpec(
            "device",
            "devices",
            ("device", "on"),
            (
                counter("reads_total", "Reads completed.", "r/s"),
                counter("read_bytes_total", "Bytes read.", "rB/s"),
                ratio(
                    "read_await_us",
                    "read_ns_total",
                    "reads_total",
                    "Mean read time, queue and service.",
                    scale=1e-3,
                    title="r_await",
                ),
                counter("writes_total", "Writes completed.", "w/s"),
                counter("write_bytes_total", "Bytes written.", "wB/s"),
                ratio(
                    "write_await_us",
                    "write_ns_total",
                    "writes_total",
                    "Mean write time, queue and service.",
                    scale=1e-3,
                    title="w_await",
                ),
                counter("flushes_total", "Flushes completed.", "f/s"),
                counter("discards_total", "Discards completed.", "d/s"),
                counter("read_ns_total", "Time of all reads.", ""),
                counter("write_ns_total", "Time of all writes.", ""),
                counter("read_merges_total", "Reads merged before issue.", "rrqm/s"),
                counter("write_merges_total", "Writes merged before issue.", "wrqm/s"),
                counter("busy_ns_total", "Time with at least one request in flight.", ""),
                ratio(
                    "busy_pct",
                    "busy_ns_total",
                    "",
                    "Share of time with a request in flight, iostat's %util; not saturation.",
                    scale=1e-7,
                    title="%util",
                ),
                counter("weighted_ns_total", "Time of all requests in flight.", ""),
                ratio(
                    "avg_inflight",
                    "weighted_ns_total",
                    "",
                    "Time-weighted mean in flight, iostat's aqu-sz.",
                    scale=1e-9,
                    title="aqu-sz",
                ),
                gauge("inflight", "In flight at the sample instant.", "in-fl"),
                gauge("queue_depth_limit", "nr_requests of the queue.", "depth"),
                gauge("max_request_bytes", "Largest request, max_sectors_kb.", "max req"),
                gauge("max_hw_request_bytes", "Largest the hardware takes.", ""),
                gauge("max_segments", "Most pieces of memory in one request.", ""),
                gauge("read_ahead_bytes", "Read-ahead window, read_ahead_kb.", ""),
                gauge("chunk_bytes", "Stripe that no request may cross.", ""),
                gauge("rotational", "1 where it says that it turns and is no virtual disk.", ""),
                gauge("stacked", "1 where its I/O appears again on another device.", ""),
            ),
            ("read_bytes_per_s", "write_bytes_per_s"),
        ),
        TableSpec(
            "process",
            "processes",
            ("pid", "comm"),
            (
                counter("reads_total", "Requests made for reads, on any device.", "r/s"),
                counter(
                    "read_bytes_total",
                    "Bytes read of any device; of a loop device and again of the disk below it.",
                    "rB/s",
                ),
                counter("writes_total", "Requests made for writes, on any device.", "w/s"),
                counter(
                    "write_bytes_total",
                    "Bytes written to any device; to a loop device and again to the disk below it.",
                    "wB/s",
                ),
            ),
            ("read_bytes_per_s", "write_bytes_per_s"),
        ),
        LIMITS,
        JOBS,
    ),
    lost=("no_start", "map_full", "negative", "unseen"),  # the probe counts all but the last
)

_DEV_OP = struct.Struct("=II")
_RECENT = struct.Struct("=64xQQQ")  # 8 ends, next, judged, sequential
_STAMP_MISSING_PCT = 50


class Block(Layer):
    """Requests of every block device, with /proc/diskstats for what the kernel counts itself."""

    spec = SPEC
    probe = "block"
    events = (
        Event("complete", (raw("block_rq_complete", "on_complete"),)),
        Event("issue", (raw("block_rq_issue", "on_issue"),)),
        Event("submit", (raw("block_getrq", "on_submit"),), gives="processes", needed=False),
        Event(
            "backmerge",
            (raw("block_bio_backmerge", "on_merge"),),
            gives="processes' merged bytes",
            needed=False,
        ),
        Event(
            "frontmerge",
            (raw("block_bio_frontmerge", "on_merge"),),
            gives="processes' merged bytes",
            needed=False,
        ),
        Event("requeue", (raw("block_rq_requeue", "on_requeue"),), gives="requeues", needed=False),
        Event("split", (raw("block_split", "on_split"),), gives="splits", needed=False),
    )

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """See block_probe; no probe sees a device whose I/O never becomes requests of its own."""
        chosen = None if filters.device is None else read_block_device(filters.device)
        if chosen is not None and not chosen.has_requests:
            below = chosen.stack if chosen.is_stacked else "no other device"
            return Unavailable(
                f"{chosen.name} has no requests of its own",
                f"its I/O becomes requests of {below}",
            )
        return block_defines(host, filters, len(SPEC.lost))

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._devices = BlockDevices(root)
        self._diskstats = BlockFallback(SPEC, filters.device, root, self._devices)
        self._previous: dict[bytes, OpTotals] = {}
        self._keeps_issue_times = False
        self._machine = MachineTables(root, self._devices)
        self._submitters = SubmitterTable()
        self._unseen = UnseenRequests()

    def read_proc(self) -> LayerSample | Unavailable:
        """Read /proc/diskstats alone."""
        disks = self._diskstats.sample()
        if isinstance(disks, Unavailable):
            return disks
        return replace(disks, tables={**disks.tables, **self._machine.read()})

    def read(self, maps: Maps) -> LayerSample:
        """Read each device's totals, and from diskstats what the kernel counts itself."""
        ended = advance_epoch(maps["epoch"])
        # In this order, see UnseenRequests.note().
        parts = None if self._unseen.has_begun else self._read_devices(maps["totals"], ended)
        disks = self._diskstats.sample()
        if parts is None:
            parts = self._read_devices(maps["totals"], ended)
        self._see_to_stamps(maps["need_issue"], parts)
        known = disks if isinstance(disks, LayerSample) else LayerSample("proc")
        counted = [ops for dev, ops in parts.items() if self._is_counted(dev)]
        by_op: dict[str, list[OpTotals]] = defaultdict(list)
        for ops in counted:
            for name, op in ops.items():
                by_op[name].append(op)
        nothing = OpTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        judged, sequential = self._read_positions(maps["recents"])
        requeues, splits = (int(maps["events"].sum_cpus(maps["events"].at(i))[0]) for i in range(2))
        named = {self._name(dev): ops for dev, ops in parts.items()}
        # Else a row's first interval would have all that the probe has counted since it began.
        rows = {**known.tables.get("device", {}), **self._diskstats.activate(parts)}
        return LayerSample(
            source="bpf",
            ops={name: add_ops(by_op[name]) if by_op[name] else nothing for name in SPEC.ops},
            metrics={
                **known.metrics,
                "splits_total": splits,
                "requeues_total": requeues,
                "sequential_total": sequential,
                "positioned_total": judged,
            },
            tables={
                "device": _device_rows(rows, named),
                "process": self._submitters.read(maps["submitters"]),
                **self._machine.read(),
            },
            parts=named,
            lost={
                **decode_lost(maps["lost"], SPEC.lost),
                "unseen": self._unseen.note(known.parts, named),
            },
            notes=() if isinstance(disks, LayerSample) else (disks.reason,),
        )

    def _read_devices(self, totals: Map, ended: int) -> dict[int, dict[str, OpTotals]]:
        parts: dict[int, dict[str, OpTotals]] = defaultdict(dict)
        inflight: dict[int, tuple[int | None, int | None]] = {}
        for key, value in totals.items_bytes():
            dev, op = _DEV_OP.unpack(key)
            name = SPEC.ops[op]
            decoded = decode_op_totals(
                totals.per_cpu(value), ended, queue=True, previous=self._previous.get(key)
            )
            self._previous[key] = decoded
            if name in ("read", "write"):
                if dev not in inflight:
                    inflight[dev] = self._read_inflight(dev)
                decoded = replace(decoded, inflight=inflight[dev][op])
            parts[dev][name] = replace(decoded, started_total=None)
        return parts

    def _read_inflight(self, dev: int) -> tuple[int | None, int | None]:
        """Reads and writes accepted and not completed, as the kernel counts them."""
        device = self._devices.get(dev)
        name = device.name if device is not None else ""
        words = (read_text(path_under(self.root, f"sys/block/{name}/inflight")) or "").split()
        if len(words) != 2 or not all(w.isdigit() for w in words):
            return None, None
        return int(words[0]), int(words[1])

    def _is_counted(self, dev: int) -> bool:
        """A stacked device's I/O appears again below it and must not be counted twice."""
        device = self._devices.get(dev)
        return self.filters.device is not None or device is None or device.is_counted

    def _name(self, dev: int) -> str:
        device = self._devices.get(dev)
        return device.name if device is not None else f"{dev >> 20}:{dev & 0xFFFFF}"

    def _see_to_stamps(self, need_issue: Map, parts: Mapping[int, Mapping[str, OpTotals]]) -> None:
        """Have the probe keep issue times where the queue does not stamp its requests."""
        if self._keeps_issue_times:
            return
        ops = [op for part in parts.values() for n, op in part.items() if n in ("read", "write")]
        count = sum(op.count_total or 0 for op in ops)
        queued = sum(op.queued_total or 0 for op in ops)
        if count and queued * 100 < count * _STAMP_MISSING_PCT:
            need_issue.update((0).to_bytes(4, sys.byteorder), (1).to_bytes(4, sys.byteorder))
            self._keeps_issue_times = True

    def _read_positions(self, recents: Map) -> tuple[int, int]:
        judged = sequential = 0
        for key, value in recents.items_bytes():
            if self._is_counted(int.from_bytes(key, sys.byteorder)):
                _, seen, hits = _RECENT.unpack(value)
                judged += seen
                sequential += hits
        return judged, sequential


def _device_rows(rows: Table, parts: Mapping[str, Mapping[str, OpTotals]]) -> Table:
    """The rows of diskstats, with the probe's times (ns) in place of its own (ms)."""
    table = next(t for t in SPEC.tables if t.name == "device")
    columns = [c.name for c in table.raw_columns]
    merged: dict[tuple[str, ...], Row] = {}
    for key, row in rows.items():
        values: dict[str, Value] = dict(zip(columns, row, strict=True))
        for op, totals in parts.get(key[0], {}).items():
            if op in ("read", "write"):
                values[f"{op}s_total"] = totals.count_total
                values[f"{op}_bytes_total"] = totals.bytes_total
                values[f"{op}_ns_total"] = totals.latency_ns_total
        merged[key] = tuple(values[name] for name in columns)
    return merged
