"""A layer's table where not every row fits: what goes, what stays, and that it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.snapshot import OpStats
from ioh.tui.actions import Context, act, with_valid_choice
from ioh.tui.render.layers import fitted_rows, render_layers
from ioh.tui.render.panels import PanelView, breakdown
from ioh.tui.render.screen import draw
from ioh.tui.rows import LayerRow, layer_rows
from ioh.tui.state import TableState, ViewState
from tests.screens import LAYERS, judged, kinds, screen_data

NOBODY = ("", "")


def row(direction: str, label: str, *, is_part: bool = False, count: int = 1) -> LayerRow:
    stats = OpStats(count=count)
    return LayerRow("x", label, direction, label, stats, "", is_part)  # type: ignore[arg-type]


ROWS = [
    row("R", "read"),
    row("R", "idle part", is_part=True, count=0),
    row("R", "part", is_part=True),
    row("W", "write"),
    row("W", "write sync", is_part=True),
    row("", "fsync"),
    row("", "flush"),
]


def labels(room: int, chosen: tuple[str, str] = NOBODY) -> list[str]:
    return [shown.label for shown in fitted_rows(ROWS, chosen, room)[0]]


def test_parts_go_first_and_the_reads_and_writes_last() -> None:
    whole = labels(len(ROWS))
    assert whole == [each.label for each in ROWS]
    gone = []
    for room in range(len(ROWS) - 1, 0, -1):
        now = labels(room)
        gone += [label for label in whole if label not in now]
        whole = now
    assert gone == ["idle part", "write sync", "part", "flush", "fsync", "write"]


@given(st.integers(-3, 9), st.sampled_from([*ROWS, None]))
def test_the_chosen_row_is_always_there(room: int, chosen: LayerRow | None) -> None:
    shown, hidden = fitted_rows(ROWS, chosen.key if chosen else NOBODY, room)
    assert len(shown) == min(len(ROWS), max(1, room))
    assert sorted(map(ROWS.index, (*shown, *hidden))) == list(range(len(ROWS)))
    assert shown == [each for each in ROWS if each in shown], "in the path's order"
    assert chosen is None or chosen in shown


@pytest.mark.parametrize("kind", ["demo", "trouble", "quiet demo", "one gone"])
def test_at_80x24_every_layer_has_its_reads_and_writes(kind: str) -> None:
    snapshot, state = kinds()[kind], with_valid_choice(ViewState(), kinds()[kind])
    frame = draw(state, screen_data(snapshot), 80, 24)
    wanted = {f"{row.layer}/{row.op}" for row in layer_rows(snapshot) if row.op}
    assert {hit.argument for hit in frame.hits if hit.action == "choose"} == wanted


def test_what_is_hidden_is_counted() -> None:
    state, data = ViewState(layer="syscall", chosen=("syscall", "read")), screen_data(judged())
    frame = draw(state, data, 80, 16)
    rows = layer_rows(judged(), only="syscall")
    hidden = len(rows) - sum(1 for hit in frame.hits if hit.action == "choose")
    assert hidden > 0
    assert f"+{hidden} rows" in frame.text()
    assert "+" not in draw(state, data, 120, 40).lines[3].text


@pytest.mark.parametrize(
    ("hidden", "width", "said"),
    [(0, 24, ""), (1, 24, "+1 row (taller)"), (3, 24, "+3 rows (taller)"), (3, 12, "+3 rows")],
)
def test_how_it_is_told_depends_on_the_room(hidden: int, width: int, said: str) -> None:
    label = row("R", "x" * (width - 2))
    view = PanelView(ViewState(), judged(), ())
    head = render_layers(view, [label], 120, [label] * hidden).lines[0].text
    assert head[:width].rstrip() == said


@pytest.mark.parametrize(
    ("layer", "size"), [("", (80, 24)), ("", (60, 10)), ("", (20, 5)), ("syscall", (80, 15))]
)
def test_down_reaches_every_row_and_each_is_drawn(layer: str, size: tuple[int, int]) -> None:
    snapshot = kinds()["trouble"]
    data = screen_data(snapshot, history=())
    state = with_valid_choice(ViewState(layer=layer, chosen=(layer, "")), snapshot)
    wanted = [each.key for each in layer_rows(snapshot, only=layer) if each.op]
    met = []
    for _ in wanted:
        met.append(state.chosen)
        lines = draw(state, data, *size).lines
        assert any(style == "sel" for line in lines for _, style in line.spans), state.chosen
        context = Context(PanelView(state, snapshot, ()), LAYERS, 10)
        state = act(state, "down", "", context)
    assert met == wanted


@pytest.mark.parametrize("width", [54, 60, 80, 120, 200])
@pytest.mark.parametrize("layer", LAYERS)
def test_the_breakdown_shown_and_its_filter_are_named(layer: str, width: int) -> None:
    snapshot = judged()
    spec = snapshot.specs[layer]
    for table in spec.tables:
        state = ViewState(
            chosen=(layer, next(iter(spec.ops))),
            tables={layer: TableState(name=table.name, pattern="fio")},
        )
        view = PanelView(state, snapshot, ())
        frame = breakdown(view, width, 5)
        head = frame.lines[0]
        assert head.width == width
        (named,) = (text for text, style in head.spans if style == "tab")
        assert named == table.title or (width < 60 and table.title.startswith(named[:-1]))
        assert len(named) > 8 or named == table.title
        assert "filter: fio" in head.text
        for hit in (hit for hit in frame.hits if hit.action == "table"):
            title = next(t.title for t in spec.tables if t.name == hit.argument)
            assert head.text[hit.left : hit.right] == (named if title == table.title else title)


def test_with_room_for_all_every_breakdown_is_named() -> None:
    state = ViewState(layer="block", chosen=("block", "read"))
    text = breakdown(PanelView(state, judged(), ()), 120, 5).lines[0].text
    titles = [table.title for table in judged().specs["block"].tables]
    assert "  ".join(titles) in text
