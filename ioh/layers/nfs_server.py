"""NFS server: READ, WRITE and COMMIT served by the kernel's server (nfsd)."""

from __future__ import annotations

import itertools
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from socket import AF_INET, AF_INET6, ntohs
from typing import TYPE_CHECKING

from ioh.bpf.defines import argument_at, errno_of, offset_defines, trouble_defines
from ioh.bpf.layout import Layout
from ioh.bpf.probe import Event, Probe
from ioh.bpf.totals import advance_epoch, decode_lost
from ioh.layers.base import Layer
from ioh.layers.flow_rows import METADATA as META_COLUMN
from ioh.layers.flow_rows import READ, RPCS, SYNC, WRITE, FlowRows
from ioh.layers.flows import FileId, FlowTables, file_of
from ioh.layers.mount_roots import FILE_PATH
from ioh.layers.nfs_maps import (
    BY_BYTES,
    FLOW_COLUMNS,
    META_COLUMNS,
    NFS_STRUCTS,
    SampledCalls,
    nfs_defines,
    read_procedures,
)
from ioh.layers.nfs_procedures import METADATA, PROCEDURES, tell_ops, without_starts
from ioh.layers.part_totals import PartNames, PartTotals, sum_parts
from ioh.layers.per_owner_totals import Ops
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.in_progress import (
    IN_PROGRESS,
    LEAST_AGE_NS,
    Open,
    in_progress_table,
    oldest_first,
)
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.printable import printable
from ioh.model.rows import Rows
from ioh.model.sample import LayerSample, OpTotals, Table, Unavailable, Value
from ioh.procfs.mountstats import SAME_AS
from ioh.procfs.nfsd import NfsdStats, read_max_block_bytes, read_nfsd, read_pool_stats
from ioh.procfs.processes import are_pids_the_kernels, thread_state
from ioh.procfs.sock_diag import format_endpoint

if TYPE_CHECKING:
    from ioh.bpf.counters import Bytes
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map, Maps

SPEC = LayerSpec(
    name="nfs_server",
    title="nfs server",
    rank=40,
    ops=(
        "read_disk",
        "read_cached",
        "write_unstable",
        "write_data_sync",
        "write_file_sync",
        "commit",
        *METADATA,
    ),
    groups={
        "read": ("read_disk", "read_cached"),
        "write": ("write_unstable", "write_data_sync", "write_file_sync"),
        "meta": METADATA,
    },
    part="file system",
    metrics=numbers(
        """
        threads              | threads   | Threads of nfsd.
        busy_threads         | busy      | Threads serving a call at the sample instant.
        max_block_bytes      |           | Largest READ or WRITE that the server offers.
        replayed_calls_total | replays/s | Calls answered from the reply cache.
        queued_total         |           | Times that a connection was queued for a thread.
        woken_total          |           | Times that an idle thread took it immediately.
        at_once_pct = 100 * woken_total / queued_total | at once% |
            Share of requests that found an idle thread; the others wait for one.
        unlisted_total | | Operations that are in the totals but not in the tables (full).
        """
    ),
    tables=tables(
        f"""
        file | files | path, client | {BY_BYTES}
            {FLOW_COLUMNS}
        client | clients | client | {BY_BYTES}
            {FLOW_COLUMNS}
            {META_COLUMNS}
        export | file systems | mount, fstype | {BY_BYTES}
            {FLOW_COLUMNS}
        {in_progress_table("thread, client, op", age="Time since the oldest of them came.")}
        procedure | procedures | version, procedure | calls_per_s
            calls_total      | calls/s | Calls, counting each attempt.
            errors_total     | err/s   | Calls that failed; ENOENT is normal for LOOKUP.
            execute_ns_total |         | Total time of the calls.
            execute_us = 1e-3 * execute_ns_total / calls_total | exe µs | Mean time to serve a call.
        """
    ),
    lost=("map_full", "no_start"),
)

_MEMBERS = (
    "svc_rqst rq_addr rq_stime rq_prog rq_vers rq_proc rq_procinfo rq_argp rq_resp",
    "svc_procedure pc_name",
    "svc_fh fh_dentry",
    "nfsd3_writeargs stable",
    "nfsd4_compoundargs ops",
    "nfsd4_compoundres opcnt cstate.current_fh",
    "inode i_ino i_sb i_dentry.first",
    "super_block s_dev s_root",
    "dentry d_inode d_parent d_name.name d_name.hash d_sb",
)
_CALL_MEMBERS = ("svc_rqst rq_xid",)
_STABLE = ("nfsd4_op u.write", "nfsd4_write wr_stable_how")
_CALL = Layout("nfsd_call", "u64 came_ns, start_ns; u32 op; u16 family, port; u8 address[16];")
_METADATA_OP = SPEC.ops.index("getattr")  # of the flows of all metadata
_BUSY = ("R", "D")  # states of a thread
# Statuses of RFC 1813 and 7530: the low ones are errnos, but for a few.
_LOW_STATUSES = 32
_STATUSES = {"EDQUOT": 69, "ESTALE": 70}
_OTHER = "other"  # a COMMIT, or any other procedure: which is not known before it ends
_FLOW_KEY = Layout("flow_key", "u64 ino; u32 dev, op; u16 family, port; u32 name; u8 address[16];")


Client = tuple[int, int, bytes]  # family, port in network order, address


class ClientTables(FlowTables):
    """Running totals by file and client, by client, and by exported file system."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, (READ, READ, WRITE, WRITE, WRITE, SYNC))
        self._by_client = FlowRows[Client](
            Rows(1), lambda client: (name_client(*client),), columns=RPCS
        )
        self._by_both = FlowRows(Rows(2), self._name_both)

    def _tables(self) -> dict[str, Table]:
        return {
            "file": self._by_both.table(),
            "client": self._by_client.table(),
            "export": self._by_mount.table(),
        }

    def _name_both(self, what: tuple[FileId, Client]) -> tuple[str, str]:
        file, client = what
        return self._locate(file).path, name_client(*client)

    def _forget_names(self, matches: Callable[[FileId], bool]) -> None:
        self._by_both.forget_names(lambda what: matches(what[0]))

    def _add_rows(self, key: bytes, sums: tuple[int, int, int]) -> FileId:
        _, _, op, family, port, _, address = _FLOW_KEY.unpack(key)
        file, client = file_of(key), (family, port, address)
        if op == _METADATA_OP:
            self._by_client.add(client, META_COLUMN, sums)
            return file
        column = self._column_of_op[op]
        self._by_both.add((file, client), column, sums)
        self._by_client.add(client, column, sums)
        self._by_mount.add(self._mount_of(file), column, sums)
        return file


def name_client(family: int, port: int, address: bytes) -> str:
    """``10.0.0.7:713`` or ``[2001:db8::7]:713``; ``?`` for any other family."""
    if family not in (AF_INET, AF_INET6):
        return "?"
    return format_endpoint(address, ntohs(port), family)


def _call(key: bytes, value: Bytes) -> Open[Client]:
    """A call that has come and has no answer yet, from an entry of the map ``servings``."""
    (thread,) = struct.unpack("=I", key)
    came_ns, start_ns, number, family, port, address = _CALL.unpack_from(value)
    client = family, port, address
    if number >= len(SPEC.ops):
        return Open(_OTHER, client, came_ns, tid=thread)
    op = SPEC.ops[number]
    # Whether a READ is cached is known at its end.
    return Open("read" if op in SPEC.groups["read"] else op, client, start_ns, tid=thread)


def _name_call(call: Open[Client]) -> tuple[str, str, str]:
    return str(call.tid), name_client(*call.who), call.op


def _without_inflight(ops: Ops) -> Ops:
    """The file system of a call is known only when the call ends."""
    return {name: replace(op, inflight=None) for name, op in ops.items()}


def _with_inflight(
    ops: Mapping[str, OpTotals], serving: Sequence[Open[Client]]
) -> dict[str, OpTotals]:
    """Add the numbers in flight; of READs as a group, and of COMMITs only if none can be one."""
    under_way = Counter(call.op for call in serving)
    inflight: dict[str, int | None] = {op: under_way[op] for op in SPEC.groups["write"]}
    inflight["commit"] = None if under_way[_OTHER] else 0
    totals = {name: replace(op, inflight=inflight.get(name)) for name, op in ops.items()}
    return {**totals, "read": OpTotals(inflight=under_way["read"])}


def _status_of(name: str) -> int | None:
    number = errno_of(name)
    return _STATUSES.get(name, number if number < _LOW_STATUSES else None)


def _defines(host: HostFacts, filters: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets in the structs of nfsd and of sunrpc's server."""
    shared = nfs_defines(host, filters, len(SPEC.ops), _MEMBERS, _CALL_MEMBERS)
    if isinstance(shared, Unavailable):
        return shared
    stable = offset_defines(host.btf, *_STABLE)
    if isinstance(stable, Unavailable):
        return stable
    return {
        **shared,
        **trouble_defines(_status_of),
        "NFSD4_OP_BYTES": host.btf.size("nfsd4_op") or 0,
        "OFF_write_stable_how": sum(stable.values()),
        "FILE_INODE_ARG": argument_at(host.btf, "nfsd_file_acquire", "inode", 1),
    }


class NfsServer(Layer):
    """Calls that this machine's NFS server serves."""

    spec = SPEC
    probe = Probe(
        SPEC,
        events=(
            Event("reply", "svc_stats_latency"),
            Event("read_done", "nfsd_read_done"),
            Event("write_done", "nfsd_write_done"),
            Event("compound", "nfsd_compound_status", function="on_compound_op"),
            Event("bio", "block_bio_queue"),
            Event("file", "nfsd_file_acquire"),
            Event("read_start", "nfsd_read_start"),
            Event("write_start", "nfsd_write_start"),
            Event("call", "svc_process"),
        ),
        defines=_defines,
        structs=(*NFS_STRUCTS, FILE_PATH, _FLOW_KEY, _CALL),
        takes_turns=True,
        modules=("sunrpc", "nfsd"),
    )
    idle = "no NFS server is running"

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether nfsd has threads."""
        stats = read_nfsd(root)
        return stats is not None and bool(stats.threads)

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._flows = ClientTables(root)
        self._totals = PartTotals(SPEC.ops, queue=False)
        self._calls = SampledCalls(("read", "read", "write", "write", "write", "commit"))
        self._parts = PartNames(self._find_name)
        self._has_told_ops = False
        self._sees_threads = are_pids_the_kernels(root)

    def read(self, maps: Maps) -> LayerSample:
        """Read each exported file system's totals, and the tables."""
        if not self._has_told_ops:
            tell_ops(maps["metadata_ops"], SPEC.ops, v4_prefix="OP_")
            self._has_told_ops = True
        ended = advance_epoch(maps["epoch"])
        read = self._totals.read(maps["totals"], ended)
        parts = {dev: _without_inflight(without_starts(ops)) for dev, ops in read.items()}
        now_ns = time.monotonic_ns()
        serving = self._serving(maps["servings"], now_ns)
        stats = read_nfsd(self.root)
        unlisted = maps["unlisted"].sum_cpus(maps["unlisted"].at(0))[0]
        procedures = read_procedures(maps["procedures"])
        flows = self._flows.read(maps["flows"], maps["paths"])
        ops = without_starts(sum_parts(parts, SPEC.ops))
        return LayerSample(
            source="bpf",
            ops=_with_inflight(ops, serving),
            metrics={
                **self._proc_metrics(stats),
                "busy_threads": len(serving),
                "unlisted_total": unlisted,
            },
            tables={
                **flows,
                IN_PROGRESS: oldest_first(serving, now_ns, _name_call),
                "procedure": {key: (row[0], row[1], row[4]) for key, row in procedures.items()},
            },
            parts=self._parts.name(parts),
            lost=decode_lost(maps["lost"], SPEC.lost),
            notes=notes_of_unfiltered(self.filters, "all clients and files"),
            calls=self._calls.read(maps, ops),
        )

    def _serving(self, servings: Map, now_ns: int) -> list[Open[Client]]:
        """The calls in progress.

        A call that the server drops has no end: its entry stays until the thread's next call.
        Meanwhile the thread sleeps as idle ones do.
        """

        def lasts(call: Open[Client]) -> bool:
            is_young = now_ns - call.start_ns < LEAST_AGE_NS
            return is_young or not self._sees_threads or thread_state(call.tid, self.root) in _BUSY

        return [call for call in itertools.starmap(_call, servings.entries()) if lasts(call)]

    def read_proc(self) -> LayerSample | Unavailable:
        """Read only /proc/net/rpc/nfsd: counts and bytes, but no times, files or clients."""
        stats = read_nfsd(self.root)
        if stats is None:
            return Unavailable("/proc/net/rpc/nfsd cannot be read", "is the nfsd module loaded?")
        return LayerSample(
            source="proc",
            ops={
                "read": OpTotals(
                    count_total=stats.calls(*SAME_AS["READ"]), bytes_total=stats.read_bytes
                ),
                "write": OpTotals(count_total=stats.calls("WRITE"), bytes_total=stats.write_bytes),
                "commit": OpTotals(count_total=stats.calls("COMMIT"), bytes_total=0),
                **{op: OpTotals(stats.calls(*names), 0) for op, names in PROCEDURES.items()},
            },
            metrics=self._proc_metrics(stats),
            notes=notes_of_unfiltered(self.filters, "all clients and files"),
        )

    def _proc_metrics(self, stats: NfsdStats | None) -> dict[str, Value]:
        pools = read_pool_stats(self.root)
        return {
            "threads": stats and stats.threads,
            "max_block_bytes": read_max_block_bytes(self.root),
            "replayed_calls_total": stats and stats.replayed,
            "queued_total": pools.queued,
            "woken_total": pools.woken,
        }

    def _find_name(self, dev: int) -> str | None:
        mount = self._flows.mounts.of_dev(dev)
        return None if mount is None else printable(mount.mount_point)
