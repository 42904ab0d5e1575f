"""The A key compares the interval shown with that of a mark, or with a pinned one."""

from __future__ import annotations

from ioh.model.player import TimelineEvent
from tests.support.screen_player import FakePlayer, Stage, on_screen, stage
from tests.support.screens import minute


@on_screen(lambda: FakePlayer(minute()), told=5)
async def test_without_a_mark_a_pins_an_interval_and_compares_with_it(on: Stage) -> None:
    await on.press("A")
    assert "14:06:45 is pinned" in on.lines[-1]
    await on.push(20)
    await on.press("A")
    assert "Compared: 14:06:45 with 14:07:05" in on.text
    assert "A pin this interval" in on.lines[-1]
    row = next(line for line in on.lines if "R app" in line)
    assert row.count("%") >= 3
    await on.push(1)
    assert "with 14:07:06" in on.text
    await on.press("A")
    assert "14:07:06 is pinned" in on.lines[-1]
    await on.press("A", "escape")
    assert on.app.state.screen == "main"


def replay(*ticks: int) -> FakePlayer:
    """A recording with marks (fio run 3, and so on) in these intervals, and a gap."""
    times = [minute()[tick - 1].time_unix_s + 0.5 for tick in ticks]
    marks = [TimelineEvent(at, f"fio run {number}") for number, at in enumerate(times, 3)]
    gap = TimelineEvent(times[-1] + 20, "nothing was measured", times[-1] + 25)
    return FakePlayer(minute(), mode="replay", moments=(*marks, gap))


@on_screen(lambda: replay(5, 11))
async def test_a_compares_with_a_mark_of_the_recording_in_one_step(on: Stage) -> None:
    await on.press("end")
    await on.shows("14:07:40")
    await on.press("A")
    await on.shows("Compared: 14:06:52 fio run 4 with 14:07:40")
    assert on.text.index("14:06:51  fio run 4") < on.text.index("14:06:45  fio run 3")
    await on.press("down", "enter")
    await on.shows("Compared: 14:06:46 fio run 3 with 14:07:40")
    await on.click("14:06:51  fio run 4")
    await on.shows("Compared: 14:06:52 fio run 4 with 14:07:40")
    await on.press("escape")
    await on.press("home")
    await on.shows("14:06:41")
    await on.press("A")
    await on.shows("Compared: 14:06:52 fio run 4 with 14:06:41")


@on_screen(lambda: replay(5, 14))
async def test_before_the_first_mark_a_compares_with_that_one(on: Stage) -> None:
    await on.press("home")
    await on.shows("14:06:41")
    await on.press("A")
    await on.shows("Compared: 14:06:46 fio run 3 with 14:06:41")
    (chosen,) = (line for line in on.app.frame().lines if line.spans[0][1] == "sel")
    assert "14:06:45  fio run 3" in chosen.text, "that one is the one chosen"


@on_screen(lambda: replay(5))
async def test_a_mark_whose_interval_is_lost_is_reported(on: Stage) -> None:
    on.player.lost = {6}
    await on.press("end")
    await on.shows("14:07:40")
    await on.press("A")
    await on.shows("the mark's interval is lost")
    assert on.app.state.screen == "main"


def test_of_many_marks_the_newest_are_listed_and_the_others_counted() -> None:
    async def flow(on: Stage) -> None:
        await on.press("end", "A")
        await on.shows("Compared:", "Marks", "50 older ones not listed")
        await on.press(*["pagedown"] * 9)
        assert sum("run 149" in line for line in on.lines) == 0
        assert "run 50" in on.lines[-2]

    at = minute()[4].time_unix_s
    marks = tuple(TimelineEvent(at + number / 10, f"run {number}") for number in range(150))
    stage(flow, FakePlayer(minute(), mode="replay", moments=marks))
