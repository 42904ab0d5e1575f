"""Actions that do more than change the view: mark, compare, save, copy, mouse, suspend.

Each gets what it needs and returns a message, "" for none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.rights.files import dated_names, writable_folder, write_new
from ioh.sinks.text import TextOptions, TextSink
from ioh.terminal.driver import TerminalDriver
from ioh.terminal.line import Argument, ScreenFrame
from ioh.terminal.picture import svg
from ioh.tui.options import ThemeName
from ioh.tui.render.glyphs import drawn_in_ascii
from ioh.tui.render.verdict import worst_command
from ioh.tui.render.who import breakdown
from ioh.tui.render.zoom import LayersView, shown_layer
from ioh.tui.state import ViewState
from ioh.tui.theme import styles_for
from ioh.tui.view import View

_COPY_WIDTH = 200
_COPY_HEIGHT = 1000


def suspend(terminal: TerminalDriver | None) -> str:
    """Give the terminal back and stop until a shell continues ioh."""
    if terminal is not None and terminal.suspend():
        return ""
    return "no job control here, so ioh cannot suspend; q quits"


def toggle_mouse(terminal: TerminalDriver | None) -> str:
    """Get clicks, or leave them to the terminal."""
    if terminal is None:
        return ""
    terminal.use_mouse(on=not terminal.has_mouse)
    on, off = "on: ioh gets clicks and the wheel", "off: the terminal selects text"
    return f"mouse {on if terminal.has_mouse else off}"


def set_mark(view: View, text: str) -> str:
    """Set a mark now, or at the interval shown."""
    if view.shown is None or not text:
        return "a mark needs a text"
    is_now = view.travel.is_following and view.player.mode == "live"
    return view.player.set_mark(text, None if is_now else view.shown.time_unix_s)


def compare(view: View, state: ViewState, chosen_unix_s: Argument) -> tuple[ViewState, str]:
    """Compare the time since the last mark, or one chosen from the list, or go back ("")."""
    if state.screen == "compare" and not chosen_unix_s:
        return replace(state, screen="main", scroll=0), ""
    marks = (mark for mark in view.baseline.marks() if mark.time_unix_s == chosen_unix_s)
    view.baseline.chosen = next(marks, None)
    mark = view.baseline.mark()
    if mark is None:
        return state, "no mark: m sets one; then A compares the time since it with that before"
    return replace(state, screen="compare", scroll=0, line_key=f"{mark.time_unix_s}"), ""


def copy(panel: LayersView | None, send: Callable[[str], None], *, is_ascii: bool) -> str:
    """Send the verdict's command to the clipboard; of a layer or a row, the breakdown shown.

    The breakdown has all columns and rows.
    """
    if panel is None:
        return ""
    is_overview = not panel.state.layer and panel.state.focus == "layers"
    command = worst_command(panel.snapshot.findings) if is_overview else ""
    if command:
        send(command)
        return f"{_sent()}: {command}"
    layer = shown_layer(panel)
    if layer is None or not layer.spec.tables:
        return "no table to copy here"
    text = breakdown(panel, _COPY_WIDTH, _COPY_HEIGHT).text()
    send(drawn_in_ascii(text) if is_ascii else text)
    return _sent()


def _sent() -> str:
    """There is no answer, and tmux may not pass it on."""
    said = "sent to the terminal's clipboard (OSC 52)"
    if os.environ.get("TERM", "").startswith(("tmux", "screen")):
        said += "; in tmux: set -s set-clipboard on"
    return said


def save(frame: ScreenFrame, shown: Snapshot | None, theme: ThemeName, *, utc: bool) -> str:
    """Write the screen as a picture, and as text with all numbers below."""
    if shown is None:
        return "nothing to save yet"
    title = f"ioh {printable(shown.hostname, 64)}"
    picture = svg(frame, styles_for(theme, "truecolor"), title, is_light=theme == "light")
    options = TextOptions(sections=frozenset({"all"}), top=20, utc=utc)
    numbers = frame.text() + "\n" + TextSink(options).render(shown)
    named = partial(dated_names, shown.hostname, shown.time_unix_s)
    try:
        folder = writable_folder()
        paths = [write_new(folder, named("svg"), picture), write_new(folder, named("txt"), numbers)]
    except OSError as error:
        return f"cannot save: {error.strerror}"
    return f"saved {paths[0]} and {paths[1]}"
