"""The first sign of a problem in a recording, for problems that show only after the mark.

The time to a finding counts from the end of the first interval that shows the problem: before that,
no reader of the recording could know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioh.findings.window import op_of
from ioh.model.snapshot import OpStats, Snapshot

WITHIN_S = 10.0


@dataclass(frozen=True)
class Sign:
    """The first sign that something is wrong.

    Shape:
        ``is_shown`` takes the intervals since the mark, oldest first; the first may have begun
        before the mark.  It says whether the newest shows the sign.  ``what`` completes the phrase
        "after ...".
    """

    what: str
    is_shown: Callable[[Sequence[Snapshot]], bool]


def _op(snapshot: Snapshot, layer: str, name: str) -> OpStats:
    return op_of(snapshot, layer, name) or OpStats()


def _is_written_back(intervals: Sequence[Snapshot]) -> bool:
    calls = _op(intervals[-1], "syscall", "write_buffered")
    requests = _op(intervals[-1], "block", "write")
    if not calls.avg_bytes or not requests.avg_bytes:
        return False
    # The few requests of a journal are not write-back.
    is_much = (requests.bytes or 0) >= 0.2 * (calls.bytes or 0)
    return is_much and requests.avg_bytes >= 4 * calls.avg_bytes


def _is_read_faster(intervals: Sequence[Snapshot]) -> bool:
    """Compared with the slowest three in a row: a single one may be slow or fast by chance."""
    times = [us for s in intervals if (us := _op(s, "block", "read").latency_us)]
    before = [sum(times[at : at + 3]) / 3 for at in range(len(times) - 3)]
    return bool(before) and times[-1] <= 0.6 * max(before)


def _is_answered(intervals: Sequence[Snapshot]) -> bool:
    return bool(_op(intervals[-1], "nfs_client", "read").count)


WRITTEN_BACK = Sign("the disk first gets requests of 4 calls or more", _is_written_back)
READ_FASTER = Sign("a second of reads first takes 0.6 of what three in a row took", _is_read_faster)
ANSWERED = Sign("the first READ is answered", _is_answered)
