"""NFS client: READ, WRITE and COMMIT, from the client's decision to send until the reply."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.defines import errno_of, trouble_defines
from ioh.bpf.layout import Layout
from ioh.bpf.probe import Event, Probe
from ioh.bpf.totals import advance_epoch, decode_lost
from ioh.layers.base import Layer
from ioh.layers.flow_rows import METADATA as META_COLUMN
from ioh.layers.flow_rows import READ, SYNC, WRITE
from ioh.layers.flows import FLOW_KEY, FileId, FlowTables, file_of
from ioh.layers.mount_roots import FILE_PATH_ON_NFS, mount_root_defines
from ioh.layers.nfs_maps import (
    BY_BYTES,
    FLOW_COLUMNS,
    META_COLUMNS,
    NFS_STRUCTS,
    SampledCalls,
    nfs_defines,
    read_procedures,
)
from ioh.layers.nfs_mounts import MountCounters, ProcTotals, is_any_mounted
from ioh.layers.nfs_pending import PENDING, PENDING_CALLS, PendingCalls
from ioh.layers.nfs_procedures import (
    METADATA,
    METADATA_NAMES,
    tell_ops,
    without_starts,
)
from ioh.layers.part_totals import PartNames, PartTotals, sum_parts
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, OpTotals, Unavailable, Value
from ioh.procfs.mountstats import SAME_AS, read_mountstats

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps


def _rpc_metrics(op: str) -> str:
    """Times of one procedure's calls, split as in mountstats."""
    calls, verb = f"rpc_{op}s_total", op.upper()
    return f"""
        {calls} | | {verb} calls, counting each attempt, as in mountstats.
        rpc_{op}_queue_ns_total | | Time {verb} calls waited before sending.
        rpc_{op}_rtt_ns_total | | Time from sending a {verb} to its reply.
        rpc_{op}_execute_ns_total | | Total time of {verb} calls.
        rpc_{op}_queue_us = 1e-3 * rpc_{op}_queue_ns_total / {calls} | {op} queue |
            Mean time a {verb} waited before sending.
        rpc_{op}_rtt_us = 1e-3 * rpc_{op}_rtt_ns_total / {calls} | rtt |
            Mean time from sending a {verb} to its reply: network and server.
        rpc_{op}_execute_us = 1e-3 * rpc_{op}_execute_ns_total / {calls} | exe |
            Mean total time of a {verb} call.
        """


ANSWERS = numbers(
    """
    granted_unstable_total      |                | WRITEs that the server answered as UNSTABLE.
    granted_data_sync_total     |                | WRITEs that the server answered as DATA_SYNC.
    granted_file_sync_total     |                | WRITEs that the server answered as FILE_SYNC.
    short_reads_total | shortR/s | READs that returned less than requested, before end of file.
    eof_reads_total | | READs that returned less than requested, at end of file.
    short_writes_total          | shortW/s       | WRITEs that the server accepted only in part.
    unlisted_total | | Operations that are in the totals but not in the tables (full).
    """
)

# Columns of mounts and of servers.
_COUNTERS = f"""
reads_total       | r/s       | READs, counting each attempt.
read_bytes_total  | rB/s      | Bytes transferred by READs.
read_ns_total     |           | Time of all READs.
read_latency_us = 1e-3 * read_ns_total / reads_total | r µs | Mean time of a READ.
writes_total      | w/s       | WRITEs, counting each attempt.
write_bytes_total | wB/s      | Bytes transferred by WRITEs.
write_ns_total    |           | Time of all WRITEs.
write_latency_us = 1e-3 * write_ns_total / writes_total | w µs | Mean time of a WRITE.
commits_total     | c/s       | COMMITs.
{META_COLUMNS}
retransmits_total | retrans/s | Requests sent again.
timeouts_total    | timeo/s   | RPC timeouts.
"""

SPEC = LayerSpec(
    name="nfs_client",
    title="nfs client",
    rank=20,
    ops=(
        *("read", "write_unstable", "write_data_sync", "write_file_sync", "commit", "read_cached"),
        *METADATA,
    ),
    groups={
        "write": ("write_unstable", "write_data_sync", "write_file_sync"),
        "meta": METADATA,
    },
    part="mount",
    metrics=(
        *numbers(
            f"""
            app_read_bytes_total        |                | Bytes that programs read from NFS files.
            cached_read_bytes_total     |                | Of these, bytes that needed no READ.
            cached_pct = 100 * cached_read_bytes_total / app_read_bytes_total | cached% |
                Share of bytes read from this client's page cache.
            {_rpc_metrics("read")}
            {_rpc_metrics("write")}
            {_rpc_metrics("commit")}
            {_rpc_metrics("meta")}
            rpc_retransmits_total       | rpc retrans/s  | Requests sent again, all procedures.
            rpc_timeouts_total          | rpc timeouts/s | RPC timeouts, all procedures.
            """
        ),
        *ANSWERS,
    ),
    tables=tables(
        f"""
        mount | mounts | mount, export, vers, sec, proto | {BY_BYTES}
            {_COUNTERS}
            rsize_bytes       | rsize     | Largest READ.
            wsize_bytes       | wsize     | Largest WRITE.
            attr_cache_s      |           | Longest time that attributes of an unchanged file
                are kept (acregmax); 0 with noac.
            connections       | conns     | Connections to the server (nconnect).
            slots_used        | slots     | Most requests ever in flight on these connections.
            slots_limit | of | Most requests in flight that this host allows (the server may allow
                fewer): nfs.max_session_slots since NFSv4.1, before that sunrpc's per connection.
            unanswered        |           | Requests sent minus replies, including those given up.
            silent_s | | Seconds that a request has waited without any reply; 0 if none is known to.
        server | servers | server, address | {BY_BYTES}
            {_COUNTERS}
            port              |           | The server's port, unless it is 2049.
        process | processes | pid, comm | {BY_BYTES}
            {FLOW_COLUMNS}
            {META_COLUMNS}
        file | files | path | {BY_BYTES}
            {FLOW_COLUMNS}
        procedure | procedures | version, procedure | calls_per_s
            calls_total       | calls/s   | Calls, counting each attempt.
            errors_total      | err/s     | Calls that failed; ENOENT is normal for LOOKUP.
            queue_ns_total    |           | Time spent waiting before sending.
            rtt_ns_total      |           | Time from sending to the reply.
            execute_ns_total  |           | Total time of the calls.
            retransmits_total | retrans/s | Requests sent again.
            timeouts_total    | timeo/s   | RPC timeouts.
            queue_us = 1e-3 * queue_ns_total / calls_total | queue µs | Mean wait before sending.
            rtt_us = 1e-3 * rtt_ns_total / calls_total | rtt µs | Mean time to the reply.
            execute_us = 1e-3 * execute_ns_total / calls_total | exe µs | Mean total time.
        {PENDING_CALLS}
        """
    ),
    lost=("map_full", "no_start"),
)

_MEMBERS = (
    "nfs_pgio_header inode args.count args.stable res.count res.eof res.verf",
    "nfs_writeverf committed",
    "nfs_commit_data inode",
    "rpc_task tk_start tk_action tk_status tk_rqstp tk_client tk_timeouts tk_owner",
    "rpc_task tk_msg.rpc_proc tk_msg.rpc_argp",
    "rpc_rqst rq_xtime rq_ntrans",
    "rpc_clnt cl_prog cl_vers",
    "rpc_procinfo p_name",
    "inode i_ino i_sb i_dentry.first",
    "super_block s_dev s_fs_info",
    "nfs_server client",
    "nfs_inode fh vfs_inode",
    "nfs_pgio_args fh",
    "dentry d_parent d_name.name d_name.hash",
    "task_struct flags",
)
_ANSWERS = Layout(
    "answers",
    "u64 granted[3]; /* by stable_how */"
    f"u64 {', '.join(spec.name.removesuffix('_total') for spec in ANSWERS[3:])};",
)
_CALL_MEMBERS = ("rpc_rqst rq_xid rq_xprt rq_ntrans", "rpc_xprt addr")
_PF_KTHREAD = 0x00200000  # a macro of linux/sched.h, unchanged since 2.6.27


def _defines(host: HostFacts, filters: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets in the structs of the NFS client and sunrpc."""
    shared = nfs_defines(host, filters, len(SPEC.ops), _MEMBERS, _CALL_MEMBERS)
    if isinstance(shared, Unavailable):
        return shared
    return {
        **shared,
        **mount_root_defines(host.btf),
        **trouble_defines(errno_of),
        "PF_KTHREAD": _PF_KTHREAD,
    }


_METADATA_OP = SPEC.ops.index("getattr")  # of the flows of all metadata


class _Flows(FlowTables):
    """Metadata calls are known by process only: their file is not."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, (READ, WRITE, WRITE, WRITE, SYNC))

    def _add_rows(self, key: bytes, sums: tuple[int, int, int]) -> FileId:
        _, _, tgid, op, _ = FLOW_KEY.unpack(key)
        if op != _METADATA_OP:
            return super()._add_rows(key, sums)
        self._note_process(tgid, key)
        self._processes.add(tgid, META_COLUMN, sums)
        return file_of(key)


class NfsClient(Layer):
    """Calls of this machine's NFS mounts, plus the kernel's own counters in mountstats."""

    spec = SPEC
    probe = Probe(
        SPEC,
        events=(
            Event("rpc", "rpc_stats_latency"),
            Event("read_done", "nfs_readpage_done"),
            Event("write_done", "nfs_writeback_done"),
            Event("commit_done", "nfs_commit_done"),
            Event("read_start", "nfs_initiate_read"),
            Event("write_start", "nfs_initiate_write"),
            Event("commit_start", "nfs_initiate_commit"),
        ),
        defines=_defines,
        structs=(*NFS_STRUCTS, FILE_PATH_ON_NFS, FLOW_KEY, PENDING, _ANSWERS),
        takes_turns=True,
        modules=("sunrpc", "nfs"),
    )
    idle = "no NFS file system is mounted"

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether any mount namespace has an NFS mount."""
        return is_any_mounted(root)

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._flows = _Flows(root)
        self._totals = PartTotals(SPEC.ops, queue=True, accrues=True)
        self._pending = PendingCalls(self._flows, SPEC.ops)
        self._mounts = MountCounters(root)
        self._proc = ProcTotals()
        self._calls = SampledCalls(("read", "write", "write", "write", "commit"))
        self._parts = PartNames(self._find_name)
        self._has_told_ops = False

    def read(self, maps: Maps) -> LayerSample:
        """Read each mount's totals, and the kernel's own counters from mountstats."""
        if not self._has_told_ops:
            tell_ops(maps["metadata_ops"], SPEC.ops)
            self._has_told_ops = True
        mounts = read_mountstats(self.root)  # before the tick ends: it takes milliseconds
        ended = advance_epoch(maps["epoch"])
        totals = self._totals.read(maps["totals"], ended)
        self._pending.look(maps["pendings"], time.monotonic_ns())
        parts = {dev: without_starts(ops) for dev, ops in self._pending.book(totals).items()}
        procedures = read_procedures(maps["procedures"])
        answers = maps["answers"].sum_cpus(maps["answers"].at(0))
        tables = self._mounts.update(mounts or [])
        flows = self._flows.read(maps["flows"], maps["paths"], maps.get("mount_roots"))
        ops = without_starts(sum_parts(parts, SPEC.ops))
        return LayerSample(
            source="bpf",
            ops={**ops, "read_cached": OpTotals(bytes_total=self._mounts.cached_bytes)},
            metrics={
                **self._mounts.metrics(),
                **_rpc_values(procedures),
                **{spec.name: answers[at] for at, spec in enumerate(ANSWERS)},
            },
            tables={
                **tables,
                "process": flows["process"],
                "file": flows["file"],
                "procedure": procedures,
                IN_PROGRESS: self._pending.table(self._find_name),
            },
            parts=self._parts.name(parts),
            lost=decode_lost(maps["lost"], SPEC.lost),
            notes=(
                *notes_of_unfiltered(self.filters, "all mounts and processes"),
                *self._mounts.notes(),
            ),
            calls=self._calls.read(maps, ops),
        )

    def read_proc(self) -> LayerSample | Unavailable:
        """Read only /proc/self/mountstats: means, but no percentiles, files or processes."""
        mounts = read_mountstats(self.root)
        if mounts is None:
            return Unavailable("/proc/self/mountstats cannot be read", "is /proc mounted?")
        tables = self._mounts.update(mounts)
        self._proc.add(self._mounts.superblocks)
        procedures = dict(self._proc.procedures)
        return LayerSample(
            source="proc",
            ops={
                **self._proc.ops,
                "read_cached": OpTotals(bytes_total=self._mounts.cached_bytes),
            },
            metrics={**self._mounts.metrics(), **_rpc_values(procedures)},
            tables={**tables, "procedure": procedures},
            parts=self._proc.parts,
            notes=(
                *notes_of_unfiltered(self.filters, "all mounts and processes"),
                *self._mounts.notes(),
                "only mounts of ioh's own mount namespace are counted",
            ),
        )

    def _find_name(self, dev: int) -> str | None:
        mount = self._flows.mounts.of_dev(dev)
        if mount is None:
            return None
        return f"{printable(mount.source)} on {printable(mount.mount_point)}"


def _rpc_values(procedures: Mapping[tuple[str, ...], Sequence[int]]) -> dict[str, Value]:
    """The layer's RPC metrics: the procedures' counters, summed over versions."""
    values: dict[str, Value] = {}
    for op in ("read", "write", "commit", "meta"):
        names = METADATA_NAMES if op == "meta" else SAME_AS.get(op.upper(), (op.upper(),))
        rows = [row for (_, name), row in procedures.items() if name in names]
        calls, _, queue, rtt, execute = ([row[at] for row in rows] for at in range(5))
        values[f"rpc_{op}s_total"] = sum(calls)
        values[f"rpc_{op}_queue_ns_total"] = sum(queue)
        values[f"rpc_{op}_rtt_ns_total"] = sum(rtt)
        values[f"rpc_{op}_execute_ns_total"] = sum(execute)
    values["rpc_retransmits_total"] = sum(row[5] for row in procedures.values())
    values["rpc_timeouts_total"] = sum(row[6] for row in procedures.values())
    return values
