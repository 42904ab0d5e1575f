"""The whole data path: Samples from a source, derived in pairs, judged, handed on as Snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ioh.model.intervals import Intervals
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot


class SnapshotSink(Protocol):
    """Turns each Snapshot into text, or into bytes of a file, for one output."""

    def render(self, snapshot: Snapshot) -> str | bytes:
        """Text of one interval, its line ends included; bytes may come later."""
        ...


class Judge(Protocol):
    """Judges intervals one after another, as findings.Engine does."""

    @property
    def look_back_s(self) -> float:
        """Of this time before an interval depends what is found in it."""
        ...

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """The same with what the rules find."""
        ...


def snapshots(source: Iterable[Sample]) -> Iterator[Snapshot]:
    """Each interval between two consecutive Samples.

    Returns:
        One Snapshot fewer than there are Samples; the first Sample is the baseline.
    """
    return Intervals().each(source)


def judged(snapshots: Iterable[Snapshot], judge: Judge | None) -> Iterator[Snapshot]:
    """The same Snapshots with what the rules find in them; as they are without a judge."""
    for snapshot in snapshots:
        yield snapshot if judge is None else judge.judge(snapshot)


def until(intervals: Iterable[Snapshot], seconds: float | None) -> Iterator[Snapshot]:
    """The intervals that cover at least ``seconds``; all of them when that is None.

    A tick may come a little early against the one before, so a tenth of an interval is
    forgiven rather than another one waited for.
    """
    elapsed_s = 0.0
    for interval in intervals:
        yield interval
        elapsed_s += interval.interval_s
        if seconds is not None and elapsed_s >= seconds - interval.interval_s / 10:
            return
