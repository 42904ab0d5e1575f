"""Print a recording: its form, the part, the speed, and a report of its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioh.commands.garbage import few_collections
from ioh.commands.output import say
from ioh.commands.run import Ending
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.commands.arguments import IntervalOptions
    from ioh.model.sample import Sample
    from ioh.pipeline import SnapshotSink
    from ioh.session.stream import Item

# Output lines for a mark or a gap; "" for none.
Remarks = Callable[["Item"], str]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How intervals are printed.

    Shape:
        ``make_sink`` creates the renderer for one machine; ``remarks`` renders marks and gaps.
        ``with_tables``: breakdowns are shown; ``with_parts``: single devices and mounts;
        ``judges``: findings, whose rules need both tables and parts.
    """

    make_sink: Callable[[], SnapshotSink]
    remarks: Remarks = lambda _: ""
    with_tables: bool = True
    with_parts: bool = True
    judges: bool = True


def text_remarks(*, utc: bool) -> Remarks:
    """Marks and gaps as lines of text."""

    def remark(item: Item) -> str:
        from ioh.session.records import Gap, Mark, to_text
        from ioh.sinks.cells import clock

        if isinstance(item, Mark):
            return f"# mark {clock(item.time_unix_s, utc=utc)}  {printable(to_text(item.text))}\n\n"
        if isinstance(item, Gap):
            span = f"{clock(item.from_unix_s, utc=utc)} to {clock(item.to_unix_s, utc=utc)}"
            return f"# not recorded from {span}: {printable(to_text(item.reason))}\n\n"
        return ""

    return remark


class Faults:
    """Counts the faults of a recording, and reports them in one line."""

    def __init__(self) -> None:
        self._damaged_bytes = self._lost_ticks = self._bad_records = 0
        self._is_torn = False

    def take(self, item: Item) -> None:
        """Count the item if it is a fault."""
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
        """Print the faults in one line on stderr, if there are any."""
        faults = {
            f"{self._damaged_bytes} bytes are damaged": self._damaged_bytes,
            f"{self._bad_records} records cannot be decoded": self._bad_records,
            f"{self._lost_ticks} samples are lost": self._lost_ticks,
            "its end is cut off": self._is_torn,
        }
        if any(faults.values()):
            said = ", ".join(text for text, is_so in faults.items() if is_so)
            say(f"the recording has faults: {said}. See: ioh verify")


def run_replay(options: IntervalOptions, form: PrintOptions) -> int:
    """Print a recording of one machine; return the exit status.

    IohError: not a recording, or it lacks what was requested, or has nothing to show.
    ReaderGoneError: nobody reads stdout.
    """
    from ioh.pipeline import alone, rounds
    from ioh.playback.replay import ReplaySource

    engine = options.engine() if form.judges else None
    faults, intervals = Faults(), options.intervals()
    with (
        few_collections(),
        Ending() as ending,
        ReplaySource(
            options.file,
            options.span,
            speed=options.speed,
            with_tables=form.with_tables or engine is not None,
            with_parts=form.with_parts or engine is not None,
            on_wait=lambda: options.follows,
        ) as source,
    ):
        ending.stop = source.stop
        sink = form.make_sink()
        waiting: list[str] = []
        is_empty = True

        def write_remarks() -> None:
            # Before that an error may still follow; with -c, until the first interval.
            if intervals.has_begun and not (is_empty and options.cycle_s):
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

        for each in rounds(alone(samples(), intervals), lambda: engine, options.run_s):
            is_empty = False
            write_remarks()
            ending.write(sink.render(each.snapshot))
            if ending.received is not None:
                break
        if is_empty and ending.received is None:
            faults.report()
            raise _why_empty(options, intervals.seen_s)
    for remark in source.part.remarks:
        say(remark)
    faults.report()
    return ending.code


def _why_empty(options: IntervalOptions, seen_s: float) -> IohError:
    from ioh.playback.replay import no_interval

    span = options.span
    if options.cycle_s is None or seen_s <= 0:
        return no_interval(options.file, span)
    part = "that part of " if span.begin or span.end else ""
    file = printable(options.file)
    cause = f"-c {options.cycle_s:g} is longer than {part}{file}, which has {seen_s:.0f} s"
    return IohError(cause, "Give a smaller -c, or none", ExitCode.USAGE)
