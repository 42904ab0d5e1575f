"""Print a recording: its form, the part, the speed, and a report of its faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ioh.commands.garbage import few_collections
from ioh.commands.output import say
from ioh.commands.run import Ending, Render
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.commands.arguments import IntervalOptions
    from ioh.model.intervals import Intervals
    from ioh.model.pairs import Round
    from ioh.playback.replay import ReplaySource
    from ioh.session.stream import Item

# Output lines for a mark or a gap; "" for none.
Remarks = Callable[["Item"], str]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How intervals are printed.

    Shape:
        ``render`` renders a round; ``remarks`` marks and gaps.
        ``with_tables``: breakdowns are shown; ``with_parts``: single devices and mounts;
        ``judges``: findings, whose rules need both tables and parts; ``has_hosts``: it can render
        several machines.
    """

    render: Render
    remarks: Remarks = lambda _: ""
    with_tables: bool = True
    with_parts: bool = True
    judges: bool = True
    has_hosts: bool = False


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
    """Print a recording; return the exit status.

    IohError: not a recording, or it lacks what was requested, or has nothing to show.
    ReaderGoneError: nobody reads stdout.
    """
    from ioh.pipeline import no_judge, rounds
    from ioh.session.recorded_file import hosts_of

    hosts = hosts_of(options.file) if form.has_hosts else ()
    make_judge = options.engine if form.judges and not options.no_findings else no_judge
    is_whole = bool(hosts) or make_judge is not no_judge  # pairs and rules need all tables
    faults = {name: Faults() for name in hosts or ("",)}
    waiting: list[str] = []
    made: list[Intervals] = []
    is_empty = True
    with few_collections(), Ending() as ending, contextlib.ExitStack() as stack:

        def write_remarks() -> None:
            ending.write("".join(waiting))
            waiting.clear()

        def take(host: str, item: Item) -> None:
            faults[host].take(item)
            if not hosts or form.remarks(item) not in waiting:  # several may have the same mark
                waiting.append(form.remarks(item))
            # Before that an error may still follow; with -c, until the first interval.
            if not hosts and made[0].has_begun and not (is_empty and options.cycle_s):
                write_remarks()

        sources = {
            host: stack.enter_context(source)
            for host, source in _sources(options, form, hosts, is_whole=is_whole)
        }
        ending.stop = partial(_stop, sources.values())
        for each in rounds(_rounds(options, sources, take, made), make_judge, options.run_s):
            write_remarks()
            is_empty = False
            ending.write(form.render(each))
            if ending.received is not None:
                break
        if is_empty and ending.received is None:
            _report(faults.values())
            raise _why_empty(options, max((each.seen_s for each in made), default=0.0))
        write_remarks()
    for source in sources.values():
        for remark in source.excerpt.remarks:
            say(remark)
    _report(faults.values())
    return ending.code


def _sources(
    options: IntervalOptions, form: PrintOptions, hosts: Sequence[str], *, is_whole: bool
) -> Iterator[tuple[str, ReplaySource]]:
    from ioh.playback.joined import path_of, spans_of
    from ioh.playback.replay import ReplaySource

    for host, span in spans_of(options.file, hosts, options.span).items():
        source = ReplaySource(
            path_of(options.file, host),
            span,
            speed=options.speed,
            with_tables=is_whole or form.with_tables,
            with_parts=is_whole or form.with_parts,
            on_wait=lambda: options.follows,
        )
        yield host, source


def _rounds(
    options: IntervalOptions,
    sources: Mapping[str, ReplaySource],
    take: Callable[[str, Item], None],
    made: list[Intervals],
) -> Iterator[Round]:
    """The rounds of the sources; ``made`` gets each host's Intervals."""
    from ioh.pipeline import alone
    from ioh.playback.joined import joined_rounds

    def intervals() -> Intervals:
        made.append(options.intervals())
        return made[-1]

    if "" in sources:
        return alone(sources[""].samples(partial(take, "")), intervals())
    cycles_s = [s.session.header.cycle_s for s in sources.values() if s.session]
    return joined_rounds(sources, intervals, options.cycle_s or max(cycles_s), take)


def _stop(sources: Iterable[ReplaySource]) -> None:
    for source in sources:
        source.stop()


def _report(faults: Iterable[Faults]) -> None:
    for each in faults:
        each.report()


def _why_empty(options: IntervalOptions, seen_s: float) -> IohError:
    from ioh.playback.replay import no_interval

    span = options.span
    if options.cycle_s is None or seen_s <= 0:
        return no_interval(options.file, span)
    part = "that part of " if span.begin or span.end else ""
    file = printable(options.file)
    cause = f"-c {options.cycle_s:g} is longer than {part}{file}, which has {seen_s:.0f} s"
    return IohError(cause, "Give a smaller -c, or none", ExitCode.USAGE)
