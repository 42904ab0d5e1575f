"""Every flow of the screen, key by key, in textual's own test terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.player import News
from ioh.model.snapshot import Snapshot
from ioh.tui.first_picture import first_picture
from ioh.tui.options import ScreenOptions
from tests.support.screen_player import FakePlayer, Stage, on_screen, stage
from tests.support.screens import minute, with_layer, without


def live() -> FakePlayer:
    return FakePlayer(minute())


@on_screen(live)
async def test_the_first_paint_says_what_is_awaited_and_numbers_follow(on: Stage) -> None:
    assert "starting" in on.text
    assert on.lines[0].startswith(" ioh  ● LIVE 1s")
    on.player.say(News(status="compiling the probes: block"))
    await on.shows("compiling the probes: block")
    await on.push(status="compiling the probes: nfs_client")
    await on.shows("1 app ", "compiling the probes: nfs_client")
    await on.push()
    assert "compiling" not in on.text


@pytest.mark.parametrize("first", [None, minute()[0]])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_first_picture_equals_the_screens_first_frame(
    *, ascii_only: bool, first: Snapshot | None
) -> None:
    options = ScreenOptions(utc=True, ascii_only=ascii_only, filters_text="pid 7")

    async def flow(on: Stage) -> None:
        shown = [line.text.rstrip() for line in on.canvas.frame.lines]
        picture = first_picture("live", options, (120, 40), cycle_s=1.0, snapshot=first)
        assert picture == shown
        assert picture[0].isascii() == ascii_only
        assert ("IOPS" in picture[0]) == (first is not None)

    stage(flow, live(), options=options, first=first)


def test_the_first_numbers_stay_until_the_feed_reports_some() -> None:
    first, *later = minute()

    async def flow(on: Stage) -> None:
        assert "1 app " in on.text
        await on.press("down", "question_mark", "escape", "left", "end")
        on.player.say(News(status="compiling the probes: tcp"))
        await on.shows("1 app ", "compiling the probes: tcp")
        await on.push()
        assert on.app.view.shown is later[0]

    stage(flow, FakePlayer(later), first=first)


def test_help_and_quit_work_with_a_feed_that_reports_nothing() -> None:
    keys = "1 enter tab t h l g f c slash less_than_sign space left right home end plus i"

    async def flow(on: Stage) -> None:
        await on.press(*keys.split(), "left_square_bracket")
        assert "starting" in on.text
        await on.press("S")
        assert "nothing to save yet" in on.text
        await on.press("question_mark")
        assert "Columns" in on.text or "Where" in on.text
        await on.press("escape")
        assert "starting" in on.text
        await on.press("q")

    assert stage(flow, live()).return_value == ExitCode.OK


@on_screen(live, told=5)
async def test_enter_zooms_focuses_and_narrows_and_esc_goes_back(on: Stage) -> None:
    await on.press("down")
    assert on.app.state.chosen == ("nfs_client", "read")
    await on.press("up", "up", "enter")
    assert "── app  source:" in on.text
    await on.press("enter", "enter")
    assert "only 4121 dbserver" in on.lines[0]
    assert "not available per process" not in on.text, "zoomed: one layer only"
    await on.press("escape")
    assert "only" not in on.lines[0]
    await on.press("escape")
    assert " READ " in on.text


@on_screen(live, told=5)
async def test_narrowed_layers_that_do_not_know_the_row_say_so(on: Stage) -> None:
    await on.press("tab", "enter")
    assert "only 4121 dbserver" in on.lines[0]
    assert "not available per process" in on.text
    assert "no latencies by size per" in on.text
    await on.press("1")
    assert "ioh --pid 4121" in on.text
    await on.press("1", "escape")
    assert "not available" not in on.text


@on_screen(live, told=5)
async def test_a_filter_is_typed_on_the_last_line_and_keys_are_letters_meanwhile(on: Stage) -> None:
    await on.press("slash", "q", "R", "1", "space")
    assert "filter: qR1 _" in on.lines[-1]
    assert on.player.calls == []
    await on.press("ctrl+u", "w", "r", "i", "x", "backspace", "enter")
    assert "filter: wri" in on.text
    assert "dbwriter" in on.text
    assert "dbserver" not in on.text
    await on.press("escape")
    assert "dbserver" in on.text
    await on.press("slash", "z", "z", "z")
    assert 'no rows match "zzz"' in on.text
    await on.press("escape")
    assert "dbserver" in on.text


@on_screen(live, told=5)
async def test_pasted_text_goes_into_the_filter_and_nowhere_else(on: Stage) -> None:
    await on.paste("qR")
    assert on.player.calls == []
    assert on.app.is_running
    await on.press("slash", "w")
    await on.paste("ri\n\x1b[2J\u202e1")
    assert "filter: wri[2J1_" in on.lines[-1]
    assert on.player.calls == []
    await on.paste("y" * 500)
    assert len(on.app.state.pattern) == 80


@on_screen(live, size=(80, 24), told=2)
async def test_only_columns_that_are_shown_can_be_sorted_by(on: Stage) -> None:
    for zoom in ("t", "1"):
        await on.press(zoom, "greater_than_sign")
        sorts = 0
        while on.app.state.table_of("syscall").sort:
            assert "↓" in on.text
            sorts += 1
            await on.press("greater_than_sign")
        assert sorts >= 2


@on_screen(live)
async def test_a_layer_that_goes_away_while_shown_says_why_and_comes_back(on: Stage) -> None:
    on.player.intervals[2:4] = [without(snapshot, "nfs_client") for snapshot in minute()[2:4]]
    await on.push(2)
    await on.press("2")
    await on.push(1)
    assert "the last mount is gone" in on.text
    assert "nfs client is inactive: the last mount is gone" in on.text
    for key in ("enter", "tab", "t", "c", "w", "o", "slash", "l", "g", "down"):
        await on.press(key)
    await on.push(2)
    assert on.app.state.layer == "nfs_client"
    assert "── nfs client  source: demo" in on.text


def widths(on: Stage) -> list[int]:
    return [line.width for line in on.canvas.frame.lines]


@on_screen(live, told=5)
async def test_a_resized_terminal_is_redrawn_at_once(on: Stage) -> None:
    for width, height in ((80, 24), (300, 60), (20, 5), (1, 1), (120, 40)):
        await on.pilot.resize_terminal(width, height)
        assert widths(on) == [width] * height, "at once, though no interval comes"
    assert "1 app " in on.text


def test_an_error_of_the_feed_ends_the_screen() -> None:
    async def flow(on: Stage) -> None:
        await on.push(1)
        on.player.say(News(error=IohError("the disk is gone", "Look for it.")))
        await on.until(lambda: on.app.error is not None)

    app = stage(flow, live())
    assert str(app.error) == str(IohError("the disk is gone", "Look for it."))
    assert app.return_value == ExitCode.FAILED


class BrokenFeed(FakePlayer):
    def run(self, report: object) -> None:
        raise ZeroDivisionError


def test_an_exception_in_the_feed_is_reported() -> None:
    async def flow(on: Stage) -> None:
        await on.until(lambda: on.app.error is not None)

    assert isinstance(stage(flow, BrokenFeed(minute())).error, ZeroDivisionError)


@on_screen(live, told=3)
async def test_the_end_is_shown_and_nothing_is_late_after_it(on: Stage) -> None:
    on.player.say(News(status="ended after 3 s, as asked for", is_over=True))
    await on.shows("ended after 3 s, as asked for")
    await on.later(60)
    on.app.redraw()
    assert "LATE" not in on.text


@on_screen(live, told=2)
async def test_late_is_shown_only_while_a_tick_is_late(on: Stage) -> None:
    await on.later(400)
    assert "LATE 40" in on.canvas.frame.lines[0].text
    await on.push(1)
    assert "LATE" not in on.canvas.frame.lines[0].text


@on_screen(live)
async def test_a_long_interval_is_shown(on: Stage) -> None:
    on.player.intervals[1] = replace(minute()[1], interval_s=7.3)
    await on.push(2)
    assert "interval 7.3 s" in on.lines[0]


@on_screen(
    live,
    options=ScreenOptions(theme="mono", ascii_only=True, utc=True, filters_text="pid 4121"),
    size=(200, 50),
    told=3,
)
async def test_options_of_the_screen_take_effect(on: Stage) -> None:
    assert "pid 4121" in on.lines[0]
    assert all(line.text.isascii() for line in on.canvas.frame.lines)
    styles = {style for line in on.canvas.frame.lines for _, style in line.spans}
    assert {on.canvas.styles_by_name[style].color for style in styles} == {None}


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow(on: Stage) -> None:
        assert {style.color for style in on.canvas.styles_by_name.values()} == {None}

    monkeypatch.setenv("NO_COLOR", "1")
    stage(flow, live())


FIO = Filters(comm="fio").note("pid", "comm")
IGNORED = "--comm not applied here: all requests are shown"


def noting(snapshot: Snapshot, notes: dict[str, tuple[str, ...]]) -> Snapshot:
    """The same snapshot with notes of some layers."""
    for name, said in notes.items():
        snapshot = with_layer(snapshot, name, notes=said)
    return snapshot


def noted(notes: dict[str, tuple[str, ...]]) -> FakePlayer:
    return FakePlayer([noting(snapshot, notes) for snapshot in minute()], mode="replay")


@pytest.mark.parametrize("size", [(80, 24), (200, 40)])
@on_screen(lambda: noted({"syscall": FIO, "block": (IGNORED,)}), told=2)
async def test_a_recording_of_one_command_says_so(on: Stage, size: tuple[int, int]) -> None:
    assert "only --comm fio" in on.lines[0]
    await on.press("5")
    assert "only --comm fio" in on.lines[0]
    assert IGNORED in on.text, "and what that is not true of, too"
    await on.press("tab", "enter")
    assert "only --comm fio  only nvme0n1" in on.lines[0]
    assert "nvme0n1 nvme0n1" not in on.lines[0]
    await on.press("escape", "1", "tab", "enter")
    assert "only --comm fio  only 41" in on.lines[0]


@on_screen(
    lambda: FakePlayer(
        [noting(s, {"syscall": Filters(cgroup_id=7).note("cgroup")}) for s in minute()]
    ),
    options=ScreenOptions(utc=True, filters_text="only --cgroup /web"),
)
async def test_live_options_with_their_values_come_before_the_first_interval(on: Stage) -> None:
    assert "only --cgroup /web" in on.lines[0]
    await on.push(2)
    assert "only --cgroup /web" in on.lines[0]
    assert on.lines[0].count("only") == 1
