"""Writes of parts of pages that are not in memory: each page is read first."""

from __future__ import annotations

from ioh.findings.devices import PAGE_BYTES
from ioh.findings.format_sentence import duration, per_s, program, size, times
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Stretch, rows_of
from ioh.model.finding import Evidence


@Rule(
    title="Reads before writes",
    layer="syscall",
    watches="Reads of a disk that buffered writes wait for, compared with the writes: the page "
    "cache reads a page before a part of it is written.",
    sources="The probe's count of the reads that each write submits.",
    blind="Direct writes smaller than a sector of the disk (512e), which the disk itself reads "
    "first; parity arrays; file systems on a network; reads that a control group's limit delays; "
    "recordings made before ioh counted these reads.",
    false_alarm="A cold file whose blocks are found by reading metadata: fewer than half a read "
    "for each write.",
    wrong_if="the disk reads nothing (r/s) while nobody reads and the program writes",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("reads_per_write_min", 0.5, "metadata costs less; a page at each end costs two"),
        Threshold("reads_min_per_s", 50, "smaller loads are ignored"),
    ),
    probed=("syscall",),
    yields_to=("swapping",),  # a writer that needs memory submits others' pages
)
def read_before_write(recent: Stretch, limits: Limits) -> Verdicts:
    """Reads of a disk that writes wait for, compared with the writes."""
    kinds = [sum_op(recent, "syscall", f"write_{kind}") for kind in ("buffered", "sync")]
    wrote = max(kinds, key=lambda kind: kind.count)
    reads = sum_metric(recent, "syscall", "write_reads_per_s")
    if reads / wrote.seconds < limits["reads_min_per_s"]:
        return
    if off_disk_bytes(recent, "write") > wrote.bytes / 10:
        return  # some of these reads are a file server's
    each = reads / max(1, sum(kind.count for kind in kinds))
    if each < limits["reads_per_write_min"]:
        return
    rows = rows_of(recent[-1], "syscall", "process")
    top = max(rows, key=lambda row: row.values.get("write_bytes_per_s") or 0.0, default=None)
    who = program(top.key, "Many programs") if top is not None else "A program"
    is_whole = min(wrote.avg_bytes % PAGE_BYTES, -wrote.avg_bytes % PAGE_BYTES) < 1
    why = "a multiple of 4 KB, so their offsets are none" if is_whole else "no multiple of 4 KB"
    yield Verdict(
        subject="buffered",
        severity="warning",
        confidence="high",
        cause=f"{who} makes {per_s(wrote.ops_per_s)} writes a second of {size(wrote.avg_bytes)} "
        f"({duration(wrote.latency_us or 0)} each), and {times(each)} reads of the disk come "
        "before each: it begins or ends inside a page that is not in memory.",
        evidence=(
            Evidence(
                f"{times(each)} reads of a disk for each write",
                "",
                each,
                limits["reads_per_write_min"],
                "probe: requests of each write",
            ),
            Evidence(f"the writes are {size(wrote.avg_bytes)}, {why}", "", wrote.avg_bytes),
        ),
        advice="Align offset and size of the writes to 4 KB: a head of 512 bytes shifts all that "
        "follows it. Or keep the file in memory.",
        command="ioh text -d topfile",
    )
