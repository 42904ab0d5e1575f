"""NFS mounts in Snapshots: programs' calls next to the READs and WRITEs sent; nfsd's threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter

from ioh.findings.format_sentence import percent
from ioh.findings.split_ratio import Pieces
from ioh.findings.sums import increases, measured, sum_rows
from ioh.findings.window import RecentIntervals, metric_of, once
from ioh.model.file_systems import is_off_disk
from ioh.model.rates import weighted_mean
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MountRow:
    """One NFS mount in one direction over several intervals.

    Shape:
        ``pieces`` has programs' calls above, READs or WRITEs below.  ``settings`` are the gauges
        of its row (rsize_bytes, wsize_bytes, connections).
    """

    point: str
    export: str
    settings: Mapping[str, Value]
    pieces: Pieces


def mounts(snapshots: RecentIntervals, op: str) -> Iterator[MountRow]:
    """Every NFS mount with I/O in this direction (``read`` or ``write``)."""
    rows = snapshots[-1].rows("nfs_client", "mount")
    if not rows:
        return
    by_call, by_rpc = (_counts(snapshots, layer, op) for layer in ("syscall", "nfs_client"))
    for row in rows:
        point, export = row.key[:2]
        if point in by_call and point in by_rpc:
            calls, call_bytes, above_us = by_call[point]
            rpcs, rpc_bytes, below_us = by_rpc[point]
            pieces = Pieces(calls, call_bytes, rpcs, rpc_bytes, above_us, below_us)
            yield MountRow(point, export, row.values, pieces)


@once
def _counts(
    snapshots: Sequence[Snapshot], layer: str, op: str
) -> dict[str, tuple[float, float, float | None]]:
    """Count, bytes and mean time (us, None if not known) at each mount point with operations."""
    counts, sizes, ns = (
        sum_rows(snapshots, layer, "mount", (f"{op}{what}_per_s",), itemgetter(0))
        for what in ("s", "_bytes", "_ns")
    )
    return {
        point: (count, sizes[point], ns[point] / count / 1e3 or None)
        for point, count in counts.items()
        if count
    }


@once
def off_disk_bytes(snapshots: Sequence[Snapshot], op: str) -> float:
    """Bytes that programs moved in files that are not on a block device of this machine."""
    by_type = sum_rows(snapshots, "syscall", "mount", (f"{op}_bytes_per_s",), itemgetter(-1))
    return sum(size for fstype, size in by_type.items() if is_off_disk(fstype))


def metric_mean(
    snapshots: Sequence[Snapshot], layer: str, metric: str, weight: str
) -> float | None:
    """Mean of a ratio metric over several intervals, weighted by a rate of the same layer."""
    return weighted_mean(
        ((each.metrics.get(weight) or 0.0) * seconds, each.metrics.get(metric))
        for seconds, each in measured(snapshots, layer)
    )


@dataclass(frozen=True, slots=True)
class Threads:
    """Whether calls wait for a thread of nfsd.

    Shape:
        ``count`` threads; ``waiting_share`` of the ``requests`` found no idle thread (None and 0
        if the server does not count them).  Sampled once a tick: ``busy_share`` of the threads
        were serving a call, and in ``full_share`` of the samples none was idle.  Shares are 0 to 1.
    """

    count: int
    waiting_share: float | None
    requests: float
    busy_share: float
    full_share: float

    def are_all_busy(self, waiting_min_pct: float, busy_min_pct: float) -> bool:
        """Decide by the server's counts, else by the samples.

        Samples are less exact.  A thread between two calls looks idle, so they hardly ever find all
        of many threads busy, however long the queue.  And a single thread with a single client is
        always busy although nothing waits.
        """
        if self.waiting_share is not None:
            return self.waiting_share * 100 >= waiting_min_pct
        return self.busy_share * 100 >= busy_min_pct and self.full_share > 0.5

    @property
    def text(self) -> str:
        """The evidence as text."""
        if self.waiting_share is not None:
            share = percent(self.waiting_share)
            return f"{share} of {self.requests:,.0f} requests found no idle thread"
        return f"{percent(self.busy_share)} of them were serving a call (mean of the samples)"


def threads_of(snapshots: Sequence[Snapshot]) -> Threads | None:
    """The threads over several intervals, since their number changed; None if it is not known."""
    counts = [metric_of(snapshot, "nfs_server", "threads") for snapshot in snapshots]
    same = len(list(takewhile(lambda count: count == counts[-1], reversed(counts))))
    snapshots = snapshots[len(snapshots) - same :]
    looks = [
        (layer.metrics.get("busy_threads") or 0.0, float(threads))
        for _, layer in measured(snapshots, "nfs_server")
        if (threads := layer.metrics.get("threads"))
    ]
    if not looks:
        return None
    queued, woken = increases(snapshots, "nfs_server", "queued", "woken")
    is_known = any(
        layer.metrics.get("woken_per_s") is not None
        for _, layer in measured(snapshots, "nfs_server")
    )
    waiting = max(0.0, 1 - woken / queued) if queued and is_known else None
    share = sum(min(1.0, busy / threads) for busy, threads in looks) / len(looks)
    full = sum(busy >= threads for busy, threads in looks) / len(looks)
    return Threads(int(looks[-1][1]), waiting, queued, share, full)
