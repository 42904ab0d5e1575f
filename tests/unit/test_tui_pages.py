"""PgUp and PgDn move by what is seen, on every screen and in every table, at every size."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ioh.model.snapshot import LayerSnapshot, Snapshot, TableRow
from ioh.tui.options import ScreenOptions
from ioh.tui.render.line import Line
from ioh.tui.render.screen import ROOMY
from tests.screen_feed import FakeFeed, Stage, stage
from tests.screens import FINDINGS, minute

SIZES = ((80, 24), (120, 40), (200, 60))
COUNT = 130


def crowded(snapshot: Snapshot) -> Snapshot:
    """The same with as many processes as no terminal shows, and findings for several pages."""
    layer = snapshot.layers["syscall"]
    assert isinstance(layer, LayerSnapshot)
    row = layer.tables["process"][0]
    rows = tuple(TableRow((str(n), f"many{n:03}"), row.values) for n in range(COUNT))
    layer = replace(layer, tables={**layer.tables, "process": rows})
    many = tuple(replace(FINDINGS[0], title=f"Thing {n:02}") for n in range(30))
    return replace(snapshot, layers={**snapshot.layers, "syscall": layer}, findings=many)


def feed() -> FakeFeed:
    return FakeFeed([crowded(snapshot) for snapshot in minute()])


def numbers(on: Stage) -> list[int]:
    """Of the processes in sight."""
    return [int(line.text.rpartition("many")[2][:3]) for line in rows(on)]


def rows(on: Stage) -> list[Line]:
    return [line for line in on.app.frame().lines if "many" in line.text]


def total_lines(on: Stage) -> int:
    return int(on.lines[-1].rpartition(" of ")[2])


def chosen(on: Stage) -> int:
    line = next(line for line in rows(on) if any(style == "sel" for _, style in line.spans))
    return int(line.text.rpartition("many")[2][:3])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("where", ["overview", "zoom"])
def test_a_table_moves_by_the_rows_in_sight(size: tuple[int, int], where: str) -> None:
    async def flow(on: Stage) -> None:
        await on.push(2)
        await on.press(*(["1"] if where == "zoom" else []), "tab")
        seen = numbers(on)
        assert chosen(on) == seen[0] == 0
        page = len(seen)
        assert page > 1
        await on.press("pagedown")
        assert numbers(on) == [n + page for n in seen], "the next page, and nothing left out"
        assert chosen(on) == page
        await on.press("pagedown", "down")
        assert chosen(on) == 2 * page + 1
        assert numbers(on)[0] == 2 * page
        await on.press("pageup")
        assert chosen(on) == page + 1
        assert numbers(on)[0] == page
        await on.press(*["pagedown"] * (COUNT // page))
        assert chosen(on) == numbers(on)[-1] == COUNT - 1
        assert len(numbers(on)) == page, "the last page is full"
        await on.press(*["up"] * (page - 1))
        assert numbers(on)[-1] == COUNT - 1, "the cursor moves before the rows do"
        await on.press("up")
        assert chosen(on) == numbers(on)[0] == COUNT - 1 - page
        await on.press(*["pageup"] * (COUNT // page))
        assert numbers(on) == seen
        assert chosen(on) == 0

    stage(flow, feed(), size=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("key", "is_live"), [("question_mark", True), ("f", False)])
def test_a_screen_moves_by_the_lines_in_sight(
    size: tuple[int, int], key: str, *, is_live: bool
) -> None:
    """The last line seen is the first one of the next page, so that the eye finds it."""

    def body(on: Stage) -> list[str]:
        has_timeline = size[1] >= ROOMY or not is_live
        return on.lines[2 if has_timeline else 1 : size[1] - 1]

    async def flow(on: Stage) -> None:
        await on.push(2)
        if not is_live:  # a time line takes one line more of a small terminal
            await on.press("space")
        await on.press(key)
        seen = [body(on)]
        while len(seen) < 200:
            await on.press("pagedown")
            if body(on) == seen[-1]:
                break
            seen.append(body(on))
            assert on.lines[-1].strip().startswith("PgUp PgDn page  ")
            assert "  Esc back  q quit  " in on.lines[-1]
            assert f" of {total_lines(on)}" in on.lines[-1]
        assert len(seen) > 2
        assert on.lines[-1].strip().endswith(f"-{total_lines(on)} of {total_lines(on)}")
        for before, after in pairwise(seen[:-1]):
            assert after[0] == before[-1]
        assert on.app.state.scroll + len(seen[-1]) == total_lines(on)
        whole = on.app.state.scroll + len(seen[-1])
        await on.press("up")
        assert body(on) != seen[-1], "no line was owed beyond the end"
        await on.press("down")
        await on.press(*["pageup"] * len(seen))
        assert body(on) == seen[0]
        assert whole > len(seen[0])

    stage(flow, feed(), size=size, options=ScreenOptions(utc=True))


def test_a_row_that_a_filter_leaves_is_chosen_where_others_have_gone() -> None:
    async def flow(on: Stage) -> None:
        await on.push(2)
        await on.press("tab", "slash", *"many12", "enter", "pagedown", "pagedown")
        assert chosen(on) == 129
        few = on.feed.intervals[2].layers["syscall"]
        assert isinstance(few, LayerSnapshot)
        kept = tuple(row for row in few.tables["process"] if row.key[1] < "many123")
        few = replace(few, tables={**few.tables, "process": kept})
        layers = {**on.feed.intervals[2].layers, "syscall": few}
        on.feed.intervals[2] = replace(on.feed.intervals[2], layers=layers)
        await on.push()
        assert chosen(on) == 122

    stage(flow, feed())
