"""Plays a recording that comes through a pipe; its marks and gaps become moments."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.model.intervals import ChooseLayers, Intervals
from ioh.model.pairs import Round
from ioh.model.player import RoundSource, TimelineEvent
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.pipeline import MakeJudge, alone, no_judge
from ioh.playback.replay import ReplaySource
from ioh.player.live import LivePlayer
from ioh.session.records import Gap, Header, Mark, to_text
from ioh.session.stream import LostTicks, Tick


class _Pipe(RoundSource):
    """The rounds of a pipe; ``player`` learns what else it says."""

    player: LivePlayer

    def __init__(self, source: ReplaySource, choose: ChooseLayers) -> None:
        self._source, self._choose = source, choose
        self.set_speed = source.set_speed  # type: ignore[method-assign]

    def stop(self) -> None:
        self._source.stop()

    def __iter__(self) -> Iterator[Round]:
        return alone(self._samples(), Intervals(self._choose))

    def _samples(self) -> Iterator[Sample]:
        lost, player = 0, self.player
        for item in self._source:
            if isinstance(item, Header):
                player.learn_cycle(item.cycle_s)
                player.recorder.hostname = to_text(item.hostname)
            elif isinstance(item, Mark):
                player.note(TimelineEvent(item.time_unix_s, printable(to_text(item.text))))
            elif isinstance(item, Gap):
                reason = printable(to_text(item.reason))
                player.note(TimelineEvent(item.from_unix_s, reason, item.to_unix_s))
            elif isinstance(item, LostTicks):
                lost += item.count
            elif isinstance(item, Tick):
                if lost:
                    text = f"{lost} samples are lost"
                    player.note(TimelineEvent(item.sample.time_unix_s, text))
                    lost = 0
                yield item.sample


def pipe_player(
    source: ReplaySource,
    choose: ChooseLayers,
    run_s: float | None = None,
    make_judge: MakeJudge = no_judge,
) -> LivePlayer:
    """Make a player of a pipe's open source."""
    pipe = _Pipe(source, choose)
    pipe.player = LivePlayer(pipe, mode="replay", title="stdin", run_s=run_s, make_judge=make_judge)
    pipe.player.recorder.hostname = "host"
    return pipe.player
