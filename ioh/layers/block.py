"""Block devices: requests from acceptance by the block layer to completion by the device."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.probe import AttachPoint, Event, OnDemand, Probe
from ioh.bpf.totals import PROGRESS, advance_epoch, decode_lost, decode_op_totals
from ioh.layers.base import Layer
from ioh.layers.block_probe import DEV_OP, RECENT, block_defines
from ioh.layers.block_rows import DeviceRows, MachineTables, StackedDevices
from ioh.layers.block_unseen import UnseenRequests
from ioh.layers.part_totals import NOTHING
from ioh.layers.per_owner_totals import Ops, OwnedTotals, add_each
from ioh.layers.submitter_table import SUBMITTED, SUBMITTER, SubmitterTable
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.sample import OTHERS, LayerSample, OpTotals, Unavailable
from ioh.procfs.block_fallback import BlockFallback
from ioh.procfs.blockdev import disk_of_path
from ioh.procfs.diskstats import read_inflight
from ioh.procfs.silent_devices import SILENT_DEVICES

if TYPE_CHECKING:
    from ioh.bpf.counters import Bytes
    from ioh.bpf.maps import Map, Maps

SPEC = LayerSpec(
    name="block",
    title="block",
    rank=50,
    ops=("read", "write", "flush", "discard", "write_zeroes", "zone_append", "other"),
    groups={},
    part="device",
    metrics=numbers(
        """
        read_merges_total    | rmerge/s  | Reads merged before issue.
        write_merges_total   | wmerge/s  | Writes merged before issue.
        discard_merges_total | dmerge/s  | Discards merged before issue.
        splits_total         | split/s   | Bios split because of a limit.
        requeues_total       | requeue/s | Requests the driver returned to the queue.
        errors_total | err/s | Requests that failed on any device, also on those that no op's
            numbers include.
        sequential_total     |           | Requests that started where a judged one ended.
        positioned_total     |           | Reads and writes whose position was judged: each, up to
            50,000 a second on a device, and some of more.
        swap_in_bytes_total  |           | Bytes swapped in, on the whole host.
        swap_out_bytes_total |           | Bytes swapped out, on the whole host.
        memory_wait_us_total |           | Time some task waited for memory (PSI).
        sequential_pct = 100 * sequential_total / positioned_total | seq% |
            Share of the judged reads and writes that another one continued, before 8 more were
            judged.
        """
    ),
    tables=tables(
        f"""
        device | devices | device, on | read_bytes_per_s, write_bytes_per_s
            reads_total          | r/s     | Reads completed.
            read_bytes_total     | rB/s    | Bytes read.
            read_await_us = 1e-3 * read_ns_total / reads_total | r_await |
                Mean read latency: queue plus service time.
            writes_total         | w/s     | Writes completed.
            write_bytes_total    | wB/s    | Bytes written.
            write_await_us = 1e-3 * write_ns_total / writes_total | w_await |
                Mean write latency: queue plus service time.
            read_ns_total        |         | Time of all reads.
            write_ns_total       |         | Time of all writes.
            read_merges_total    | rrqm/s  | Reads merged before issue.
            write_merges_total   | wrqm/s  | Writes merged before issue.
            busy_ns_total        |         | Time with at least one request in flight.
            busy_pct = 1e-7 * busy_ns_total | %util |
                Share of time with a request in flight: iostat's %util, not saturation.
            weighted_ns_total    |         | Time of all requests in flight.
            avg_inflight = 1e-9 * weighted_ns_total | aqu-sz |
                Mean queue depth over time: iostat's aqu-sz.
            flushes_total        | flush/s | Flushes completed.
            discards_total       | trim/s  | Discards (TRIM) completed.
            errors_total         | err/s   | Requests that failed, of any kind.
            inflight             | in-fl   | Requests in flight at the sample instant.
            queue_depth_limit    | depth   | Queue depth limit, nr_requests.
            max_request_bytes    | max req | Largest request, max_sectors_kb.
            max_hw_request_bytes |         | Largest request of the hardware, max_hw_sectors_kb.
            max_segments         |         | Most memory segments in a request, max_segments.
            read_ahead_bytes     |         | Read-ahead window, read_ahead_kb.
            chunk_bytes          |         | Stripe that no request may cross, chunk_sectors.
            rotational           |         | 1 for a rotating disk that is not virtual.
            stacked              |         | 1 if its I/O appears again on another device.
        process | processes | pid, comm | read_bytes_per_s, write_bytes_per_s
            reads_total       | r/s  | Read requests submitted, on any device.
            read_bytes_total | rB/s | Bytes read from any device; for a loop device, counted again
                on the disk below it.
            writes_total      | w/s  | Write requests submitted, on any device.
            write_bytes_total | wB/s | Bytes written to any device; for a loop device, counted again
                on the disk below it.
        limit | I/O limits of control groups | cgroup, device |
                read_limit_bytes_per_s, write_limit_bytes_per_s
            read_limit_bytes_per_s  | rB/s max | Most bytes read per second.
            write_limit_bytes_per_s | wB/s max | Most bytes written per second.
            read_limit_ops_per_s    | r/s max  | Most reads per second.
            write_limit_ops_per_s   | w/s max  | Most writes per second.
            cgroup_version          |          | cgroup version (1 or 2) of the limit.
        job | maintenance under way | device, job | speed_bytes_per_s
            done_pct          | done% | Share completed.
            speed_bytes_per_s | B/s   | Speed as the kernel reports it.
        {SILENT_DEVICES}
        """
    ),
    # The probe counts all except the last.  processes_full: bios with no row for their process.
    lost=("no_start", "map_full", "negative", "processes_full", "unseen"),
)

_RECENT = RECENT.reader("next", "sequential")
_STAMP_MISSING_PCT = 50
# Not dev_t: all devices beyond the probe's room, disks and stacked devices.
_OTHERS, _STACKED = 0xFFFFFFFF, 0xFFFFFFFE
_BOTH_OTHERS = (_OTHERS, _STACKED)
_MERGED = "processes' merged bytes"
_COUNTED = "all"  # the owner of the totals that the layer's sums include


class Block(Layer):
    """Requests of every block device, plus the kernel's own counters in /proc/diskstats."""

    spec = SPEC
    probe = Probe(
        SPEC,
        events=(
            Event("complete", "block_rq_complete", hands_on="after_complete"),
            Event("submit", "block_getrq", "processes", hands_on="after_submit"),
            Event("backmerge", "block_bio_backmerge", _MERGED, function="on_merge"),
            Event("frontmerge", "block_bio_frontmerge", _MERGED, function="on_merge"),
            Event("requeue", "block_rq_requeue", "requeues"),
            Event("split", "block_split", "splits"),
        ),
        defines=block_defines,
        structs=(DEV_OP, RECENT, SUBMITTER, SUBMITTED),
        on_demand=OnDemand(
            (AttachPoint("block_rq_issue", "on_issue"),), without="queue time is not known"
        ),
        prefers_typed=True,
    )

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._diskstats = BlockFallback(SPEC, filters.device, root)
        self._devices = self._diskstats.devices
        self._progress: dict[bytes, tuple[int, ...]] = {}
        self._parts: dict[int, Ops] = {}
        self._at_work: set[int] = set()  # devices whose requests in flight to read
        self._is_full = False
        self._stacked = StackedDevices()
        self._keeps_issue_times = False
        self._machine = MachineTables(root, self._devices)
        self._submitters = SubmitterTable()
        self._unseen = UnseenRequests()
        self._sums, self._by_name = OwnedTotals(), OwnedTotals()
        self._rows = DeviceRows(next(t for t in SPEC.tables if t.name == "device"))
        self._positions: dict[int, list[int]] = {}
        self._judged = self._sequential = 0

    def read_proc(self) -> LayerSample | Unavailable:
        """Read /proc/diskstats alone."""
        disks = self._diskstats.sample()
        if isinstance(disks, Unavailable):
            return disks
        tables = {**disks.tables, **self._machine.read()}
        return replace(disks, tables=tables, notes=(*disks.notes, *self._filter_notes()))

    def _filter_notes(self) -> tuple[str, ...]:
        """With write-back, a request can hold pages of many processes, or of none."""
        return (
            *self.filters.note("device"),
            *notes_of_unfiltered(self.filters, "all requests", "device", "port"),
        )

    def read(self, maps: Maps) -> LayerSample:
        """Read each device's totals, and the kernel's own counters from diskstats."""
        # For the order see UnseenRequests.note().
        parts = None if self._unseen.has_begun else self._read_devices(maps)
        disks = self._diskstats.sample()
        if parts is None:
            parts = self._read_devices(maps)
        self._see_to_stamps(maps["need_issue"], parts)
        kernel = disks if isinstance(disks, LayerSample) else LayerSample("proc")
        by_class = self._sums.update(parts, self._class_of)
        by_name = self._by_name.update(parts, self._name_of)
        judged, sequential = self._read_positions(maps["recents"])
        requeues, splits = (maps["events"].sum_cpus(maps["events"].at(i))[0] for i in range(2))
        # Without this, a row's first interval would hold everything since the probe was attached.
        rows = {**kernel.tables.get("device", {}), **self._diskstats.activate(parts)}
        ops = {**dict.fromkeys(SPEC.ops, NOTHING), **by_class.get(_COUNTED, {})}
        return LayerSample(
            source="bpf",
            ops={**ops, **add_each([ops, self._diskstats.bios])} if self._diskstats.bios else ops,
            metrics={
                **kernel.metrics,
                "splits_total": splits,
                "requeues_total": requeues,
                "errors_total": sum(
                    op.errors_total or 0 for ops in by_name.values() for op in ops.values()
                ),
                "sequential_total": sequential,
                "positioned_total": judged,
            },
            tables={
                "device": self._rows.merge(rows, by_name),
                "process": self._submitters.read(maps["submitters"]),
                **self._machine.read(),
                IN_PROGRESS: kernel.tables.get(IN_PROGRESS, {}),
            },
            parts={**self._diskstats.bio_parts, **by_name},
            lost={
                **decode_lost(maps["lost"], SPEC.lost),
                # Not known once some of a device's requests are counted among the others.
                "unseen": self._unseen.note({} if self._is_full else kernel.parts, by_name),
            },
            notes=(
                *self._filter_notes(),
                *(() if isinstance(disks, LayerSample) else (disks.reason,)),
            ),
        )

    def _read_devices(self, maps: Maps) -> dict[int, Ops]:
        """Totals by device; an idle device keeps the same object as before."""
        # Nothing slow here: a request that ends now has its maximum in the next interval.
        ended, totals = advance_epoch(maps["epoch"]), maps["totals"]
        before = len(self._parts)
        self._decode(totals.changed_entries(PROGRESS, self._progress), ended)
        count = len(self._progress)  # entries are never deleted
        self._is_full = count >= totals.spec.max_entries
        if self._is_full:
            self._decode(self._read_others(maps["others"]), ended)
        if len(self._parts) > before:
            self._note_hidden(maps["disk_names"])
        elsewhere = () if self.filters.device is not None else self._devices.on_others()
        self._stacked.report(maps["stacked"], elsewhere, count, totals.spec.max_entries)
        at_work = {dev for dev in self._parts if not self._diskstats.is_idle(dev)}
        for dev in (at_work | self._at_work) - set(_BOTH_OTHERS):
            inflight = self._read_inflight(dev) if dev in at_work else (0, 0)
            for op, number in zip(("read", "write"), inflight, strict=True):
                known_op = self._parts[dev].get(op)
                if known_op is not None and known_op.inflight != number:
                    self._enter(dev, op, replace(known_op, inflight=number))
        self._at_work = at_work
        return self._parts

    def _decode(self, entries: Iterable[tuple[bytes, Bytes]], ended: int) -> None:
        """Enter totals; they stay even if the reading fails later."""
        for key, value in entries:
            dev, at = DEV_OP.unpack(key)
            op = SPEC.ops[at]
            before = self._parts.get(dev, {}).get(op)
            now = decode_op_totals(value, ended, queue=True, started=False, previous=before)
            if now is before:
                continue
            if now.max_ns and key in self._progress:
                self._progress[key] = ()  # read it next time, to end its maximum
            if now.count_total or dev not in _BOTH_OTHERS:
                self._enter(dev, op, now)
                self._at_work.add(dev)

    def _enter(self, dev: int, op: str, now: OpTotals) -> None:
        self._parts[dev] = {**self._parts.get(dev, {}), op: now}

    @staticmethod
    def _read_others(others: Map) -> Iterator[tuple[bytes, Bytes]]:
        """Totals by op of the devices beyond the probe's room."""
        count = len(SPEC.ops)
        for dev, first in ((_OTHERS, 0), (_STACKED, count)):
            for op in range(count):
                yield DEV_OP.pack(dev, op), others.at(first + op)

    def _note_hidden(self, names: Map) -> None:
        """Name the device numbers of hidden disks, which sysfs does not list."""
        for key, value in names.items_bytes():
            name = value.split(b"\0", 1)[0].decode(errors="replace")
            if disk_of_path(name):
                self._devices.note_hidden(int.from_bytes(key, sys.byteorder), name)

    def _read_inflight(self, dev: int) -> tuple[int | None, int | None]:
        """Reads and writes in flight; None if not known."""
        device = self._devices.get(dev)
        return (device and read_inflight(device.name, self.root)) or (None, None)

    def _class_of(self, dev: int) -> str | None:
        """The I/O of a stacked device appears again below it: count it once."""
        if dev == _OTHERS or self.filters.device is not None:
            return _COUNTED
        return _COUNTED if dev != _STACKED and self._devices.is_counted(dev) else None

    def _name_of(self, dev: int) -> str:
        return OTHERS if dev in _BOTH_OTHERS else self._devices.name_of(dev)

    def attaches_on_demand(self) -> bool:
        """Whether a queue was seen that does not stamp its requests at issue."""
        return self._keeps_issue_times

    def _see_to_stamps(self, need_issue: Map, parts: Mapping[int, Mapping[str, OpTotals]]) -> None:
        """Make the probe keep issue times if a queue does not stamp its requests."""
        if self._keeps_issue_times:
            return
        ops = [op for part in parts.values() for n, op in part.items() if n in ("read", "write")]
        count = sum(op.count_total or 0 for op in ops)
        queued = sum(op.queued_total or 0 for op in ops)
        if count and queued * 100 < count * _STAMP_MISSING_PCT:
            need_issue.update((0).to_bytes(4, sys.byteorder), (1).to_bytes(4, sys.byteorder))
            self._keeps_issue_times = True

    def _read_positions(self, recents: Map) -> tuple[int, int]:
        """Requests of counted devices whose position was checked, and the sequential ones."""
        for key, value in recents.items_bytes():
            dev = int.from_bytes(key, sys.byteorder)
            if dev not in self._sums:  # its first request ended after the totals were read
                continue
            ended, sequential = _RECENT.unpack(value)
            now = [ended - 1, sequential]  # the first one has no predecessor
            before = self._positions.get(dev, [0, 0])
            self._positions[dev] = now
            if self._sums.owner(dev) == _COUNTED:
                self._judged += now[0] - before[0]
                self._sequential += now[1] - before[1]
        return self._judged, self._sequential
