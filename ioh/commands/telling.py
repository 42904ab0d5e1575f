"""What is printed of a recording, interval by interval: by one process, or if long by several."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ioh.model.snapshot import Snapshot
from ioh.pipeline import SnapshotSink
from ioh.session.stream import Tick
from ioh.sinks.text import TextSink

if TYPE_CHECKING:
    from ioh.commands.intervals import Faults, Intervals, Remarks
    from ioh.commands.run import Ending
    from ioh.commands.spread import Span, Work
    from ioh.findings.engine import Engine
    from ioh.sources.replay import ReplaySource

# So much is printed before other processes are asked for help: the first lines come at once.
FIRST_INTERVALS = 200


class Told(NamedTuple):
    """One interval as text."""

    interval_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Telling:
    """Turns what a recording holds into text, in order.

    Shape:
        ``engine`` is None where nobody judges; ``faults`` is told of every fault; what
        ``remarks`` says of marks and gaps is written at once, by ``ending``.  ``may_spread``:
        the recording may be looked through faster than it comes, by several processes.
    """

    source: ReplaySource
    sink: SnapshotSink
    engine: Engine | None
    intervals: Intervals
    faults: Faults
    remarks: Remarks
    ending: Ending
    may_spread: bool

    def told(self, run_s: float | None) -> Generator[Told]:
        """Each interval.

        Args:
            run_s: How much of the recording is wanted, which is no more than a hint.
        """
        count = size = 0
        for item in self.source:
            self.faults.take(item)
            if not isinstance(item, Tick):
                self._remark(self.remarks(item))
                continue
            snapshot = self.intervals.take(item.sample)
            if snapshot is None:
                continue
            made = self._tell(snapshot)
            yield made
            count, size = count + 1, size + len(made.text)
            if count == FIRST_INTERVALS and (work := self._work()) is not None:
                from ioh.commands.spread import spans_of

                spans = spans_of(
                    work, item.tick + 1, told_bytes=size / count, run_s=run_s, workers=_workers()
                )
                if spans:
                    yield from self._spread(work, spans)
                    return

    def _tell(self, snapshot: Snapshot) -> Told:
        judged = snapshot if self.engine is None else self.engine.judge(snapshot)
        return Told(snapshot.interval_s, self.sink.render(judged))

    def _remark(self, text: str) -> None:
        if text:
            self.ending.write(text)

    def _work(self) -> Work | None:
        """What other processes would have to know; None where they cannot help."""
        session = self.source.session
        is_clean = self.may_spread and not str(self.faults)
        if not is_clean or session is None or not isinstance(self.sink, TextSink):
            return None
        session.refresh()
        if session.is_growing:
            return None
        from ioh.commands.spread import Work

        return Work(
            session=session,
            make_intervals=self.intervals.anew,
            engine=self.engine,
            sink=self.sink,
            remarks=self.remarks,
            with_tables=self.source.with_tables,
            with_parts=self.source.with_parts,
            part=self.source.part,
        )

    def _spread(self, work: Work, spans: list[Span]) -> Iterator[Told]:
        from ioh.commands.spread import Looked, Spread

        with Spread(work, spans, _workers()) as spread:
            for piece in spread.pieces(lambda: self.ending.received is None):
                if isinstance(piece, Looked):
                    found = self.engine.conclude(piece.look) if self.engine and piece.look else None
                    text = work.sink.say(piece.block, *(found or ((), ())))
                    yield Told(piece.interval_s, text)
                elif isinstance(piece, str):
                    self._remark(piece)
                elif piece is not None:
                    self.faults.take(piece)


def _workers() -> int:
    """How many processes are worth it."""
    from ioh.commands.spread import MAX_WORKERS

    return min(MAX_WORKERS, len(os.sched_getaffinity(0)))
