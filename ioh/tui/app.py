"""The application: keys and news change the state, and the screen is drawn from it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ioh.model.errors import ExitCode
from ioh.model.player import News, Player
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.terminal.canvas import Canvas
from ioh.terminal.driver import TerminalDriver, correct_environment
from ioh.terminal.keyboard import NO_ESCAPE
from ioh.terminal.line import Argument, ScreenFrame
from ioh.tui import effects
from ioh.tui.actions import Context, act, answered, pasted, refusal, typed, with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.keys import find_key
from ioh.tui.options import ScreenOptions, ThemeName
from ioh.tui.preferences import Preferences
from ioh.tui.prefetch import Found
from ioh.tui.render.header import LATE_INTERVALS
from ioh.tui.render.screen import ScreenData, body_height, draw, page_length, page_of
from ioh.tui.render.text_screens import Page
from ioh.tui.render.zoom import LayersView
from ioh.tui.state import Focus
from ioh.tui.theme import styles_for
from ioh.tui.view import HISTORY_INTERVALS, View

MESSAGE_S = 5.0
_CHECK_S, _END_S = 0.5, 2.0
T = TypeVar("T")
_FOCUSES: dict[str, Focus] = {"row": "top", "choose": "layers", "zoom": "layers"}


class IohApp(App[int]):
    """The screen of a player, which shows one of its hosts; arguments as of run_screen()."""

    CSS = "Screen { overflow: hidden; }"
    ENABLE_COMMAND_PALETTE = False  # textual's writes 45 KB; see palette.py
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "do('quit')", show=False, priority=True),
        Binding("ctrl+q", "do('quit')", show=False, priority=True),
    ]

    def __init__(
        self,
        player: Player,
        options: ScreenOptions | None = None,
        first: Snapshot | None = None,
        remembered: Preferences | None = None,
    ) -> None:
        correct_environment()
        self.options = options = options or ScreenOptions()
        # Keep the terminal's own background and 16 colours.
        super().__init__(TerminalDriver, ansi_color=True)
        self.theme_name: ThemeName = "mono" if self.no_color else options.theme
        self._canvas = Canvas(styles_for(self.theme_name, self.console.color_system))
        remembered = remembered or Preferences()
        self.chosen_theme = remembered.theme
        self.state = self._before_escape = remembered.state()
        self._player = player
        self._loop: asyncio.AbstractEventLoop | None = None
        self._player_thread = threading.Thread(target=self._play, name="player", daemon=True)
        self._views = [
            View(player, host, options, partial(self._call, partial(self._take_found, host)))
            for host in range(len(player.histories))
        ]
        self.view = self._views[0]
        self.view.latest = self.view.shown = first
        # By the names in keys.py; each returns a message, "" or None for none.
        self._effects: dict[str, Callable[[Argument], str | None]] = {
            "quit": lambda _: self.exit(int(ExitCode.OK)),
            "suspend": lambda _: effects.suspend(self.terminal),
            "mouse": lambda _: effects.toggle_mouse(self.terminal),
            "theme": self._change_theme,  # type: ignore[dict-item]
            "host": lambda name: self._show_host(str(name)),
            "visit": lambda moment: self._visit(str(moment)),
            "record": lambda _: player.toggle_recording(),
            "set_mark": lambda text: effects.set_mark(self.view, str(text).strip()),
            "compare": self._compare,
            "copy": lambda _: effects.copy(
                self.panel_view(), self.copy_to_clipboard, is_ascii=self.options.ascii_only
            ),
            "save": lambda _: effects.save(
                self.frame(), self.view.shown, self.theme_name, utc=self.options.utc
            ),
        }
        self._message, self._message_until_s = ("", ""), 0.0
        self.error: BaseException | None = None

    # ---- life

    def compose(self) -> ComposeResult:
        """The one widget."""
        yield self._canvas

    def on_mount(self) -> None:
        """Start the threads and the timer."""
        if self.terminal is not None:
            self.terminal.came_back = self._came_back
            self.terminal.has_room = self._canvas.write
        for view in self._views:
            view.seeker.start()
        self._loop = asyncio.get_running_loop()
        self._player_thread.start()
        self.set_interval(_CHECK_S, self._check)
        self.redraw()

    @property
    def terminal(self) -> TerminalDriver | None:  # noqa: D102 (None in tests)
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def end(self) -> None:
        """End the threads; the player must have been stopped."""
        for view in self._views:
            view.seeker.stop()
        if self._player_thread.is_alive():
            self._player_thread.join(_END_S)

    def _play(self) -> None:
        report = partial(self._call, self._take_news)
        try:
            self._player.run(report)
        except BaseException as error:  # noqa: BLE001 (raised again after the terminal is restored)
            report(News(error=error))

    def _call(self, function: Callable[[T], None], argument: T) -> None:
        """Call a function in the screen's thread, from any thread; do nothing after its end."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(function, argument)

    def action_do(self, action: str) -> None:
        """An action that works even while a text is typed."""
        self.do(action)

    def _came_back(self, stood_s: float) -> None:
        if stood_s and self._player.mode == "live":
            self.say(f"suspended {stood_s:.0f} s (shown as one interval)")
        self._canvas.forget()
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size, which is set after all handlers have run."""
        del event
        self._canvas.forget()
        self.call_later(self.redraw)

    def _display(self, screen: Screen[object], renderable: object) -> None:
        """Do not write textual's picture: the canvas writes everything."""

    def _change_theme(self, theme: ThemeName) -> None:
        self.theme_name = self.chosen_theme = theme
        self._canvas.restyle(styles_for(theme, self.console.color_system))

    # ---- news

    def _take_news(self, news: News) -> None:
        if news.error is not None:
            self.error = news.error
            self.exit(int(ExitCode.FAILED))
            return
        view = self._views[news.host]
        view.take(news)
        if news.is_over and news.status:
            again = "Space plays it again, " if self._player.can_play else ""
            self.say(f"{news.status}: {again}left arrow goes back, q quits", lasts=True)
        is_new = news.snapshot is not None and view.findings.is_new_critical(news.snapshot)
        if is_new and self.options.bell and view is self.view:
            self.bell()
        if view is self.view:
            self.redraw()

    def _take_found(self, at: int, found: Found) -> None:
        view = self._views[at]
        if found.purpose == "compare":
            view.baseline.take(found)
        elif found.purpose == "show" and found.tick == view.travel.tick:
            if found.snapshot is None:
                self.say("this interval is lost", "crit")
            else:
                view.shown = found.snapshot
                view.past.take(found.tick, found.snapshot)
        self.redraw()

    def _show_host(self, name: str) -> str:
        """Show a host by name, else the next one, at the same time."""
        names = self._player.names
        at = names.index(name) if name in names else self._views.index(self.view) + 1
        before, self.view = self.view, self._views[at % len(self._views)]
        if before is not self.view:
            self.view.go_where(before)
            latest, layer = self.view.latest, self.state.layer
            layer = layer if latest and layer in latest.specs else ""
            self.state = replace(self.state, narrow=None, layer=layer)
        return "" if len(self._views) > 1 else "no other host; ioh --host A --host B shows several"

    def _check(self) -> None:
        """Redraw for a late tick or an expired message; take the terminal back after fg."""
        if self.terminal is not None:
            self.terminal.come_back()
        is_new = self.view.look()
        if self._canvas.is_owed:  # slow terminal: keep a message that is not shown yet
            self._message_until_s = max(self._message_until_s, time.monotonic() + MESSAGE_S)
        if self._message[0] and time.monotonic() > self._message_until_s:
            self._message, is_new = ("", ""), True
        if is_new or (self.view.age_s() or 0) > LATE_INTERVALS * self.view.history.cycle_s:
            self.redraw()

    # ---- drawing

    def redraw(self) -> None:
        """Draw everything; only changes are written to the terminal."""
        if self.is_running and self._canvas.is_mounted and self.size.width:
            self._canvas.show(self.frame())

    def frame(self) -> ScreenFrame:
        """Draw the current screen."""
        snapshot = self._narrowed()
        if snapshot is not None:
            self.state = with_valid_choice(self.state, snapshot)
        return draw(self.state, self._data(snapshot), *self.size)

    def panel_view(self) -> LayersView | None:
        """The data of breakdowns and panels; None before the first interval."""
        snapshot = self._narrowed()
        if snapshot is None:
            return None
        points = self.view.past.window(self.view.travel.tick, HISTORY_INTERVALS)
        return LayersView(self.state, snapshot, points)

    def _seen_by(self, panel: LayersView) -> Context:
        """The context of an action."""
        data, frame = self._data(panel.snapshot), self._canvas.frame
        text = page_of(self.state, data, self.size.width)
        first = text.scrolled(self.state, body_height(data, self.size.height)) if text else 0
        columns = tuple(str(hit.argument) for hit in frame.hits if hit.action == "sort")
        page = page_length(self.state, data, frame)
        return Context(panel, page, columns, text, first)

    def _narrowed(self) -> Snapshot | None:
        shown, narrow = self.view.shown, self.state.narrow
        return shown if shown is None or narrow is None else narrowed(shown, narrow)

    def _data(self, snapshot: Snapshot | None) -> ScreenData:
        tick = self.view.travel.tick
        if self.view.past.narrow(self.state.narrow):
            self.view.seeker.ask(tick, "history")
        return ScreenData(
            snapshot=snapshot,
            header=self.view.header(self.state.narrow),
            points=self.view.past.window(tick, HISTORY_INTERVALS),
            timeline=self.view.timeline(),
            status="" if self.view.status in self._message[0] else self.view.status,
            message=self._message,
            line=self.view.line,
            tick=tick,
            rows=self.view.past.rows(tick),
            found=self.view.findings.found(),
            compared=self.view.baseline.compared() if self.state.screen == "compare" else None,
            hosts=tuple(self._player.states),
            host_at=self._views.index(self.view),
            is_ascii=self.options.ascii_only,
        )

    # ---- doing

    def on_key(self, event: events.Key) -> None:
        """Type text, or do the key's action."""
        event.stop()
        if event.key == NO_ESCAPE:
            self.state = self._before_escape
            return
        if event.key == "escape":
            self._before_escape = self.state
        key = find_key(event.key)
        is_text = event.is_printable or event.key in {"backspace", "ctrl+u"}
        if event.key == "ctrl+z":  # not a binding: that would overtake earlier keys
            self.do("suspend")
        elif event.key == "q" and self._has_no_match():
            self._prompted("escape")
        elif self.state.prompt and is_text:
            self.state = typed(self.state, event.key, event.character)
            self.redraw()
        elif self.state.prompt:
            self._prompted(event.key)
        elif key is not None:
            self.do(key.action, key.argument)

    def _has_no_match(self) -> bool:
        """Whether no command of the palette matches: no more letters will find one."""
        if self.state.screen != "commands":
            return False
        page = page_of(self.state, self._data(self._narrowed()), self.size.width)
        return page is not None and not page.entries

    def _prompted(self, key: str) -> None:
        """Handle a key that is not text while there is a prompt."""
        prompt, text = self.state.prompt, self.state.typed
        if key in {"up", "down", "pageup", "pagedown"}:
            known = find_key(key)
            self.do(known.action if known else "")
        elif key == "enter" and prompt == "command":
            self.do("open")
        elif key in {"enter", "escape"}:
            self.state = answered(self.state, is_applied=key == "enter")
            if prompt == "mark" and key == "enter":
                self.do("set_mark", text)
            self.redraw()

    def on_paste(self, event: events.Paste) -> None:
        """Type a pasted text."""
        self.state = pasted(self.state, event.text)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Do the action of the place clicked."""
        hit = self._canvas.hit_at(event.screen_x, event.screen_y)
        if hit is None:
            return
        if self.state.screen == "commands":
            self.state = replace(self.state, screen="main", prompt="", typed="")
        pressed = find_key(str(hit.argument)) if hit.action == "key" else None
        self.do((pressed or hit).action, (pressed or hit).argument)

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _turn(self, event: events.MouseEvent) -> None:
        """Move in the part under the mouse."""
        hit = self._canvas.hit_at(event.screen_x, event.screen_y)
        if hit is not None and hit.action in _FOCUSES and self.state.prompt != "filter":
            self.state = replace(self.state, focus=_FOCUSES[hit.action])
        self.do("down" if isinstance(event, events.MouseScrollDown) else "up")

    def say(self, text: str, style: str = "", *, lasts: bool = False) -> None:
        """Show a message at the bottom for a while, or until the next key; not for ""."""
        if text:
            style = style or ("crit" if text.startswith("cannot ") else "accent")
            self._message = (printable(text), style)
            self._message_until_s = inf if lasts else time.monotonic() + MESSAGE_S

    def do(self, action: str, argument: Argument = "") -> None:
        """Do one action of a key, the mouse or the palette."""
        self._message = ("", "")
        panel = self.panel_view()
        if action in self.view.travel.actions:
            self.view.status = "" if self.view.is_over else self.view.status
            self.say(self.view.travel.actions[action](argument, self.view.shown) or "")
        elif action in self._effects:
            self.say(self._effects[action](argument) or "")
        elif panel is not None:
            context = self._seen_by(panel)
            if action == "open" and context.text is not None:
                self._open(context.text)
                return
            self.say(refusal(action, argument, context))
            self.state = act(self.state, action, argument, context)
        elif action in {"help", "back"}:
            other = "main" if self.state.screen == "help" or action == "back" else "help"
            self.state = replace(self.state, screen=other)  # type: ignore[arg-type]
        # An interval being fetched is drawn when it arrives; the old picture would delay it.
        if action not in self.view.travel.actions or not self.view.seeker.is_visiting:
            self.redraw()

    def _visit(self, moment: str) -> None:
        """Go to a finding's begin, on its host."""
        self.state = replace(self.state, screen="main", scroll=0)
        since, _, host = moment.partition("@")
        if host:
            self._show_host(host)
        self.do("seek", since)

    def _compare(self, chosen_unix_s: Argument) -> str:
        self.state, said = effects.compare(self.view, self.state, chosen_unix_s)
        return said

    def _open(self, text: Page) -> None:
        """Do the action of the chosen line of a text screen."""
        at = text.chosen(self.state)
        if self.state.screen == "commands":
            self.state = replace(self.state, screen="main", prompt="", typed="")
        if text.entries:
            self.do(text.entries[at].action, text.entries[at].argument)
        self.redraw()
