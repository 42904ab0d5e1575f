"""NFS mounts as Snapshots tell of them: what programs asked beside what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioh.findings.pieces import Pieces
from ioh.findings.window import layer_of, rows_of
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot

# File systems whose files are on another machine or in memory: their reads reach no disk here.
OFF_DISK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "afs", "fuse", "tmpfs", "ramfs"}
)


def is_off_disk(fstype: str) -> bool:
    """Whether I/O to such a file system submits nothing to a block device of this host."""
    return fstype in OFF_DISK or fstype.startswith("fuse.")


@dataclass(frozen=True, slots=True)
class Mount:
    """One NFS mount in one direction over several intervals.

    Shape:
        ``pieces``: calls of programs above, READs or WRITEs below.  ``settings`` are gauges of
        its row (rsize_bytes, wsize_bytes, connections).
    """

    point: str
    export: str
    settings: dict[str, Value]
    pieces: Pieces


def mounts(snapshots: Sequence[Snapshot], op: str) -> Iterator[Mount]:
    """Every NFS mount that carried something in this direction (``read`` or ``write``)."""
    for row in rows_of(snapshots[-1], "nfs_client", "mount"):
        point = row.key[0]
        above = _sums(snapshots, "syscall", point, op)
        below = _sums(snapshots, "nfs_client", point, op)
        if above[0] and below[0]:
            pieces = Pieces(
                above[0], above[1], below[0], below[1], _mean_us(above), _mean_us(below)
            )
            yield Mount(point, row.key[1], dict(row.values), pieces)


def _sums(
    snapshots: Sequence[Snapshot], layer: str, point: str, op: str
) -> tuple[float, float, float]:
    """Count, bytes and time (ns) of one mount's row in a layer's table ``mount``."""
    total = [0.0, 0.0, 0.0]
    names = (f"{op}s_per_s", f"{op}_bytes_per_s", f"{op}_ns_per_s")
    for snapshot in snapshots:
        for row in rows_of(snapshot, layer, "mount"):
            if row.key[0] == point:
                for at, name in enumerate(names):
                    total[at] += (row.values.get(name) or 0.0) * snapshot.interval_s
    return total[0], total[1], total[2]


def _mean_us(sums: tuple[float, float, float]) -> float | None:
    return sums[2] / sums[0] / 1e3 if sums[0] and sums[2] else None


def off_disk_bytes(snapshots: Sequence[Snapshot], op: str) -> float:
    """Bytes that programs moved in files of which no block device here knows."""
    return sum(
        (row.values.get(f"{op}_bytes_per_s") or 0.0) * snapshot.interval_s
        for snapshot in snapshots
        for row in rows_of(snapshot, "syscall", "mount")
        if is_off_disk(row.key[-1])
    )


def metric_mean(
    snapshots: Sequence[Snapshot], layer: str, metric: str, weight: str
) -> float | None:
    """A ratio metric over several intervals, each weighted by a rate of the same layer."""
    total = weights = 0.0
    for snapshot in snapshots:
        found = layer_of(snapshot, layer)
        value = found.metrics.get(metric) if found is not None else None
        share = (found.metrics.get(weight) if found is not None else None) or 0.0
        if value is not None and share:
            total += value * share * snapshot.interval_s
            weights += share * snapshot.interval_s
    return total / weights if weights else None
