"""What each key changes in the state of the view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.layers import all_layers
from ioh.model.snapshot import Snapshot, TableRow
from ioh.terminal.line import Argument, Line, ScreenFrame
from ioh.tui.actions import Context, act, answered, typed, with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.keys import KEYS, find_key
from ioh.tui.render.breakdown import shown_columns
from ioh.tui.render.text_screens import Page
from ioh.tui.render.who import shown_tab, table_spec, visible_rows
from ioh.tui.render.zoom import LayersView, shown_layer
from ioh.tui.rows import layer_rows
from ioh.tui.state import Narrow, ViewState
from tests.support.screens import LAYERS, kinds, layer_of, minute, states, with_layer

LAST = minute()[-1]
PAGE = 7
TEXT = Page(ScreenFrame([Line(f"line {at}") for at in range(60)]))


def do(
    state: ViewState,
    action: str,
    argument: Argument = "",
    *,
    snapshot: Snapshot = LAST,
    page: int = PAGE,
) -> ViewState:
    """Perform one action as the screen does."""
    shown = narrowed(snapshot, state.narrow) if state.narrow else snapshot
    view = LayersView(state, shown, ())
    layer = shown_layer(view)
    spec = layer and table_spec(layer, state)
    columns = [column.derived_name for column in shown_columns(spec, 120)] if spec else []
    text = None if state.screen == "main" else TEXT
    first = 0 if text is None else text.scrolled(state, page)
    context = Context(view, page, columns, text, first)
    changed = act(state, action, argument, context)
    after = narrowed(snapshot, changed.narrow) if changed.narrow else snapshot
    return with_valid_choice(changed, after)


def press(state: ViewState, *keys: str) -> ViewState:
    """Press keys, by textual's names."""
    for name in keys:
        key = find_key(name)
        assert key is not None
        state = do(state, key.action, key.argument)
    return state


START = with_valid_choice(ViewState(), LAST)


@pytest.mark.parametrize(("received", "sent", "op"), [(9e6, 1e6, "in"), (64.0, 9e6, "out")])
def test_a_flow_is_shown_in_the_direction_that_has_the_bytes(
    received: float, sent: float, op: str
) -> None:
    ops = layer_of(LAST, "tcp").ops
    rates = {"in": received, "out": sent}
    ops = {name: replace(ops[name], bytes_per_s=rate) for name, rate in rates.items()}
    snapshot = with_layer(LAST, "tcp", ops=ops)
    assert do(START, "layer", 3, snapshot=snapshot).chosen == ("tcp", op)


def test_another_breakdown_keeps_the_direction_unless_it_is_empty() -> None:
    writes = replace(START, chosen=("syscall", "write"), has_chosen=True)
    assert do(writes, "table", "tcp/connection").chosen == ("tcp", "out")
    assert do(START, "table", "tcp/connection").chosen == ("tcp", "in")
    ops = layer_of(LAST, "tcp").ops
    none = replace(ops["in"], count=0, bytes_per_s=0.0)
    snapshot = with_layer(LAST, "tcp", ops={**ops, "in": none})
    assert do(START, "table", "tcp/connection", snapshot=snapshot).chosen == ("tcp", "out")
    idle = {name: replace(each, count=0, bytes_per_s=0.0) for name, each in ops.items()}
    snapshot = with_layer(LAST, "tcp", ops=idle)
    assert do(START, "table", "tcp/connection", snapshot=snapshot).chosen == ("tcp", "in")


def rows_of(state: ViewState) -> list[tuple[str, ...]]:
    return visible_rows(LayersView(state, LAST, ()))[1]


def test_the_first_line_is_chosen_until_the_user_chooses_one() -> None:
    assert START.chosen == ("syscall", "read")
    late = replace(LAST, layers={name: LAST.layers[name] for name in ("tcp", "block")})
    first = with_valid_choice(ViewState(), late)
    assert first.chosen == ("block", "read"), "a flow has no latencies to show"
    alone = replace(LAST, layers={"tcp": LAST.layers["tcp"]})
    assert with_valid_choice(ViewState(), alone).chosen == ("tcp", "in")
    assert with_valid_choice(first, LAST).chosen == ("syscall", "read")
    database = replace(layer_of(LAST, "block"), spec=all_layers()["db"].spec)
    above = replace(LAST, layers={"db": database, **LAST.layers})
    above = replace(above, specs={"db": database.spec, **LAST.specs})
    assert with_valid_choice(ViewState(), above).chosen == ("syscall", "read"), "processes are who"
    by_hand = do(do(first, "down", snapshot=late), "up", snapshot=late)
    assert by_hand.has_chosen
    assert with_valid_choice(by_hand, LAST).chosen == ("block", "read")


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ("1", {"layer": "syscall", "chosen": ("syscall", "read")}),
        ("5", {"layer": "block", "chosen": ("block", "read")}),
        ("5 5", {"chosen": ("block", "read")}),
        ("5 1", {"layer": "syscall"}),
        ("6", {}),
        ("up", {}),
        ("g", {"layer": "syscall", "panel": "graph"}),
        ("question_mark l", {"layer": "syscall", "panel": "heat"}),
        ("4 l h", {"layer": "nfs_server", "chosen": ("nfs_server", "read")}),
        ("enter", {"layer": "syscall", "focus": "layers"}),
        ("enter enter", {"layer": "syscall", "focus": "top"}),
        ("5 w", {"layer": "block", "chosen": ("block", "write")}),
        ("5 w r", {"layer": "block", "chosen": ("block", "read")}),
        ("3 w", {"layer": "tcp", "chosen": ("tcp", "out")}),
        ("question_mark", {"screen": "help"}),
        ("question_mark question_mark", {}),
        ("question_mark down pagedown escape", {}),
        ("question_mark f", {"screen": "findings"}),
        ("f", {"screen": "findings"}),
        ("f f", {}),
        ("f escape", {}),
        ("f question_mark", {"screen": "help"}),
    ],
)
def test_keys_lead_to_the_expected_state(keys: str, seen: dict[str, Any]) -> None:
    state = press(START, *keys.split())
    usual = {"layer": "", "chosen": START.chosen, "focus": "layers", "panel": "hist"}
    wanted = {"screen": "main", **usual} | seen
    assert {name: getattr(state, name) for name in wanted} == wanted


def test_esc_goes_back_one_step_at_a_time() -> None:
    state = press(START, "5", "tab", "enter")
    assert state.narrow is not None
    state = press(state, "tab")
    state = typed(do(state, "filter"), "x", "x")
    state = answered(state, is_applied=True)
    steps = [state]
    while steps[-1] != (after := press(steps[-1], "escape")):
        steps.append(after)
    assert [bool(s.pattern) for s in steps] == [True, False, False, False, False]
    assert [s.narrow is None for s in steps] == [False, False, True, True, True]
    assert [s.focus for s in steps] == ["top", "top", "top", "layers", "layers"]
    assert [s.layer for s in steps] == ["block"] * 4 + [""]
    assert press(steps[-1], "escape") == steps[-1]


def test_o_cycles_through_a_layers_ops() -> None:
    now, ops = press(START, "5"), set()
    for _ in range(20):
        now = press(now, "o")
        ops.add(now.chosen)
    assert ops == {row.key for row in layer_rows(LAST, only="block")}


def shown_names(state: ViewState) -> str:
    """The layer and the breakdown shown."""
    tab = shown_tab(LayersView(state, LAST, ()))
    return tab.name if tab else ""


def test_t_goes_through_the_breakdowns_of_all_layers_that_have_rows() -> None:
    names = [
        f"{name}/{table.name}"
        for name, layer in LAST.measured.items()
        for table in layer.spec.tables
        if layer.rows(table.name)
    ]
    seen, state = [shown_names(START)], START
    while (shown := shown_names(state := press(state, "t"))) not in seen:
        seen.append(shown)
        assert (state.layer, state.focus) == ("", "layers")
    assert shown == seen[0]
    assert seen == names
    assert len({name.split("/")[0] for name in names}) == len(LAYERS)


def test_t_keeps_the_direction_and_in_the_zoom_the_layer() -> None:
    state = do(press(START, "w"), "table", "block/device")
    assert (shown_names(state), state.chosen) == ("block/device", ("block", "write"))
    names = [table.name for table in LAST.specs["syscall"].tables]
    seen, state = [], press(START, "1")
    for _ in names:
        state = press(state, "t")
        seen.append(state.table_of("syscall").name)
    assert seen == names[1:] + names[:1]
    assert state.layer == "syscall"
    assert do(START, "table", "syscall/file").table_of("syscall").name == "file"


def test_the_filter_acts_on_the_breakdowns_of_all_layers() -> None:
    state = press(START, "slash")
    for char in "DBWRITER":
        state = typed(state, char, char)
    state = answered(state, is_applied=True)
    found: dict[str, list[tuple[str, ...]]] = {}
    while (name := shown_names(state)) not in found:
        found[name] = rows_of(state)
        state = press(state, "t")
    assert list(found) == ["syscall/process", "nfs_client/process"], "others have no such row"
    assert {key[1] for keys in found.values() for key in keys} == {"dbwriter"}
    cleared = press(state, "escape")
    assert (cleared.pattern, cleared.chosen) == ("", state.chosen)


def test_sorting_goes_through_the_columns_and_back_to_the_tables_own_order() -> None:
    names: list[str] = []
    state = START
    while not names or names[-1]:
        state = press(state, "greater_than_sign")
        names.append(state.table_of("syscall").sort)
        assert len(names) < 20
    assert names[0] == "read_bytes_per_s"
    assert len(set(names)) >= 4
    assert press(START, "greater_than_sign", "less_than_sign").table_of("syscall").sort == ""
    assert press(START, "less_than_sign").table_of("syscall").sort == names[-2]


def test_a_click_on_a_heading_sorts_and_a_second_reverses() -> None:
    once = do(START, "sort", "writes_per_s")
    table = once.table_of("syscall")
    assert (table.sort, table.is_ascending) == ("writes_per_s", False)
    assert do(once, "sort", "writes_per_s").table_of("syscall").is_ascending
    assert press(once, "i").table_of("syscall").is_ascending
    assert rows_of(press(START, "i")) == rows_of(START)[::-1]


def test_the_cursor_of_a_breakdown_stays_on_its_row() -> None:
    chosen = press(START, "tab", "down")
    row = rows_of(chosen)[1]
    rows = layer_of(LAST, "syscall").tables["process"]
    busier = TableRow(("9999", "busier"), dict.fromkeys(rows[0].values, 1e12))
    later = with_layer(LAST, "syscall", tables={"process": (busier, *rows)})
    narrowed_to = do(chosen, "open", snapshot=later).narrow
    assert narrowed_to == Narrow("process", row)
    moved = do(chosen, "down", snapshot=later)
    assert moved.table_of("syscall").cursor == 3
    first = press(START, "tab")
    assert do(first, "open", snapshot=later).narrow == Narrow("process", rows_of(START)[0])


def test_a_click_on_a_line_chooses_and_a_second_zooms() -> None:
    once = do(START, "choose", "block/write")
    assert (once.chosen, once.layer) == (("block", "write"), "")
    assert do(once, "choose", "block/write").layer == "block"
    assert do(START, "choose", "block/") == START
    assert do(START, "choose", "nonsense/read") == START


def test_narrowing_to_nothing_is_impossible() -> None:
    state = do(press(START, "slash"), "up")
    for char in "no such row":
        state = typed(state, char, char)
    state = answered(state, is_applied=True)
    assert press(state, "enter") == state


def test_no_key_does_harm_in_any_state() -> None:
    for kind in ("demo", "no layers", "nothing known", "nothing there"):
        for state in states()[::2]:
            valid = with_valid_choice(state, kinds()[kind])
            for key in KEYS:
                do(valid, key.action, key.argument, snapshot=kinds()[kind])
    assert do(START, "panel", "nonsense") == START
    assert act(START, "no such action", "", Context(LayersView(START, LAST, ()), PAGE)) == (START)
