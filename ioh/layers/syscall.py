"""Application I/O: read, write and fsync-family calls on files and block devices."""

from __future__ import annotations

import mmap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout
from ioh.bpf.probe import AttachPoint, Event, OnDemand, Probe, Step
from ioh.bpf.totals import advance_epoch, decode_ended_ns, decode_lost, decode_op_totals
from ioh.layers.abandoned import AbandonedRequests
from ioh.layers.base import Layer
from ioh.layers.call_records import ASYNC, ASYNC_KEY, CALL, FAULT
from ioh.layers.failure_table import FAILED, FAILURE, FailureTable
from ioh.layers.flows import FILE_KEY, FLOW, FLOW_KEY, FlowTables
from ioh.layers.fuse_daemons import FuseDaemons
from ioh.layers.mount_roots import FILE_PATH_ON_NFS
from ioh.layers.nfs_mounts import is_any_mounted
from ioh.layers.open_calls import OPEN_CALLS, OpenCalls
from ioh.layers.rising_totals import RisingTotals
from ioh.layers.syscall_probe import (
    CAST_TYPES,
    DEVICES,
    URING_SUBMIT_TRACEPOINTS,
    has_uring,
    sees_faults,
    syscall_defines,
)
from ioh.model.failures import FAILED_CALLS
from ioh.model.filters import Filters
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.sample import LayerSample, OpTotals, Unavailable
from ioh.procfs.devices import numbers_on
from ioh.procfs.processes import are_cpu_waits_timed, are_pids_the_kernels
from ioh.procfs.syscall_fallback import SyscallFallback

if TYPE_CHECKING:
    from ioh.bpf.maps import Maps

_FLOW = """
reads_total       | r/s    | Read calls.
read_bytes_total  | rB/s   | Bytes read.
read_ns_total     |        | Time in read calls.
read_latency_us = 1e-3 * read_ns_total / reads_total | r µs | Mean time of a read call.
writes_total      | w/s    | Write calls.
write_bytes_total | wB/s   | Bytes written.
write_ns_total    |        | Time in write calls.
write_latency_us = 1e-3 * write_ns_total / writes_total | w µs |
    Mean time of a write call.
syncs_total       | sync/s | fsync-family calls.
sync_ns_total     |        | Time in fsync-family calls.
sync_latency_us = 1e-3 * sync_ns_total / syncs_total | sync µs |
    Mean time of an fsync call.
faults_total      | map/s  | Reads submitted by page faults of mapped files, swap-in and exec.
fault_bytes_total | mapB/s | Bytes of those reads.
fault_ns_total    |        | Time of those reads.
fault_latency_us = 1e-3 * fault_ns_total / faults_total | map µs |
    Mean time of such a read.
reads_waited_total | | Of the read calls, direct ones, and buffered ones that were not served from
    memory.
read_waited_bytes_total | | Bytes of those reads.
read_waited_ns_total | | Time of those reads.
writes_waited_total | | Of the write calls, direct and synchronous ones.
write_waited_bytes_total | | Bytes of those writes.
write_waited_ns_total | | Time of those writes.
copies_total      | copy/s  | Copies between files by the kernel; neither reads nor writes.
copy_bytes_total  | copyB/s | Bytes copied.
copy_ns_total     |         | Time in calls that copy.
copy_latency_us = 1e-3 * copy_ns_total / copies_total | copy µs |
    Mean time of a copy.
"""
_META = """
metas_total       | meta/s | Calls on names and attributes: open to setattr, and close.
meta_ns_total     |        | Time in these calls.
meta_latency_us = 1e-3 * meta_ns_total / metas_total | meta µs |
    Mean time of such a call.
metas_waited_total | | Of these calls, those that slept or used a lower layer.
meta_waited_ns_total | | Time of those calls.
locks_total       | lock/s | Lock calls that waited.
lock_ns_total     |        | Time in those calls.
lock_latency_us = 1e-3 * lock_ns_total / locks_total | lock µs |
    Mean time of such a lock call.
"""
_BY_BYTES = "read_bytes_per_s, write_bytes_per_s, fault_bytes_per_s, copy_bytes_per_s"
_BY_BYTES_AND_CALLS = f"{_BY_BYTES}, metas_per_s, locks_per_s"  # which some processes only have

COUNTED = numbers(
    """
    read_calls_total | | Read calls followed to the layers below; not those on FUSE, CIFS or
        ZFS.
    read_calls_cached_total   | | Of these, calls that touched no lower layer.
    read_calls_at_end_total | | Read calls at end of file; not included in the read calls
        followed.
    cached_calls_pct = 100 * read_calls_cached_total / read_calls_total | calls% |
        Share of read calls served from cache: they submitted nothing below.
    read_lower_ops_total      | | Bios that read calls submitted themselves.
    read_lower_bytes_total    | | Bytes of those bios.
    write_calls_total         | | Write and fsync calls followed to the layers below.
    write_lower_ops_total     | | Bios that write and fsync calls submitted themselves.
    write_lower_bytes_total   | | Bytes of those bios.
    write_reads_total | | Bios that write calls submitted to read: partly written pages,
        metadata.
    lower_splits_total        | | Bios of such calls that were split because of a limit.
    lower_requests_total      | | Requests made from the bios of such calls.
    read_lower_ops_per_op = read_lower_ops_total / read_calls_total | bios/r |
        Bios per read call.
    write_lower_ops_per_op = write_lower_ops_total / write_calls_total | bios/w |
        Bios per write or fsync call, submitted by the caller itself.
    read_reaped_late_total | | libaio reads that completed before io_getevents was called for
        them.
    write_reaped_late_total | | libaio writes that completed before io_getevents was called for
        them.
    unlisted_total | | Operations that are in the totals but not in the tables (full).
    read_looked_bytes_total | | Bytes of the buffered reads whose file was checked for holes:
        one read per millisecond and CPU.
    read_hole_bytes_total | | Of these, bytes read from holes: most pages in memory of the file
        have no block.
    fault_requests_total      | | Requests made from fault_read operations.
    read_packed_bytes_total   | | Compressed bytes that buffered reads fetched.
    read_unpacked_bytes_total | | Their size in the page cache, uncompressed.
    read_followed_bytes_total | | Bytes of the read calls followed.
    read_direct_from_memory_bytes_total | | Bytes that direct reads got from the page cache: their
        file system did no direct I/O for the file.
    read_direct_hole_bytes_total | | Bytes that direct reads got neither from a device nor from the
        page cache: holes and blocks never written.
    meta_waited_total | | Calls of group meta that slept or used a lower layer. Without io_uring.
    meta_waited_ns_total | | Time of those calls.
    meta_lower_ops_total | | Bios that calls of group meta submitted themselves, to read or to
        write, also those calls that failed.
    meta_lower_bytes_total | | Bytes of those bios.
    meta_waited_cpu_wait_ns_total | | Time that threads in those that waited could have run, but
        had no CPU.
    """
)
_COMPUTED = numbers(
    """
    read_cached_bytes_total | | Of the bytes of the read calls followed, those that were not fetched
        for them.
    cached_pct = 100 * read_cached_bytes_total / read_followed_bytes_total | cached% |
        Share of the bytes that read calls got from memory.
    read_cpu_wait_ns_total | | Time that threads in read calls waited for a CPU: they could have
        run. Without io_uring and libaio.
    read_waited_cpu_wait_ns_total | | Of this, in read_missed and read_direct.
    write_cpu_wait_ns_total | | The same, in write calls and copies.
    write_waited_cpu_wait_ns_total | | Of this, in write_direct and write_sync.
    sync_cpu_wait_ns_total | | The same, in fsync-family calls.
    meta_cpu_wait_ns_total | | The same, in calls of group meta.
    """
)

SPEC = LayerSpec(
    name="syscall",
    title="app",
    rank=10,
    ops=(
        "read_cached",
        "read_missed",
        "read_direct",
        "write_buffered",
        "write_direct",
        "write_sync",
        "fsync",
        "copy",
        "fault_read",
        "writeback",
        "open",
        "create",
        "stat",
        "readdir",
        "unlink",
        "rename",
        "setattr",
        "lock",
        "close",
    ),
    groups={
        "read_buffered": ("read_cached", "read_missed"),
        "read": ("read_cached", "read_missed", "read_direct"),
        "read_waited": ("read_missed", "read_direct"),
        "write": ("write_buffered", "write_direct", "write_sync"),
        "write_waited": ("write_direct", "write_sync"),
        "meta": ("open", "create", "stat", "readdir", "unlink", "rename", "setattr", "close"),
    },
    metrics=(*COUNTED, *_COMPUTED),
    tables=tables(
        f"""
        process | processes | pid, comm | {_BY_BYTES_AND_CALLS}
            {_FLOW} {_META}
        file | files | path | {_BY_BYTES}
            {_FLOW}
        mount | mounts | mount, fstype | {_BY_BYTES_AND_CALLS}
            {_FLOW} {_META}
        error | failed calls | pid, comm, op, error, mount | errors_per_s
            errors_total | err/s | Calls that failed with this errno.
        {OPEN_CALLS}
        """
    ),
    lost=("map_full", "aio_unseen", "uring_unseen"),
)


_NO_MSYNC = "--device: msync and sync are not counted, because they name no file."
_TOO_MANY = "--device: {} has {} devices and file systems on it; files on {} are not counted."
_OTHER_PIDS = "ioh runs in a separate PID namespace: the process ids shown are the host's."

_BUFFERED = "read_buffered"
_OPENS = ("open", "create")
_CPU_WAITS = {
    "read": SPEC.groups["read"],
    "read_waited": SPEC.groups["read_waited"],
    "write": (*SPEC.groups["write"], "copy"),
    "write_waited": SPEC.groups["write_waited"],
    "sync": ("fsync",),
    "meta": SPEC.groups["meta"],
}


_COUNTERS = tuple(each.name for each in COUNTED if each.kind == "counter")
_CHARGES = Layout(
    "charges",
    f"""
    u64 {", ".join(each.removesuffix("_total").replace("_calls_", "_") for each in _COUNTERS)};
    u64 withdrawn[{len(SPEC.ops)}]; /* counted as started, but never were, or end unseen */
    u64 cpu_wait_ns[{len(SPEC.ops)}]; /* the threads of calls could have run, but had no CPU */
    u64 looked_ns; /* when holes were last looked for */
    /* Failed asynchronous reads in read_calls: those that used no lower layer, and others. */
    u64 failed_cached, failed_fetched;
    """,
)


class Syscall(Layer):
    """Calls of all processes on files and block devices, followed to the layers below."""

    spec = SPEC
    probe = Probe(
        SPEC,
        events=(
            Event("exit", "sys_exit"),
            Event("uring_complete", "io_uring_complete", "io_uring", has_uring),
            Event("request_end", "block_rq_complete", "fault_read", sees_faults),
            Event("bio_end", "block_bio_complete", "fault_read", sees_faults),
            Event("bio", "block_bio_queue", "cached"),
            Event("request", "block_getrq", "requests"),
            Event("backmerge", "block_bio_backmerge", "merges", function="on_merge"),
            Event("frontmerge", "block_bio_frontmerge", "merges", function="on_merge"),
            Event("split", "block_split", "splits"),
            Event("uring_submit", " ".join(URING_SUBMIT_TRACEPOINTS), "io_uring", has_uring),
            Event("uring_worker", "io_uring_queue_async_work", "io_uring", has_uring),
            Event("enter", "sys_enter"),
        ),
        defines=syscall_defines,
        structs=(
            *(FILE_KEY, FILE_PATH_ON_NFS, FLOW_KEY, FLOW, FAILURE, FAILED),
            *(CALL, ASYNC_KEY, ASYNC, FAULT, _CHARGES),
        ),
        steps=(
            # First what takes longest to verify: programs are loaded in parallel.
            Step("reap_step", "sys_exit", "on_reap_step"),
            Step("submit_step", "sys_enter", "on_submit_step"),
            Step("revise_step", "sys_exit", "on_revise_step"),
            Step("meta_step", "sys_enter", "on_meta_step"),
            Step("meta_end_step", "sys_exit", "on_meta_end_step"),
        ),
        on_demand=OnDemand(
            (
                AttachPoint("nfs_initiate_read", "on_nfs_read"),
                AttachPoint("nfs_initiate_write", "on_nfs_write"),
            ),
            without="calls on NFS files look cached",
            module="nfs",
            offsets=(("nfs_pgio_header", "args.count"),),
        ),
        prefers_typed=True,
        cast_types=CAST_TYPES,
        joins="block",
        prefers_events={
            "RECORDS": {"sys_enter": {"id": 8, "args": 16}, "sys_exit": {"ret": 16}},
            "URING_RECORDS": {
                "io_uring_submit_req": {"req": 16},
                "io_uring_complete": {"req": 16, "res": 32},
            },
        },
        welcome_modules=("btrfs", "overlay", "xfs"),
    )

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._flows = FlowTables(root, has_others=True)
        kinds = dict.fromkeys(SPEC.groups[_BUFFERED], _BUFFERED) | dict.fromkeys(_OPENS, "open")
        self._begun_as = tuple(kinds.get(op, op) for op in SPEC.ops)  # by the probe's numbers
        self._failures = FailureTable(self._begun_as)
        self._rising = RisingTotals()
        self._previous: dict[str, OpTotals] = {}
        self._is_at_a_halt = False
        self._cached = _CachedBytes()
        self._are_cpu_waits_timed = are_cpu_waits_timed(root)
        self._are_pids_the_kernels = are_pids_the_kernels(root)
        self._abandoned = AbandonedRequests(SPEC.ops, sees_pids=self._are_pids_the_kernels)
        self._open = OpenCalls(
            self._begun_as,
            root,
            self._flows,
            sees_pids=self._are_pids_the_kernels,
            needs_device=filters.device is not None,
        )
        self._fuse_daemons = FuseDaemons()
        self._notes = self.notes()  # once: it looks through sysfs
        self._fallback = SyscallFallback(SPEC, filters, root)

    def attaches_on_demand(self) -> bool:
        """Whether NFS is mounted: its tracepoints keep the module from being unloaded."""
        return is_any_mounted(self.root)

    def read(self, maps: Maps) -> LayerSample:
        """Read totals, the bios and requests of calls, and the tables."""
        ended = advance_epoch(maps["epoch"])
        totals = maps["totals"]
        charges = maps["charges"].sum_cpus(maps["charges"].at(0))
        withdrawn = charges[_CHARGES.word("withdrawn") :]  # by op
        metrics = dict(zip(_COUNTERS, charges, strict=False))
        self._take_back_failed(metrics, *charges[_CHARGES.word("failed_cached") :])
        metrics["read_cached_bytes_total"] = self._cached.total(metrics)
        # Nothing slow until these are read: an operation that ends now has its maximum next time.
        ops: dict[str, OpTotals] = {}
        ended_ns: Counter[str] = Counter()
        for index, (name, begun_as) in enumerate(zip(SPEC.ops, self._begun_as, strict=True)):
            raw = totals.at(index)
            ops[name] = decode_op_totals(raw, ended, previous=self._previous.get(name))
            ended_ns[begun_as] += decode_ended_ns(raw)
        failed = maps["failures"].drain()
        now_ns = time.monotonic_ns()
        lost = decode_lost(maps["lost"], SPEC.lost)
        self._abandoned.find(maps, is_at_a_halt=self._is_at_a_halt)
        lost = {  # an iocb reused in between is in neither count
            reason: self._rising.at_least(reason, count + self._abandoned[reason])
            for reason, count in lost.items()
        }
        self._open.look(maps, now_ns, self._abandoned)
        ops = self._with_inflight(ops, withdrawn)
        for name in set(self._begun_as):
            open_ns, spent_ns = self._open.open_ns(name), None
            if open_ns is not None:
                spent_ns = self._rising.at_least(name, ended_ns[name] + open_ns)
            ops[name] = replace(ops[name], weighted_ns_total=spent_ns)
        self._is_at_a_halt = _is_at_a_halt(self._previous, ops)
        self._previous = ops
        return LayerSample(
            source="bpf",
            ops=ops,
            metrics={**metrics, **self._cpu_waits(charges[_CHARGES.word("cpu_wait_ns") :])},
            tables={
                **self._flows.read(maps["flows"], maps["paths"], maps.get("mount_roots")),
                FAILED_CALLS: self._failures.table(failed, self._flows.mounts),
                IN_PROGRESS: self._open.table(now_ns),
            },
            lost=lost,
            notes=(*self._notes, *self._fuse_daemons.notes(maps["fuse_daemons"], self._flows)),
        )

    def _with_inflight(
        self, ops: Mapping[str, OpTotals], withdrawn: Sequence[int]
    ) -> dict[str, OpTotals]:
        """Add the numbers in flight; of buffered reads as a group: their kind is not known yet.

        With a filter for a device those of opens are unknown: a path may lead to any device.
        """
        under_way = {
            name: (op.started_total or 0) - taken_back - (op.count_total or 0)
            - (op.errors_total or 0) - self._abandoned[name]
            for (name, op), taken_back in zip(ops.items(), withdrawn, strict=False)
        }  # fmt: skip
        kinds = SPEC.groups[_BUFFERED]
        unknown = {*kinds, *(() if self.filters.device is None else _OPENS)}
        with_inflight = {
            name: replace(op, inflight=None if name in unknown else max(0, under_way[name]))
            for name, op in ops.items()
        }
        with_inflight[_BUFFERED] = OpTotals(
            started_total=sum(ops[kind].started_total or 0 for kind in kinds),
            inflight=max(0, sum(under_way[kind] for kind in kinds)),
        )
        return with_inflight

    def _cpu_waits(self, by_op: Sequence[int]) -> dict[str, int | None]:
        """Sum up the waits for a CPU; None if the kernel does not measure them."""
        if not self._are_cpu_waits_timed:
            return {f"{name}_cpu_wait_ns_total": None for name in (*_CPU_WAITS, "meta_waited")}
        waits = dict(zip(SPEC.ops, by_op, strict=False))
        return {
            f"{name}_cpu_wait_ns_total": sum(waits[op] for op in ops)
            for name, ops in _CPU_WAITS.items()
        }

    def _take_back_failed(self, metrics: dict[str, int], cached: int, fetched: int) -> None:
        """Take back asynchronous reads that failed: they were counted when submitted."""
        for name, failed in (
            ("read_calls_total", cached + fetched),
            ("read_calls_cached_total", cached),
        ):
            metrics[name] = self._rising.at_least(name, metrics[name] - failed)

    def notes(self) -> tuple[str, ...]:
        """What the filters and this host leave out."""
        others = () if self._are_pids_the_kernels else (_OTHER_PIDS,)
        notes = (*others, *self.filters.note("pid", "comm", "cgroup", "device"))
        if self.filters.device is None:
            return notes
        count = len(numbers_on(self.filters.device, self.root))
        if count > DEVICES:
            name = self.filters.device_name or "the disk"
            notes = (_TOO_MANY.format(name, count, count - DEVICES), *notes)
        return (_NO_MSYNC, *notes)

    def read_proc(self) -> LayerSample | Unavailable:
        """Read each process' /proc/PID/io."""
        return self._fallback.sample()


class _CachedBytes:
    """The bytes that reads got from memory: all that were not fetched for them, now or before.

    Read-ahead fetches bytes before a read asks for them.  What nobody has asked for is halved with
    each reading, down to a page: else it would hide as many later bytes from memory.
    """

    def __init__(self) -> None:
        self._read = self._fetched = self._ahead = self._cached = 0

    def total(self, metrics: Mapping[str, int]) -> int:
        """The running total, from one reading of the probe's counters."""
        read = metrics["read_followed_bytes_total"]
        fetched = metrics["read_lower_bytes_total"] - metrics["read_packed_bytes_total"]
        fetched += metrics["read_unpacked_bytes_total"] + metrics["read_direct_hole_bytes_total"]
        growth = fetched - self._fetched
        ahead = self._ahead + growth - (read - self._read)
        self._read, self._fetched = read, fetched
        self._cached += max(0, -ahead)
        ahead = min(ahead, growth + self._ahead // 2)
        self._ahead = ahead if ahead >= mmap.PAGESIZE else 0
        return self._cached


def _is_at_a_halt(older: Mapping[str, OpTotals], newer: Mapping[str, OpTotals]) -> bool:
    """Whether some op has calls in flight, but none started or ended since."""
    return any(
        op.inflight
        and name in older
        and op.started_total == older[name].started_total
        and op.inflight == older[name].inflight
        for name, op in newer.items()
    )
