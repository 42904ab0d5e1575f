"""PgUp and PgDn move by what is visible, on every screen and in every table, at every size."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from ioh.model.snapshot import Snapshot, TableRow
from ioh.tui.render.screen import ROOMY
from tests.support.screen_player import FakePlayer, Stage, on_screen
from tests.support.screens import FINDINGS, layer_of, minute, with_layer

COUNT = 70


def crowded(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with more processes than a terminal shows, and many findings."""
    values = layer_of(snapshot, "syscall").tables["process"][0].values
    rows = tuple(TableRow((str(n), f"many{n:03}"), values) for n in range(COUNT))
    many = tuple(replace(FINDINGS[0], title=f"Thing {n}", subject=str(n)) for n in range(40))
    return replace(with_processes(snapshot, rows), findings=many)


def with_processes(snapshot: Snapshot, rows: tuple[TableRow, ...]) -> Snapshot:
    tables = {**layer_of(snapshot, "syscall").tables, "process": rows}
    return with_layer(snapshot, "syscall", tables=tables)


def feed() -> FakePlayer:
    return FakePlayer([crowded(snapshot) for snapshot in minute()])


def table(on: Stage) -> tuple[list[int], int]:
    """Numbers of the visible processes, and of the chosen one."""
    rows = [(line, re.search(r"many(\d{3})", line.text)) for line in on.app.frame().lines]
    numbers = [int(found[1]) for _, found in rows if found]
    is_chosen = [any(style == "sel" for _, style in line.spans) for line, found in rows if found]
    return numbers, numbers[is_chosen.index(True)]


@pytest.mark.parametrize(("size", "where"), [((80, 24), "zoom"), ((120, 40), "overview")])
@on_screen(feed, told=2)
async def test_a_table_moves_by_its_visible_rows(
    on: Stage, size: tuple[int, int], where: str
) -> None:
    await on.press(*(["1"] if where == "zoom" else []), "tab")
    seen, chosen = table(on)
    assert chosen == seen[0] == 0
    page = len(seen)
    assert page > 1
    await on.press("pagedown")
    assert table(on) == ([n + page for n in seen], page), "the next page, nothing left out"
    await on.press("pagedown", "down")
    numbers, chosen = table(on)
    assert (numbers[0], chosen) == (2 * page, 2 * page + 1)
    await on.press("pageup")
    numbers, chosen = table(on)
    assert (numbers[0], chosen) == (page, page + 1)
    await on.press(*["pagedown"] * (COUNT // page))
    numbers, chosen = table(on)
    assert chosen == numbers[-1] == COUNT - 1
    assert len(numbers) == page, "the last page is full"
    await on.press(*["up"] * (page - 1))
    assert table(on)[0] == numbers, "the cursor moves before the rows do"
    await on.press("up")
    numbers, chosen = table(on)
    assert chosen == numbers[0] == COUNT - 1 - page
    await on.press(*["pageup"] * (COUNT // page))
    assert table(on) == (seen, 0)


@pytest.mark.parametrize(
    ("size", "key", "is_live"),
    [((80, 24), "question_mark", True), ((120, 40), "question_mark", True), ((80, 24), "f", False)],
)
@on_screen(feed, told=2)
async def test_a_screen_moves_by_its_visible_lines(
    on: Stage, size: tuple[int, int], key: str, *, is_live: bool
) -> None:
    """The last line seen is the first one of the next page, so that the eye finds it."""

    has_timeline = size[1] >= ROOMY or not is_live
    top = 2 if has_timeline else 1
    if not is_live:  # when paused, a time line takes another line of a small terminal
        await on.press("space")
    await on.press(key)
    seen = [on.lines[top:-1]]
    while len(seen) < 200:
        await on.press("pagedown")
        *lines, last = on.lines
        if lines[top:] == seen[-1]:
            break
        seen.append(lines[top:])
        assert last.strip().startswith("PgUp PgDn page  ")
        assert "  Esc back  q quit  " in last
    assert len(seen) > 2
    whole = on.app.state.scroll + len(seen[-1])
    assert last.strip().endswith(f"-{whole} of {whole}")
    for before, after in pairwise(seen[:-1]):
        assert after[0] == before[-1]
    if key == "question_mark":  # among findings, arrow keys choose
        await on.press("up")
        assert on.lines[top:-1] != seen[-1], "no line was owed beyond the end"
        await on.press("down")
    await on.press(*["pageup"] * len(seen))
    assert on.lines[top:-1] == seen[0]


@on_screen(feed, told=2)
async def test_a_row_that_matches_the_filter_is_chosen_when_others_are_gone(on: Stage) -> None:
    await on.press("tab", "slash", *"many06", "enter", *["pagedown"] * 20)
    assert table(on)[1] == 69
    rows = layer_of(on.player.intervals[2], "syscall").tables["process"]
    few = tuple(row for row in rows if row.key[1] < "many063")
    on.player.intervals[2] = with_processes(on.player.intervals[2], few)
    await on.push()
    assert table(on)[1] == 62
