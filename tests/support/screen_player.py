"""A player that reports an interval when a test says so, and a screen of it, no terminal."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from textual import _wait, events
from textual.pilot import Pilot

from ioh.model.pairs import HostState
from ioh.model.player import (
    Extent,
    IsWanted,
    Mean,
    Means,
    Mode,
    News,
    Overview,
    Player,
    RecordingState,
    TimelineEvent,
)
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.terminal.canvas import Canvas
from ioh.tui.app import IohApp
from ioh.tui.options import ScreenOptions
from ioh.tui.preferences import Preferences

TIMEOUT_S = 20.0
# After each key the pilot sleeps in steps of this length until the process is almost idle.
_wait.SLEEP_GRANULARITY = 1 / 500
_wait.SLEEP_IDLE = _wait.SLEEP_GRANULARITY / 5


def _brief(snapshot: Snapshot) -> Snapshot:
    """Without tables and parts, which a player leaves out unless asked for them."""
    layers = {
        name: replace(x, tables={}, parts={}) if isinstance(x, LayerSnapshot) else x
        for name, x in snapshot.layers.items()
    }
    return replace(snapshot, layers=layers)


class FakePlayer(Player):
    """Intervals 1 to n: reported by push() when live, all there from the start in a replay.

    Shape:
        ``calls`` are the screen's requests; ``lost`` are the intervals that visit() does not
        find, ``visits`` those that it was asked for, ``walked`` those that walk() yielded,
        ``joined`` the first and last of those joined.  It is its own only history.
    """

    name = ""
    states: tuple[HostState, ...] = ()
    recording = RecordingState()

    def __init__(
        self,
        intervals: Sequence[Snapshot],
        *,
        mode: Mode = "live",
        moments: tuple[TimelineEvent, ...] = (),
        title: str = "",
        cycle_s: float = 1.0,
    ) -> None:
        super().__init__([self])
        self.mode, self.title, self.cycle_s = mode, title, cycle_s
        self.can_play = mode == "replay"
        self.intervals = list(intervals)
        self.marks = moments
        self.scanned = Overview()
        self.calls: list[str] = []
        self.visits: list[int] = []
        self.walked: set[int] = set()
        self.joined: list[tuple[int, int]] = []
        self.lost: set[int] = set()
        self.judged: dict[int, Snapshot] = {}
        self.looks_back = 0  # intervals, for findings
        self.told = 0
        self._tell: Callable[[News], None] | None = None
        self.is_running = threading.Event()
        self._is_over = threading.Event()

    @property
    def extent(self) -> Extent:
        last = len(self.intervals) if self.mode == "replay" else self.told
        if not last:
            return Extent()
        first, newest = self.intervals[0], self.intervals[last - 1]
        start_s = first.time_unix_s - first.interval_s
        return Extent(1, last, start_s, newest.time_unix_s, is_growing=self.mode != "replay")

    def run(self, report: Callable[[News], None]) -> None:
        self._tell = report
        self.is_running.set()
        assert self._is_over.wait(60)

    def stop(self) -> None:
        self._is_over.set()

    end = close = stop

    def say(self, news: News) -> None:
        assert self.is_running.wait(TIMEOUT_S)
        assert self._tell is not None
        self._tell(news)

    def push(self, count: int = 1, *, status: str = "") -> None:
        """Report the next intervals."""
        for _ in range(count):
            self.told += 1
            self.say(News(self.told, self.intervals[self.told - 1], status))

    def visit(self, tick: int) -> Snapshot | None:
        self.visits.append(tick)
        is_there = self.extent.first <= tick <= self.extent.last and tick not in self.lost
        return self.intervals[tick - 1] if is_there else None

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        return self.judged.get(tick) if is_wanted(self.looks_back) else None

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        for tick in range(first, last + 1):
            self.walked.add(tick)
            found = self.intervals[tick - 1]
            yield tick, found if is_whole else _brief(found)

    def means(self, begin: int, last: int, is_wanted: IsWanted) -> Means:
        """The last interval of each instead of a mean, as long as all."""
        self.joined.append((begin, last))
        before = 2 * begin - last - 1
        return self._mean(begin, last, is_wanted), self._mean(before, begin - 1, is_wanted)

    def _mean(self, first: int, last: int, is_wanted: IsWanted) -> Mean | None:
        first, last = max(first, 1), min(last, self.extent.last)
        if first > last or self.lost.intersection(range(first, last + 1)) or not is_wanted(0):
            return None
        length_s = sum(each.interval_s for each in self.intervals[first - 1 : last])
        return Mean(replace(self.intervals[last - 1], interval_s=length_s), last + 1 - first)

    def tick_at(self, time_unix_s: float) -> int:
        times = [interval.time_unix_s for interval in self.intervals]
        return max(self.extent.first, min(bisect_right(times, time_unix_s), self.extent.last))

    def moments(self) -> tuple[TimelineEvent, ...]:
        return self.marks

    def overview(self, host: int = 0) -> Overview:
        del host
        return self.scanned

    def set_speed(self, speed: float) -> None:
        self.calls.append(f"speed {speed:g}")

    def set_cycle(self, cycle_s: float) -> bool:
        self.cycle_s = cycle_s
        self.calls.append(f"cycle {cycle_s:g}")
        return True

    def play_from(self, tick: int, host: int = 0) -> None:
        del host
        self.calls.append(f"play {tick}")

    def hold(self) -> None:
        self.calls.append("hold")

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        self.calls.append(f"mark {text} {time_unix_s}")
        return "marked"

    def toggle_recording(self) -> str:
        self.calls.append("record")
        if self.recording.path:
            self.recording = RecordingState()
            return "recording ended: a.ioh"
        self.recording = RecordingState("a.ioh", time.time(), 1_200_000)
        return "recording into a.ioh"


class Clock:
    """The screen's clock: its monotonic time passes only when a test says so."""

    now_s = 1000.0
    looks = 0  # how often the screen's timer has run

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return time.time()


class Stage:
    """A screen under test: its player, keys and what it shows."""

    def __init__(self, app: IohApp, pilot: Pilot[int], player: FakePlayer, clock: Clock) -> None:
        self.app, self.pilot, self.player = app, pilot, player
        self.clock = clock

    async def later(self, seconds: float) -> None:
        """Advance the screen's clock, and wait until the screen's timer has run."""
        self.clock.now_s += seconds
        looks = self.clock.looks
        await self.until(lambda: self.clock.looks > looks)

    @property
    def text(self) -> str:
        """The screen, without trailing spaces."""
        return self.app.frame().text()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def canvas(self) -> Canvas:
        """What the terminal shows, which may be older than ``text``."""
        return self.app.query_one(Canvas)

    async def push(self, count: int = 1, *, status: str = "") -> None:
        """Report intervals, and wait until the screen has taken them."""
        told = self.player.told + count
        self.player.push(count, status=status)
        await self.until(lambda: self.app.view.latest is self.player.intervals[told - 1])

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def paste(self, text: str) -> None:
        """Paste as a terminal reports it, in one piece."""
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that a thread fulfils."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"never happened; the screen is\n{self.text}"
            await asyncio.sleep(0.005)
        await self.pilot.pause()

    async def shows(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        await self.until(lambda: all(text in self.text for text in texts))

    async def click(self, text: str, *, into: int = 0) -> None:
        """Click the first occurrence of a text."""
        for y, line in enumerate(self.app.frame().lines):
            if text in line.text:
                await self.pilot.click(offset=(line.text.index(text) + into, y))
                await self.pilot.pause()
                return
        msg = f"{text} is not on the screen\n{self.text}"
        raise AssertionError(msg)


def stage(
    flow: Callable[[Stage], Awaitable[None]],
    player: FakePlayer,
    *,
    size: tuple[int, int] = (120, 40),
    options: ScreenOptions | None = None,
    first: Snapshot | None = None,
    remembered: Preferences | None = None,
) -> IohApp:
    """Run a flow on a screen; returns the application once it has ended."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ioh.tui.app.time", clock)
        patch.setattr("ioh.tui.view.time", clock)
        app = IohApp(player, options or ScreenOptions(utc=True), first, remembered)
        check = app._check

        def look() -> None:
            check()
            clock.looks += 1

        app._check = look  # type: ignore[method-assign]

        async def run() -> None:
            async with app.run_test(size=size) as pilot:
                await flow(Stage(app, pilot, player, clock))

        try:
            asyncio.run(run())
        finally:
            player.stop()
            app.end()
    return app


def on_screen(
    make_player: Callable[[], FakePlayer], *, told: int = 0, **options: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Turn a flow into a test: it gets fixtures and a Stage whose player has reported ``told``.

    ``options`` go to stage(), as do the fixtures size, options, first and remembered.
    """

    def decorate(flow: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def test(**fixtures: Any) -> None:
            async def begun(on: Stage) -> None:
                if told:
                    await on.push(told)
                await flow(on, **fixtures)

            of_stage = {"size", "options", "first", "remembered"} & fixtures.keys()
            stage(begun, make_player(), **{name: fixtures[name] for name in of_stage}, **options)

        _, *wanted = inspect.signature(flow).parameters.values()
        by_name = [each.replace(kind=each.KEYWORD_ONLY) for each in wanted]
        functools.update_wrapper(test, flow)
        test.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
        return test

    return decorate
