"""NFS client: READ, WRITE and COMMIT from the client's decision to send to the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.totals import advance_epoch, decode_lost
from ioh.layers.base import Event, Layer, members_of
from ioh.layers.flow_rows import READ, SYNC, WRITE
from ioh.layers.flows import FlowTables
from ioh.layers.mount_roots import mount_root_defines
from ioh.layers.nfs_calls import SampledCalls, call_defines
from ioh.layers.nfs_maps import nfs_defines, read_procedures
from ioh.layers.nfs_mounts import (
    MOUNTS,
    SERVERS,
    MountCounters,
    is_any_mounted,
    proc_ops,
    procedure_rows,
)
from ioh.layers.nfs_parts import Parts
from ioh.layers.nfs_specs import BY_BYTES, CLIENT_PROCEDURES, FLOW
from ioh.layers.nfs_superblocks import ProcTotals
from ioh.layers.part_totals import PartTotals, sum_parts
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, MetricSpec, TableSpec, counter, mean_us, ratio
from ioh.model.sample import LayerSample, OpTotals, Unavailable, Value
from ioh.procfs.mountinfo import MountTable
from ioh.procfs.mountstats import SAME_AS, add_procedures, read_mountstats

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps


def _rpc_metrics(op: str) -> tuple[MetricSpec, ...]:
    """Where the time of one procedure's calls went, as mountstats splits it."""
    calls, verb = f"rpc_{op}s_total", op.upper()
    return (
        counter(calls, f"{verb} calls, each attempt counted, as in mountstats.", ""),
        counter(f"rpc_{op}_queue_ns_total", f"Time {verb} calls waited to be sent.", ""),
        counter(f"rpc_{op}_rtt_ns_total", f"Time from sending a {verb} to its reply.", ""),
        counter(f"rpc_{op}_execute_ns_total", f"Time of {verb} calls in all.", ""),
        mean_us(
            f"rpc_{op}_queue_us",
            f"rpc_{op}_queue_ns_total",
            calls,
            f"Mean time a {verb} waited to be sent.",
            f"{op} queue",
        ),
        mean_us(
            f"rpc_{op}_rtt_us",
            f"rpc_{op}_rtt_ns_total",
            calls,
            f"Mean time from sending a {verb} to its reply: network and server.",
            "rtt",
        ),
        mean_us(
            f"rpc_{op}_execute_us",
            f"rpc_{op}_execute_ns_total",
            calls,
            f"Mean time of a {verb} call in all.",
            "exe",
        ),
    )


# In the order of struct answers in probes/nfs_client.c.
ANSWERS = (
    counter("granted_unstable_total", "WRITEs that the server answered UNSTABLE.", ""),
    counter("granted_data_sync_total", "WRITEs that the server answered DATA_SYNC.", ""),
    counter("granted_file_sync_total", "WRITEs that the server answered FILE_SYNC.", ""),
    counter(
        "short_reads_total", "READs that got less than asked before the end of file.", "shortR/s"
    ),
    counter("eof_reads_total", "READs that got less than asked at the end of file.", ""),
    counter("short_writes_total", "WRITEs of which the server took a part only.", "shortW/s"),
    counter("unlisted_total", "Operations in the totals but not in the tables (full).", ""),
)

SPEC = LayerSpec(
    name="nfs_client",
    title="nfs client",
    rank=20,
    ops=("read", "write_unstable", "write_data_sync", "write_file_sync", "commit", "read_cached"),
    groups={"write": ("write_unstable", "write_data_sync", "write_file_sync")},
    part="mount",
    metrics=(
        counter("app_read_bytes_total", "Bytes that programs read of NFS files.", ""),
        counter("cached_read_bytes_total", "Of these, bytes that no READ fetched.", ""),
        ratio(
            "cached_pct",
            "cached_read_bytes_total",
            "app_read_bytes_total",
            "Share of bytes read that came from this client's page cache.",
            scale=100.0,
            title="cached%",
        ),
        *_rpc_metrics("read"),
        *_rpc_metrics("write"),
        *_rpc_metrics("commit"),
        counter("rpc_retransmits_total", "Requests sent again, all procedures.", "rpc retrans/s"),
        counter("rpc_timeouts_total", "Times a reply was not waited for longer.", "rpc timeouts/s"),
        *ANSWERS,
    ),
    tables=(
        MOUNTS,
        SERVERS,
        TableSpec("process", "processes", ("pid", "comm"), FLOW, BY_BYTES),
        TableSpec("file", "files", ("path",), FLOW, BY_BYTES),
        CLIENT_PROCEDURES,
    ),
    lost=("map_full", "no_start"),
)

_MEMBERS = members_of(
    "nfs_pgio_header inode args.count args.stable res.count res.eof res.verf",
    "nfs_writeverf committed",
    "nfs_commit_data inode",
    "rpc_task tk_start tk_action tk_status tk_rqstp tk_client tk_timeouts tk_msg.rpc_proc",
    "rpc_rqst rq_xtime rq_ntrans",
    "rpc_clnt cl_prog cl_vers",
    "rpc_procinfo p_name",
    "inode i_ino i_sb i_dentry.first",
    "super_block s_dev",
    "dentry d_parent d_name.name d_name.hash",
    "task_struct flags",
)
_CALL_MEMBERS = members_of("rpc_rqst rq_xid rq_xprt rq_ntrans", "rpc_xprt addr")
_PF_KTHREAD = 0x00200000  # a macro of linux/sched.h, unchanged since 2.6.27
_FLOW_BYTES = 40


class NfsClient(Layer):
    """What this machine's NFS mounts ask of their servers, with mountstats beside it."""

    spec = SPEC
    probe = "nfs_client"
    modules = ("sunrpc", "nfs")
    takes_turns = True
    idle = "no NFS file system is mounted"
    events = (
        Event("rpc", "rpc_stats_latency"),
        Event("read_done", "nfs_readpage_done"),
        Event("write_done", "nfs_writeback_done"),
        Event("commit_done", "nfs_commit_done"),
        Event("read_start", "nfs_initiate_read"),
        Event("write_start", "nfs_initiate_write"),
        Event("commit_start", "nfs_initiate_commit"),
    )

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether an NFS file system is mounted, in any mount namespace."""
        return is_any_mounted(root)

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """Offsets in the structs of the NFS client and of sunrpc."""
        shared = nfs_defines(host, _MEMBERS, _FLOW_BYTES, len(SPEC.lost))
        if isinstance(shared, Unavailable):
            return shared
        return {
            **shared,
            **mount_root_defines(host.btf),
            **call_defines(host, filters, _CALL_MEMBERS),
            "PF_KTHREAD": _PF_KTHREAD,
        }

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._flows = FlowTables(root, (READ, WRITE, WRITE, WRITE, SYNC))
        self._totals = PartTotals(SPEC.ops, queue=True)
        self._mounts = MountCounters(root)
        self._proc = ProcTotals()
        self._calls = SampledCalls(("read", "write", "write", "write", "commit"))
        self._where = MountTable(root)
        self._parts = Parts(self._find_name)

    def read(self, maps: Maps) -> LayerSample:
        """Read each mount's totals, and from mountstats what the kernel counts itself."""
        mounts = read_mountstats(self.root)  # before the tick ends: it takes milliseconds
        ended = advance_epoch(maps["epoch"])
        parts = self._totals.read(maps["totals"], ended)
        procedures = read_procedures(maps["procedures"])
        answers = maps["answers"].sum_cpus(maps["answers"].at(0))
        tables = self._mounts.update(mounts or [])
        flows = self._flows.read(maps["flows"], maps["paths"], maps.get("mount_roots"))
        self._where.refresh()
        ops = sum_parts(parts, SPEC.ops[:-1])
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
                "procedure": {key: tuple(row) for key, row in procedures.items()},
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
        """Read /proc/self/mountstats alone: means, but no percentiles, files or processes."""
        mounts = read_mountstats(self.root)
        if mounts is None:
            return Unavailable("/proc/self/mountstats cannot be read", "is /proc mounted?")
        tables = self._mounts.update(mounts)
        self._proc.add(self._mounts.superblocks)
        versions = self._proc.versions
        procedures = procedure_rows(versions)
        return LayerSample(
            source="proc",
            ops={
                **proc_ops(add_procedures(versions), versions),
                "read_cached": OpTotals(bytes_total=self._mounts.cached_bytes),
            },
            metrics={**self._mounts.metrics(), **_rpc_values(procedures)},
            tables={**tables, "procedure": {key: tuple(row) for key, row in procedures.items()}},
            parts={
                name: proc_ops(part.procedures, [part]) for name, part in self._proc.parts.items()
            },
            notes=(
                *notes_of_unfiltered(self.filters, "all mounts and processes"),
                *self._mounts.notes(),
                "only mounts of ioh's own mount namespace are counted",
            ),
        )

    def _find_name(self, dev: int) -> str | None:
        found = self._where.of_dev(dev)
        return None if found is None else f"{found.source} on {found.mount_point}"


def _rpc_values(procedures: Mapping[tuple[str, str], Sequence[int]]) -> dict[str, Value]:
    """The layer's metrics out of the procedures' counters, versions added up."""
    values: dict[str, Value] = {}
    for op in ("read", "write", "commit"):
        names = SAME_AS.get(op.upper(), (op.upper(),))
        rows = [row for (_, name), row in procedures.items() if name in names]
        calls, _, queue, rtt, execute = ([row[at] for row in rows] for at in range(5))
        values[f"rpc_{op}s_total"] = sum(calls)
        values[f"rpc_{op}_queue_ns_total"] = sum(queue)
        values[f"rpc_{op}_rtt_ns_total"] = sum(rtt)
        values[f"rpc_{op}_execute_ns_total"] = sum(execute)
    values["rpc_retransmits_total"] = sum(row[5] for row in procedures.values())
    values["rpc_timeouts_total"] = sum(row[6] for row in procedures.values())
    return values
