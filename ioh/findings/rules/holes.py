"""Reads that need no I/O, of blocks never written or of memory; first writes allocate blocks."""

from __future__ import annotations

from ioh.findings.devices import devices
from ioh.findings.format_sentence import duration, per_s, percent, rate, size
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import OpSum, increase, increases, sum_op
from ioh.findings.window import RecentIntervals, busiest_file
from ioh.model.finding import Evidence

_ADVICE = "Write the whole file before you measure reads of it."
# Which files a file system reads through the page cache, even with O_DIRECT.
_NOT_DIRECT = {
    "btrfs": "compressed files, and small ones",
    "ext4": "files with data=journal, encryption or verity, and small ones in the inode",
    "bcachefs": "compressed or encrypted files",
    "f2fs": "compressed or encrypted files",
    "overlay": "files whose own file system does so, such as tmpfs",
}


@Rule(
    title="Reads that reach no device",
    layer="syscall",
    ways=("read",),
    watches="Bytes of direct reads compared with bytes requested from devices, and whether such a "
    "read that requested nothing is in memory; for buffered reads, the pages in memory compared "
    "with the blocks of the file.",
    sources="The probes of both layers; of the buffered reads, one per millisecond and CPU.",
    blind="Unwritten blocks of thin volumes and arrays, which serve such reads themselves. Direct "
    "reads that a worker of io_uring does: then holes and memory are not told apart. "
    "Buffered reads of blocks that were allocated but never written, of file systems other than "
    "ext4, btrfs and XFS (XFS since Linux 5.13), and by io_uring or libaio.",
    false_alarm="A file whose holes were read before and that is now read elsewhere. Files in "
    "memory (tmpfs) and on network file systems are excluded by their file system type.",
    wrong_if="with this machine's caches dropped, the disks read (rkB/s) as much as the program "
    "does",
    check="sync; echo 3 > /proc/sys/vm/drop_caches; iostat -x 1 5",
    thresholds={
        "direct_min_pct": (20.0, "the part of a file's last block beyond its end is less"),
        "buffered_min_pct": (50.0, "most of the bytes read"),
        "bytes_min_per_s": (20e6, "smaller loads are ignored"),
    },
    needs=("block",),
    probed=("syscall",),
)
def holes(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check direct reads that reach no device, and buffered reads of no block of the file."""
    direct = sum_op(recent, "syscall", "read_direct")
    if direct.bytes and direct.bytes_per_s >= limits["bytes_min_per_s"]:
        yield from _from_memory(recent, direct, limits)
        yield from _direct(recent, direct, limits)
    yield from _buffered(recent, limits)


def _from_memory(recent: RecentIntervals, direct: OpSum, limits: Limits) -> Verdicts:
    bytes_ = increase(recent, "syscall", "read_direct_from_memory_bytes")
    share, least = bytes_ / direct.bytes, limits["direct_min_pct"]
    if share * 100 < least:
        return
    row = recent[-1].busiest("syscall", "mount", "read_waited_bytes_per_s")
    fstype = row.key[-1] if row is not None else ""
    which = f" ({fstype}: {_NOT_DIRECT[fstype]})" if fstype in _NOT_DIRECT else ""
    text = f"of {size(direct.bytes)} read, {size(bytes_)} caused no request and were in memory"
    yield Verdict(
        subject="memory",
        confidence="high",
        cause=f"{percent(share)} of the bytes read with O_DIRECT ({rate(direct.bytes_per_s)}, "
        f"{duration(direct.latency_us or 0)} per read) were served by the page cache, although "
        f"opened with O_DIRECT: the file system does not do direct I/O for this file{which}.",
        evidence=(
            Evidence(
                text, "read_direct_from_memory_bytes_per_s", share * 100, least, "probe of calls"
            ),
        ),
        advice="This is the speed of memory. To measure storage, use a file system or a file that "
        "does direct I/O, or a file larger than memory.",
        command=f"findmnt -T {name}; lsattr {name}" if (name := busiest_file(recent)) else "",
    )


def _direct(recent: RecentIntervals, direct: OpSum, limits: Limits) -> Verdicts:
    memory, holes_ = increases(
        recent, "syscall", "read_direct_from_memory_bytes", "read_direct_hole_bytes"
    )
    expected = direct.bytes - memory - off_disk_bytes(recent, "read")
    submitted = increase(recent, "syscall", "read_lower_bytes")
    below = sum_op(recent, "block", "read")
    # The sum of all disks excludes stacked devices; data they serve from memory is on no disk.
    stacked = sum(device.sum.bytes for device in devices(recent, "read") if device.is_stacked)
    reached = max(submitted, float(below.bytes), float(stacked))
    if not expected or expected / direct.seconds < limits["bytes_min_per_s"]:
        return
    share, least = 1 - reached / expected, limits["direct_min_pct"]
    if share * 100 < least:
        return
    text = f"{size(expected)} read, {size(reached)} requested from devices"
    is_known = holes_ >= (expected - reached) / 2
    or_memory = "" if is_known else ", or were in memory (some files are read through it)"
    yield Verdict(
        subject="direct",
        confidence="high" if is_known else "medium",
        cause=f"At least {percent(share)} of the bytes read with O_DIRECT "
        f"({rate(direct.bytes_per_s)}, {duration(direct.latency_us or 0)} per read) come from no "
        f"device: they are holes, or blocks that were allocated but never written{or_memory}.",
        evidence=(
            Evidence(text, "read_lower_bytes_per_s", share * 100, least, "probes of both layers"),
        ),
        advice=_ADVICE,
        command=_show_files(recent),
    )


def _buffered(recent: RecentIntervals, limits: Limits) -> Verdicts:
    read = sum_op(recent, "syscall", "read_buffered")
    looked, holes_ = increases(recent, "syscall", "read_looked_bytes", "read_hole_bytes")
    if read.bytes_per_s < limits["bytes_min_per_s"] or not looked:
        return
    share, least = holes_ / looked, limits["buffered_min_pct"]
    if share * 100 < least:
        return
    text = f"of {size(looked)} checked, {size(holes_)} caused no request, and their files have "
    text += "more than twice as much in memory as they have blocks"
    source = "probe of calls: pages in memory compared with i_blocks"
    yield Verdict(
        subject="buffered",
        confidence="high",
        cause=f"About {percent(share)} of the bytes read through the page cache "
        f"({rate(read.bytes_per_s)}) are holes: the file has no blocks for them.",
        evidence=(Evidence(text, "read_hole_bytes_per_s", share * 100, least, source),),
        advice=_ADVICE,
        command=_show_files(recent),
    )


def _show_files(recent: RecentIntervals) -> str:
    """The command that shows the blocks of the most read file; "" if its path is not known."""
    name = busiest_file(recent)
    return f"du --apparent-size -k {name}; du -k {name}; filefrag {name}" if name else ""


@Rule(
    title="First write",
    layer="block",
    ways=("write",),
    watches="Write-zeroes requests compared with writes of data.",
    sources="The block probe, which counts them apart from writes.",
    blind="First writes that cause no write-zeroes request: to blocks that fallocate left "
    "unwritten, to a sparse image, to a thin volume of an array. dm-thin fills new blocks with "
    "ordinary kernel writes (Linux 6.1): the disk below writes far more than the volume, for no "
    "visible reason. Neither times nor counts of any layer distinguished the first pass over a "
    "fallocated file from the second (ext4, 4 KB direct writes, Linux 6.18). To find out, record "
    "two passes over the same blocks and compare them: ioh compare FIRST.ioh SECOND.ioh.",
    false_alarm="A disk or a file that is being wiped or created.",
    wrong_if="a second run over the same blocks makes as many write-zeroes requests",
    check="ioh text -d parts",
    thresholds={
        "zeroes_min_per_s": (20e6, "file systems zero a little all the time"),
        "share_min_pct": (20.0, "a smaller share does not determine the speed"),
    },
    probed=("block",),
    recent_s=3.0,
    may_be_short=True,
)
def first_write(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare write-zeroes requests with writes of data."""
    zeroes, least = sum_op(recent, "block", "write_zeroes"), limits["zeroes_min_per_s"]
    if not zeroes.bytes or zeroes.bytes_per_s < least:
        return
    data = sum_op(recent, "block", "write")
    share = zeroes.bytes / (zeroes.bytes + data.bytes)
    if share * 100 < limits["share_min_pct"]:
        return
    text = f"{per_s(zeroes.ops_per_s)} write-zeroes requests a second, "
    text += f"{per_s(data.ops_per_s)} writes"
    source = "probe of the block layer"
    yield Verdict(
        cause=f"{rate(zeroes.bytes_per_s)} of the writes are zeroes ({percent(share)}): the kernel "
        "initializes blocks that were never written, and the first writes to them wait.",
        evidence=(Evidence(text, "bytes_per_s", zeroes.bytes_per_s, least, source),),
        advice="Before a test, write the whole file or device once (fallocate is not enough: it "
        "leaves blocks unwritten). A second run shows the difference.",
    )
