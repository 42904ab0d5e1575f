"""Make a fio job with the mix and rates of the calls in a recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ioh.bench.jobs import DATA
from ioh.model.errors import IohError
from ioh.model.hist import SIZE_EDGES_BYTES, SizeLatencyHist
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.playback.aggregate_interval import read_aggregate
from ioh.playback.time_range import Span, parse_when
from ioh.session.reader import Session

_MIN_DIRECT_BYTES = 4096
_MAX_USERS = 256


class _Class(NamedTuple):
    """One kind of call: its name in a recording, and fio's options for it."""

    op: str
    rw: str
    is_direct: bool
    sync: str = ""


_CLASSES = (
    _Class("read_direct", "randread", is_direct=True),
    _Class("read_buffered", "randread", is_direct=False),
    _Class("write_direct", "randwrite", is_direct=True),
    _Class("write_sync", "randwrite", is_direct=False, sync="sync"),
    _Class("write_buffered", "randwrite", is_direct=False),
)


def job_like(path: str, begin: str, end: str, size_bytes: int, run_s: float) -> str:
    """Make the job file; ``begin`` and ``end`` of the part are as for ``ioh replay``.

    Raises IohError if the part does not exist, or has no recorded calls.
    """
    span = Span(parse_when(begin) if begin else None, parse_when(end) if end else None)
    with Session(path) as session:
        part = read_aggregate(session, span)
    text = "\n".join(_sections(part.snapshot))
    if not text:
        cause = f"{path} has no read or write calls in that part"
        raise IohError(cause, "Record as root, with the layer syscall, while the load runs")
    return (
        f"[global]\ntime_based=1\nruntime={run_s:g}\nfilename={DATA}\nsize={size_bytes}\n"
        f"ioengine=psync\nrandrepeat=0\nnorandommap=1\nrefill_buffers=1\nfallocate=none\n\n{text}"
    )


def _sections(snapshot: Snapshot) -> Iterator[str]:
    layer = snapshot.layers.get("syscall")
    if layer is None or isinstance(layer, Unavailable):
        return
    for kind in _CLASSES:
        stats = layer.ops.get(kind.op)
        if stats is not None and stats.count and stats.ops_per_s and stats.ops_per_s >= 1:
            yield _section(kind, stats, layer)


def _section(kind: _Class, stats: OpStats, layer: LayerSnapshot) -> str:
    rate = stats.ops_per_s or 0.0
    users = min(_MAX_USERS, max(1, round(stats.avg_inflight or 0)), max(1, int(rate)))
    # A whole number for each user: the total is off by less than a call a second per user.
    text = (
        f"[{kind.op.replace('_', '-')}]\nrw={kind.rw}\ndirect={int(kind.is_direct)}\n"
        f"numjobs={users}\nrate_iops={max(1, round(rate / users))}\n"
        f"bssplit={_sizes(stats.size_lat, stats.avg_bytes, is_direct=kind.is_direct)}\n"
    )
    if kind.sync:
        text += f"sync={kind.sync}\n"
    syncs = layer.ops.get("fsync")
    if kind.op == "write_buffered" and syncs is not None and syncs.count:
        text += f"fdatasync={max(1, round((stats.count or 0) / syncs.count))}\n"
    return text


def _sizes(hist: SizeLatencyHist | None, avg_bytes: float | None, *, is_direct: bool) -> str:
    """Make fio's bssplit: upper edges of the recording's size buckets, with percentages."""
    counts: dict[int, int] = {}
    for at, edge in enumerate((*SIZE_EDGES_BYTES, SIZE_EDGES_BYTES[-1])):
        number = sum(hist.row(at)) if hist is not None else 0
        bytes_ = max(edge, _MIN_DIRECT_BYTES) if is_direct else edge
        counts[bytes_] = counts.get(bytes_, 0) + number
    total = sum(counts.values())
    if not total:
        return f"{max(_MIN_DIRECT_BYTES, 1 << round(avg_bytes or 4096).bit_length() - 1)}/100"
    shares = {size: round(count / total * 100) for size, count in counts.items()}
    largest = max(shares, key=lambda size: shares[size])
    shares[largest] += 100 - sum(shares.values())
    return ":".join(f"{size}/{pct}" for size, pct in shares.items() if pct > 0)
