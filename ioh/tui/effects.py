"""Keys that do more than change the view: record, save, copy, colours, the mouse, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ioh.model.errors import ExitCode
from ioh.sinks.cells import clock
from ioh.tui import export_actions
from ioh.tui.driver import TerminalDriver
from ioh.tui.options import ScreenOptions, ThemeName
from ioh.tui.prefetch import Found
from ioh.tui.render.line import ScreenFrame
from ioh.tui.render.panels import PanelView
from ioh.tui.state import ViewState
from ioh.tui.view import View

Argument = str | int | float


class Application(Protocol):
    """What effects need of the application, beside what every one of textual has."""

    state: ViewState
    view: View
    options: ScreenOptions
    theme_name: ThemeName

    @property
    def terminal(self) -> TerminalDriver | None: ...  # noqa: D102
    def do(self, action: str, argument: str | float = "") -> None: ...  # noqa: D102
    def say(self, text: str, style: str = "") -> None: ...  # noqa: D102
    def look_at(self, name: str = "") -> bool: ...  # noqa: D102
    def frame(self) -> ScreenFrame: ...  # noqa: D102
    def panel_view(self) -> PanelView | None: ...  # noqa: D102
    def change_theme(self, theme: ThemeName) -> None: ...  # noqa: D102
    def exit(self, result: int | None = None) -> None: ...  # noqa: D102
    def copy_to_clipboard(self, text: str) -> None: ...  # noqa: D102


class Effects:
    """What the application does beside drawing.

    Shape:
        ``actions`` by the names of keys.py; each returns what to say, "" for nothing.

    Args:
        app: Whose keys they are.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self.actions: dict[str, Callable[[Argument], str]] = {
            "quit": self._quit,
            "stand_still": self._stand_still,
            "record": self._record,
            "visit": self._visit,
            "host": self._host,
            "set_mark": self._set_mark,
            "compare": self._compare,
            "compare_with": self._compare_with,
            "copy": self._copy,
            "save": self._save,
            "mouse": self._mouse,
            "theme": self._theme,
        }

    def _quit(self, argument: Argument) -> str:
        """End, whatever is open."""
        del argument
        self._app.exit(int(ExitCode.OK))
        return ""

    def _stand_still(self, argument: Argument) -> str:
        """Give the terminal back and stop, until a shell continues ioh."""
        del argument
        terminal = self._app.terminal
        if terminal is not None and terminal.stand_still():
            return ""
        return "no job control here: ioh cannot be suspended; q quits"

    def _record(self, argument: Argument) -> str:
        del argument
        return self._app.view.feed.toggle_recording()

    def _visit(self, argument: Argument) -> str:
        """Go to a finding's begin, and look at what was done then."""
        self._app.state = replace(self._app.state, screen="main", scroll=0)
        since, _, host = str(argument).partition("@")
        if host:
            self._app.look_at(host)
        self._app.do("seek", since)
        return ""

    def _host(self, argument: Argument) -> str:
        """Look at another host."""
        if self._app.look_at(str(argument)):
            return ""
        return "there is no other host: ioh --host A --host B shows several"

    def _set_mark(self, argument: Argument) -> str:
        """Now, or at the interval shown; what is measured then can be compared with later."""
        app, text = self._app, str(argument).strip()
        if app.view.shown is None or not text:
            return "a mark needs a text"
        is_now = app.view.travel.position.is_following and app.view.feed.mode == "live"
        app.view.baseline.pin(app.view.shown, text)
        return app.view.feed.set_mark(text, None if is_now else app.view.shown.time_unix_s)

    def _compare(self, argument: Argument) -> str:
        """Show what has changed since the interval pinned, or since a mark; else pin it."""
        del argument
        app = self._app
        if app.view.shown is None:
            return ""
        is_open = app.state.screen == "compare"
        mark = app.view.baseline.nearest(app.view.shown)
        if is_open or (app.view.baseline.snapshot is None and mark is None):
            app.view.baseline.pin(app.view.shown)
            app.state = replace(app.state, screen="main", scroll=0)
            when = clock(app.view.shown.time_unix_s, utc=app.options.utc)
            return f"{when} is pinned: A compares what is shown with it"
        if app.view.baseline.snapshot is None and mark is not None:
            app.state = replace(app.state, line_key=f"{mark.time_unix_s}")
            app.view.baseline.ask(mark)
        else:
            self._show_compared()
        return ""

    def _compare_with(self, argument: Argument) -> str:
        """A mark chosen from the list."""
        marks = self._app.view.baseline.marks()
        mark = next((mark for mark in marks if mark.time_unix_s == argument), None)
        if mark is None:
            return "that mark is not kept any more"
        self._app.view.baseline.ask(mark)
        return ""

    def take_baseline(self, found: Found) -> None:
        """Compare with a mark's interval, which is there now."""
        if self._app.view.baseline.take(found):
            self._show_compared()
        else:
            self._app.say("the interval of that mark is lost", "crit")

    def _show_compared(self) -> None:
        self._app.state = replace(self._app.state, screen="compare", scroll=0, prompt="")

    def _copy(self, argument: Argument) -> str:
        del argument
        panel = self._app.panel_view()
        if panel is None:
            return ""
        text = export_actions.table_text(panel)
        if not text:
            return "no table to copy here"
        self._app.copy_to_clipboard(text)
        return export_actions.copied()

    def _save(self, argument: Argument) -> str:
        del argument
        app = self._app
        if app.view.shown is None:
            return "nothing to save yet"
        utc = app.options.utc
        return export_actions.save(app.frame(), app.view.shown, app.theme_name, utc=utc)

    def _mouse(self, argument: Argument) -> str:
        del argument
        driver = self._app.terminal
        if driver is None:
            return ""
        driver.use_mouse(on=not driver.has_mouse)
        if driver.has_mouse:
            return "mouse on: clicks and the wheel are ioh's"
        return "mouse off: the terminal selects text"

    def _theme(self, argument: Argument) -> str:
        self._app.change_theme(str(argument))  # type: ignore[arg-type]
        return ""
