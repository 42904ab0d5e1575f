"""``ioh demo``: a made-up load on all five layers; no root, no kernel."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from ioh.commands.options import (
    add_findings_arguments,
    add_shown_arguments,
    add_when_arguments,
    engine_from,
    layers_from,
)
from ioh.commands.playback import speed_factor
from ioh.commands.run import Ending, Signalled
from ioh.commands.screen import add_screen_arguments, show_demo, wants_screen
from ioh.commands.text_options import add_section_arguments, terminal_width, text_options
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.pipeline import SnapshotSink, judged, snapshots, until

MAX_SEED = (1 << 32) - 1


def seed_number(text: str) -> int:
    """An argparse type: what the demo's chance begins with."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > MAX_SEED:
        msg = f'must be a whole number from 0 to {MAX_SEED}, not "{printable(text)}"'
        raise argparse.ArgumentTypeError(msg)
    return int(text)


class DemoCommand:
    """``ioh demo``."""

    name = "demo"
    summary = "show a made-up load on all five layers; needs no root"
    examples = """\
  ioh demo                          a database server on NFS, in four minutes, again and again
  ioh demo --speed 10               ten times as fast
  ioh demo --text -d all -t 60      a minute of it as text
  ioh demo --json -t 60 --seed 7    one JSON object a line, the same for the same seed

Random reads, scans, writes, trouble in the network, cached reads, quiet. Nothing is measured:
every number is made up, and the host's name and each layer's source say DEMO."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        made = parser.add_argument_group("what is made up")
        made.add_argument(
            "--seed",
            type=seed_number,
            default=1,
            help="another number, other chances (default 1); the story stays",
        )
        made.add_argument(
            "--speed",
            type=speed_factor,
            default=1.0,
            help="how many times as fast as time goes by (default 1)",
        )
        outputs = parser.add_mutually_exclusive_group()
        outputs.add_argument("--text", action="store_true", help="print text")
        outputs.add_argument("--json", action="store_true", help="print JSON lines")
        add_when_arguments(parser, cycle_s=1.0)
        add_shown_arguments(parser, top=5)
        add_section_arguments(parser)
        add_findings_arguments(parser)
        add_screen_arguments(parser, is_default=False)

    def run(self, args: argparse.Namespace) -> int:
        """Show the demo until asked to end."""
        if args.json:
            if args.sections:
                cause = "-d is for text: JSON has all there is"
                raise IohError(cause, "Leave it out, or give --text", ExitCode.USAGE)
            from ioh.sinks.json import JsonSink

            return run_demo(args, lambda: JsonSink(args.top))
        if not args.text and wants_screen(args):
            return show_demo(args)
        from ioh.sinks.text import TextSink

        options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
        return run_demo(args, lambda: TextSink(options))


def run_demo(args: argparse.Namespace, make_sink: Callable[[], SnapshotSink]) -> int:
    """Print the made-up load as ``args`` ask.

    Args:
        args: What DemoCommand.add_arguments() declared.
        make_sink: Makes the sink.

    Returns:
        The exit status.

    Raises:
        IohError: An unknown layer was asked for, or the rules' configuration is wrong.
        ReaderGoneError: stdout's reader went away.
    """
    chosen = layers_from(args)
    names = None if chosen is None else frozenset(chosen)
    from ioh.model.span import chosen_layers
    from ioh.sources.demo import DemoSource

    with Ending() as ending:
        with (
            contextlib.suppress(Signalled),
            DemoSource(args.seed, args.cycle_s, speed=args.speed) as source,
        ):
            ending.stop = source.stop
            sink, engine = make_sink(), engine_from(args)

            def samples() -> Iterator[Sample]:
                for sample in source:
                    yield chosen_layers(sample, names)

            for snapshot in until(judged(snapshots(samples()), engine), args.run_s):
                ending.write(sink.render(snapshot))
                if ending.received is not None:
                    break
        return ending.code
