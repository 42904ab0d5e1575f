"""Run a player in a thread, as a screen does, and keep the news it reports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ioh.model.derive import derive
from ioh.model.finding import NotEvaluated
from ioh.model.player import News, Player
from ioh.model.snapshot import Snapshot
from tests.support import fakes

TIMEOUT_S = 10.0
SAMPLES = fakes.first(12)
SNAPSHOTS = {tick: derive(*pair) for tick, pair in enumerate(pairwise(SAMPLES), start=1)}


class Counting:
    """A judge that reports how many intervals it has seen."""

    look_back_s = 15.0

    def __init__(self) -> None:
        self.seen = 0

    def judge(self, snapshot: Snapshot) -> Snapshot:
        self.seen += 1
        return replace(snapshot, not_evaluated=(NotEvaluated("count", "", str(self.seen)),))


def told(snapshot: Snapshot | None) -> str:
    """What a Counting judge reported for an interval."""
    assert snapshot is not None
    return "".join(said.reason for said in snapshot.not_evaluated)


class Listener:
    """Collects what a player reports; a context manager that stops it."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.news: list[News] = []
        self._told = threading.Condition()
        self._thread = threading.Thread(target=player.run, args=(self._tell,), daemon=True)

    def _tell(self, news: News) -> None:
        with self._told:
            self.news.append(news)
            self._told.notify_all()

    def __enter__(self) -> Listener:  # noqa: PYI034
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.player.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._told:
            assert self._told.wait_for(condition, TIMEOUT_S), self.news[-3:]

    def wait_for_end(self) -> News:
        self.wait_for(lambda: bool(self.news) and self.news[-1].is_over)
        return self.news[-1]

    def wait_for_tick(self, tick: int) -> None:
        self.wait_for(lambda: tick in self.ticks)

    @property
    def ticks(self) -> list[int]:
        return [news.tick for news in self.news if news.tick is not None]

    @property
    def snapshots(self) -> dict[int, Snapshot]:
        return {n.tick: n.snapshot for n in self.news if n.tick is not None and n.snapshot}

    @property
    def statuses(self) -> list[str]:
        return [news.status for news in self.news if news.status]
