"""All keys and what they do; the footer, the help and the palette use this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One action.

    Shape:
        ``names`` are textual's, none if only the palette has the action; the first one is shown as
        ``label``; ``short`` is for the footer, "" if not there; ``group`` is for the help;
        ``argument`` is the action's; ``words`` are other words to search for.
    """

    names: tuple[str, ...]
    label: str
    action: str
    help: str
    group: str
    short: str = ""
    argument: str | int = ""
    words: str = ""


# One key per line, as a table.
# ruff: noqa: E501
KEYS: tuple[Key, ...] = (
    *(
        Key((str(n),), str(n), "layer", f"zoom into layer {n} of the path", "Where", argument=n)
        for n in range(1, 10)
    ),
    Key(("enter",), "Enter", "open", "on a layer: zoom in; on a row: show only this row", "Where"),
    Key(("escape", "backspace", "0"), "Esc", "back", "back: clear filter, row, zoom", "Where", words="return previous up cancel"),
    Key(("tab", "shift+tab"), "Tab", "focus", "switch between layers and breakdown", "Where", "focus"),
    Key(("H",), "H", "host", "next host, if there are several", "Where", "host", words="machine server next switch"),
    Key(("up", "k"), "↑", "up", "row above", "Where"),
    Key(("down", "j"), "↓", "down", "row below", "Where"),
    Key(("pageup",), "PgUp", "page_up", "page up", "Where"),
    Key(("pagedown",), "PgDn", "page_down", "page down", "Where"),
    Key(("r",), "r", "reads", "show the layer's reads", "What", "reads", words="input"),
    Key(("w",), "w", "writes", "show the layer's writes", "What", "writes", words="output"),
    Key(("o",), "o", "next_op", "next kind of operation", "What"),
    Key(("h",), "h", "panel", "size × latency table", "What", "hist", "hist", words="histogram distribution"),
    Key(("l",), "l", "panel", "latency over time, as a heat map", "What", "heat", "heat", words="heatmap chart"),
    Key(("g",), "g", "panel", "throughput and IOPS over time", "What", "graph", "graph", words="graph chart trend bandwidth"),
    Key(("t",), "t", "table", "who: next breakdown (processes, files, devices …)", "What", "top", words="top process file mount device client who"),
    Key(("less_than_sign", "comma"), "<", "sort_left", "sort by the column to the left", "Table", words="order"),
    Key(("greater_than_sign", "full_stop"), ">", "sort_right", "sort by the column to the right", "Table", words="order"),
    Key(("i",), "i", "invert", "reverse sort order", "Table", words="invert ascending descending"),
    Key(("slash",), "/", "filter", "filter the rows of all breakdowns", "Table", "filter", words="search find grep match"),
    Key(("c",), "c", "copy", "copy to the clipboard (OSC 52): the finding's command; in a layer or table, the table", "Table", words="yank clipboard"),
    Key(("f",), "f", "findings", "findings: problems now and before, with evidence", "Screens", "findings", words="findings problems errors warnings alerts advice"),
    Key(("question_mark", "f1"), "?", "help", "help: keys, columns, how to check each number; / searches", "Screens", "help", words="help manual documentation shortcuts"),
    Key(("A",), "A", "compare", "compare the time since a mark with as long before it", "Screens", words="difference before after baseline versus"),
    Key(("ctrl+p",), "Ctrl-P", "palette", "all commands by name, and colours", "Screens", words="command menu"),
    Key(("space",), "Space", "pause", "pause / resume", "Time", "pause", words="stop freeze hold continue play"),
    Key(("left",), "←", "step", "one interval back", "Time", argument=-1, words="previous past rewind history"),
    Key(("right",), "→", "step", "one interval forward", "Time", argument=1, words="next history"),
    Key(("shift+left", "b"), "b", "step", "60 intervals back", "Time", argument=-60, words="previous past rewind history minute"),
    Key(("shift+right", "n"), "n", "step", "60 intervals forward", "Time", argument=60, words="next history minute"),
    Key(("home",), "Home", "begin", "go to the first interval", "Time", words="start beginning oldest"),
    Key(("end",), "End", "end", "go to the newest interval and follow", "Time", words="now live latest follow"),
    Key(("left_square_bracket",), "[", "moment", "previous mark, gap or finding", "Time", argument=-1, words="bookmark problem jump"),
    Key(("right_square_bracket",), "]", "moment", "next mark, gap or finding", "Time", argument=1, words="bookmark problem jump"),
    Key(("plus", "equals_sign"), "+", "speed", "replay: twice as fast; live: shorter interval (10, 5, 2, 1 s)", "Time", argument=2, words="faster refresh rate period"),
    Key(("minus",), "-", "speed", "replay: half as fast; live: longer interval (1, 2, 5, 10 s)", "Time", argument=-2, words="slower refresh rate period"),
    Key(("m",), "m", "mark", "set a mark with a text, now or at the interval shown", "Keep", "mark", words="bookmark note label annotate"),
    Key(("R",), "R", "record", "start or stop recording", "Keep", "rec", words="save session capture log file"),
    Key(("S",), "S", "save", "save the screen (SVG) and all numbers (text)", "Keep", "save", words="export screenshot svg image print"),
    Key(("M",), "M", "mouse", "mouse on/off; off: the terminal selects text", "Keep", words="select copy clipboard click"),
    Key(("ctrl+z",), "Ctrl-Z", "suspend", "suspend to the shell; fg continues", "Keep", words="background job stop"),
    Key(("q", "ctrl+c"), "q", "quit", "quit", "Keep", "quit", words="exit leave end close"),
)  # fmt: skip


def find_key(name: str) -> Key | None:
    """The key with a name, if it does anything."""
    return _BY_NAME.get(name)


_BY_NAME = {name: key for key in KEYS for name in key.names}
