"""Small calls that become a few large requests, by read-ahead, write-back or the NFS client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ioh.findings.format_sentence import duration, size, times
from ioh.findings.nfs import mounts, off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.split_ratio import Pieces
from ioh.findings.sums import increase, increases, sum_op
from ioh.findings.window import Recall, RecentIntervals
from ioh.model.finding import Evidence

# Write-back begins up to 30 s after the write (vm.dirty_expire_centisecs).
_LATE_S = 30.0


@Rule(
    title="Small calls merged",
    layer="syscall",
    watches="How many calls become one request or RPC, if the bytes above and below agree.",
    sources="Reads: the probe counts the requests of each call. Writes and NFS: rates of both "
    "layers, because write-back belongs to no call: over 5 s, minus the bytes still dirty "
    "(/proc/meminfo), or over 30 s.",
    blind="Merging inside the disk or the server.",
    false_alarm="None: this is information, not a warning. The rule does not fire if bytes are "
    "overwritten before write-back.",
    wrong_if="the requests (rareq-sz, wareq-sz) are not larger than the calls",
    check="iostat -x 1 5",
    thresholds={
        "ratio_min": (4.0, "two to one happens by chance in a queue"),
        "calls_min_per_s": (1000, "smaller loads are ignored"),
        "call_max_bytes": (65536, "larger calls are already efficient"),
        "bytes_off_max_pct": (20.0, "otherwise the bytes below belong to other I/O"),
        "gone_min_pct": (20.0, "share of the bytes written below; less may be only the journal"),
    },
    needs=("block",),
    probed=("syscall",),
    span_s=35.0,
    recalls=(
        Recall("syscall", "write_buffered"),
        Recall("syscall", "write_direct"),
        Recall("syscall", "write_sync"),
        Recall("syscall", "mount"),
        Recall("nfs_client", "mount"),
        Recall("block", "write"),
    ),
)
def consolidation(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check reads through the page cache, buffered writes, and each NFS mount."""
    window = recent.window
    pieces = _reads(recent, limits)
    if pieces is not None and _is_joined(pieces, limits, recent, (0.0,)):
        yield _verdict(pieces, "reads", "read-ahead", "requests", "disk", is_measured=True)
    # Few calls now: the usual case, decided early.
    calls = (sum_op(recent, "syscall", f"{kind}_buffered") for kind in ("read", "write"))
    if all(each.ops_per_s < limits["calls_min_per_s"] for each in calls):
        return
    verdicts = [*_inferred(recent, _more_waiting(recent), limits)]
    if window.covers(_LATE_S):
        verdicts += _inferred(window.recent(_LATE_S), (0.0,), limits)
    # Prefer the longer span: fewer of its calls are cut at the edges.
    yield from {verdict.subject: verdict for verdict in verdicts}.values()


def _inferred(
    recent: RecentIntervals, pending: Sequence[float], limits: Limits
) -> Iterator[Verdict]:
    """Verdicts about I/O that other threads than the callers submit.

    ``pending`` as for _is_joined(), for writes.
    """
    for op, who in (("read", "read-ahead of the NFS client"), ("write", "the NFS client")):
        for mount in mounts(recent, op):
            if _is_joined(mount.pieces, limits, recent, pending if op == "write" else (0.0,)):
                pieces, what = _gone_down(mount.pieces), f"{op.upper()}s"
                yield _verdict(pieces, f"{op}s", who, what, mount.point, is_measured=False)
    writes = _writes(recent)
    if writes is not None and _is_joined(writes, limits, recent, pending):
        pieces = _gone_down(writes)
        yield _verdict(pieces, "writes", "write-back", "requests", "disk", is_measured=False)


def _is_joined(
    pieces: Pieces, limits: Limits, recent: RecentIntervals, pending: Sequence[float]
) -> bool:
    """Whether there are many small calls above, few large requests below, and the same bytes.

    ``pending``: candidates for the growth of bytes that wait for write-back; one of them must
    explain the difference between above and below.
    """
    off = limits["bytes_off_max_pct"] / 100
    return (
        pieces.calls / recent.seconds >= limits["calls_min_per_s"]
        and pieces.pieces > 0
        and pieces.call_bytes > 0
        and pieces.call_size <= limits["call_max_bytes"]
        and pieces.piece_size >= limits["ratio_min"] * pieces.call_size
        and pieces.piece_bytes >= limits["gone_min_pct"] / 100 * pieces.call_bytes
        and any(
            replace(pieces, piece_bytes=pieces.piece_bytes + more).conserves(off)
            for more in pending
        )
    )


def _more_waiting(recent: RecentIntervals) -> tuple[float, ...]:
    """Growth of dirty memory during these intervals: with and without bytes under write-back.

    It includes other programs' dirty bytes; then the sums do not agree and the rule is silent.
    Data that an NFS client has sent but not committed counts as under write-back.
    """
    earlier = recent.before
    if not earlier:
        return (0.0,)
    first, last = earlier[-1].host, recent[-1].host
    dirty = (last.dirty_bytes or 0) - (first.dirty_bytes or 0)
    under_way = (last.writeback_bytes or 0) - (first.writeback_bytes or 0)
    return (float(dirty + under_way), float(dirty))


def _gone_down(pieces: Pieces) -> Pieces:
    """Scale the calls to the bytes that were written below."""
    share = pieces.piece_bytes / pieces.call_bytes
    return replace(pieces, calls=pieces.calls * share, call_bytes=pieces.piece_bytes)


def _reads(recent: RecentIntervals, limits: Limits) -> Pieces | None:
    calls = increase(recent, "syscall", "read_calls")
    ops, bytes_ = increases(recent, "syscall", "read_lower_ops", "read_lower_bytes")
    if not ops or calls / recent.seconds < limits["calls_min_per_s"]:
        return None
    buffered = sum_op(recent, "syscall", "read_buffered")
    direct = sum_op(recent, "syscall", "read_direct")
    elsewhere = direct.bytes + off_disk_bytes(recent, "read")  # READs also count for their calls
    if elsewhere > buffered.bytes / 10:
        return None
    request_us = sum_op(recent, "block", "read").latency_us
    return Pieces(calls, buffered.bytes, ops, bytes_, buffered.latency_us, request_us)


def _writes(recent: RecentIntervals) -> Pieces | None:
    """Buffered writes and the disks' writes, from their rates."""
    buffered, direct, sync = (
        sum_op(recent, "syscall", f"write_{kind}") for kind in ("buffered", "direct", "sync")
    )
    if direct.bytes + sync.bytes + off_disk_bytes(recent, "write") > buffered.bytes / 10:
        return None
    below = sum_op(recent, "block", "write")
    return Pieces(
        buffered.count,
        buffered.bytes,
        below.count,
        below.bytes,
        buffered.latency_us,
        below.latency_us,
    )


def _verdict(  # noqa: PLR0913
    pieces: Pieces, calls: str, who: str, what: str, where: str, *, is_measured: bool
) -> Verdict:
    ratio = pieces.calls / pieces.pieces
    how, source = " (inferred from rates, because they are sent later)", "rates of both layers"
    if is_measured:
        how, source = "", "probe: requests of each call"
    text = f"{pieces.calls:,.0f} calls became {pieces.pieces:,.0f} {what}"
    return Verdict(
        subject=f"{calls} {where}",
        ways=ways_of(calls.removesuffix("s")),
        layer="syscall" if what == "requests" else "nfs_client",
        severity="info",
        confidence="high" if is_measured else "medium",
        cause=f"{times(ratio)} {calls} of {size(pieces.call_size)} become 1 of "
        f"{size(pieces.piece_size)} ({what}) by {who}{how}: {duration(pieces.above_us or 0)} per "
        f"call above, {duration(pieces.below_us or 0)} below.",
        evidence=(
            Evidence(text, "", ratio, source=source),
            Evidence(f"{size(pieces.call_bytes)} above, {size(pieces.piece_bytes)} below"),
        ),
        advice="This is good for throughput. But calls are faster than the storage, and requests "
        "are slower than requests of the calls' size: to measure the storage, use O_DIRECT.",
    )
