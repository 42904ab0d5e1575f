"""A zoomed layer uses its height: its parts get what they need, and a graph what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.snapshot import Snapshot, TableRow
from ioh.tui.actions import with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.render.screen import draw
from ioh.tui.state import Narrow, ViewState
from tests.support.screens import LAYERS, layer_of, minute, screen_data, with_layer

TABLE, HEAT, GRAPH = "latency by size", "latency over time", "throughput and rate over time"


def zoomed(
    layer: str,
    width: int,
    height: int,
    snapshot: Snapshot | None = None,
    **chosen: object,
) -> list[str]:
    """The lines of a zoom; the first of them is the layer's title."""
    state = ViewState(layer=layer, chosen=(layer, "read"), **chosen)  # type: ignore[arg-type]
    past = [narrowed(each, state.narrow) if state.narrow else each for each in minute()]
    snapshot = snapshot or past[-1]
    data = screen_data(snapshot, history=past)
    frame = draw(with_valid_choice(state, snapshot), data, width, height)
    lines = frame.text().splitlines()
    assert len(frame.lines) == height
    begin = next(at for at, line in enumerate(lines) if "source: " in line)
    return lines[begin:-1]


def at(lines: list[str], text: str) -> int:
    return next(at for at, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("layer", ["block", "nfs_client"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_the_limits_are_there_at_every_size(layer: str, size: tuple[int, int]) -> None:
    assert any(line.startswith("  limits ") for line in zoomed(layer, *size))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("size", [(80, 40), (120, 40), (200, 55)])
@pytest.mark.parametrize("panel", ["hist", "heat", "graph"])
def test_no_part_is_left_out_while_lines_are_empty(
    layer: str, size: tuple[int, int], panel: str
) -> None:
    lines = zoomed(layer, *size, panel=panel)
    empty = sum(not line.strip() for line in lines)
    assert at(lines, "WHO")
    if any(GRAPH in line for line in lines):
        assert empty <= 3, "the graph takes what is left"
    else:
        assert empty <= 2 + 4


def few(sizes: int, devices: int) -> Snapshot:
    """The disks with reads of so many sizes."""
    block = layer_of(minute()[-1], "block")
    counts = [int(3 < size <= 3 + sizes) for size in range(SIZE_BUCKETS)]
    hist = SizeLatencyHist(tuple(n for n in counts for _ in range(LATENCY_BUCKETS)))
    ops = {**block.ops, "read": replace(block.ops["read"], size_lat=hist)}
    tables = {**block.tables, "device": block.tables["device"][:devices]}
    return with_layer(minute()[-1], "block", ops=ops, tables=tables)


def test_what_is_below_does_not_move_with_each_size_and_row_that_comes_and_goes() -> None:
    more, fewer = (zoomed("block", 120, 40, few(*counts)) for counts in ((4, 2), (3, 1)))
    for text in (TABLE, HEAT, GRAPH, "WHO"):
        assert at(more, text) == at(fewer, text)


@pytest.mark.parametrize("size", [(120, 40), (200, 55)])
def test_heat_map_and_graph_are_below_the_table(size: tuple[int, int]) -> None:
    lines = zoomed("block", *size)
    assert at(lines, TABLE) < at(lines, HEAT) < at(lines, GRAPH) < at(lines, "WHO")


def test_the_panel_chosen_comes_first_and_a_graph_has_the_whole_height() -> None:
    lines = zoomed("block", 120, 40, panel="heat")
    assert at(lines, HEAT) < at(lines, TABLE)
    lines = zoomed("block", 120, 40, panel="graph")
    assert at(lines, "WHO") - at(lines, GRAPH) >= 20
    assert TABLE not in "".join(lines)


def many_devices(count: int) -> Snapshot:
    block = layer_of(minute()[-1], "block")
    row = block.tables["device"][0]
    rows = tuple(TableRow((f"sd{number}", ""), row.values) for number in range(count))
    return with_layer(minute()[-1], "block", tables={**block.tables, "device": rows})


def test_a_long_breakdown_has_half_of_the_room_and_a_short_one_what_it_needs() -> None:
    long = zoomed("block", 120, 40, many_devices(60))
    assert len(long) - at(long, "WHO") >= 14
    short = zoomed("block", 120, 40, many_devices(2))
    assert len(short) - at(short, "WHO") == 4


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 55)])
def test_the_page_of_a_row_uses_its_whole_height(size: tuple[int, int]) -> None:
    only = Narrow("process", ("4121", "dbserver"))
    lines = zoomed("syscall", *size, narrow=only)
    assert at(lines, "no percentiles or latencies per process")
    assert at(lines, GRAPH)
    assert sum(not line.strip() for line in lines) <= 3


@pytest.mark.parametrize("height", range(5, 30))
def test_on_a_low_screen_there_is_the_chosen_panel_or_the_breakdown(height: int) -> None:
    state = ViewState(layer="block", chosen=("block", "read"))
    for focus, text in (("layers", TABLE), ("top", "WHO")):
        data = screen_data(minute()[-1])
        frame = draw(replace(state, focus=focus), data, 80, height)  # type: ignore[arg-type]
        assert len(frame.lines) == height
        assert height < 10 or text in frame.text()
