"""Runs a recording into a sink: which part of it, how fast, and how its faults are reported."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator

from ioh.commands.garbage import few_collections
from ioh.commands.intervals import (
    Faults,
    Remarks,
    intervals_from,
    no_remarks,
    tell_remarks,
    why_none,
)
from ioh.commands.options import LIVE_ONLY, engine_from
from ioh.commands.run import Ending, Signalled
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.pipeline import SnapshotSink, judged, until

MAX_SPEED = 1e6


def refuse_live_options(args: argparse.Namespace) -> None:
    """A recording holds what was recorded; narrowing it afterwards is not possible.

    Raises:
        IohError: One of those options was given.
    """
    for name in LIVE_ONLY:
        if getattr(args, name, None):
            cause = f"--{name.replace('_', '-')} is for live I/O, and this is a recording"
            hint = "Give it to ioh record; --layers and --no-layer work here too"
            raise IohError(cause, hint, ExitCode.USAGE)


def run_replay(  # noqa: PLR0913
    args: argparse.Namespace,
    make_sink: Callable[[], SnapshotSink],
    *,
    speed: float | None,
    remarks: Remarks = no_remarks,
    with_tables: bool = True,
    with_parts: bool = True,
    judges: bool = True,
) -> int:
    """Print a recording as ``args`` ask.

    Args:
        args: What add_live_arguments() declared, ``file``, and perhaps ``begin`` and ``end``.
        make_sink: Makes the sink.
        speed: Times the pace of the recording; None for as fast as possible.
        remarks: What to print about marks and gaps.
        with_tables: Whether the sink shows breakdowns.
        with_parts: Whether it shows single devices and mounts.
        judges: Whether it shows findings; the rules want breakdowns and parts, too.

    Returns:
        The exit status.

    Raises:
        IohError: It is no recording, lacks what was asked for, or holds nothing to show.
        ReaderGoneError: stdout's reader went away.
    """
    refuse_live_options(args)
    from ioh.playback.replay import ReplaySource, Span, no_interval
    from ioh.session.stream import Tick

    engine = engine_from(args) if judges else None
    faults, intervals = Faults(), intervals_from(args)
    span = Span(
        getattr(args, "begin", None), getattr(args, "end", None), getattr(args, "utc", False)
    )
    with (
        few_collections(),
        Ending() as ending,
        contextlib.suppress(Signalled),
        ReplaySource(
            args.file,
            span,
            speed=speed,
            with_tables=with_tables or engine is not None,
            with_parts=with_parts or engine is not None,
        ) as source,
    ):
        ending.stop = source.stop
        sink = make_sink()

        waiting: list[str] = []

        def taken() -> Iterator[Snapshot]:
            for item in source:
                faults.take(item)
                if not isinstance(item, Tick):
                    waiting.append(remarks(item))
                elif (snapshot := intervals.take(item.sample)) is not None:
                    yield snapshot
                if intervals.has_begun:  # until then it may yet be refused
                    ending.write("".join(waiting))
                    waiting.clear()

        is_empty = True
        for snapshot in until(judged(taken(), engine), args.run_s):
            is_empty = False
            ending.write(sink.render(snapshot))
            if ending.received is not None:
                break
        if is_empty and ending.received is None:
            faults.report()
            if why := why_none(args, intervals.seen_s, span):
                raise IohError(why, "Give a shorter one, or none", ExitCode.USAGE)
            raise no_interval(args.file, span)
    tell_remarks(source.part.remarks)
    faults.report()
    return ending.code


def speed_factor(text: str) -> float:
    """An argparse type: how many times the pace of the recording."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_SPEED:
        msg = f'must be a number above 0, such as 0.5 or 10, not "{printable(text)}"'
        raise argparse.ArgumentTypeError(msg)
    return value
