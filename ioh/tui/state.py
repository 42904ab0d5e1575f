"""The state of the screen: plain values, changed by pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Screen = Literal["main", "findings", "help", "commands", "compare"]
Prompt = Literal["", "filter", "mark", "search", "command"]
Panel = Literal["hist", "heat", "graph"]
Focus = Literal["layers", "top"]


@dataclass(frozen=True, slots=True)
class Narrow:
    """The row of a breakdown that the whole screen is narrowed to.

    Shape:
        ``kind`` is the breakdown's name (``process``, ``device`` …) and ``key`` the row's, both as
        in the Snapshot.
    """

    kind: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableState:
    """How to show one breakdown.

    Shape:
        ``sort`` is the derived name of a column, "" for the table's own order; ``offset`` is the
        first visible row; ``key`` is the row that the cursor follows, () for the row at ``cursor``.
    """

    name: str = ""
    sort: str = ""
    is_ascending: bool = False
    cursor: int = 0
    offset: int = 0
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that keys change on the screen, except time.

    Shape:
        ``layer`` is the zoomed layer, "" for the overview; ``chosen`` the (layer, op) that panels
        show, of the zoomed layer if there is one, by the user if ``has_chosen``: a layer that
        appears later does not replace it; ``tables`` by layer; ``pattern`` filters the rows of all
        of them by name, case-insensitive; ``typed`` is the text for any other ``prompt``;
        ``scroll`` and ``line`` of text screens: the first visible line, and the chosen one, which
        ``line_key`` identifies.
    """

    screen: Screen = "main"
    layer: str = ""
    chosen: tuple[str, str] = ("", "")
    panel: Panel = "hist"
    focus: Focus = "layers"
    tables: dict[str, TableState] = field(default_factory=dict)
    pattern: str = ""
    narrow: Narrow | None = None
    scroll: int = 0
    line: int = 0
    line_key: str = ""
    prompt: Prompt = ""
    typed: str = ""
    has_chosen: bool = False

    def table_of(self, layer: str) -> TableState:
        """The state of a layer's breakdown."""
        return self.tables.get(layer, TableState())

    def with_table(self, layer: str, **changes: object) -> ViewState:
        """The same with changes to a layer's breakdown."""
        table = replace(self.table_of(layer), **changes)  # type: ignore[arg-type]
        return replace(self, tables={**self.tables, layer: table})

    def filtered(self, pattern: str) -> ViewState:
        """The same with another filter, and the cursor on the first row."""
        return replace(self, pattern=pattern).with_table(self.chosen[0], cursor=0, key=())
