"""When not everything fits: what is hidden, what stays, the note on it; idle layers make room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ioh.layers import all_layers
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.sample import ATTACHING, SOON, Unavailable
from ioh.model.snapshot import OpStats, Snapshot, TableRow
from ioh.tui.actions import Context, act, with_valid_choice
from ioh.tui.history import Past, point_of, row_id, series
from ioh.tui.render.breakdown import render_top
from ioh.tui.render.op_table import fitted_rows, render_ops
from ioh.tui.render.overview import choices
from ioh.tui.render.trends import TREND_INTERVALS, render_braille
from ioh.tui.render.who import breakdown
from ioh.tui.render.zoom import LayersView
from ioh.tui.rows import LayerRow, layer_rows
from ioh.tui.state import TableState, ViewState
from tests.support.screens import (
    FINDINGS,
    LAYERS,
    drawn,
    judged,
    kinds,
    layer_of,
    minute,
    nothing_known,
    with_layer,
)

NOBODY = ("", "")


def row(direction: str, label: str, *, is_part: bool = False, count: int = 1) -> LayerRow:
    stats = OpStats(count=count)
    return LayerRow("x", label, direction, label, stats, is_part)  # type: ignore[arg-type]


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
    return [shown.label for shown in fitted_rows(ROWS, chosen, room)]


def test_parts_are_hidden_first_and_reads_and_writes_last() -> None:
    whole = labels(len(ROWS))
    assert whole == [each.label for each in ROWS]
    gone = []
    for room in range(len(ROWS) - 1, 0, -1):
        now = labels(room)
        gone += [label for label in whole if label not in now]
        whole = now
    assert gone == ["idle part", "write sync", "part", "flush", "fsync", "write"]


@pytest.mark.parametrize(
    ("hidden", "width", "said"),
    [(0, 24, ""), (1, 24, "+1 row hidden"), (2, 24, "+2 rows hidden"), (2, 12, "+2 rows")],
)
def test_the_note_on_hidden_rows_depends_on_the_room(hidden: int, width: int, said: str) -> None:
    block = layer_of(judged(), "block")
    named = replace(block.spec, title="x" * (width - 7))  # beside "R " and "write"
    snapshot = with_layer(judged(), "block", spec=named)
    view = LayersView(ViewState(), snapshot, ())
    count = len(layer_rows(snapshot, only="block"))
    assert count > 2
    head = render_ops(view, layer_of(snapshot, "block"), 120, count - hidden).lines[0].text
    assert head[:width].rstrip() == said


@pytest.mark.parametrize(
    ("layer", "size"), [("", (80, 24)), ("", (60, 10)), ("", (20, 5)), ("syscall", (80, 15))]
)
def test_down_reaches_every_row_and_each_is_drawn(layer: str, size: tuple[int, int]) -> None:
    snapshot = kinds()["trouble"]
    state = with_valid_choice(ViewState(layer=layer, chosen=(layer, "")), snapshot)
    wanted = [each.key for each in layer_rows(snapshot, only=layer)]
    wanted = wanted if layer else choices(LayersView(state, snapshot, ()))
    met = []
    for _ in wanted:
        met.append(state.chosen)
        lines = drawn(snapshot, size, state, ()).lines
        assert any(style == "sel" for line in lines for _, style in line.spans), state.chosen
        context = Context(LayersView(state, snapshot, ()), 10)
        state = act(state, "down", "", context)
    assert met == wanted


@pytest.mark.parametrize("width", [54, 80, 200])
@pytest.mark.parametrize("zoomed", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_the_breakdown_shown_and_its_filter_are_named(
    layer: str, width: int, *, zoomed: bool
) -> None:
    snapshot = judged()
    spec = snapshot.specs[layer]
    titles = {
        (name, table.name): table.title for name in LAYERS for table in snapshot.specs[name].tables
    }
    for table in spec.tables:
        state = ViewState(
            layer=layer * zoomed,
            chosen=(layer, next(iter(spec.ops))),
            tables={layer: TableState(name=table.name)},
            pattern="fio",
        )
        frame = breakdown(LayersView(state, snapshot, ()), width, 5)
        head = frame.lines[0]
        assert head.width == width
        (named,) = (text for text, style in head.spans if style == "tab")
        assert named == table.title or (width < 60 and table.title.startswith(named[:-1]))
        assert len(named) > 8 or named == table.title
        assert f"{spec.title}: " in head.text
        assert "filter: fio" in head.text
        hits = [hit for hit in frame.hits if hit.action == "table"]
        assert f"{layer}/{table.name}" in {hit.argument for hit in hits}
        for hit in hits:
            name, _, kind = str(hit.argument).partition("/")
            text = titles[name, kind] if name == layer else snapshot.specs[name].title
            text = named if (name, kind) == (layer, table.name) else text
            assert head.text[hit.left : hit.right] == text


def who(state: ViewState, snapshot: Snapshot, width: int = 80) -> list[str]:
    return breakdown(LayersView(state, snapshot, ()), width, 6).text().splitlines()


def test_the_overview_names_the_breakdowns_of_the_layer_shown_and_the_other_layers() -> None:
    state, others = (
        ViewState(chosen=("block", "read")),
        "── WHO  app  nfs client  tcp  nfs server  ",
    )
    head = who(state, judged(), 120)[0]
    assert head.startswith(f"{others}block: devices  processes  I/O limits of control groups ─")
    assert "maintenance" not in head, "it has no rows"
    assert who(state, judged())[0].startswith(f"{others}block: devices  processes  ~ ─")
    last = replace(state, tables={"block": TableState(name="limit")})
    assert "  block: processes  I/O limits of control groups ─" in who(last, judged(), 60)[0]
    assert who(replace(state, layer="block"), judged())[0].startswith("── WHO  block: devices  ")


def test_a_filter_that_finds_nothing_here_says_where_it_finds_something() -> None:
    state = ViewState(chosen=("block", "read"), pattern="dbwriter")
    head, _, found = who(state, judged())
    assert "app  nfs client  block: devices  filter: dbwriter" in head
    assert found == ' no rows match "dbwriter"; app: processes has 1'
    assert who(replace(state, layer="block"), judged())[2] == ' no rows match "dbwriter"'
    assert who(replace(state, pattern="no such"), judged())[2] == ' no rows match "no such"'
    shown = who(replace(state, chosen=("syscall", "read")), judged())
    assert "dbwriter" in shown[2]
    assert len(shown) == 3


def test_each_row_has_its_own_minute_where_there_is_room() -> None:
    past = Past()
    for tick, snapshot in enumerate(minute(), 1):
        past.take(tick, snapshot)
    state = ViewState(chosen=("syscall", "read"))
    view = LayersView(state, BUSY, past.window(60, 60), 60, past.rows(60))
    for width, columns in ((200, 30), (120, 15)):
        head, _, titles, *rows = breakdown(view, width, 9).lines
        assert head.width == width >= titles.width
        assert "last 60s" in titles.text
        for line, row in zip(rows, layer_of(BUSY, "syscall").rows("process"), strict=False):
            known = row_id("syscall", "process", row.key)
            rates = [each.get(known) for each in view.rows if each is not None]
            drawn_text = render_braille(rates, columns, 60)
            assert line.text.partition(row.key[0])[0].endswith(f" {drawn_text} ")
            assert line.width == width
    assert "last" not in breakdown(view, 119, 8).text()
    assert "last" not in breakdown(replace(view, rows=[None] * 60), 200, 8).text()


def test_what_is_in_progress_elsewhere_is_named_even_if_its_name_does_not_fit() -> None:
    old = TableRow(("7", "tar", "read", "/mnt/slow"), {"age_us": 5e6, "count": 1.0})
    tables = {**layer_of(judged(), "nfs_client").tables, IN_PROGRESS: (old,)}
    spec = all_layers()["nfs_client"].spec
    waiting = with_layer(judged(), "nfs_client", spec=spec, tables=tables)
    state = ViewState(chosen=("syscall", "read"))
    for width in (80, 200):
        frame = breakdown(LayersView(state, waiting, ()), width, 6)
        head = frame.lines[0]
        assert head.text.count("in progress") == 1
        (named,) = (text for text, style in head.spans if style == "warn")
        assert named.rstrip() == "nfs client in progress"
        assert [hit.argument for hit in frame.hits].count("nfs_client/in_progress") == 1
    assert "in progress" not in who(state, judged(), 200)[0]


BUSY = minute()[-1]
SIZES = [(80, 24), (200, 60)]
NOTHING = OpStats(count=0, bytes=0, ops_per_s=0.0, bytes_per_s=0.0)


def quiet(*names: str) -> Snapshot:
    """The demo's last interval, in which some layers did nothing."""
    shown = BUSY
    for name in names:
        nothing = dict.fromkeys(layer_of(BUSY, name).ops, NOTHING)
        shown = with_layer(shown, name, ops=nothing, tables={})
    return shown


def lines(
    shown: Snapshot,
    size: tuple[int, int],
    past: Sequence[Snapshot] = (),
    state: ViewState | None = None,
) -> list[str]:
    return [line.text for line in drawn(shown, size, state, [*past, shown]).lines]


def numbered(text: list[str]) -> set[int]:
    """Numbers of the layers that have a box, or lines."""
    return {int(number) for line in text for number in re.findall(r"(?:^[ !i]|╭ )([1-5]) ", line)}


@pytest.mark.parametrize("size", SIZES)
def test_idle_layers_are_folded_after_the_span_of_the_trends_not_before(
    size: tuple[int, int],
) -> None:
    pause = quiet("tcp", "nfs_client")
    still = lines(pause, size, [BUSY, *[pause] * (TREND_INTERVALS - 2)])
    assert numbered(still) == {1, 2, 3, 4, 5}
    folded = lines(pause, size, [BUSY, *[pause] * (TREND_INTERVALS - 1)])
    assert numbered(folded) == {1, 4, 5}
    told = [line.strip() for line in folded if " idle " in line]
    waiting = "waiting 3 app, 1 nfs server, 1 block (< 0.1 s)   idle nfs client, tcp"
    assert [line.startswith(waiting) for line in told] == [True]
    assert len(folded) == len(still) == size[1]


@pytest.mark.parametrize("size", SIZES)
def test_an_idle_layer_that_is_chosen_or_has_a_finding_stays(size: tuple[int, int]) -> None:
    pause = quiet("tcp", "nfs_client")
    chosen = ViewState(chosen=("tcp", "in"), has_chosen=True)
    assert numbered(lines(pause, size, [], chosen)) == {1, 3, 4, 5}
    found = replace(pause, findings=(replace(FINDINGS[0], layer="nfs_client"),))
    assert numbered(lines(found, size)) == {1, 2, 4, 5}


def test_the_trend_of_an_unknown_number_is_unknown_and_not_none() -> None:
    starting = replace(minute()[-1], layers={"block": Unavailable(ATTACHING, hint=SOON)})
    points = [point_of(each) for each in (nothing_known(), starting, quiet("block"))]
    for measure in ("bytes_per_s", "ops_per_s", "latency_us"):
        assert series([*points, None], ("block", "read"), measure) == [None, None, 0.0, None]


def test_rows_with_nothing_to_show_are_left_out_unless_one_moves_in_them() -> None:
    """What they do is in a column that does not fit."""
    spec = next(t for t in minute()[-1].specs["syscall"].tables if t.name == "process")
    rates = {column.derived_name: 0.0 for column in spec.columns}
    rows = [TableRow((str(at), "fio"), {**rates, "reads_per_s": float(3 - at)}) for at in range(5)]
    rows[3:] = [TableRow((str(at), "idle"), rates) for at in (3, 4)]
    shown = render_top(spec, rows, TableState(), 100, 9)
    assert [line.text.split()[-2] for line in shown.lines[1:]] == ["0", "1", "2"]
    assert len(render_top(spec, rows, TableState(), 100, 9, has_focus=True).lines) == 6
    unknown = [TableRow(("3", "fio"), dict.fromkeys(rates)) for _ in range(4)]
    assert len(render_top(spec, unknown, TableState(), 100, 9).lines) == 5


def test_unknown_is_not_idle_and_if_no_layer_is_busy_all_stay() -> None:
    assert numbered(lines(quiet(*LAYERS), (80, 24))) == {1, 2, 3, 4, 5}
    known = quiet("tcp")
    unknown = nothing_known().layers["nfs_server"]
    shown = replace(known, layers={**known.layers, "nfs_server": unknown})
    assert numbered(lines(shown, (80, 24))) == {1, 2, 4, 5}


def test_arrow_keys_skip_a_folded_layer_and_its_number_zooms_into_it() -> None:
    shown = quiet("tcp", "nfs_server")
    state = with_valid_choice(ViewState(), shown)
    seen = []
    for _ in range(8):
        view = LayersView(state, shown, [point_of(shown)])
        state = act(state, "down", "", Context(view, 10))
        seen.append(state.chosen[0])
    assert set(seen) == {"syscall", "nfs_client", "block"}
    view = LayersView(state, shown, [point_of(shown)])
    assert act(state, "layer", 3, Context(view, 10)).layer == "tcp"


def test_a_kind_of_call_that_did_not_occur_has_no_group() -> None:
    shown = with_layer(BUSY, "syscall", ops={**layer_of(BUSY, "syscall").ops, "fsync": NOTHING})
    for past, bars in (([], ["READ", "WRITE"]), ([BUSY], ["READ", "WRITE", "SYNC"])):
        heads = [line.split()[1] for line in lines(shown, (120, 40), past) if line[:2] == "──"]
        assert [word for word in heads if word in {"READ", "WRITE", "SYNC"}] == bars
