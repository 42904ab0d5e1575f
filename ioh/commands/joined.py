"""Text and JSON of a recording that holds several hosts."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ioh.commands.hosts import HostsSink, write_rounds
from ioh.commands.intervals import Faults, Remarks, intervals_from, no_remarks
from ioh.commands.playback import refuse_live_options
from ioh.commands.run import Ending, Signalled
from ioh.model.intervals import Intervals

if TYPE_CHECKING:
    from ioh.session.stream import Item


def run_joined(
    args: argparse.Namespace,
    names: Sequence[str],
    make_sink: Callable[[], HostsSink],
    *,
    speed: float | None,
    remarks: Remarks = no_remarks,
) -> int:
    """Print all hosts of a recording, interval by interval together.

    Args:
        args: As run_replay() takes them.
        names: The hosts.
        make_sink: Makes what turns intervals into text.
        speed: Times the pace of the recording; None for as fast as possible.
        remarks: What to print about marks and gaps.

    Returns:
        The exit status.

    Raises:
        IohError: It lacks what was asked for, or holds nothing to show.
        ReaderGoneError: stdout's reader went away.
    """
    refuse_live_options(args)
    from ioh.playback.joined import JoinedRounds, path_of, spans_of
    from ioh.playback.replay import ReplaySource, Span, no_interval
    from ioh.playback.time_range import sane_cycle_s

    span = Span(
        getattr(args, "begin", None), getattr(args, "end", None), getattr(args, "utc", False)
    )
    faults = {name: Faults() for name in names}
    waiting: dict[str, None] = {}  # a mark of all hosts is one line

    def take(name: str, item: Item) -> None:
        faults[name].take(item)
        waiting[remarks(item)] = None

    def remarked() -> str:
        text = "".join(waiting)
        waiting.clear()
        return text

    def make_intervals() -> Intervals:
        return intervals_from(args)

    with (
        Ending() as ending,
        contextlib.suppress(Signalled),
        contextlib.ExitStack() as stack,
    ):
        sources = {
            name: stack.enter_context(ReplaySource(path_of(args.file, name), part, speed=speed))
            for name, part in spans_of(args.file, names, span).items()
        }
        cycles_s = [sane_cycle_s(s.session.header.cycle_s) for s in sources.values() if s.session]
        cycle_s = args.cycle_s or max(cycles_s)
        rounds = JoinedRounds(sources, make_intervals, cycle_s, take)
        ending.stop = rounds.stop
        sink = make_sink()
        has_any = write_rounds(args, rounds, sink, ending, cycle_s=cycle_s, remarks=remarked)
        if not has_any and ending.received is None:
            raise no_interval(args.file, span)
        ending.write(remarked())
    for each in faults.values():
        each.report()
    return ending.code
