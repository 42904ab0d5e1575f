"""Prints a recording: in which form, which part of it, how fast, and what is said of its faults."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioh.commands.garbage import few_collections
from ioh.commands.options import LIVE_ONLY, engine_from, select_layers
from ioh.commands.output import say
from ioh.commands.run import Ending
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.model.intervals import Intervals
    from ioh.model.sample import Sample
    from ioh.pipeline import SnapshotSink
    from ioh.playback.time_range import Span
    from ioh.session.stream import Item

# What a command says on its output about a mark or a gap, in whole lines; "" for nothing.
Remarks = Callable[["Item"], str]


def no_remarks(_: Item) -> str:
    """For outputs that hold nothing but intervals."""
    return ""


@dataclass(frozen=True, slots=True)
class Form:
    """How intervals are printed.

    Shape:
        ``make_sink`` makes what renders those of one machine.  ``remarks``: what is said of marks
        and gaps.  ``with_tables``: breakdowns are shown, ``with_parts``: single devices and
        mounts, ``judges``: findings, for which the rules want both of these, too.
    """

    make_sink: Callable[[], SnapshotSink]
    remarks: Remarks = no_remarks
    with_tables: bool = True
    with_parts: bool = True
    judges: bool = True


def text_remarks(*, utc: bool) -> Remarks:
    """Marks and gaps as lines of text."""

    def remark(item: Item) -> str:
        from ioh.session.records import Gap, Mark, to_text
        from ioh.sinks.cells import clock

        if isinstance(item, Mark) and 0 <= item.time_unix_s < 1e11:
            return f"# mark {clock(item.time_unix_s, utc=utc)}  {printable(to_text(item.text))}\n\n"
        if isinstance(item, Gap) and 0 <= item.from_unix_s <= item.to_unix_s < 1e11:
            span = f"{clock(item.from_unix_s, utc=utc)} to {clock(item.to_unix_s, utc=utc)}"
            return f"# not recorded from {span}: {printable(to_text(item.reason))}\n\n"
        return ""

    return remark


class Faults:
    """Counts what is wrong with a recording, for one line in the end."""

    def __init__(self) -> None:
        self._damaged_bytes = self._lost_ticks = self._bad_records = 0
        self._is_torn = False

    def take(self, item: Item) -> None:
        """Note a fault; other items are none."""
        from ioh.session.frame import Damage
        from ioh.session.stream import BadRecord, LostTicks

        if isinstance(item, Damage):
            self._is_torn = self._is_torn or item.is_tail
            self._damaged_bytes += 0 if item.is_tail else item.size_bytes
        elif isinstance(item, LostTicks):
            self._lost_ticks += item.count
        elif isinstance(item, BadRecord):
            self._bad_records += 1

    def report(self) -> None:
        """Report them in one line on stderr, if there are any."""
        faults = {
            f"{self._damaged_bytes} bytes are damaged": self._damaged_bytes,
            f"{self._bad_records} records cannot be decoded": self._bad_records,
            f"{self._lost_ticks} samples are lost": self._lost_ticks,
            "it was cut off, and is whole up to there": self._is_torn,
        }
        if any(faults.values()):
            said = ", ".join(text for text, is_so in faults.items() if is_so)
            say(f"the recording has faults: {said}. See: ioh verify")


def intervals_from(args: argparse.Namespace) -> Intervals:
    """The intervals that ``args`` ask for: which layers, and how long; see choose_layers()."""
    from ioh.model.intervals import Intervals

    return Intervals(lambda sample: choose_layers(args, sample), args.cycle_s)


def choose_layers(args: argparse.Namespace, sample: Sample) -> frozenset[str] | None:
    """The layers asked for, of those in the recording; as select_layers()."""
    no_such = 'no layer "{}" in this recording'
    found = select_layers(args, list(sample.layers), no_such, "Its layers")
    return None if found is None else frozenset(found)


def span_from(args: argparse.Namespace) -> Span:
    """The part of a recording that is asked for."""
    from ioh.playback.time_range import Span

    return Span(
        getattr(args, "begin", None), getattr(args, "end", None), getattr(args, "utc", False)
    )


def refuse_live_options(args: argparse.Namespace) -> None:
    """Refuse, by IohError, to narrow what was recorded: that is not possible afterwards."""
    hint = "Give it to ioh record; --layers and --no-layer work here too"
    for name in LIVE_ONLY:
        cause = f"--{name.replace('_', '-')} is for live I/O, and this is a recording"
        refuse_if(getattr(args, name, None), cause, hint)


def run_replay(args: argparse.Namespace, form: Form, speed: float | None = None) -> int:
    """Print a recording of one machine as ``args`` ask; returns the exit status.

    ``args`` is what add_interval_arguments() declared, ``file``, perhaps ``begin`` and ``end``;
    ``speed`` times the pace of the recording, None for as fast as possible.
    IohError: it is no recording, lacks what was asked for, or holds nothing to show.
    ReaderGoneError: nobody reads stdout.
    """
    refuse_live_options(args)
    from ioh.pipeline import judged, until
    from ioh.playback.replay import ReplaySource

    engine = engine_from(args) if form.judges else None
    faults, intervals, span = Faults(), intervals_from(args), span_from(args)
    with (
        few_collections(),
        Ending() as ending,
        ReplaySource(
            args.file,
            span,
            speed=speed,
            with_tables=form.with_tables or engine is not None,
            with_parts=form.with_parts or engine is not None,
        ) as source,
    ):
        ending.stop = source.stop
        sink = form.make_sink()
        waiting: list[str] = []

        def write_remarks() -> None:
            if intervals.has_begun:  # until then it may yet be refused
                ending.write("".join(waiting))
                waiting.clear()

        def take(item: Item) -> None:
            faults.take(item)
            waiting.append(form.remarks(item))
            write_remarks()

        def samples() -> Iterator[Sample]:
            for sample in source.samples(take):
                yield sample
                write_remarks()

        is_empty = True
        for snapshot in until(judged(intervals.each(samples()), engine), args.run_s):
            is_empty = False
            ending.write(sink.render(snapshot))
            if ending.received is not None:
                break
        if is_empty and ending.received is None:
            faults.report()
            raise _why_empty(args, intervals.seen_s, span)
    for remark in source.part.remarks:
        say(remark)
    faults.report()
    return ending.code


def _why_empty(args: argparse.Namespace, seen_s: float, span: Span) -> IohError:
    from ioh.playback.replay import no_interval

    if args.cycle_s is None or seen_s <= 0:
        return no_interval(args.file, span)
    part = "that part of " if span.begin or span.end else ""
    there = f"{seen_s:.0f} s, in {printable(args.file)}"
    cause = f"-c {args.cycle_s:g} is longer than {part}what was recorded, {there}"
    return IohError(cause, "Give a shorter one, or none", ExitCode.USAGE)
