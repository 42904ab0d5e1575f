"""The table of layers where not every row fits: what goes, what stays, and that it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.snapshot import OpStats
from ioh.tui.actions import Context, act, with_valid_choice
from ioh.tui.render.fit import fitted_rows
from ioh.tui.render.glyphs import UNICODE
from ioh.tui.render.layers import LayersView, render_layers
from ioh.tui.render.panels import PanelView, breakdown, breakdown_width
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


def test_a_share_is_a_part_and_not_a_layer_that_is_not_there() -> None:
    share = LayerRow("x", "", "R", "cached 19.0%", OpStats(), "", is_part=True)
    missing = [LayerRow(name, "", "R", name, OpStats(), "why") for name in ("tcp", "nfs")]
    one = fitted_rows([ROWS[0], share, missing[0], *ROWS[1:]], NOBODY, 7)[0]
    assert missing[0] in one, "alone, it keeps its reason"
    assert not any("not there" in each.label for each in one)
    both = fitted_rows([ROWS[0], share, *missing, *ROWS[3:]], NOBODY, 7)[0]
    assert [each.label for each in both] == [
        "read", "cached 19.0%", "not there", "write", "write sync", "fsync", "flush",
    ]  # fmt: skip
    assert both[2].note == "tcp, nfs (taller: why)"


@pytest.mark.parametrize("kind", ["demo", "trouble", "quiet demo", "one gone"])
def test_at_80x24_every_layer_has_its_reads_and_writes(kind: str) -> None:
    snapshot, state = kinds()[kind], with_valid_choice(ViewState(), kinds()[kind])
    text = draw(state, screen_data(snapshot), 80, 24).text()
    main = [each for each in layer_rows(snapshot) if each.direction and not each.is_part]
    for each in main:
        assert f"\n{each.direction} {each.label}" in text, each.label
    assert "cached 19.0%, " not in text


def test_what_is_hidden_is_counted() -> None:
    state, data = with_valid_choice(ViewState(), judged()), screen_data(judged())
    frame = draw(state, data, 80, 24)
    hidden = len(layer_rows(judged())) - sum(1 for hit in frame.hits if hit.action == "choose")
    assert hidden > 0
    assert frame.lines[1].text.startswith(f"+{hidden} rows (1-9) ")
    assert "rows (" not in draw(state, data, 120, 40).text()


@pytest.mark.parametrize(
    ("hidden", "width", "wide", "said"),
    [
        (0, 24, False, ""),
        (1, 24, False, "+1 row (taller, or 1-9)"),
        (3, 24, False, "+3 rows (taller, or 1-9)"),
        (3, 23, False, "+3 rows (1-9)"),
        (12, 16, False, "+12 rows (1-9)"),
        (3, 24, True, "+3 rows (taller)"),
        (3, 12, True, "+3 rows"),
    ],
)
def test_how_it_is_told_depends_on_the_room(hidden: int, width: int, wide: bool, said: str) -> None:
    label = row("R", "x" * (width - 2))
    view = LayersView(
        (), NOBODY, has_focus=True, glyphs=UNICODE, wide=wide, hidden=[label] * hidden
    )
    head = render_layers([label], view, 120).lines[0].text
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
        assert any(line.spans[0][1] == "sel" for line in lines if line.spans), state.chosen
        context = Context(PanelView(state, snapshot, (), UNICODE), LAYERS, size[0], 10)
        state = act(state, "down", "", context)
    assert met == wanted


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("layer", LAYERS)
def test_the_breakdown_shown_and_its_filter_are_named(layer: str, width: int) -> None:
    """Block has five breakdowns; beside the table half a screen is not enough for their names."""
    snapshot = judged()
    spec = snapshot.specs[layer]
    for table in spec.tables:
        state = ViewState(
            chosen=(layer, next(iter(spec.ops))),
            tables={layer: TableState(name=table.name, pattern="fio")},
        )
        view = PanelView(state, snapshot, (), UNICODE)
        columns = breakdown_width(state, width)
        frame = breakdown(view, columns, 5)
        head = frame.lines[0]
        assert head.width == columns
        (named,) = (text for text, style in head.spans if style == "tab")
        assert named == table.title or (columns < 60 and table.title.startswith(named[:-1]))
        assert len(named) > 8 or named == table.title
        assert "filter: fio" in head.text
        for hit in (hit for hit in frame.hits if hit.action == "table"):
            title = next(t.title for t in spec.tables if t.name == hit.argument)
            assert head.text[hit.left : hit.right] == (named if title == table.title else title)


def test_with_room_for_all_every_breakdown_is_named() -> None:
    state = ViewState(layer="block", chosen=("block", "read"))
    text = breakdown(PanelView(state, judged(), (), UNICODE), 120, 5).lines[0].text
    titles = [table.title for table in judged().specs["block"].tables]
    assert " ".join(titles) in text
