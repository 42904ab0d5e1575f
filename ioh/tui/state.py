"""What the user is looking at: plain values, changed by pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Screen = Literal["main", "findings", "help", "commands", "compare"]
Prompt = Literal["", "mark", "search", "command"]
Panel = Literal["hist", "heat", "graph"]
Focus = Literal["layers", "top"]


@dataclass(frozen=True, slots=True)
class Narrow:
    """One row of a breakdown that the whole screen is narrowed to.

    Shape:
        ``kind`` is the breakdown's name (``process``, ``device`` …), ``key`` the row's, both as
        in the Snapshot; ``layer`` where it was chosen.
    """

    kind: str
    key: tuple[str, ...]
    layer: str


@dataclass(frozen=True, slots=True)
class TableState:
    """How one breakdown is shown; what rows there are decides in the end.

    Shape:
        ``sort`` is the derived name of a column, "" for the table's own order; ``pattern`` keeps
        rows whose names hold it, whatever the case; ``offset`` is the first row seen; ``key`` that
        of the row under the cursor, which it follows; () for the row at ``cursor``.
    """

    name: str = ""
    sort: str = ""
    is_ascending: bool = False
    pattern: str = ""
    cursor: int = 0
    offset: int = 0
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that keys change on the screen, time apart.

    Shape:
        ``layer`` is the layer zoomed into, "" for the overview; ``chosen`` the (layer, op) that
        panels show; ``tables`` by layer; ``is_typing`` a filter, else ``prompt`` what for, and
        ``typed`` what so far; ``scroll`` and ``line`` of the screens that are text: the first
        line seen, and the one chosen, which ``line_key`` finds again; ``has_chosen``: by hand,
        so that a layer that joins later takes nothing over.
    """

    screen: Screen = "main"
    layer: str = ""
    chosen: tuple[str, str] = ("", "")
    panel: Panel = "hist"
    focus: Focus = "layers"
    tables: dict[str, TableState] = field(default_factory=dict)
    is_typing: bool = False
    narrow: Narrow | None = None
    scroll: int = 0
    line: int = 0
    line_key: str = ""
    prompt: Prompt = ""
    typed: str = ""
    has_chosen: bool = False

    def table_of(self, layer: str) -> TableState:
        """How a layer's breakdown is shown."""
        return self.tables.get(layer, TableState())

    def with_table(self, layer: str, **changes: object) -> ViewState:
        """The same with a layer's breakdown shown otherwise."""
        table = replace(self.table_of(layer), **changes)  # type: ignore[arg-type]
        return replace(self, tables={**self.tables, layer: table})
