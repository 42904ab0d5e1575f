"""The screen: its options, when to show it instead of text, and its feeds."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from ioh.commands.garbage import few_collections, without_garbage
from ioh.commands.options import engine_from
from ioh.commands.playback import choose_layers, refuse_live_options, span_from
from ioh.commands.run import Ending, live_source, refuse_span
from ioh.commands.sample import HINT, why_nothing
from ioh.commands.terminal import (
    TerminalWatch,
    has_terminal,
    shows_unicode,
    starting,
    stderr_on_terminal,
    take_keyboard,
)
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.feeds.file_feed import FileFeed
    from ioh.feeds.hosts_feed import HostsFeed
    from ioh.feeds.joined_feed import JoinedFeed
    from ioh.feeds.stream_feed import StreamFeed
    from ioh.findings.engine import Engine
    from ioh.model.feed import Mode
    from ioh.model.sample import Sample
    from ioh.model.snapshot import Snapshot

    AnyFeed = FileFeed | StreamFeed | HostsFeed | JoinedFeed

THEMES = ("auto", "dark", "light", "mono")
# Python's thread switch interval.  A key needs dozens of switches between three threads, and the
# default of 5 ms each would add up while another thread reads the past, or imports libraries.
_TURN_S = 0.0002


def add_screen_arguments(parser: argparse.ArgumentParser, *, is_default: bool = True) -> None:
    """Declare the screen's options; ``--no-tui`` if the screen is the default on a terminal."""
    add = parser.add_argument_group("the screen (on a terminal)").add_argument
    if is_default:
        what = "print text instead of the screen (-d and --top imply this)"
        add("--no-tui", action="store_true", help=what)
    what = "colours: auto, dark, light, or mono (none, like NO_COLOR); default: the last one chosen"
    add("--theme", choices=THEMES, help=what)
    add("--bell", action="store_true", help="ring at each new critical finding")
    what = "draw only with ASCII characters; the default if the locale is not UTF-8 or TERM=linux"
    add("--ascii", action="store_true", help=what)
    what = "leave the mouse to the terminal (key M toggles)"
    add("--no-mouse", action="store_true", help=what)


def wants_screen(args: argparse.Namespace, *, stdin_is_pipe: bool = False) -> bool:
    """Whether to show the screen: there is a terminal, and no option implies text."""
    is_text = getattr(args, "no_tui", False) or bool(args.sections) or args.has_top
    return not is_text and has_terminal(stdin_is_pipe=stdin_is_pipe)


def show(
    args: argparse.Namespace,
    mode: Mode,
    make_feed: Callable[[ExitStack, Callable[[Snapshot], None]], AnyFeed],
    filters_text: str = "",
) -> int:
    """Show a feed until the user or a signal ends it; return the exit status.

    Args:
        args: The options of add_screen_arguments(), and ``utc``.
        mode: The feed's mode.
        make_feed: Opens the feed and registers its closing on the stack.  A live feed may pass its
            first interval to the function before it is open.  IohError: nothing to show.
        filters_text: The probes' filters, printable.
    """
    from ioh.model.feed import FeedEnded
    from ioh.tui import preferences
    from ioh.tui.first_picture import first_picture
    from ioh.tui.options import ScreenOptions

    line = None
    if getattr(args, "line", None) is not None:  # a running bench sends it
        from ioh.commands.bench_screen import line_from

        line = line_from(args.line)
    sys.setswitchinterval(_TURN_S)
    is_replay = mode != "live"
    remembered, wrong = preferences.read()
    options = ScreenOptions(
        theme=args.theme or remembered.theme or "auto",
        ascii_only=args.ascii or not shows_unicode(os.environ),
        mouse=not args.no_mouse,
        utc=args.utc,
        filters_text=filters_text,
        speed=args.speed if is_replay else 1.0,
        bell=args.bell,
        line=line,
    )
    draw = partial(
        first_picture,
        mode,
        options,
        cycle_s=1.0 if is_replay else args.cycle_s,
        title=printable(args.file) if is_replay else "",
    )
    first: list[Snapshot] = []
    with Ending() as ending, contextlib.suppress(FeedEnded), ExitStack() as stack:
        stack.enter_context(few_collections(is_live=not is_replay))
        # Open a recording before the screen, so that an error is only a line.  Live, show the
        # screen first: probes take time to attach.
        feed = None if mode == "live" else make_feed(stack, first.append)
        with starting(draw) as redraw, without_garbage():

            def report(snapshot: Snapshot) -> None:
                first.append(snapshot)
                redraw(partial(draw, snapshot=snapshot))

            feed = feed or make_feed(stack, report)
            from ioh.tui.run import run_screen

            stack.enter_context(stderr_on_terminal())
            watch = TerminalWatch(feed.end, feed.close, lambda: ending.code)
            ending.stop = stack.enter_context(watch).end
        return run_screen(
            feed, options, first[0] if first else None, remembered=remembered, note=wrong
        )
    return ending.code


def show_live(args: argparse.Namespace) -> int:
    """Show this machine on the screen; return the exit status."""
    refuse_span(args)
    from ioh.rights.files import SCREEN_FILES, kept

    cycle_s = args.cycle_s
    engines: list[Engine | None] = []
    reporters: list[Callable[[Snapshot], None]] = []

    def preload() -> None:
        """Import what the screen and its feed need, while it can be read."""
        import ioh.feeds.stream_feed  # noqa: F401
        from ioh.tui.preload import preload_screen

        preload_screen()
        engines.append(engine_from(args))

    def report_first(older: Sample, newer: Sample) -> None:
        from ioh.model.intervals import interval

        if (snapshot := interval(older, newer)) is not None:
            reporters[0](snapshot)

    source = live_source(args, preload, report_first)

    def make(stack: ExitStack, report: Callable[[Snapshot], None]) -> StreamFeed:
        reporters.append(report)
        stack.enter_context(source)
        from ioh.feeds.stream_feed import StreamFeed

        return stack.enter_context(
            StreamFeed(
                source,
                source.stop,
                mode="live",
                cycle_s=cycle_s,
                hostname=os.uname().nodename,
                awaited=lambda: source.awaited,
                sample_soon=source.sample_soon,
                set_cycle=source.set_interval,
                run_s=args.run_s,
                make_judge=lambda: engines[0],
                remark=_remark,
            )
        )

    with contextlib.closing(source):
        source.fork_loader()  # before the screen's imports, which the loader would keep
        with kept(".", SCREEN_FILES):  # the same, and shares the loader's memory
            return show(args, "live", make, filters_text(args))


def _remark(snapshot: Snapshot) -> str:
    """The message if this machine has nothing to show; "" if it has."""
    why = why_nothing(snapshot)
    return f"nothing to show for this machine ({printable(why)}); {HINT}" if why else ""


def filters_text(args: argparse.Namespace) -> str:
    """The probes' filters, for the header."""
    names = ("pid", "comm", "cgroup", "device", "port")
    given = [(name, getattr(args, name)) for name in names]
    options = [f"--{name} {printable(str(value))}" for name, value in given if value]
    return f"only {' '.join(options)}" if options else ""


def show_replay(args: argparse.Namespace, mode: Mode = "replay") -> int:
    """Show a recording on the screen, from a file or from stdin; return the exit status.

    With stdin, keys come from /dev/tty.  Mode ``demo`` starts again at the end.
    """
    refuse_live_options(args)
    from ioh.playback.replay import ReplaySource
    from ioh.session.recorded_file import hosts_of

    span, speed, run_s = span_from(args), args.speed, args.run_s
    choose, make_judge = partial(choose_layers, args), partial(engine_from, args)

    def make(stack: ExitStack, _: object) -> AnyFeed:
        if args.file != "-":
            from ioh.feeds.file_feed import FileFeed, Played

            played = Played(
                span,
                speed=speed,
                choose=choose,
                run_s=run_s,
                make_judge=make_judge,
                has_index=not args.no_findings,
                mode=mode,
            )
            if names := hosts_of(args.file):
                from ioh.feeds.joined_feed import JoinedFeed

                return stack.enter_context(JoinedFeed(args.file, names, played))
            return stack.enter_context(FileFeed(args.file, played))
        from ioh.feeds.file_feed import pipe_feed

        source = ReplaySource("-", span, speed=speed, stdin_fd=take_keyboard())
        stack.enter_context(source)
        return stack.enter_context(pipe_feed(source, choose, run_s=run_s, make_judge=make_judge))

    return show(args, mode, make)
