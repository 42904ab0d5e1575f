"""What commands print of a recording: its intervals, its marks and gaps, its faults."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ioh.commands.options import select_layers
from ioh.commands.output import say
from ioh.model.intervals import Intervals
from ioh.model.printable import printable
from ioh.model.sample import Sample

if TYPE_CHECKING:
    from ioh.playback.replay import Span
    from ioh.session.stream import Item


# What a command says on its output about a mark or a gap, in whole lines; "" for nothing.
Remarks = Callable[["Item"], str]


def no_remarks(item: Item) -> str:
    """For outputs that hold nothing but intervals."""
    del item
    return ""


def text_remarks(*, utc: bool) -> Remarks:
    """Marks and gaps as lines of text."""
    from ioh.session.records import Gap, Mark, to_text
    from ioh.sinks.cells import clock

    def remark(item: Item) -> str:
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
        self.damaged_bytes = 0
        self.lost_ticks = 0
        self.bad_records = 0
        self.is_torn = False

    def take(self, item: Item) -> None:
        """Note a fault; other items are none."""
        from ioh.session.frame import Damage
        from ioh.session.stream import BadRecord, LostTicks

        if isinstance(item, Damage):
            self.is_torn = self.is_torn or item.is_tail
            self.damaged_bytes += 0 if item.is_tail else item.size_bytes
        elif isinstance(item, LostTicks):
            self.lost_ticks += item.count
        elif isinstance(item, BadRecord):
            self.bad_records += 1

    def __str__(self) -> str:
        said = []
        if self.damaged_bytes:
            said.append(f"{self.damaged_bytes} bytes are damaged")
        if self.bad_records:
            said.append(f"{self.bad_records} records cannot be decoded")
        if self.lost_ticks:
            said.append(f"{self.lost_ticks} samples are lost")
        if self.is_torn:
            said.append("it was cut off, and is whole up to there")
        return "the recording has faults: " + ", ".join(said) if said else ""

    def report(self) -> None:
        """Report them in one line on stderr, if there are any."""
        if text := str(self):
            say(f"{text}. See: ioh verify")


def tell_remarks(remarks: tuple[str, ...]) -> None:
    """Say on stderr what the user should know about what is shown."""
    for text in remarks:
        say(text)


def intervals_from(args: argparse.Namespace) -> Intervals:
    """The intervals that ``args`` ask for: which layers, and how long.

    Raises:
        IohError: From take(): a layer asked for is not in the recording.
    """
    return Intervals(lambda sample: choose_layers(args, sample), args.cycle_s)


def why_none(args: argparse.Namespace, seen_s: float, span: Span) -> str:
    """Why no interval was made of samples that came; "" where none could be."""
    if args.cycle_s is None or seen_s <= 0:
        return ""
    part = "that part of " if span.begin or span.end else ""
    there = f"{seen_s:.0f} s, in {printable(args.file)}"
    return f"-c {args.cycle_s:g} is longer than {part}what was recorded, {there}"


def choose_layers(args: argparse.Namespace, sample: Sample) -> frozenset[str] | None:
    """The layers asked for, of those in the recording; None for all.

    Raises:
        IohError: One is not in it, or none is left.
    """
    found = select_layers(
        args, list(sample.layers), 'no layer "{}" in this recording', "Its layers"
    )
    return None if found is None else frozenset(found)
