"""Small calls that leave as few large requests: by read-ahead, write-back, NFS gathering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ioh.findings.format_sentence import duration, size, times
from ioh.findings.nfs import mounts, off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.split_ratio import Pieces
from ioh.findings.sums import increase, increases, sum_op
from ioh.findings.window import Recall, Stretch
from ioh.model.finding import Evidence

# What is written back comes up to 30 s after it was written (vm.dirty_expire_centisecs).
_LATE_S = 30.0


@Rule(
    title="Consolidation",
    layer="syscall",
    watches="How many calls became one request or RPC, if the bytes above and below agree.",
    sources="Reads: the probe counts the requests of each call. Writes and NFS: rates of both "
    "layers over 5 s, less what is still dirty (/proc/meminfo), or over 30 s without that, since "
    "write-back belongs to no call.",
    blind="Merging inside the disk or the server.",
    false_alarm="None: this is information, not a warning. The rule is silent if bytes are "
    "overwritten before write-back.",
    wrong_if="the requests (rareq-sz, wareq-sz) are no larger than the calls",
    check="iostat -x 1 5",
    thresholds={
        "ratio_min": (4.0, "two to one happens by chance in a queue"),
        "calls_min_per_s": (1000, "smaller loads are ignored"),
        "call_max_bytes": (65536, "larger calls are efficient as they are"),
        "bytes_off_max_pct": (20.0, "otherwise the bytes below are not those of the calls"),
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
def consolidation(recent: Stretch, limits: Limits) -> Verdicts:
    """Reads through the page cache, buffered writes, and each NFS mount."""
    window = recent.window
    pieces = _reads(recent, limits)
    if pieces is not None and _is_joined(pieces, limits, recent, (0.0,)):
        timed = _timed(pieces, recent, "read")
        yield _verdict(timed, "reads", "read-ahead", "requests", "disk", is_measured=True)
    # Without many calls just now there is, as most often, nothing to say.
    calls = (sum_op(recent, "syscall", f"{kind}_buffered") for kind in ("read", "write"))
    if all(each.ops_per_s < limits["calls_min_per_s"] for each in calls):
        return
    found = [*_inferred(recent, _more_waiting(recent), limits)]
    if window.covers(_LATE_S):
        found += _inferred(window.recent(_LATE_S), (0.0,), limits)
    # Of both the later one: a longer time has fewer calls cut in two at its edges.
    yield from {verdict.subject: verdict for verdict in found}.values()


def _inferred(recent: Stretch, pending: Sequence[float], limits: Limits) -> Iterator[Verdict]:
    """What other threads than the callers' send, as far as these intervals show it.

    ``pending`` as for _is_joined, of writes.
    """
    for op, who in (("read", "read-ahead of the NFS client"), ("write", "the NFS client")):
        for mount in mounts(recent, op):
            if _is_joined(mount.pieces, limits, recent, pending if op == "write" else (0.0,)):
                pieces, what = _gone_down(mount.pieces), f"{op.upper()}s"
                yield _verdict(pieces, f"{op}s", who, what, mount.point, is_measured=False)
    written = _writes(recent)
    if written is not None and _is_joined(written, limits, recent, pending):
        pieces = _timed(_gone_down(written), recent, "write")
        yield _verdict(pieces, "writes", "write-back", "requests", "disk", is_measured=False)


def _is_joined(pieces: Pieces, limits: Limits, recent: Stretch, pending: Sequence[float]) -> bool:
    """Many small ones above, few large ones below, the same bytes.

    ``pending``: how many more bytes than before may wait to go down; one must make up for what
    went down less than came from above, or more.
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


def _more_waiting(recent: Stretch) -> tuple[float, ...]:
    """How much more is dirty now than before these intervals: all of it, and what is not sent.

    Whose dirty bytes they are is not known: with others' beside them the sum does not come out.
    What an NFS client has sent and not committed is under write-back, though it was sent.
    """
    earlier = recent.before
    if not earlier:
        return (0.0,)
    first, last = earlier[-1].host, recent[-1].host
    dirty = (last.dirty_bytes or 0) - (first.dirty_bytes or 0)
    under_way = (last.writeback_bytes or 0) - (first.writeback_bytes or 0)
    return (float(dirty + under_way), float(dirty))


def _gone_down(pieces: Pieces) -> Pieces:
    """The same with as many calls as have the bytes that went down."""
    share = pieces.piece_bytes / pieces.call_bytes
    return replace(pieces, calls=pieces.calls * share, call_bytes=pieces.piece_bytes)


def _reads(recent: Stretch, limits: Limits) -> Pieces | None:
    calls = increase(recent, "syscall", "read_calls")
    ops, bytes_ = increases(recent, "syscall", "read_lower_ops", "read_lower_bytes")
    if not ops or calls / recent.seconds < limits["calls_min_per_s"]:
        return None
    buffered = sum_op(recent, "syscall", "read_buffered")
    direct = sum_op(recent, "syscall", "read_direct")
    elsewhere = direct.bytes + off_disk_bytes(recent, "read")  # READs are charged to calls, too
    if elsewhere > buffered.bytes / 10:
        return None
    return Pieces(calls, buffered.bytes, ops, bytes_)


def _writes(recent: Stretch) -> Pieces | None:
    """Buffered writes beside what the disks wrote: inferred from rates."""
    buffered, direct, sync = (
        sum_op(recent, "syscall", f"write_{kind}") for kind in ("buffered", "direct", "sync")
    )
    if direct.bytes + sync.bytes + off_disk_bytes(recent, "write") > buffered.bytes / 10:
        return None
    below = sum_op(recent, "block", "write")
    return Pieces(buffered.count, buffered.bytes, below.count, below.bytes)


def _timed(pieces: Pieces, recent: Stretch, op: str) -> Pieces:
    """The same with how long a buffered call and a request take."""
    above, below = sum_op(recent, "syscall", f"{op}_buffered"), sum_op(recent, "block", op)
    return replace(pieces, above_us=above.latency_us, below_us=below.latency_us)


def _verdict(  # noqa: PLR0913
    pieces: Pieces, calls: str, who: str, what: str, where: str, *, is_measured: bool
) -> Verdict:
    joined = pieces.calls / pieces.pieces
    how, source = " (inferred from rates: they leave later)", "rates of both layers"
    if is_measured:
        how, source = "", "probe: what each call submitted"
    text = f"{pieces.calls:,.0f} calls became {pieces.pieces:,.0f} {what}"
    return Verdict(
        subject=f"{calls} {where}",
        layer="syscall" if what == "requests" else "nfs_client",
        severity="info",
        confidence="high" if is_measured else "medium",
        cause=f"{times(joined)} {calls} of {size(pieces.call_size)} become 1 of "
        f"{size(pieces.piece_size)} ({what}) by {who}{how}: {duration(pieces.above_us or 0)} a "
        f"call above, {duration(pieces.below_us or 0)} below.",
        evidence=(
            Evidence(text, "", joined, source=source),
            Evidence(f"{size(pieces.call_bytes)} above, {size(pieces.piece_bytes)} below"),
        ),
        advice="Good for throughput. Calls are faster than the storage, and each request slower "
        "than one of the calls' size would be: to measure the storage, use O_DIRECT.",
    )
