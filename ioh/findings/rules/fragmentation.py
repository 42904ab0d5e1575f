"""Calls that are split into requests: how many, how small, and by which limit."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ioh.findings.devices import PAGE_BYTES, Device, ReadAhead, carrier, passing, read_ahead
from ioh.findings.format_sentence import duration, per_s, size, times
from ioh.findings.nfs import MountRow, mounts, off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.split_ratio import Pieces, how
from ioh.findings.sums import increase, increases, sum_op
from ioh.findings.window import RecentIntervals, busiest_file, metric_of
from ioh.model.finding import Evidence

_PURE = 0.9  # share of the calls that must be of one kind to attribute all requests to it


class _Limit(NamedTuple):
    """A limit that splits calls: its name, device, file and size, and how to change it."""

    name: str
    device: str
    file: str
    bytes: float
    advice: str
    command: str = ""


@Rule(
    title="Split requests",
    layer="syscall",
    watches="How many requests each read, and each direct or synchronous write, becomes, whether "
    "one after another or in parallel, and which limit of the device has exactly that size.",
    sources="The probes count every request for the call that submitted it; limits from "
    "/sys/block/DEVICE/queue: max_sectors_kb, max_hw_sectors_kb, max_segments, read_ahead_kb, "
    "chunk_sectors.",
    blind="Buffered writes: the kernel writes them back later, for no particular call (see "
    "consolidation). Intervals with both direct and buffered reads are not evaluated.",
    false_alarm="Striped arrays split on purpose, with all requests in flight in parallel: that is "
    "reported as information, not as a warning. So is a limit that cannot be set.",
    wrong_if="the requests (rareq-sz, wareq-sz) are as large as the calls",
    check="iostat -x 1 5",
    thresholds={
        "ratio_min": (2.0, "fewer than two requests per call cost almost nothing"),
        "piece_max_bytes": (
            262144,
            "from 256 KB on, the transfer takes longer than the overhead of a request",
        ),
        "serial_max_bytes": (589824, "512 KB, if requests are sent one after another"),
        "bytes_off_max_pct": (25.0, "otherwise the sum includes other I/O"),
        "pieces_min_per_s": (50, "smaller loads are ignored"),
    },
    needs=("block",),
    probed=("syscall",),
    recent_s=3.0,
    may_be_short=True,
)
def fragmentation(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check reads and writes separately."""
    for op, pieces_of in (("read", _reads), ("write", _writes)):
        ops = increase(recent, "syscall", f"{op}_lower_ops")
        if ops / recent.seconds < limits["pieces_min_per_s"]:
            continue
        pieces, is_buffered = pieces_of(recent, ops)
        # With exactly two requests per call, the edges of the span may cut one off.
        if pieces is None or pieces.per_call < 0.97 * limits["ratio_min"]:
            continue
        if pieces.call_size < limits["ratio_min"] * pieces.piece_size * 0.9:
            continue
        if pieces.conserves(limits["bytes_off_max_pct"] / 100):
            yield from _cut(recent, pieces, limits, op, is_buffered=is_buffered)


_Result = tuple[Pieces | None, bool]


def _reads(recent: RecentIntervals, ops: float) -> _Result:
    """Read calls that reached a device, either all direct or all buffered."""
    direct = sum_op(recent, "syscall", "read_direct")
    buffered = sum_op(recent, "syscall", "read_buffered")
    calls, cached = increases(recent, "syscall", "read_calls", "read_calls_cached")
    bytes_, at_end = increases(recent, "syscall", "read_lower_bytes", "read_calls_at_end")
    is_buffered = buffered.bytes > direct.bytes
    main, other = (buffered, direct) if is_buffered else (direct, buffered)
    uncached = calls - cached
    # NFS READs also count for their calls.
    strange = max(other.bytes, off_disk_bytes(recent, "read"))
    if uncached < 1 or strange > (1 - _PURE) * main.bytes:
        return None, is_buffered
    # Read-ahead serves some buffered calls with data that other calls fetched, so all calls count.
    # Among direct reads, the calls without a request are buffered ones that fetched nothing.
    all_calls = calls if is_buffered else uncached
    call_bytes: float = main.bytes
    if main.count and not (is_buffered or at_end):
        # Asynchronous calls may begin and end in different intervals.
        call_bytes *= all_calls / main.count
    return Pieces(all_calls, call_bytes, ops, bytes_, main.latency_us), is_buffered


def _writes(recent: RecentIntervals, ops: float) -> _Result:
    """Direct and synchronous writes: their callers submit the requests themselves."""
    kinds = [sum_op(recent, "syscall", f"write_{kind}") for kind in ("direct", "sync")]
    calls, bytes_ = increases(recent, "syscall", "write_calls", "write_lower_bytes")
    count, total = sum(kind.count for kind in kinds), sum(kind.bytes for kind in kinds)
    if not count or count < _PURE * calls:
        return None, False
    if off_disk_bytes(recent, "write") > (1 - _PURE) * total:
        return None, False
    busiest = max(kinds, key=lambda kind: kind.count)
    return Pieces(count, total, ops, bytes_, busiest.latency_us), False


def _cut(
    recent: RecentIntervals, pieces: Pieces, limits: Limits, op: str, *, is_buffered: bool
) -> Verdicts:
    device = carrier(recent, op, pieces.piece_bytes, pieces.piece_size)
    if device is not None:
        pieces = replace(pieces, below_us=device.sum.latency_us)
    order = how(pieces)
    is_serial = order == "one after another"
    if pieces.piece_size > limits["piece_max_bytes" if not is_serial else "serial_max_bytes"]:
        return
    ahead = read_ahead(recent, device) if is_buffered else None
    limit = _which_limit(pieces, device, ahead) or _limit_above(recent, op, pieces)
    if limit is None and pieces.per_call < 4:
        return  # no limit to name, and little to gain
    advice, command = (limit.advice, limit.command) if limit else _unknown_limit(recent, ahead)
    name = device.name if device is not None else ""
    becomes = f"{times(pieces.per_call)} requests of {size(pieces.piece_size)}"
    becomes += f", {order}." if order else "."
    if limit is not None:
        becomes += f" {limit.name} of {limit.device} is {size(limit.bytes)}."
    yield Verdict(
        subject=f"{op}s {name}".strip(),
        ways=ways_of(op),
        # No setting to change, no warning: scattered memory, as of dd, is normal.
        severity="warning" if is_serial and limit is not None and limit.command else "info",
        confidence="high" if limit is not None else "low",
        cause=f"{op.capitalize()}s of {size(pieces.call_size)} become {becomes}",
        evidence=tuple(_evidence(recent, pieces, device, limit, op)),
        advice=advice,
        command=command,
    )


def _unknown_limit(recent: RecentIntervals, ahead: ReadAhead | None) -> tuple[str, str]:
    """Advice and command if no known setting has that size."""
    if ahead is not None and ahead.is_btrfs:
        advice = "No device limit explains this: check the read-ahead of btrfs itself."
        return advice, f"grep . {ahead.file}"
    advice = "No device limit explains this: the file may be fragmented, or the buffer "
    name = busiest_file(recent)
    command = f"filefrag {name}" if name else ""
    return advice + "unaligned or scattered in memory.", command


def _which_limit(pieces: Pieces, device: Device | None, ahead: ReadAhead | None) -> _Limit | None:
    if device is None:
        return None
    request = device.setting("max_request_bytes")
    chunk = device.setting("chunk_bytes")
    spread = (device.setting("max_segments") or 0) * PAGE_BYTES
    if request and pieces.is_cut_at(request):
        return _request_limit(device, request, pieces.call_size)
    if ahead is not None and ahead.bytes and pieces.is_cut_at(ahead.bytes):
        command = ahead.set_to(_round_kb(pieces.call_size))
        advice = "The page cache reads no more at a time: raise the read-ahead to the size of "
        advice += "the reads."
        return _Limit("read_ahead_kb", ahead.device, ahead.file, ahead.bytes, advice, command)
    if chunk and pieces.is_cut_at(chunk):
        return _chunk_limit(device, "chunk_sectors", chunk)
    if pieces.is_cut_at(spread):
        advice = "The buffer consists of too many memory segments: use huge pages for it."
        file = device.queue_file("max_segments")
        return _Limit("max_segments x 4 KB", device.name, file, spread, advice)
    return None


def _limit_above(recent: RecentIntervals, op: str, pieces: Pieces) -> _Limit | None:
    """A limit of a device above the disks; md reports its chunk size as its largest request."""
    settings = (("chunk_sectors", "chunk_bytes"), ("max_sectors_kb", "max_request_bytes"))
    for device in passing(recent, op):
        for name, setting in settings:
            limit = device.setting(setting)
            if limit and pieces.is_cut_at(limit):
                if name == "max_sectors_kb" and not device.name.startswith("md"):
                    return _request_limit(device, limit, pieces.call_size)
                return _chunk_limit(device, name, limit)
    return None


def _chunk_limit(device: Device, name: str, chunk: float) -> _Limit:
    advice = "A request cannot cross a chunk: use chunks as large as the I/O, or smaller I/O."
    return _Limit(name, device.name, device.queue_file(name), chunk, advice)


def _request_limit(device: Device, request: float, call_size: float) -> _Limit:
    name, hardware = "max_sectors_kb", device.setting("max_hw_request_bytes")
    file = device.queue_file(name)
    if hardware is not None and request >= hardware:
        advice = "This is the hardware limit (max_hw_sectors_kb): keep more I/O in flight."
        return _Limit(name, device.name, file, request, advice)
    want = _round_kb(call_size)
    if hardware is not None:
        want = min(want, int(hardware) // 1024)
    most = f" (the device allows up to {size(hardware)})" if hardware is not None else ""
    advice = f"Raise the limit to the size of the I/O{most}; a udev rule makes this permanent."
    command = f"echo {want} > {shlex.quote(file)}"
    return _Limit(name, device.name, file, request, advice, command)


def _round_kb(bytes_: float) -> int:
    """A setting in KB that takes calls of this mean size: the next power of two, within 2 %.

    Among small calls, the large ones are larger than the mean of all.
    """
    return 1 << max(0, math.ceil(math.log2(max(bytes_, 1024) / 1024 / 1.02)))


def _evidence(
    recent: RecentIntervals, pieces: Pieces, device: Device | None, limit: _Limit | None, op: str
) -> Iterator[Evidence]:
    text = f"{per_s(pieces.calls / recent.seconds)} {op}s a second became "
    text += f"{per_s(pieces.pieces / recent.seconds)} requests: {times(pieces.per_call)} per call, "
    text += "counted in each caller's own context"
    source = "probe: requests of each call"
    yield Evidence(text, f"{op}_lower_ops_per_op", pieces.per_call, source=source)
    text = f"{size(pieces.call_bytes)} requested, {size(pieces.piece_bytes)} submitted"
    yield Evidence(text, f"{op}_lower_bytes_per_s", pieces.piece_bytes / recent.seconds)
    if limit is not None:
        text = f"{limit.name} = {size(limit.bytes)}"
        yield Evidence(text, "", pieces.piece_size, limit.bytes, limit.file)
    if device is not None and pieces.at_once is not None:
        text = f"a call takes {duration(pieces.above_us or 0)} and a request of {device.name} "
        text += f"{duration(pieces.below_us or 0)}: {times(pieces.at_once)} are in flight at a time"
        yield Evidence(text, "latency_us", pieces.above_us)


@Rule(
    title="Split requests",
    layer="nfs_client",
    watches="How many READs and WRITEs the calls on each NFS mount become, and whether rsize or "
    "wsize has exactly that size.",
    sources="Calls by mount from the probe; READs, WRITEs, rsize and wsize from "
    "/proc/self/mountstats; the server's limit from /proc/fs/nfsd/max_block_size if the server "
    "is this machine.",
    blind="Several mounts at one mount point; which sizes were requested at mount time.",
    false_alarm="Read-ahead and write-back merge small calls, so only calls with a mean size above "
    "the limit are evaluated.",
    wrong_if="READs and WRITEs (kB/op) are as large as the calls",
    check="nfsiostat 1 5",
    thresholds={
        "ratio_min": (2.0, "fewer than two calls to the server cost little"),
        "piece_max_bytes": (262144, "from 256 KB on, the payload takes longer than the call"),
        "bytes_off_max_pct": (20.0, "otherwise the two layers moved different data"),
        "pieces_min_per_s": (5, "synchronous calls are slow because they are split"),
    },
    needs=("nfs_client",),
    probed=("syscall",),
    recent_s=10.0,
    may_be_short=True,
)
def nfs_fragmentation(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each mount and direction."""
    off = limits["bytes_off_max_pct"] / 100
    for op in ("read", "write"):
        for mount in mounts(recent, op):
            pieces = mount.pieces
            if pieces.pieces / recent.seconds < limits["pieces_min_per_s"]:
                continue
            if pieces.per_call < limits["ratio_min"]:
                continue
            if pieces.piece_size > limits["piece_max_bytes"]:
                continue
            limit = mount.settings.get(f"{op[0]}size_bytes")
            if limit and pieces.is_cut_at(limit) and pieces.conserves(off, whole_calls=1):
                yield _nfs_cut(recent, mount, op, limit)


def _nfs_cut(recent: RecentIntervals, mount: MountRow, op: str, limit: float) -> Verdict:
    pieces, setting, rpc = mount.pieces, f"{op[0]}size", op.upper()
    kinds = ("direct", "sync") if op == "write" else ("direct",)
    own = sum(sum_op(recent, "syscall", f"{op}_{kind}").bytes for kind in kinds)
    everything = sum_op(recent, "syscall", op).bytes
    is_own = bool(everything) and own >= _PURE * everything
    order = how(pieces) if is_own else ""
    clause = f", {order}" if order else ""
    if not is_own and op == "write":
        clause = " (inferred from rates, because the client sends buffered writes later)"
    server_max = metric_of(recent[-1], "nfs_server", "max_block_bytes")
    offers = f" This server offers {size(server_max)}." if server_max else ""
    became = f"{per_s(pieces.calls / recent.seconds)} {op} calls a second became "
    became += f"{per_s(pieces.pieces / recent.seconds)} {rpc}s: {times(pieces.per_call)} per call"
    source = "probe of calls by mount; /proc/self/mountstats"
    cut, mounted = f"{setting} = {size(limit)}", "/proc/self/mountstats"
    took = f"a call takes {duration(pieces.above_us or 0)}, "
    took += f"a {rpc} {duration(pieces.below_us or 0)}"
    place = shlex.quote(mount.point)
    return Verdict(
        subject=f"{op}s {mount.point}",
        ways=ways_of(op),
        confidence="high" if is_own else "medium",
        cause=f"{op.capitalize()}s of {size(pieces.call_size)} become {times(pieces.in_a_call)} "
        f"{rpc}s of {size(pieces.piece_size)}{clause}. {setting}={limit:.0f} on {mount.export}.",
        evidence=(
            Evidence(became, f"{op}s_per_s", pieces.per_call, source=source),
            Evidence(cut, f"{setting}_bytes", pieces.piece_size, limit, mounted),
            Evidence(took, "latency_us", pieces.above_us),
        ),
        advice=f"Set {setting} to 1048576 in fstab, or wherever the mount is configured, then "
        "umount and mount again: a remount does not change it. The server may offer less (its "
        f"/proc/fs/nfsd/max_block_size).{offers}",
        # Not a mount command: a recording has only a few of the mount's options.
        command=f"findmnt -o SOURCE,OPTIONS {place}   # keep these, with {setting}=1048576",
    )
