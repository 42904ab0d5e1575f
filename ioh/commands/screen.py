"""The screen: its options, when to show it instead of text, and its players."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from ioh.commands.arguments import IntervalOptions, ShowOptions
from ioh.commands.garbage import few_collections, without_garbage
from ioh.commands.run import Ending, live_source
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
    from ioh.findings.engine import Engine
    from ioh.model.player import Mode, Player
    from ioh.model.sample import Sample
    from ioh.model.snapshot import Snapshot

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


def wants_screen(how: ShowOptions, *, stdin_is_pipe: bool = False) -> bool:
    """Whether to show the screen: there is a terminal, and no option implies text."""
    is_text = how.no_tui or how.sections or how.has_top
    return not is_text and has_terminal(stdin_is_pipe=stdin_is_pipe)


def show(
    intervals: IntervalOptions,
    how: ShowOptions,
    mode: Mode,
    make_player: Callable[[ExitStack, Callable[[Snapshot], None]], Player],
) -> int:
    """Show a player until the user or a signal ends it; return the exit status.

    Args:
        intervals: What is shown; its filters appear in the header.
        how: The screen's options.
        mode: The player's mode.
        make_player: Opens the player and registers its closing on the stack.  A live one may pass
            its first interval to the function before it is open.  IohError: nothing to show.
    """
    from ioh.model.player import PlayerEnded
    from ioh.tui import preferences
    from ioh.tui.first_picture import first_picture
    from ioh.tui.options import ScreenOptions

    line = None
    if how.line is not None:  # a running bench sends it
        from ioh.commands.bench_screen import line_from

        line = line_from(how.line)
    sys.setswitchinterval(_TURN_S)
    is_replay = mode != "live"
    remembered, wrong = preferences.read()
    options = ScreenOptions(
        theme=how.theme or remembered.theme or "auto",
        ascii_only=how.ascii or not shows_unicode(os.environ),
        mouse=not how.no_mouse,
        utc=how.utc,
        filters_text=intervals.measure.filters_text(),
        speed=intervals.speed or 1.0,
        bell=how.bell,
        line=line,
    )
    draw = partial(
        first_picture,
        mode,
        options,
        cycle_s=1.0 if is_replay else intervals.cycle_s or 1.0,
        title=printable(intervals.file),
    )
    first: list[Snapshot] = []
    with Ending() as ending, contextlib.suppress(PlayerEnded), ExitStack() as stack:
        stack.enter_context(few_collections(is_live=not is_replay))
        # Open a recording before the screen, so that an error is only a line.  Live, show the
        # screen first: probes take time to attach.
        player = None if mode == "live" else make_player(stack, first.append)
        with starting(draw) as redraw, without_garbage():

            def report(snapshot: Snapshot) -> None:
                first.append(snapshot)
                redraw(partial(draw, snapshot=snapshot))

            player = player or make_player(stack, report)
            from ioh.tui.run import run_screen

            stack.enter_context(stderr_on_terminal())
            watch = TerminalWatch(player.end, player.close, lambda: ending.code)
            ending.stop = stack.enter_context(watch).end
        return run_screen(
            player, options, first[0] if first else None, remembered=remembered, note=wrong
        )
    return ending.code


def show_live(options: IntervalOptions, how: ShowOptions) -> int:
    """Show this machine on the screen; return the exit status."""
    from ioh.rights.files import SCREEN_FILES, kept

    engines: list[Engine | None] = []
    reporters: list[Callable[[Snapshot], None]] = []

    def preload() -> None:
        """Import what the screen and its player need, while it can be read."""
        import ioh.commands.this_machine
        import ioh.player.live  # noqa: F401
        from ioh.tui.preload import preload_screen

        preload_screen()
        engines.append(options.engine())

    def report_first(older: Sample, newer: Sample) -> None:
        from ioh.model.intervals import interval

        if (snapshot := interval(older, newer)) is not None:
            reporters[0](snapshot)

    source = live_source(options, preload, report_first)

    def make(stack: ExitStack, report: Callable[[Snapshot], None]) -> Player:
        reporters.append(report)
        stack.enter_context(source)
        from ioh.commands.this_machine import ThisMachine
        from ioh.player.live import LivePlayer

        machine = ThisMachine(source)
        player = LivePlayer(
            machine,
            cycle_s=options.cycle_s or 1.0,
            make_judge=lambda: engines[0],
            run_s=options.run_s,
        )
        return stack.enter_context(player)

    with contextlib.closing(source):
        source.fork_loader()  # before the screen's imports, which the loader would keep
        with kept(".", SCREEN_FILES):  # the same, and shares the loader's memory
            return show(options, how, "live", make)


def show_replay(options: IntervalOptions, how: ShowOptions, mode: Mode = "replay") -> int:
    """Show a recording on the screen, from a file or from stdin; return the exit status.

    With stdin, keys come from /dev/tty.  Mode ``demo`` starts again at the end.
    """
    from ioh.playback.replay import ReplaySource
    from ioh.session.recorded_file import hosts_of

    span, speed, run_s = options.span, options.speed or 1.0, options.run_s
    choose, make_judge = options.layers_of, options.engine

    def make(stack: ExitStack, _: object) -> Player:
        if options.file != "-":
            from ioh.history.file import PlayOptions
            from ioh.player.file import FilePlayer

            played = PlayOptions(
                span,
                speed=speed,
                choose=choose,
                run_s=run_s,
                make_judge=make_judge,
                has_index=not options.no_findings,
                mode=mode,
            )
            return stack.enter_context(FilePlayer(options.file, played, hosts_of(options.file)))
        from ioh.player.pipe import pipe_player

        source = ReplaySource("-", span, speed=speed, stdin_fd=take_keyboard())
        stack.enter_context(source)
        return stack.enter_context(pipe_player(source, choose, run_s=run_s, make_judge=make_judge))

    return show(options, how, mode, make)
