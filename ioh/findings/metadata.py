"""Metadata calls over several intervals: who waits in them, and in which kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from ioh.findings.sums import increase, sum_op, sum_rows
from ioh.findings.window import once
from ioh.model.io_path import META
from ioh.model.snapshot import Snapshot

_OTHER_TIMES = (
    "read_waited_ns_per_s",
    "write_waited_ns_per_s",
    "sync_ns_per_s",
    "fault_ns_per_s",
    "copy_ns_per_s",
)


@dataclass(frozen=True, slots=True)
class MetadataWaits:
    """The calls of one program's processes that waited for a lower layer.

    Shape:
        ``comm``: the program's name; its processes may be short-lived, as those of git.
        ``share``: of the time of all its I/O that waited, 0 to 1.

    Units:
        ``waiting``: threads on average; ``per_s`` calls a second of ``mean_us``.
    """

    comm: str
    waiting: float
    share: float
    per_s: float
    mean_us: float


@once
def most_waiting(recent: Sequence[Snapshot], seconds: float) -> MetadataWaits | None:
    """The program that waits longest in metadata calls; None if none waits."""
    by_comm = itemgetter(-1)
    meta_ns, counts, other_ns = (
        sum_rows(recent, "syscall", "process", columns, by_comm)
        for columns in (("meta_waited_ns_per_s",), ("metas_waited_per_s",), _OTHER_TIMES)
    )
    comm = max(meta_ns, key=meta_ns.__getitem__, default="")
    spent_ns, count = meta_ns.get(comm, 0.0), counts.get(comm, 0.0)
    if not spent_ns or not count:
        return None
    share = spent_ns / (spent_ns + other_ns[comm])
    waiting = spent_ns / seconds / 1e9
    return MetadataWaits(comm, waiting, share, count / seconds, spent_ns / count / 1e3)


@once
def times_by_kind(recent: Sequence[Snapshot]) -> dict[str, float]:
    """Time of all metadata calls by kind, in µs, longest first; only kinds with calls."""
    kinds = next((x.specs["syscall"].groups.get(META, ()) for x in recent), ())
    sums = {kind: sum_op(recent, "syscall", kind) for kind in kinds}
    times = {kind: total.count * (total.latency_us or 0.0) for kind, total in sums.items()}
    return dict(sorted(((k, us) for k, us in times.items() if us), key=lambda kind: -kind[1]))


@once
def is_over_nfs(recent: Sequence[Snapshot]) -> bool:
    """Whether the NFS client's metadata calls took at least half of the time of the waits."""
    rpcs = sum_op(recent, "nfs_client", META)
    waited_us = increase(recent, "syscall", "meta_waited_ns") / 1e3
    return rpcs.count * (rpcs.latency_us or 0.0) > waited_us / 2
