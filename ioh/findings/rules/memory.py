"""Memory and the page cache: swapping, throttled writers, unrequested reads."""

from __future__ import annotations

from ioh.findings.devices import PAGE_BYTES, carrier, read_ahead
from ioh.findings.format_sentence import duration, per_s, percent, program, rate, size, times
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import increase, increases, sum_op, sum_rows
from ioh.findings.window import RecentIntervals, metric_of
from ioh.model.finding import Evidence


@Rule(
    title="Swapping",
    layer="",
    watches="Pages swapped in while others are swapped out, and the time that programs wait for "
    "memory.",
    sources="/proc/vmstat, /proc/pressure/memory; the application layer's probe for who reads "
    "by page faults.",
    blind="File pages that are dropped and read again: they are not swap.",
    false_alarm="A program that wakes up after days is swapped in once.",
    wrong_if="columns si and so are 0",
    check="vmstat 1 5",
    thresholds={
        "bytes_min_per_s": (0.5e6, "in each direction; less is normal housekeeping of the kernel"),
        "critical_min_pct": (30.0, "of the time lost: programs make hardly any progress"),
    },
    needs=("block",),
    hold_s=2.0,
    recent_s=4.0,
)
def swapping(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check for pages swapped in, which programs wait for, while others are swapped out."""
    totals = increases(recent, "block", "swap_in_bytes", "swap_out_bytes", "memory_wait_us")
    into, out, waited_us = (total / recent.seconds for total in totals)
    least = limits["bytes_min_per_s"]
    if min(into, out) < least:
        return
    host = recent[-1].host
    wait_pct = waited_us / 1e4
    who = _paged_in(recent, into)
    text, source = f"{rate(into)} swapped in and {rate(out)} out", "/proc/vmstat pswpin, pswpout"
    evidence = [Evidence(text, "swap_in_bytes_per_s", into, least, source)]
    if wait_pct:
        text = f"programs wait for memory {percent(wait_pct / 100)} of the time"
        source = "/proc/pressure/memory"
        evidence.append(Evidence(text, "memory_wait_us_per_s", waited_us, None, source))
    if host.mem_available_bytes is not None and host.mem_total_bytes:
        free = f"{size(host.mem_available_bytes)} of {size(host.mem_total_bytes)} is available"
        evidence.append(Evidence(free, "mem_available_bytes", host.mem_available_bytes))
    yield Verdict(
        severity="critical" if wait_pct >= limits["critical_min_pct"] else "warning",
        confidence="high",
        cause=f"Memory is too small: {rate(into)} is swapped in and {rate(out)} is swapped out"
        + (f"; {who} waits for its own pages" if who else "")
        + (
            f"; programs wait for memory {percent(wait_pct / 100)} of the time."
            if wait_pct
            else "."
        ),
        evidence=tuple(evidence),
        advice="Give the programs more memory, or make them use less. Check each program's memory "
        "and the limit of its control group, which may be small even if the machine has enough.",
        command="ps -eo pid,rss,maj_flt,args --sort=-maj_flt | head; free -m",
    )


def _paged_in(recent: RecentIntervals, into: float) -> str:
    """Who reads most by page faults, if that is a large part of the swap-ins; else ""."""
    sums = sum_rows(recent, "syscall", "process", ("fault_bytes_per_s",), tuple)
    most = max(sums, key=lambda key: sums[key], default=())
    if not most or sums[most] / recent.seconds < into / 4:
        return ""
    return program(most, "many programs")


@Rule(
    title="Writers are throttled",
    layer="syscall",
    ways=("write",),
    watches="Dirty memory and memory under write-back, compared with the kernel's limits; pauses "
    "in buffered writes.",
    sources="/proc/vmstat: nr_dirty, nr_writeback, nr_dirty_threshold, "
    "nr_dirty_background_threshold; the probe's slowest write.",
    blind="Earlier throttling by the memory limit of a control group or of one device (bdi).",
    false_alarm="None known: the rule needs both much memory to write back and paused writes.",
    wrong_if="Dirty and Writeback together stay far below the limit",
    check="grep -E '^(Dirty|Writeback):' /proc/meminfo; sysctl vm.dirty_bytes vm.dirty_ratio",
    thresholds={
        "used_min_pct": (95.0, "throttling begins halfway between the two limits"),
        "pause_min_ms": (5.0, "the kernel pauses a writer for 10 to 200 ms at a time"),
        "bytes_min_per_s": (1e6, "slower writers do not fill the cache"),
    },
    probed=("syscall",),
    recent_s=3.0,
    may_be_short=True,
)
def dirty_throttling(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare memory waiting for write-back with the point where the kernel throttles writers."""
    host = recent[-1].host
    most, background = host.dirty_limit_bytes, host.dirty_background_bytes
    if host.dirty_bytes is None or not most or background is None:
        return
    # balance_dirty_pages() does not throttle below the middle of the two limits.
    begins = (most + background) / 2
    waiting = host.dirty_bytes + (host.writeback_bytes or 0)
    buffered = sum_op(recent, "syscall", "write_buffered")
    below = sum_op(recent, "block", "write")
    slowest, least_us = buffered.max_us or 0.0, limits["pause_min_ms"] * 1e3
    if waiting < limits["used_min_pct"] / 100 * begins or slowest < least_us:
        return
    if buffered.bytes_per_s < limits["bytes_min_per_s"]:
        return
    full = f"dirty and under write-back {size(waiting)}, throttling begins at {size(begins)}"
    source = "/proc/vmstat nr_dirty, nr_writeback and both thresholds"
    paused = f"slowest buffered write {duration(slowest)}, "
    paused += f"mean {duration(buffered.latency_us or 0)}"
    yield Verdict(
        confidence="high",
        cause=f"{size(waiting)} waits for write-back, {percent(waiting / begins)} of the amount "
        f"at which the kernel throttles writers: writes take up to {duration(slowest)}, and "
        f"programs can write only {rate(buffered.bytes_per_s)}.",
        evidence=(
            Evidence(full, "dirty_bytes", float(waiting), begins, source),
            Evidence(paused, "max_us", slowest, least_us),
            Evidence(f"the disks write {rate(below.bytes_per_s)}", "bytes_per_s"),
        ),
        advice="The cache is full of dirty data, so writers run at the disks' speed. Lower limits "
        "make the stalls shorter; higher limits only delay them.",
        command="sysctl vm.dirty_background_bytes vm.dirty_bytes vm.dirty_background_ratio "
        "vm.dirty_ratio",
    )


@Rule(
    title="Reads before writes",
    layer="syscall",
    ways=("write",),
    watches="Disk reads that buffered writes wait for, compared with the writes: the page "
    "cache must read a page before only a part of it is written.",
    sources="The probe's count of the reads that each write submits.",
    blind="Direct writes smaller than a physical sector (512e), for which the disk itself reads "
    "first; parity arrays; network file systems; reads delayed by a limit of the control group; "
    "recordings made before ioh counted these reads.",
    false_alarm="A cold file whose metadata must be read to find its blocks: fewer than half a "
    "read per write.",
    wrong_if="the disk reads nothing (r/s) while only the program writes and nobody reads",
    check="iostat -x 1 5",
    thresholds={
        "reads_per_write_min": (0.5, "metadata needs fewer; partial pages at both ends need two"),
        "reads_min_per_s": (50, "smaller loads are ignored"),
    },
    probed=("syscall",),
    yields_to=("swapping",),  # a writer short of memory submits other programs' pages
)
def read_before_write(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare the disk reads that writes wait for with the writes."""
    kinds = [sum_op(recent, "syscall", f"write_{kind}") for kind in ("buffered", "sync")]
    wrote = max(kinds, key=lambda kind: kind.count)
    reads = increase(recent, "syscall", "write_reads")
    if reads / wrote.seconds < limits["reads_min_per_s"]:
        return
    if off_disk_bytes(recent, "write") > wrote.bytes / 10:
        return  # some of these reads go to a file server
    each, least = reads / max(1, sum(kind.count for kind in kinds)), limits["reads_per_write_min"]
    if each < least:
        return
    top = recent[-1].busiest("syscall", "process", "write_bytes_per_s")
    who = program(top.key, "Many programs") if top is not None else "A program"
    is_whole = min(wrote.avg_bytes % PAGE_BYTES, -wrote.avg_bytes % PAGE_BYTES) < 1
    why = "a multiple of 4 KB; their offsets are not" if is_whole else "not a multiple of 4 KB"
    before = f"{times(each)} disk reads per write"
    yield Verdict(
        subject="buffered",
        confidence="high",
        cause=f"{who} makes {per_s(wrote.ops_per_s)} writes a second of {size(wrote.avg_bytes)} "
        f"({duration(wrote.latency_us or 0)} each), and each needs {times(each)} disk reads first: "
        "it begins or ends inside a page that is not in memory.",
        evidence=(
            Evidence(before, "", each, least, "probe: requests of each write"),
            Evidence(f"the writes are {size(wrote.avg_bytes)}, {why}", "", wrote.avg_bytes),
        ),
        advice="Align offset and size of the writes to 4 KB (a header of 512 bytes shifts "
        "everything after it), or keep the file in memory.",
        command="ioh text -d topfile",
    )


@Rule(
    title="Read-ahead fetches too much",
    layer="syscall",
    ways=("read",),
    watches="Bytes that buffered reads fetched, compared with the bytes that they returned.",
    sources="The probe's count of requests of each call; read_ahead_kb from sysfs.",
    blind="Page faults of mmap, which also read ahead but belong to no call. Read-ahead over NFS. "
    "The read-ahead window of btrfs, which belongs to no device.",
    false_alarm="A sequential reader is one window ahead, once; file systems that compress or "
    "use large records read more than requested.",
    wrong_if="the disk reads (rkB/s) no more than the programs do",
    check="iostat -x 1 5",
    thresholds={
        "ratio_min": (1.5, "over 8 s, a sequential reader's read-ahead adds little"),
        "bytes_min_per_s": (5e6, "smaller loads are ignored"),
    },
    needs=("block",),
    probed=("syscall",),
    span_s=15.0,
    recent_s=8.0,
)
def read_ahead_waste(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare the bytes that the page cache fetched for readers with the bytes that they read."""
    charged, ops = increases(recent, "syscall", "read_lower_bytes", "read_lower_ops")
    calls, cached = increases(recent, "syscall", "read_calls", "read_calls_cached")
    if charged / recent.seconds < limits["bytes_min_per_s"]:
        return
    buffered = sum_op(recent, "syscall", "read_buffered")
    fetched = charged - sum_op(recent, "syscall", "read_direct").bytes
    # Of the direct reads, these fetched nothing.
    fetched += sum(
        increases(recent, "syscall", "read_direct_from_memory_bytes", "read_direct_hole_bytes")
    )
    # Whole pages are fetched: a read that is not a multiple of a page needs one more.
    is_rounded = buffered.avg_bytes % PAGE_BYTES > 1
    need = buffered.bytes + is_rounded * (calls - cached) * PAGE_BYTES
    # Fetches from NFS count for the same readers, and cannot be separated.
    if not ops or not need or off_disk_bytes(recent, "read") > need / 10:
        return
    ratio, least = fetched / need, limits["ratio_min"]
    if fetched / recent.seconds < limits["bytes_min_per_s"] or ratio < least:
        return
    ahead = read_ahead(recent, carrier(recent, "read", fetched, fetched / ops))
    if ahead.bytes is not None and ahead.bytes <= PAGE_BYTES:
        return  # there is no read-ahead: something else reads more than requested
    which = f" (read_ahead_kb of {ahead.device}: {size(ahead.bytes)})" if ahead.bytes else ""
    random_pct = 100 - (metric_of(recent[-1], "block", "sequential_pct") or 0.0)
    much = f"{size(fetched)} fetched in the readers' own context for {size(buffered.bytes)} "
    much += f"({size(need)} in whole pages)"
    order = f"{percent(random_pct / 100)} of the requests do not begin where the last one ended"
    source = "probe: requests of each call"
    yield Verdict(
        subject=ahead.device,
        confidence="high" if ratio >= 2 * least else "medium",
        cause=f"Reads of {size(buffered.avg_bytes)} fetch {times(ratio)} times the data they need: "
        f"{rate(fetched / recent.seconds)} from the disk for {rate(buffered.bytes_per_s)}{which}.",
        evidence=(
            Evidence(much, "read_lower_bytes_per_s", ratio, least, source),
            Evidence(order, "sequential_pct", 100 - random_pct),
        ),
        advice="Make the read-ahead window smaller for random reads, or have the program call "
        "posix_fadvise with POSIX_FADV_RANDOM.",
        command=ahead.set_to(_less(need / ops, ahead.bytes)),
    )


def _less(bytes_: float, now: float | None) -> int:
    """A window in KB of about the bytes used per request, and smaller than ``now``."""
    most = min(bytes_, now / 2) if now else bytes_
    return 1 << max(2, int(most / 1024).bit_length() - 1)
