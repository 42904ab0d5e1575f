"""The whole data path: Samples from a source, derived in pairs, judged, handed on in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from ioh.model.intervals import Intervals, is_over
from ioh.model.pairs import HostInterval, Round, pairs, with_own_pairs
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot


class Judge(Protocol):
    """Judges intervals one after another, as findings.Engine does."""

    @property
    def look_back_s(self) -> float:
        """How far back an interval's findings may depend on earlier ones."""
        ...

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """The interval with its findings."""
        ...


MakeJudge = Callable[[], "Judge | None"]


def no_judge() -> None:
    """Make no judge."""


def alone(samples: Iterable[Sample], intervals: Intervals | None = None) -> Iterator[Round]:
    """The rounds of a single machine.

    Returns:
        One Round fewer than there are Samples; the first Sample is the baseline.
    """
    intervals = intervals or Intervals()
    older: Sample | None = None
    end_s: float | None = None
    for sample in samples:
        snapshot = intervals.take(sample)
        if not intervals.has_taken(sample):
            continue  # joined to a later one
        before, older = older, intervals.newest
        if snapshot is not None and before is not None:
            # The machine's own clock may be set.
            end_s = snapshot.time_unix_s if end_s is None else end_s + snapshot.interval_s
            yield Round(end_s, (HostInterval("", (), snapshot, (before, older)),))


def rounds(
    source: Iterable[Round], make_judge: MakeJudge = no_judge, run_s: float | None = None
) -> Iterator[Round]:
    """Each round, its hosts paired and judged, until ``run_s`` is over; None for all.

    ``make_judge`` is called once for each host.
    """
    judges: dict[str, Judge | None] = {}
    paired: set[tuple[str, str]] = set()
    begin_s: float | None = None
    for each in source:
        all_pairs = pairs(each.intervals, paired)
        judged = []
        for interval in each.intervals:
            snapshot = with_own_pairs(interval.snapshot, all_pairs, interval.name)
            if interval.name not in judges:
                judges[interval.name] = make_judge()
            if (judge := judges[interval.name]) is not None:
                snapshot = judge.judge(snapshot)
            judged.append(replace(interval, snapshot=snapshot))
        yield replace(each, intervals=tuple(judged), pairs=all_pairs)
        begin_s = each.time_unix_s - each.interval_s if begin_s is None else begin_s
        if is_over(run_s, each.time_unix_s - begin_s, each.interval_s):
            return


def snapshots(source: Iterable[Sample], make_judge: MakeJudge = no_judge) -> Iterator[Snapshot]:
    """Each interval of a single machine, judged."""
    return (each.snapshot for each in rounds(alone(source), make_judge))
