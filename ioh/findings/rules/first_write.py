"""Blocks that are filled with zeroes before they are written for the first time."""

from __future__ import annotations

from ioh.findings.format_sentence import per_s, percent, rate
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


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
    thresholds=(
        Threshold("zeroes_min_per_s", 20e6, "file systems zero a little all the time"),
        Threshold("share_min_pct", 20.0, "a smaller share does not set the pace"),
    ),
    probed=("block",),
    recent_s=3.0,
    may_be_short=True,
)
def first_write(recent: Stretch, limits: Limits) -> Verdicts:
    """Write-zeroes requests compared with writes of data."""
    zeroes = sum_op(recent, "block", "write_zeroes")
    if zeroes.bytes_per_s < limits["zeroes_min_per_s"]:
        return
    data = sum_op(recent, "block", "write")
    share = zeroes.bytes / (zeroes.bytes + data.bytes)
    if share * 100 < limits["share_min_pct"]:
        return
    yield Verdict(
        cause=f"{rate(zeroes.bytes_per_s)} of zeroes are written, {percent(share)} of all writes: "
        "blocks that were never written are prepared, and writes to them wait.",
        evidence=(
            Evidence(
                f"{per_s(zeroes.ops_per_s)} write-zeroes requests a second, "
                f"{per_s(data.ops_per_s)} writes",
                "bytes_per_s",
                zeroes.bytes_per_s,
                limits["zeroes_min_per_s"],
                "probe of the block layer",
            ),
        ),
        advice="Write all of the file or device once before a test (fallocate is not enough: it "
        "leaves blocks unwritten); a second run shows the difference.",
    )
