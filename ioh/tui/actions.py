"""Actions of keys and clicks: pure functions from one ViewState to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, TableSpec
from ioh.model.snapshot import Snapshot
from ioh.sinks.rows import direction, is_flow
from ioh.terminal.line import Argument
from ioh.tui.render.breakdown import cursor_in
from ioh.tui.render.overview import choices
from ioh.tui.render.text_screens import FOLLOW, Page
from ioh.tui.render.who import tabs_of, visible_rows
from ioh.tui.render.zoom import LayersView, folded
from ioh.tui.rows import LayerRow, first_op, layer_rows, why_inactive
from ioh.tui.state import Narrow, Panel, Prompt, Screen, ViewState


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of the screen that actions need.

    Shape:
        ``panel`` has the narrowed snapshot; ``page`` is the number of lines that PgDn moves;
        ``columns`` are those of the breakdown drawn; ``text`` is the page shown on a text screen,
        ``first`` its first visible line.
    """

    panel: LayersView
    page: int
    columns: Sequence[str] = ()
    text: Page | None = None
    first: int = 0


MAX_TYPED = 80


def with_valid_choice(state: ViewState, snapshot: Snapshot) -> ViewState:
    """Return a state whose chosen op exists: layers come and go.

    Until the user chooses, it is the first busy line with latencies from applications' calls on,
    because these know who; it does not move down when that line pauses.
    """
    rows = layer_rows(snapshot, only=state.layer)
    if not rows:
        return state
    if not state.has_chosen and not state.layer:
        return replace(state, chosen=_first_choice(rows, snapshot, state.chosen))
    layer = snapshot.layer(state.chosen[0])
    if layer is not None and state.layer in {"", layer.spec.name} and state.chosen[1] in layer.ops:
        return state
    same = [row for row in rows if row.layer == state.chosen[0]]
    return replace(state, chosen=(same or rows)[0].key)


def _first_choice(
    rows: Sequence[LayerRow], snapshot: Snapshot, before: tuple[str, str]
) -> tuple[str, str]:
    """The op to show until the user chooses one; applications' calls if nothing is busy."""
    timed = [row for row in rows if not is_flow(snapshot.specs[row.layer])] or rows
    calls = next((at for at, row in enumerate(timed) if row.layer == "syscall"), 0)
    timed = timed[calls:]
    at_work = (r for r in timed if r.stats.count or snapshot.rows(r.layer, IN_PROGRESS))
    busy = next(at_work, timed[0])
    keys = [row.key for row in timed]
    return min((before, busy.key), key=keys.index) if before in keys else busy.key


def act(state: ViewState, action: str, argument: Argument, context: Context) -> ViewState:
    """Return the state after an action; the same state if the action does nothing here."""
    if action not in _ACTIONS:
        return state
    changed = _ACTIONS[action](state, context, argument)
    if changed.layer and (changed.layer != state.layer or action in {"reads", "writes"}):
        changed = replace(changed, chosen=_at_work(context.panel.snapshot, changed.chosen))
    if changed.chosen != state.chosen or changed.layer != state.layer:
        changed = replace(changed, has_chosen=True)
    return changed


def _at_work(snapshot: Snapshot, chosen: tuple[str, str]) -> tuple[str, str]:
    """The (layer, op) to zoom into: of the same direction one with operations, if there is one.

    With buffered writes only, those that waited for a lower layer would have nothing to show.
    """
    way = direction(chosen[1])
    rows = [row for row in layer_rows(snapshot, only=chosen[0]) if way and row.direction == way]
    busy = [row.key for row in rows if row.stats.count]
    return chosen if chosen in busy or not busy else busy[0]


def refusal(action: str, argument: Argument, context: Context) -> str:
    """Return why an action does nothing here, else ""."""
    snapshot = context.panel.snapshot
    return why_inactive(snapshot, _numbered(snapshot, argument)) if action == "layer" else ""


def _numbered(snapshot: Snapshot, number: Argument) -> str:
    """The layer that a number key zooms into; "" for none."""
    return dict(enumerate(snapshot.specs, 1)).get(int(number), "")


def _choices(state: ViewState, context: Context) -> list[tuple[str, str]]:
    """The (layer, op) of all lines that can be chosen, in screen order."""
    if not state.layer:
        return choices(context.panel)
    return [row.key for row in layer_rows(context.panel.snapshot, only=state.layer)]


def _layer(state: ViewState, context: Context, argument: Argument) -> ViewState:
    name = _numbered(context.panel.snapshot, argument)
    if not name or refusal("layer", argument, context):
        return state
    if state.layer == name and state.screen == "main":
        return replace(state, layer="")
    is_chosen = state.chosen[0] == name
    chosen = state.chosen if is_chosen else first_op(context.panel.snapshot, name)
    return replace(state, layer=name, chosen=chosen, screen="main", scroll=0)


def _open(state: ViewState, context: Context) -> ViewState:
    if state.screen != "main":
        return state
    if state.focus == "layers":
        if state.layer:
            return replace(state, focus="top")
        return replace(state, layer=state.chosen[0])
    tab, keys = visible_rows(context.panel)
    if tab is None or not keys:
        return state
    name = tab.layer.spec.name
    to = _narrow_to(tab.layer.spec, tab.spec, keys[cursor_in(keys, state.table_of(name))])
    state = state.with_table(name, cursor=0, key=())
    return replace(state, narrow=to, focus="layers")


def _narrow_to(layer: LayerSpec, table: TableSpec, key: tuple[str, ...]) -> Narrow:
    """What to show of a row; of one in progress, the process, session or device of its key."""
    if table.name == IN_PROGRESS:
        named = dict(zip(table.keys, key, strict=True))
        table = next((t for t in layer.tables if t.keys[0] == table.keys[0]), table)
        key = tuple(named.get(part, "") for part in table.keys)
    return Narrow(table.name, key)


def _back(state: ViewState) -> ViewState:
    if state.screen != "main":  # leave the search first, then the screen
        return replace(state, screen=state.screen if state.typed else "main", scroll=0, typed="")
    if state.pattern:
        return state.filtered("")
    if state.narrow is not None:
        return replace(state, narrow=None)
    if state.focus == "top":
        return replace(state, focus="layers")
    return replace(state, layer="")


def _move(state: ViewState, context: Context, by: int) -> ViewState:
    if context.text is not None:
        return _move_in(context.text, state, context, by)
    if state.focus == "top":
        _, keys = visible_rows(context.panel)
        table = state.table_of(state.chosen[0])
        last = len(keys) - 1
        offset = min(table.offset, last)
        cursor = max(0, min(cursor_in(keys, table) + by, last))
        if abs(by) > 1:
            offset += by
        # Scroll only when the cursor leaves the visible rows.
        offset = max(cursor - context.page + 1, min(offset, cursor, last - context.page + 1), 0)
        key = keys[cursor] if keys else ()
        return state.with_table(state.chosen[0], cursor=cursor, offset=offset, key=key)
    ops = _choices(state, context)
    if not ops:
        return state
    at = ops.index(state.chosen) if state.chosen in ops else 0
    return replace(state, chosen=ops[max(0, min(at + by, len(ops) - 1))])


def _move_in(text: Page, state: ViewState, context: Context, by: int) -> ViewState:
    if not text.entries or abs(by) > 1:
        last = max(0, len(text.frame.lines) - context.page - 1)
        return replace(state, scroll=max(0, min(context.first + by, last)))
    at = max(0, min(text.chosen(state) + by, len(text.entries) - 1))
    return replace(state, line=at, line_key=text.entries[at].key, scroll=FOLLOW)


def _direction(state: ViewState, context: Context, way: str) -> ViewState:
    layer, ops = state.chosen[0], _choices(state, context)
    same = [op for op in ops if op[0] == layer and direction(op[1]) == way]
    return replace(state, chosen=same[0]) if same else state


def _next_op(state: ViewState, context: Context) -> ViewState:
    """Zoom in and choose the layer's next kind of operation."""
    state = replace(state, layer=state.chosen[0])
    ops = _choices(state, context)
    if not ops:
        return state
    at = ops.index(state.chosen) if state.chosen in ops else -1
    return replace(state, chosen=ops[(at + 1) % len(ops)])


def _choose(state: ViewState, context: Context, argument: Argument) -> ViewState:
    layer, _, op = str(argument).partition("/")
    if (layer, op) == state.chosen and state.focus == "layers" and op:
        return _open(state, context)
    is_known = layer in context.panel.snapshot.measured
    return replace(state, chosen=(layer, op), focus="layers") if is_known and op else state


def _zoom(state: ViewState, context: Context, argument: Argument) -> ViewState:
    """Zoom into the layer of a step: ``block/read``."""
    layer, _, op = str(argument).partition("/")
    if layer not in context.panel.snapshot.measured:
        return state
    return replace(state, chosen=(layer, op), layer=layer, focus="layers", screen="main")


def _panel(state: ViewState, argument: Argument) -> ViewState:
    """Zoom in and show one panel: the overview has no choice of panels."""
    if argument not in get_args(Panel):
        return state
    layer = state.chosen[0]
    return replace(state, layer=layer, panel=argument, screen="main")  # type: ignore[arg-type]


def _table(state: ViewState, context: Context, argument: Argument) -> ViewState:
    """Show the breakdown named (``block/device``), else the next one, and choose its layer."""
    view = context.panel if state.layer else folded(context.panel)
    tabs, at = tabs_of(view)
    if not tabs:
        return state
    tab = next((each for each in tabs if each.name == argument), tabs[(at + 1) % len(tabs)])
    layer = tab.layer.spec.name
    state = replace(state, screen="main")
    if layer != state.chosen[0]:
        way = direction(state.chosen[1])
        state = replace(state, chosen=first_op(view.snapshot, layer, way))
    return state.with_table(
        layer, name=tab.spec.name, sort="", cursor=0, key=(), is_ascending=False
    )


def _sort(state: ViewState, context: Context, by: int | str) -> ViewState:
    name = state.chosen[0]
    table = state.table_of(name)
    if by == table.sort:
        return _invert(state)
    if isinstance(by, str):
        return state.with_table(name, sort=by, is_ascending=False, cursor=0, key=())
    columns = list(context.columns)
    at = columns.index(table.sort) if table.sort in columns else (-1 if by > 0 else len(columns))
    at += by
    wanted = columns[at] if 0 <= at < len(columns) else ""
    return state.with_table(name, sort=wanted, cursor=0, key=())


def _invert(state: ViewState) -> ViewState:
    name = state.chosen[0]
    return state.with_table(name, is_ascending=not state.table_of(name).is_ascending)


def _row(state: ViewState, context: Context, argument: Argument) -> ViewState:
    name = state.chosen[0]
    _, keys = visible_rows(context.panel)
    at = min(int(argument), len(keys) - 1)
    if at < 0:
        return state
    if state.focus == "top" and cursor_in(keys, state.table_of(name)) == at:
        return _open(state, context)
    return replace(state.with_table(name, cursor=at, key=keys[at]), focus="top")


def _focus(state: ViewState, context: Context) -> ViewState:
    if state.focus == "top":
        return replace(state, focus="layers", screen="main")
    _, keys = visible_rows(context.panel)
    name = state.chosen[0]
    if keys:  # from now on the cursor follows its row
        state = state.with_table(name, key=keys[cursor_in(keys, state.table_of(name))])
    return replace(state, focus="top", screen="main")


def _text(state: ViewState, name: Screen) -> ViewState:
    """Open a text screen, or close it if it is open."""
    wanted = "main" if state.screen == name else name
    prompt: Prompt = "command" if wanted == "commands" else ""
    return replace(
        state, screen=wanted, scroll=FOLLOW, typed="", prompt=prompt, line=0, line_key=""
    )


def _filter(state: ViewState) -> ViewState:
    if state.screen == "help":
        return replace(state, prompt="search", scroll=0)
    return replace(state, prompt="filter", focus="top", screen="main")


_ACTIONS: dict[str, Callable[[ViewState, Context, Argument], ViewState]] = {
    "layer": _layer,
    "open": lambda s, c, _: _open(s, c),
    "back": lambda s, *_: _back(s),
    "focus": lambda s, c, _: _focus(s, c),
    "up": lambda s, c, _: _move(s, c, -1),
    "down": lambda s, c, _: _move(s, c, 1),
    "page_up": lambda s, c, _: _move(s, c, -c.page),
    "page_down": lambda s, c, _: _move(s, c, c.page),
    "reads": lambda s, c, _: _direction(s, c, "R"),
    "writes": lambda s, c, _: _direction(s, c, "W"),
    "next_op": lambda s, c, _: _next_op(s, c),
    "choose": _choose,
    "zoom": _zoom,
    "panel": lambda s, _, a: _panel(s, a),
    "table": _table,
    "sort": lambda s, c, a: _sort(s, c, str(a)),
    "sort_left": lambda s, c, _: _sort(s, c, -1),
    "sort_right": lambda s, c, _: _sort(s, c, 1),
    "invert": lambda s, *_: _invert(s),
    "row": _row,
    "findings": lambda s, *_: _text(s, "findings"),
    "help": lambda s, *_: _text(s, "help"),
    "palette": lambda s, *_: _text(s, "commands"),
    "mark": lambda s, *_: replace(s, prompt="mark", typed="", screen="main"),
    "filter": lambda s, *_: _filter(s),
}


def edited(text: str, key: str, character: str | None) -> str:
    """Return a text after one more key."""
    if key == "backspace":
        return text[:-1]
    if key == "ctrl+u":
        return ""
    if character is not None and character.isprintable() and len(text) < MAX_TYPED:
        return text + character
    return text


def typed(state: ViewState, key: str, character: str | None) -> ViewState:
    """Return the state after one more key typed into a prompt."""
    if state.prompt != "filter":
        return replace(
            state, typed=edited(state.typed, key, character), line=0, line_key="", scroll=FOLLOW
        )
    pattern = edited(state.pattern, key, character)
    return state if pattern == state.pattern else state.filtered(pattern)


def answered(state: ViewState, *, is_applied: bool) -> ViewState:
    """Return the state after Enter or Esc in a prompt; a search stays on its screen."""
    if state.prompt == "filter":
        return replace(state if is_applied else state.filtered(""), prompt="")
    if state.prompt == "search":
        return replace(state, prompt="", typed=state.typed if is_applied else "")
    return replace(state, prompt="", typed="", screen="main")


def pasted(state: ViewState, text: str) -> ViewState:
    """Return the state after a paste: its printable characters, none of them a key."""
    for character in text[:MAX_TYPED] if state.prompt else "":
        state = typed(state, "", character)
    return state
