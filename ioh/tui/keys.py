"""Every key once: what it does, in words; the footer, the help and the palette read from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One action.

    Shape:
        ``names`` as the terminal library calls the keys, the first one being shown as ``label``;
        ``short`` for the footer, "" where it is not listed there; ``group`` for the help.
        ``argument`` goes with the action.
    """

    names: tuple[str, ...]
    label: str
    action: str
    help: str
    group: str
    short: str = ""
    argument: str | int = ""


# One key a line reads as the table it is.
# ruff: noqa: E501
KEYS: tuple[Key, ...] = (
    *(
        Key((str(n),), str(n), "layer", f"zoom into layer {n} of the path", "Where", argument=n)
        for n in range(1, 10)
    ),
    Key(("enter",), "Enter", "open", "on a layer: zoom into it; on a row: show only that", "Where"),
    Key(("escape", "backspace", "0"), "Esc", "back", "back: filter, narrowing, zoom", "Where"),
    Key(("tab", "shift+tab"), "Tab", "focus", "move between layers and breakdown", "Where", "focus"),
    Key(("up", "k"), "↑", "up", "row above", "Where"),
    Key(("down", "j"), "↓", "down", "row below", "Where"),
    Key(("pageup",), "PgUp", "page_up", "a page up", "Where"),
    Key(("pagedown",), "PgDn", "page_down", "a page down", "Where"),
    Key(("r",), "r", "reads", "show the layer's reads", "What", "reads"),
    Key(("w",), "w", "writes", "show the layer's writes", "What", "writes"),
    Key(("o",), "o", "next_op", "next kind of operation", "What"),
    Key(("h",), "h", "panel", "size × latency table", "What", "hist", "hist"),
    Key(("l",), "l", "panel", "latency over time, as a heat map", "What", "heat", "heat"),
    Key(("g",), "g", "panel", "throughput and IOPS over time", "What", "graph", "graph"),
    Key(("t",), "t", "table", "next breakdown: processes, files, devices …", "What", "top"),
    Key(("less_than_sign", "comma"), "<", "sort_left", "sort by the column to the left", "Table"),
    Key(("greater_than_sign", "full_stop"), ">", "sort_right", "sort by the column to the right", "Table"),
    Key(("i",), "i", "invert", "turn the order round", "Table"),
    Key(("slash",), "/", "filter", "keep the rows whose name holds a text", "Table", "filter"),
    Key(("c",), "c", "copy", "copy the table shown to the clipboard (OSC 52)", "Table"),
    Key(("f",), "f", "findings", "what is wrong, with the evidence", "Screens", "findings"),
    Key(("question_mark", "f1"), "?", "help", "keys, columns, and where to check each number", "Screens", "help"),
    Key(("space",), "Space", "pause", "stop the screen, or let it go on", "Time", "pause"),
    Key(("left",), "←", "step", "one interval back", "Time", argument=-1),
    Key(("right",), "→", "step", "one interval on", "Time", argument=1),
    Key(("shift+left", "b"), "b", "step", "a minute back", "Time", argument=-60),
    Key(("shift+right", "n"), "n", "step", "a minute on", "Time", argument=60),
    Key(("home",), "Home", "begin", "the first interval", "Time"),
    Key(("end",), "End", "end", "the newest interval, and follow", "Time"),
    Key(("left_square_bracket",), "[", "moment", "to the mark, gap or finding before", "Time", argument=-1),
    Key(("right_square_bracket",), "]", "moment", "to the next mark, gap or finding", "Time", argument=1),
    Key(("plus", "equals_sign"), "+", "speed", "replay twice as fast", "Time", argument=2),
    Key(("minus",), "-", "speed", "replay half as fast", "Time", argument=-2),
    Key(("R",), "R", "record", "start or end a recording", "Keep", "rec"),
    Key(("S",), "S", "save", "save a picture (SVG) and the numbers (text)", "Keep", "save"),
    Key(("ctrl+z",), "Ctrl-Z", "stand_still", "stop, and give the terminal back to the shell; fg goes on", "Keep"),
    Key(("q", "ctrl+c"), "q", "quit", "end", "Keep", "quit"),
)  # fmt: skip


def find_key(name: str) -> Key | None:
    """What a key does; None for one that does nothing."""
    return _BY_NAME.get(name)


_BY_NAME = {name: key for key in KEYS for name in key.names}
