"""The A key compares the time since a mark with as long before it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ioh.model.player import IsWanted, Mean, Means, TimelineEvent
from ioh.tui.render.compare import Compared, render_compare
from ioh.tui.state import Narrow, ViewState
from tests.support.screen_player import FakePlayer, Stage, on_screen, stage
from tests.support.screens import layer_of, minute, with_layer

READ = ("nfs_client", "read")


@on_screen(lambda: FakePlayer(minute()), told=5)
async def test_without_a_mark_a_says_how_to_set_one(on: Stage) -> None:
    await on.press("A")
    assert "no mark: m sets one" in on.lines[-1]
    assert on.app.state.screen == "main"


@on_screen(lambda: FakePlayer(minute()), told=20)
async def test_live_the_comparison_grows_with_the_time_since_the_mark(on: Stage) -> None:
    on.player.marks = (
        TimelineEvent(minute()[9].time_unix_s + 0.5, "fio run 3"),
        TimelineEvent(minute()[19].time_unix_s + 0.5, "fio run 4"),
    )
    await on.press("A")
    assert "Since 14:07:00 fio run 4: no interval to show yet" in on.text
    await on.push(1)
    await on.shows("Since 14:07:00 fio run 4 to 14:07:01: mean of 1 interval, 1 s")
    await on.push(2)
    await on.shows("to 14:07:03: mean of 3 intervals, 3 s", "Before it: mean of 3 intervals, 3 s")
    assert on.player.joined[-1] == (21, 23)
    await on.press("down", "enter")
    await on.shows("Since 14:06:50 fio run 3 to 14:07:03: mean of 13 intervals, 13 s")
    await on.shows("Before it: mean of 10 intervals, 10 s, no more is kept")
    await on.press("A")
    assert on.app.state.screen == "main"


@on_screen(lambda: FakePlayer(minute()), told=20)
async def test_means_that_take_long_are_read_more_seldom(on: Stage) -> None:
    on.player.marks = (TimelineEvent(minute()[9].time_unix_s + 0.5, "fio run 3"),)
    means = on.player.means

    def read_long(begin: int, last: int, is_wanted: IsWanted) -> Means:
        on.clock.now_s += 2
        return means(begin, last, is_wanted)

    on.player.means = read_long  # type: ignore[method-assign]
    await on.press("A")
    await on.shows("to 14:07:00: mean of 10 intervals")
    await on.push(1)
    assert "to 14:07:00" in on.text
    assert on.player.joined == [(11, 20)]
    await on.later(20)
    await on.shows("to 14:07:01: mean of 11 intervals")


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
    await on.shows("Since 14:06:51 fio run 4 to 14:07:40: mean of 49 intervals")
    assert on.text.index("14:06:51  fio run 4") < on.text.index("14:06:45  fio run 3")
    await on.press("down", "enter")
    await on.shows("Since 14:06:45 fio run 3 to 14:07:40")
    await on.click("14:06:51  fio run 4")
    await on.shows("Since 14:06:51 fio run 4 to 14:07:40")
    await on.press("escape")
    await on.press("home")
    await on.shows("14:06:41")
    await on.press("A")
    await on.shows("Since 14:06:45 fio run 3: no interval to show yet")
    (chosen,) = (line for line in on.app.frame().lines if line.spans[0][1] == "sel")
    assert "14:06:45  fio run 3" in chosen.text


@on_screen(lambda: replay(5))
async def test_lost_intervals_are_reported(on: Stage) -> None:
    on.player.lost = {6}
    await on.press("end")
    await on.shows("14:07:40")
    await on.press("A")
    await on.shows("Since 14:06:45 fio run 3: the intervals are lost")


@on_screen(lambda: replay(30))
async def test_another_interval_comes_before_the_means_which_are_read_again(on: Stage) -> None:
    is_reading, may_answer = threading.Event(), threading.Event()
    means = on.player.means

    def read_long(begin: int, last: int, is_wanted: IsWanted) -> Means:
        is_reading.set()
        assert may_answer.wait(20)
        return means(begin, last, is_wanted)

    on.player.means = read_long  # type: ignore[method-assign]
    await on.press("end")
    await on.shows("14:07:40")
    await on.press("A")
    await on.shows("reading 60 intervals")
    assert is_reading.wait(20)
    await on.press("left")
    may_answer.set()
    await on.shows("Since 14:07:10 fio run 3 to 14:07:39: mean of 29 intervals")


def test_of_many_marks_the_newest_are_listed_and_the_others_counted() -> None:
    async def flow(on: Stage) -> None:
        await on.press("end", "A")
        await on.shows("Since", "Marks", "50 older ones not listed")
        await on.press(*["pagedown"] * 9)
        assert sum("run 149" in line for line in on.lines) == 0
        assert "run 50" in on.lines[-2]

    at = minute()[4].time_unix_s
    marks = tuple(TimelineEvent(at + number / 10, f"run {number}") for number in range(150))
    stage(flow, FakePlayer(minute(), mode="replay", moments=marks))


def drawn(since: Mean | None, before: Mean | None, width: int, narrow: Narrow | None = None) -> str:
    mark = TimelineEvent(minute()[29].time_unix_s, "fio run 3")
    compared = Compared(mark, (mark,), (since, before), 30)
    page = render_compare(ViewState(narrow=narrow), compared, width, utc=True)
    assert all(line.width <= width for line in page.frame.lines)
    return page.frame.text()


def reads(latency_us: float, spread_us: float, *remarks: str) -> Mean:
    """A mean whose client's READs have this mean, and means of intervals with this spread."""
    layer = minute()[-1].measured["nfs_client"]
    ops = {**layer.ops, "read": replace(layer.ops["read"], latency_us=latency_us)}
    snapshot = with_layer(minute()[-1], "nfs_client", ops=ops)
    return Mean(snapshot, 30, {READ: {"latency_us": spread_us}}, remarks)


def row(text: str, layer: str, label: str) -> tuple[list[str], list[str]]:
    """The cells of a layer's row, and those below it."""
    lines = text[text.index(f"\n {layer}\n") :].splitlines()
    at = next(at for at, line in enumerate(lines) if line.split()[:1] == [label])
    return lines[at].split()[1:], lines[at + 1].split()


def test_a_cell_has_both_means_the_change_and_below_them_their_spread() -> None:
    text = drawn(reads(5400.0, 310.0), reads(940.0, 100.0), 80)
    cells, below = row(text, "nfs client", "R")
    assert cells[-3:] == ["0.940", "5.40", "x5.74"]
    assert below == ["±0.100", "±0.310"]


@pytest.mark.parametrize(("spread_us", "style"), [(200.0, "warn"), (600.0, "dim")])
def test_a_change_within_the_spread_is_not_coloured(spread_us: float, style: str) -> None:
    mark = TimelineEvent(minute()[29].time_unix_s, "fio run 3")
    means = (reads(2000.0, spread_us), reads(1000.0, spread_us))
    page = render_compare(ViewState(), Compared(mark, (mark,), means, 30), 80, utc=True)
    styles = {text.strip(): style for line in page.frame.lines for text, style in line.spans}
    assert styles["x2.00"] == style


@pytest.mark.parametrize(("ops_per_s", "style"), [(1000.0, "warn"), (1.0, "dim")])
def test_changes_of_few_operations_are_not_coloured(ops_per_s: float, style: str) -> None:
    """1 READ a second of 2 ms beside others of 3 s in a second is a thousandth of the time."""
    mark, means = TimelineEvent(minute()[29].time_unix_s, "fio run 3"), []
    for latency_us in (2000.0, 1000.0):
        mean = reads(latency_us, 0.0)
        ops = layer_of(mean.snapshot, "nfs_client").ops
        few = {**ops, "read": replace(ops["read"], ops_per_s=ops_per_s)}
        means.append(replace(mean, snapshot=with_layer(mean.snapshot, "nfs_client", ops=few)))
    compared = Compared(mark, (mark,), (means[0], means[1]), 30)
    page = render_compare(ViewState(), compared, 80, utc=True)
    styles = {text.strip(): style for line in page.frame.lines for text, style in line.spans}
    assert styles["x2.00"] == style


def test_more_operations_of_the_same_bytes_are_neither_better_nor_worse() -> None:
    mark, means = TimelineEvent(minute()[29].time_unix_s, "fio run 3"), []
    for ops_per_s in (400.0, 1600.0):
        mean = reads(2000.0, 0.0)
        ops = layer_of(mean.snapshot, "nfs_client").ops
        changed = {**ops, "read": replace(ops["read"], ops_per_s=ops_per_s)}
        means.append(replace(mean, snapshot=with_layer(mean.snapshot, "nfs_client", ops=changed)))
    page = render_compare(
        ViewState(), Compared(mark, (mark,), (means[0], means[1]), 30), 80, utc=True
    )
    styles = {text.strip(): style for line in page.frame.lines for text, style in line.spans}
    assert styles["-75%"] == "dim"


def test_columns_that_do_not_fit_are_named() -> None:
    cut = " p99 ms, queue ms: from 120 columns\n"
    assert cut in drawn(reads(5400.0, 310.0), reads(940.0, 100.0), 80)
    assert "columns" not in drawn(reads(5400.0, 310.0), reads(940.0, 100.0), 120)


@pytest.mark.parametrize(
    ("before_us", "since_us", "change"),
    [
        (1000, 1004, "."),
        (1000, 880, "-12%"),
        (1000, 1990, "+99%"),
        (1, 5000, ">x999"),
        (1000, 3, "<-99%"),
    ],
)
def test_a_change_in_words(before_us: float, since_us: float, change: str) -> None:
    cells, _ = row(drawn(reads(since_us, 1.0), reads(before_us, 1.0), 80), "nfs client", "R")
    assert cells[-1] == change


def test_without_a_past_the_time_since_the_mark_is_shown_alone() -> None:
    text = drawn(reads(5400.0, 310.0), None, 80)
    assert "Before it: nothing was measured" in text
    cells, below = row(text, "nfs client", "R")
    assert cells[-2:] == ["-", "5.40"]
    assert below == ["±0.310"]


def test_a_mean_that_is_not_known_has_no_spread() -> None:
    layer = minute()[-1].measured["nfs_client"]
    ops = {**layer.ops, "read": replace(layer.ops["read"], latency_us=None)}
    unknown = Mean(
        with_layer(minute()[-1], "nfs_client", ops=ops), 30, {READ: {"latency_us": 310.0}}
    )
    cells, below = row(drawn(unknown, reads(940.0, 100.0), 80), "nfs client", "R")
    assert cells[-2:] == ["0.940", "-"]
    assert below == ["±0.100"]


def test_a_layer_that_does_not_cover_all_of_it_is_named() -> None:
    remark = "block: 7 of 30 intervals, 7 s"
    assert f" before: {remark}" in drawn(reads(1.0, 1.0), reads(1.0, 1.0, remark), 120)


def test_an_op_without_operations_since_is_none_there_and_not_unknown() -> None:
    def commits(count: int) -> Mean:
        layer = minute()[-1].measured["nfs_client"]
        commit = replace(layer.ops["commit"], count=count, ops_per_s=float(count))
        ops = {**layer.ops, "commit": commit}
        return Mean(with_layer(minute()[-1], "nfs_client", ops=ops), 30)

    cells, _ = row(drawn(commits(0), commits(9), 80), "nfs client", "commit")
    assert cells[2:5] == ["9.00", ".", "-100%"]


def test_both_sides_are_narrowed_to_the_row_chosen() -> None:
    only = Narrow("process", ("4121", "dbserver"))
    text = drawn(reads(5400.0, 310.0), reads(940.0, 100.0), 120, only)
    assert "x5.74" not in text, "that is of all processes"
    assert row(text, "app", "R")
