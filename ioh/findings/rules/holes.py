"""Blocks that were never written: reads of them need no I/O, first writes prepare them."""

from __future__ import annotations

from ioh.findings.devices import devices
from ioh.findings.format_sentence import duration, per_s, percent, rate, size
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import increase, increases, sum_op
from ioh.findings.window import Stretch, busiest_file
from ioh.model.finding import Evidence

_ADVICE = "Write the whole file before you measure reads of it."


@Rule(
    title="Reads of holes",
    layer="syscall",
    watches="Bytes of direct reads compared with bytes requested from devices; for buffered reads, "
    "the pages in memory compared with the blocks of the file.",
    sources="The probes of both layers; of the buffered reads, one per millisecond and CPU.",
    blind="Thin volumes and arrays answer reads of unwritten blocks themselves. Buffered reads of "
    "blocks that were allocated and never written, of other file systems than ext4, btrfs and XFS "
    "(XFS since Linux 5.13), and by io_uring or libaio.",
    false_alarm="A file whose holes were read before and that is now read elsewhere. Files in "
    "memory (tmpfs) and on network file systems are left out by their file system's type.",
    wrong_if="the disks read (rkB/s) as much as the program does once this machine's caches are "
    "dropped",
    check="sync; echo 3 > /proc/sys/vm/drop_caches; iostat -x 1 5",
    thresholds={
        "direct_min_pct": (20.0, "the last block of a file, beyond its end, is less"),
        "buffered_min_pct": (50.0, "most of what is read"),
        "bytes_min_per_s": (20e6, "smaller loads are ignored"),
    },
    needs=("block",),
    probed=("syscall",),
)
def holes(recent: Stretch, limits: Limits) -> Verdicts:
    """Direct reads that reach no device; buffered ones of what is in no block of its file."""
    yield from _direct(recent, limits)
    yield from _buffered(recent, limits)


def _direct(recent: Stretch, limits: Limits) -> Verdicts:
    direct = sum_op(recent, "syscall", "read_direct")
    if direct.bytes_per_s < limits["bytes_min_per_s"]:
        return
    asked = direct.bytes - off_disk_bytes(recent, "read")
    submitted = increase(recent, "syscall", "read_lower_bytes")
    below = sum_op(recent, "block", "read")
    # The sum of all disks leaves these out; what they answer from memory is on no other one.
    stacked = sum(device.sum.bytes for device in devices(recent, "read") if device.is_stacked)
    reached = max(submitted, float(below.bytes), float(stacked))
    if not asked or asked / direct.seconds < limits["bytes_min_per_s"]:
        return
    share, least = 1 - reached / asked, limits["direct_min_pct"]
    if share * 100 < least:
        return
    text, source = f"{size(asked)} read, {size(reached)} asked of devices", "probes of both layers"
    yield Verdict(
        subject="direct",
        confidence="high",
        cause=f"At least {percent(share)} of what is read with O_DIRECT ({rate(direct.bytes_per_s)}"
        f", {duration(direct.latency_us or 0)} each) reaches no device: holes, or blocks that "
        "were allocated and never written.",
        evidence=(Evidence(text, "read_lower_bytes_per_s", share * 100, least, source),),
        advice=_ADVICE,
        command=_show_files(recent),
    )


def _buffered(recent: Stretch, limits: Limits) -> Verdicts:
    read = sum_op(recent, "syscall", "read_buffered")
    looked, holes_ = increases(recent, "syscall", "read_looked_bytes", "read_hole_bytes")
    if read.bytes_per_s < limits["bytes_min_per_s"] or not looked:
        return
    share, least = holes_ / looked, limits["buffered_min_pct"]
    if share * 100 < least:
        return
    text = f"of {size(looked)} looked at, {size(holes_)} made no request, and memory holds "
    text += "more than twice as much of their files as these have blocks"
    source = "probe of calls: pages in memory beside i_blocks"
    yield Verdict(
        subject="buffered",
        confidence="high",
        cause=f"About {percent(share)} of what is read through the page cache "
        f"({rate(read.bytes_per_s)}) is in no block of its file: holes.",
        evidence=(Evidence(text, "read_hole_bytes_per_s", share * 100, least, source),),
        advice=_ADVICE,
        command=_show_files(recent),
    )


def _show_files(recent: Stretch) -> str:
    """The command that shows the blocks of the file that is read most; "" without its path."""
    name = busiest_file(recent)
    return f"du --apparent-size -k {name}; du -k {name}; filefrag {name}" if name else ""


@Rule(
    title="First write",
    layer="block",
    watches="Write-zeroes requests compared with writes of data.",
    sources="The block probe, which counts them apart from writes.",
    blind="First writes that no request shows: to blocks that fallocate left unwritten, to a "
    "sparse image, to a thin volume of an array. dm-thin fills new blocks by ordinary writes of "
    "the kernel (Linux 6.1): the disk below writes far more than the volume, and nothing says "
    "why. Neither times nor counts of any layer distinguished the first pass over a fallocated "
    "file from the second (ext4, 4 KB direct writes, Linux 6.18). To find out, record two passes "
    "over the same blocks and compare them: ioh compare FIRST.ioh SECOND.ioh.",
    false_alarm="A disk or a file that is being wiped or created.",
    wrong_if="a second run over the same blocks makes as many write-zeroes requests",
    check="ioh text -d parts",
    thresholds={
        "zeroes_min_per_s": (20e6, "file systems zero a little all the time"),
        "share_min_pct": (20.0, "a smaller share does not set the pace"),
    },
    probed=("block",),
    recent_s=3.0,
    may_be_short=True,
)
def first_write(recent: Stretch, limits: Limits) -> Verdicts:
    """Write-zeroes requests compared with writes of data."""
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
        cause=f"{rate(zeroes.bytes_per_s)} of zeroes are written, {percent(share)} of all writes: "
        "blocks that were never written are prepared, and writes to them wait.",
        evidence=(Evidence(text, "bytes_per_s", zeroes.bytes_per_s, least, source),),
        advice="Write all of the file or device once before a test (fallocate is not enough: it "
        "leaves blocks unwritten); a second run shows the difference.",
    )
