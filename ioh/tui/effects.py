"""Actions that do more than change the view: record, save, copy, colours, mouse, quit."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ioh.model.errors import ExitCode
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.rights.files import can_create_here, create
from ioh.sinks.cells import clock
from ioh.sinks.text import TextOptions, TextSink
from ioh.tui.picture import svg
from ioh.tui.render.glyphs import drawn_in_ascii
from ioh.tui.render.line import Argument
from ioh.tui.render.panels import breakdown, shown_layer
from ioh.tui.theme import styles_for

if TYPE_CHECKING:
    from ioh.tui.app import IohApp

_COPY_WIDTH = 200
_COPY_HEIGHT = 1000


class Effects:
    """The actions of the application.

    Shape:
        ``actions`` by the names in keys.py; each returns a message, "" or None for none.
    """

    def __init__(self, app: IohApp) -> None:
        self._app = app
        self.actions: dict[str, Callable[[Argument], str | None]] = {
            "quit": lambda _: app.exit(int(ExitCode.OK)),
            "stand_still": lambda _: self._stand_still(),
            "record": lambda _: app.view.feed.toggle_recording(),
            "visit": lambda moment: self._visit(str(moment)),
            "host": lambda name: self._host(str(name)),
            "set_mark": lambda text: self._set_mark(str(text).strip()),
            "compare": lambda _: self._compare(),
            "compare_with": self._compare_with,
            "copy": lambda _: self._copy(),
            "save": lambda _: self._save(),
            "mouse": lambda _: self._mouse(),
            "theme": app.change_theme,  # type: ignore[dict-item]
        }

    def _stand_still(self) -> str:
        """Give the terminal back and stop until a shell continues ioh."""
        terminal = self._app.terminal
        if terminal is not None and terminal.stand_still():
            return ""
        return "no job control here, so ioh cannot suspend; q quits"

    def _visit(self, moment: str) -> None:
        """Go to a finding's begin, on its host."""
        self._app.state = replace(self._app.state, screen="main", scroll=0)
        since, _, host = moment.partition("@")
        if host:
            self._app.look_at(host)
        self._app.do("seek", since)

    def _host(self, name: str) -> str:
        if self._app.look_at(name):
            return ""
        return "no other host; ioh --host A --host B shows several"

    def _set_mark(self, text: str) -> str:
        """Set a mark now, or at the interval shown; pin that interval for comparisons."""
        view = self._app.view
        if view.shown is None or not text:
            return "a mark needs a text"
        is_now = view.travel.is_following and view.feed.mode == "live"
        view.baseline.pin(view.shown, text)
        return view.feed.set_mark(text, None if is_now else view.shown.time_unix_s)

    def _compare(self) -> str:
        """Compare with the pinned interval or a mark; without either, pin this one."""
        app, baseline, shown = self._app, self._app.view.baseline, self._app.view.shown
        if shown is None:
            return ""
        mark = baseline.nearest(shown)
        if app.state.screen == "compare" or (baseline.snapshot is None and mark is None):
            baseline.pin(shown)
            app.state = replace(app.state, screen="main", scroll=0)
            when = clock(shown.time_unix_s, utc=app.options.utc)
            return f"{when} is pinned: press A to compare with it"
        if baseline.snapshot is None and mark is not None:
            app.state = replace(app.state, line_key=f"{mark.time_unix_s}")
            baseline.ask(mark)
        else:
            self._show_compared()
        return ""

    def _compare_with(self, time_unix_s: Argument) -> str:
        """Compare with a mark chosen from the list."""
        baseline = self._app.view.baseline
        for mark in baseline.marks():
            if mark.time_unix_s == time_unix_s:
                baseline.ask(mark)
                return ""
        return "that mark is no longer kept"

    def take_baseline(self, found: Snapshot | None) -> None:
        """Compare with a mark's interval, which has arrived."""
        if self._app.view.baseline.take(found):
            self._show_compared()
        else:
            self._app.say("the mark's interval is lost", "crit")

    def _show_compared(self) -> None:
        self._app.state = replace(self._app.state, screen="compare", scroll=0, prompt="")

    def _copy(self) -> str:
        """Send the breakdown shown to the clipboard, with all columns and rows."""
        panel = self._app.panel_view()
        if panel is None:
            return ""
        layer = shown_layer(panel)
        if layer is None or not layer.spec.tables:
            return "no table to copy here"
        heading, titles, *rows = breakdown(panel, _COPY_WIDTH, _COPY_HEIGHT).text().split("\n")
        if panel.is_ascii:  # rows have names, which stay unchanged
            heading, titles = drawn_in_ascii(heading), drawn_in_ascii(titles)
        self._app.copy_to_clipboard("\n".join([heading, titles, *rows]))
        # There is no answer, and tmux may not pass it on.
        said = "sent to the terminal's clipboard (OSC 52)"
        if os.environ.get("TERM", "").startswith(("tmux", "screen")):
            said += "; in tmux: set -s set-clipboard on"
        return said

    def _save(self) -> str:
        """Write the screen as a picture, and as text with all numbers below."""
        app, shown = self._app, self._app.view.shown
        if shown is None:
            return "nothing to save yet"
        frame, theme = app.frame(), app.theme_name
        title = f"ioh {printable(shown.hostname, 64)}"
        picture = svg(frame, styles_for(theme, "truecolor"), title, is_light=theme == "light")
        options = TextOptions(sections=frozenset({"all"}), top=20, utc=app.options.utc)
        numbers = frame.text() + "\n" + TextSink(options).render(shown)
        stem = stem_of(shown.hostname, shown.time_unix_s)
        try:
            paths = [write_new(stem + ".svg", picture), write_new(stem + ".txt", numbers)]
        except OSError as error:
            return f"cannot save: {error.strerror}"
        return f"saved {paths[0]} and {paths[1]}"

    def _mouse(self) -> str:
        driver = self._app.terminal
        if driver is None:
            return ""
        driver.use_mouse(on=not driver.has_mouse)
        on, off = "on: ioh gets clicks and the wheel", "off: the terminal selects text"
        return f"mouse {on if driver.has_mouse else off}"


def writable_folder() -> str:
    """The current directory, or the one for temporary files if it is not writable."""
    return "." if can_create_here() else tempfile.gettempdir()


def write_new(name: str, text: str) -> str:
    """Write a new file that only its owner can read, and return its path.

    Raises:
        OSError: It cannot be written.
    """
    folder = writable_folder()
    stem, extension = os.path.splitext(name)  # noqa: PTH122
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        path = os.path.join(folder, f"{stem}{suffix}{extension}").removeprefix("./")  # noqa: PTH118
        try:
            fd = create(path)
        except FileExistsError:
            continue
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return path
    raise FileExistsError(None, "too many files of that name", name)


def stem_of(hostname: str, time_unix_s: float) -> str:
    """``ioh-db01-20261121-144447``, in local time, like the names of recordings."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname)[:64].lstrip(".-") or "host"
    return f"ioh-{host}-" + time.strftime("%Y%m%d-%H%M%S", time.localtime(time_unix_s))
