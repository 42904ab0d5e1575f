"""The application: keys and news change what is looked at, and the screen is drawn from that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ioh.model.errors import ExitCode
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.tui import keeping, palette, textual_fixes
from ioh.tui.actions import Context, act, pasted, typed, with_valid_choice
from ioh.tui.canvas import Canvas
from ioh.tui.driver import TerminalDriver
from ioh.tui.feed import Feed, News
from ioh.tui.finding_times import FindingTimes
from ioh.tui.first_picture import STARTING
from ioh.tui.headings import Headings
from ioh.tui.keys import find_key
from ioh.tui.narrow import narrowed
from ioh.tui.options import ScreenOptions, ThemeName
from ioh.tui.past import Past
from ioh.tui.render.findings import ranked
from ioh.tui.render.glyphs import ASCII, UNICODE
from ioh.tui.render.header import LATE_INTERVALS
from ioh.tui.render.line import Frame
from ioh.tui.render.panels import PanelView
from ioh.tui.render.screen import ScreenData, draw, max_scroll, page_length
from ioh.tui.seeker import Found, Seeker
from ioh.tui.state import Focus, ViewState
from ioh.tui.theme import styles_for
from ioh.tui.travel import Travel

HISTORY_INTERVALS = 300
MESSAGE_S = 5.0
_CHECK_S = 0.5
_FOCUSES: dict[str, Focus] = {"row": "top", "choose": "layers"}


class IohApp(App[int]):
    """The screen over a feed.

    Args:
        feed: Where intervals come from.
        options: How the user wants the screen.
        first: What is shown until the feed tells something.
    """

    CSS = "Screen { overflow: hidden; }"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+z", "stand_still", show=False, priority=True),
    ]

    def __init__(
        self, feed: Feed, options: ScreenOptions | None = None, first: Snapshot | None = None
    ) -> None:
        textual_fixes.apply()
        options = options or ScreenOptions()
        # The terminal's own background and 16 colours stay what the user made them.
        super().__init__(TerminalDriver, ansi_color=True)
        self._feed = feed
        self._theme_name: ThemeName = "mono" if self.no_color else options.theme
        self._options = options
        self._glyphs = ASCII if options.ascii_only else UNICODE
        self._canvas = Canvas(
            styles_for(self._theme_name, self.console.color_system), ascii_only=options.ascii_only
        )
        self.state = ViewState()
        self._latest = self.shown = first
        self._findings = FindingTimes(feed)
        self._past = Past()
        self._seeker = Seeker(feed, self._past, self._found_from_thread, HISTORY_INTERVALS)
        self.travel = Travel(feed, self._seeker.request, options.speed, self._findings)
        self._headings = Headings(feed, self.travel, self._findings, options, self._glyphs)
        self._runner = threading.Thread(target=self._run_feed, name="feed", daemon=True)
        self._news_s = time.monotonic()
        self._status = STARTING
        self._message = ("", "")
        self._message_until_s = 0.0
        self._page = 1
        self._is_over = False
        self.error: BaseException | None = None

    # ---- life

    def compose(self) -> ComposeResult:
        """The one widget."""
        yield self._canvas

    def on_mount(self) -> None:
        """Begin once there is a screen."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.came_back = self._came_back
        self._seeker.start()
        self._runner.start()
        self.set_interval(_CHECK_S, self._check)
        self.redraw()

    def _run_feed(self) -> None:
        try:
            self._feed.run(self._news_from_thread)
        except Exception as error:  # noqa: BLE001 (the thread's last guard: told, not lost)
            self._news_from_thread(News(error=error))

    def _news_from_thread(self, news: News) -> None:
        self._call(self._take_news, news)

    def _found_from_thread(self, found: Found) -> None:
        self._call(self._take_found, found)

    def _call(self, function: object, argument: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(function, argument)  # type: ignore[arg-type]
            except RuntimeError:  # closed in between: nobody looks any more
                return

    def end(self) -> None:
        """End the threads, once the feed was told to stop."""
        self._seeker.stop()
        if self._runner.is_alive():
            self._runner.join(2.0)

    def action_leave(self) -> None:
        """End, whatever is open."""
        self.exit(int(ExitCode.OK))

    def action_stand_still(self) -> None:
        """Give the terminal back and stop, until a shell continues ioh."""
        can_stop = isinstance(self._driver, TerminalDriver) and self._driver.stand_still()
        if not can_stop:
            self.say("no job control here: nothing could continue a stopped ioh; q ends it")
            self.redraw()

    def _came_back(self, stood_s: float) -> None:
        if stood_s and self._feed.mode != "replay":
            self.say(f"stood still for {stood_s:.0f} s: that time is one interval")
        self.refresh(layout=True)
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        del event
        self.redraw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key by name, and the themes, in the command palette."""
        del screen
        return palette.commands(self.do, self._change_theme, self._layers())

    def _change_theme(self, theme: ThemeName) -> None:
        self._theme_name = theme
        self._canvas.restyle(styles_for(theme, self.console.color_system))

    # ---- news

    def _take_news(self, news: News) -> None:
        if news.error is not None:
            self.error = news.error
            self.exit(int(ExitCode.FAILED))
            return
        self._status = news.status
        # A recording can be played again.
        self._is_over = news.is_over or (self._is_over and news.snapshot is None)
        if news.is_over and news.status:
            again = "Space plays it again, " if self._feed.can_play else ""
            self.say(f"{news.status}: {again}left arrow goes back, q ends", lasts=True)
        if news.snapshot is not None and news.tick is not None:
            self._news_s = time.monotonic()
            self._past.take(news.tick, news.snapshot)
            self._latest = news.snapshot
            if self.travel.position.is_following:
                self.travel.position.tick = news.tick
                self.travel.position.is_past = False
                self.shown = news.snapshot
                # A recording that starts in its middle has a past that was never told.
                if self._feed.mode == "replay" and self._past.missing(
                    news.tick, 2, self._feed.extent.first
                ):
                    self._seeker.request(news.tick)
        self.redraw()

    def _take_found(self, found: Found) -> None:
        if not found.is_history and found.tick == self.travel.position.tick:
            if found.snapshot is None:
                self.say("this interval is lost", "crit")
            else:
                self.shown = found.snapshot
                self._past.take(found.tick, found.snapshot)
        self.redraw()

    def _check(self) -> None:
        """Notice what does not come: a late tick, the end of a message; or what does: fg."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.come_back()
        if self._message[0] and time.monotonic() > self._message_until_s:
            self._message = ("", "")
            self.redraw()
        elif self._findings.look() or (self._age_s() or 0) > LATE_INTERVALS * self._feed.cycle_s:
            self.redraw()

    def _age_s(self) -> float | None:
        is_awaited = self._latest is not None and not self._is_over
        if not is_awaited or self._feed.mode == "replay" or not self.travel.position.is_following:
            return None
        return time.monotonic() - self._news_s

    # ---- drawing

    def redraw(self) -> None:
        """Draw everything; what did not change costs nothing on the wire."""
        if self.is_running and self._canvas.is_mounted and self.size.width:
            self._canvas.show(self.frame())

    def frame(self) -> Frame:
        """The screen as it is now."""
        snapshot = self._narrowed()
        if snapshot is not None:
            self.state = with_valid_choice(self.state, snapshot)
        data, (width, height) = self._data(snapshot), self.size
        if self.state.scroll:
            last = max_scroll(self.state, data, width, height)
            self.state = replace(self.state, scroll=min(self.state.scroll, last))
        frame = draw(self.state, data, width, height)
        self._page = page_length(self.state, data, frame)
        return frame

    def _narrowed(self) -> Snapshot | None:
        if self.shown is None or self.state.narrow is None:
            return self.shown
        return narrowed(self.shown, self.state.narrow)

    def _data(self, snapshot: Snapshot | None) -> ScreenData:
        tick = self.travel.position.tick
        if self._past.narrow(self.state.narrow):
            self._seeker.fill(tick)
        return ScreenData(
            snapshot=snapshot,
            header=self._headings.header(
                self.shown, self.state.narrow, self._age_s(), is_over=self._is_over
            ),
            glyphs=self._glyphs,
            points=self._past.window(tick, HISTORY_INTERVALS),
            timeline=self._headings.timeline(self.shown),
            status="" if self._status in self._message[0] else self._status,
            message=self._message,
            specs=tuple(self._latest.specs.values()) if self._latest else (),
        )

    # ---- doing

    def _layers(self) -> tuple[str, ...]:
        return tuple(self._latest.specs) if self._latest else ()

    def on_key(self, event: events.Key) -> None:
        """Type a filter, or do what the key stands for."""
        event.stop()
        if self.state.is_typing:
            self.state = typed(self.state, event.key, event.character)
            self.redraw()
            return
        key = find_key(event.key)
        if key is not None:
            self.do(key.action, key.argument)

    def on_paste(self, event: events.Paste) -> None:
        """Type what a terminal pastes in one piece."""
        self.state = pasted(self.state, event.text)
        self.redraw()

    def on_canvas_clicked(self, message: Canvas.Clicked) -> None:
        """Do what stands where the mouse clicked."""
        hit = message.hit
        if hit.action == "key":
            key = find_key(str(hit.argument))
            if key is not None:
                self.do(key.action, key.argument)
        else:
            self.do(hit.action, hit.argument)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves what it is turned over, as the arrow keys do."""
        self._turn("down", event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves what it is turned over, as the arrow keys do."""
        self._turn("up", event)

    def _turn(self, action: str, event: events.MouseEvent) -> None:
        hit = self._canvas.hit_at(event.screen_x, event.screen_y)
        if hit is not None and hit.action in _FOCUSES and not self.state.is_typing:
            self.state = replace(self.state, focus=_FOCUSES[hit.action])
        self.do(action)

    def say(self, text: str, style: str = "accent", *, lasts: bool = False) -> None:
        """Show a line at the bottom for a while, or until the next key."""
        self._message = (printable(text), style)
        self._message_until_s = inf if lasts else time.monotonic() + MESSAGE_S

    def do(self, action: str, argument: str | float = "") -> None:
        """One action, by a key, the mouse or the palette."""
        self._message = ("", "")
        handler = getattr(self, f"_do_{action}", None)
        if action in self.travel.actions:
            self._status = "" if self._is_over else self._status
            text = self.travel.actions[action](argument, self.shown)
            if text:
                self.say(text)
        elif handler is not None:
            handler(argument)
        elif self.shown is not None and self.state.screen == "findings" and action == "open":
            for finding in ranked(self.shown.findings)[:1]:
                self._do_visit(finding.since_unix_s + self.shown.interval_s / 2)
        elif self.shown is not None:
            snapshot = self._narrowed() or self.shown
            panel = PanelView(self.state, snapshot, (), self._glyphs)
            context = Context(panel, self._layers(), self.size.width, self._page)
            self.state = act(self.state, action, argument, context)
        elif action in {"help", "back"}:
            other = "main" if self.state.screen == "help" or action == "back" else "help"
            self.state = ViewState(screen=other)  # type: ignore[arg-type]
        # What is being fetched is drawn as soon as it is there; the old picture would delay that.
        if action not in self.travel.actions or not self._seeker.is_visiting:
            self.redraw()

    def _do_quit(self, argument: object) -> None:
        del argument
        self.action_leave()

    def _do_stand_still(self, argument: object) -> None:
        del argument
        self.action_stand_still()

    def _do_visit(self, argument: str | float) -> None:
        """Go to a finding's begin, and look at what was done then."""
        self.state = replace(self.state, screen="main", scroll=0)
        self.do("seek", argument)

    def _do_record(self, argument: object) -> None:
        del argument
        self.say(self._feed.toggle_recording())

    def _do_copy(self, argument: object) -> None:
        del argument
        if self.shown is None:
            return
        panel = PanelView(self.state, self._narrowed() or self.shown, (), self._glyphs)
        text = keeping.table_text(panel)
        if text:
            self.copy_to_clipboard(text)
        self.say(keeping.copied() if text else "no table to copy here")

    def _do_save(self, argument: object) -> None:
        del argument
        if self.shown is None:
            self.say("nothing to save yet")
            return
        self.say(*keeping.save(self.frame(), self.shown, self._theme_name, utc=self._options.utc))


def run_screen(
    feed: Feed, options: ScreenOptions | None = None, first: Snapshot | None = None
) -> int:
    """Show a feed until the user ends it; returns the exit status.

    Args:
        feed: Where intervals come from.
        options: How the user wants the screen.
        first: What is shown until the feed tells something.

    Raises:
        BaseException: What ended the feed, once the terminal is as it was.
    """
    app = IohApp(feed, options, first)
    try:
        code = app.run()
    finally:
        feed.stop()
        app.end()
    if app.error is not None:
        raise app.error
    return int(ExitCode.OK) if code is None else code
