"""Moving through time on the screen, live and in a recording."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

from ioh.model.player import FindingBegin, News, Overview
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import clock
from ioh.tui.options import ScreenOptions
from tests.support.demo_samples import START_S
from tests.support.screen_player import FakePlayer, Stage, on_screen
from tests.support.screens import FINDINGS, MOMENTS, SECONDS, minute


def at(tick: int) -> str:
    return clock(minute()[tick - 1].time_unix_s, utc=True)


def live() -> FakePlayer:
    return FakePlayer(minute(), moments=MOMENTS)


def replay() -> FakePlayer:
    return FakePlayer(minute(), mode="replay", moments=MOMENTS, title="run.ioh")


@on_screen(live, told=10)
async def test_space_pauses_and_resumes_the_screen(on: Stage) -> None:
    await on.press("space")
    assert "‖ PAUSED" in on.lines[0]
    on.player.push(5)
    await on.pilot.pause()
    assert at(10) in on.lines[0]
    await on.press("space")
    await on.shows(at(15), "● LIVE")
    await on.push(1)
    assert at(16) in on.lines[0]


@on_screen(live, told=20)
async def test_arrows_step_and_home_and_end_jump(on: Stage) -> None:
    await on.press("left", "left", "left")
    await on.shows(at(17), "‖ PAUSED")
    await on.press("right")
    await on.shows(at(18))
    await on.press("home")
    await on.shows(at(1))
    await on.press("left")
    await on.shows(at(1))
    await on.press("end")
    await on.shows(at(20), "● LIVE")
    await on.press("b")
    await on.shows(at(1))
    await on.press("n")
    await on.shows(at(20))


@on_screen(live, told=20)
async def test_nothing_is_drawn_until_the_interval_requested_arrives(on: Stage) -> None:
    is_read, may_end = threading.Event(), threading.Event()
    drawn: list[str] = []
    draw = on.app.redraw

    def slowly(tick: int) -> Snapshot:
        is_read.set()
        assert may_end.wait(20)
        return minute()[tick - 1]

    def note() -> None:
        drawn.append(on.text)
        draw()

    on.player.visit = slowly  # type: ignore[method-assign]
    on.app.redraw = note  # type: ignore[method-assign]
    await on.press("home")
    assert is_read.wait(20)
    await on.press("left")
    assert drawn == []
    await on.press("w")
    assert at(20) in drawn[0].splitlines()[0]
    may_end.set()
    await on.until(lambda: at(1) in drawn[-1].splitlines()[0])


@on_screen(live, told=50)
async def test_brackets_go_to_marks_and_gaps_and_show_their_text(on: Stage) -> None:
    await on.press("left_square_bracket")
    await on.until(lambda: on.app.view.travel.tick == 35)
    await on.press("left_square_bracket")
    await on.shows(at(11), "mark: fio run 3 starts")
    await on.press("left_square_bracket")
    assert "no further mark, gap or finding" in on.lines[-1]
    for _ in range(2):
        await on.press("right_square_bracket")
        await on.until(lambda: on.app.view.travel.tick == 35)
    assert "no further mark, gap or finding" in on.lines[-1]


def with_findings() -> FakePlayer:
    """A finding is reported four seconds after its begin."""
    player = FakePlayer(minute(), moments=MOMENTS)
    player.scanned = Overview((FindingBegin(START_S + 38, "warning", START_S + 42),), START_S + 60)
    return player


@on_screen(with_findings, told=50)
async def test_brackets_go_where_a_finding_is_reported_first(on: Stage) -> None:
    await on.until(lambda: "!" in on.lines[1])  # the screen asks for findings now and then
    for tick in (42, 35):
        await on.press("left_square_bracket")
        await on.until(lambda: on.app.view.travel.tick == tick)  # noqa: B023
    await on.press("right_square_bracket")
    await on.until(lambda: on.app.view.travel.tick == 42)


@on_screen(live, size=(80, 24), told=60)
async def test_the_time_line_shows_itself_when_paused_and_can_be_clicked(on: Stage) -> None:
    assert "▼" not in on.lines[1]
    await on.press("space")
    assert "▼" in on.lines[1]
    assert "╳" in on.lines[1]
    await on.pilot.click(offset=(12, 1))
    await on.until(lambda: on.app.view.travel.tick < 6)


@on_screen(replay, told=5)
async def test_a_recording_plays_pauses_and_resumes(on: Stage) -> None:
    assert "▶ REPLAY" in on.lines[0]
    assert "run.ioh" in on.lines[0]
    await on.press("space")
    assert "‖ PAUSED" in on.lines[0]
    assert on.player.calls[-1] == "hold"
    await on.press("right")
    await on.shows(at(6))
    await on.press("space")
    assert on.player.calls[-1] == "play 6"
    assert "▶ REPLAY" in on.lines[0]


@on_screen(replay, options=ScreenOptions(utc=True, speed=60.0), told=2)
async def test_speed_keys_change_the_pace_of_a_recording(on: Stage) -> None:
    await on.press("minus", "plus", "equals_sign", "plus")
    assert on.player.calls == ["speed 32", "speed 64", "speed 128", "speed 128"]
    assert "▶ REPLAY 128x" in on.lines[0]
    assert "speed 128x" in on.lines[-1]
    await on.press(*["minus"] * 11)
    below = (64, 32, 16, 8, 4, 2, 1, 0.5, 0.25, 0.125, 0.125)
    assert on.player.calls[4:] == [f"speed {speed:g}" for speed in below]


@on_screen(live, told=2)
async def test_live_the_same_keys_change_the_interval(on: Stage) -> None:
    await on.press("minus", "minus", "minus", "minus", "plus")
    assert on.player.calls == [f"cycle {seconds}" for seconds in (2, 5, 10, 10, 5)]
    assert "interval: 5 s" in on.lines[-1]
    assert "LIVE 5s" in on.lines[0]


@on_screen(replay, told=2)
async def test_the_end_says_what_can_be_done_until_a_key_is_pressed(on: Stage) -> None:
    await on.press("end", "space")
    on.player.told = SECONDS - 1
    await on.push()
    on.player.say(News(status="the end of the recording", is_over=True))
    await on.shows("END", "Space plays it again")
    assert on.lines[-1].strip().endswith("q quits")
    await on.later(3600)
    assert "q quits" in on.lines[-1], "it stays"
    await on.press("left")
    await on.shows("PAUSED", at(SECONDS - 1))
    assert "the end" not in on.text
    await on.press("right", "space")
    assert on.player.calls[-1] == "play 1", "from its begin: there is nothing behind the end"
    on.player.told = 0
    await on.push()
    await on.shows("REPLAY", at(1))
    assert "END" not in on.lines[0]


@on_screen(replay)
async def test_what_came_by_a_pipe_is_not_played_again(on: Stage) -> None:
    on.player.can_play = False
    on.player.told = SECONDS - 1
    await on.push()
    on.player.say(News(status="the end", is_over=True))
    await on.shows("END", "the end: left arrow goes back, q quits")
    await on.press("space")
    await on.shows("PAUSED", at(SECONDS))


@on_screen(replay)
async def test_a_recording_opened_in_its_middle_has_a_past(on: Stage) -> None:
    on.player.told = 29
    on.player.push()
    await on.until(lambda: on.player.walked >= set(range(1, 30)))
    assert at(30) in on.lines[0]
    assert "▁" in on.text or "█" in on.text


@on_screen(live, told=30)
async def test_a_row_has_a_past_as_soon_as_the_screen_is_narrowed_to_it(on: Stage) -> None:
    await on.press("tab", "enter")
    assert "only 4121 dbserver" in on.lines[0]
    await on.until(lambda: on.player.walked >= set(range(1, 30)))
    # The trend of all intervals, not of the newest alone.
    trend = re.compile("│ R MB/s +[0-9.]+ +[\u2800-\u28ff]{5}")
    await on.until(lambda: any(map(trend.match, on.lines)))
    await on.press("escape", "escape")
    assert "only" not in on.lines[0]


@on_screen(live)
async def test_a_lost_interval_is_reported(on: Stage) -> None:
    on.player.lost.add(8)
    await on.push(10)
    await on.press("left")
    await on.shows(at(9))
    await on.press("left")
    await on.shows("this interval is lost")


@on_screen(live, told=10)
async def test_findings_of_the_past_appear_when_they_are_known(on: Stage) -> None:
    since = replace(FINDINGS[2], since_unix_s=minute()[4].time_unix_s)
    on.player.judged[9] = replace(minute()[8], findings=(since,))
    await on.press("left")
    await on.shows("!! A critical thing")
    assert "!" in on.lines[1]


@on_screen(live, told=20)
async def test_zoom_panel_and_narrowing_stay_when_the_time_changes(on: Stage) -> None:
    await on.press("1", "tab", "enter", "l")
    assert "only 4121" in on.lines[0]
    await on.press("left")
    await on.shows(at(19), "only 4121", "latency over time")
