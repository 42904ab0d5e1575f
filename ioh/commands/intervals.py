"""What is told of a recording: its intervals, its marks and gaps, its faults."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from copy import copy
from typing import TYPE_CHECKING, Protocol

from ioh.commands.options import listed
from ioh.model.derive import derive
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.model.span import Thinner, chosen_layers

if TYPE_CHECKING:
    from ioh.session.stream import Item
    from ioh.sources.replay import Span


class Remarks(Protocol):
    """What a command says on its output about a mark or a gap; "" for nothing."""

    def __call__(self, item: Item) -> str:
        """Whole lines."""
        ...


def no_remarks(item: Item) -> str:
    """For outputs that hold nothing but intervals."""
    del item
    return ""


def text_remarks(*, utc: bool) -> Remarks:
    """Marks and gaps as lines of text."""
    from ioh.session.records import Gap, Mark, to_text

    def clock(unix_s: float) -> str:
        when = time.gmtime(unix_s) if utc else time.localtime(unix_s)
        return time.strftime("%H:%M:%S", when)

    def remark(item: Item) -> str:
        if isinstance(item, Mark) and 0 <= item.time_unix_s < 1e11:
            return f"# mark {clock(item.time_unix_s)}  {printable(to_text(item.text))}\n\n"
        if isinstance(item, Gap) and 0 <= item.from_unix_s <= item.to_unix_s < 1e11:
            span = f"{clock(item.from_unix_s)} to {clock(item.to_unix_s)}"
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
            said.append(f"{self.bad_records} records make no sense")
        if self.lost_ticks:
            said.append(f"{self.lost_ticks} samples are lost")
        if self.is_torn:
            said.append("it was cut off, and is whole up to there")
        return "the recording has faults: " + ", ".join(said) if said else ""

    def report(self) -> None:
        """Tell them in one line on stderr, if there are any."""
        if text := str(self):
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"ioh: {text}. See: ioh verify\n")
                sys.stderr.flush()


def tell_remarks(remarks: tuple[str, ...]) -> None:
    """Say on stderr what is to be known of what is shown."""
    for text in remarks:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"ioh: {text}\n")
            sys.stderr.flush()


class Intervals:
    """Samples, derived in pairs; a clock that went back begins anew."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._names: frozenset[str] | None = None
        self._checked = False
        self._begin()

    def _begin(self) -> None:
        cycle_s = self._args.cycle_s
        self._first_ns: int | None = None
        self._last_ns = 0
        self._thinner = Thinner(cycle_s) if cycle_s is not None else None
        self._older: Sample | None = None

    def anew(self) -> Intervals:
        """The same layers, before any sample."""
        made = copy(self)
        made._begin()  # noqa: SLF001 (of its own kind)
        return made

    def take(self, sample: Sample) -> Snapshot | None:
        """The interval that ends with ``sample``, if one does.

        Raises:
            IohError: A layer asked for is not in the recording.
        """
        if not self._checked:
            self._names, self._checked = choose_layers(self._args, sample), True
        if self._first_ns is None:
            self._first_ns = sample.mono_ns
        self._last_ns = sample.mono_ns
        sample = chosen_layers(sample, self._names)
        thinned = self._thinner.take(sample) if self._thinner else sample
        if thinned is None:
            return None
        older, self._older = self._older, thinned
        if older is None or thinned.mono_ns <= older.mono_ns:
            return None
        return derive(older, thinned)

    def why_none(self, span: Span) -> str:
        """Why no interval was made of samples that came; "" where none could be."""
        cycle_s, first_ns = self._args.cycle_s, self._first_ns
        if cycle_s is None or first_ns is None or self._last_ns <= first_ns:
            return ""
        part = "that part of " if span.begin or span.end else ""
        there = f"{(self._last_ns - first_ns) / 1e9:.0f} s, in {printable(self._args.file)}"
        return f"-c {cycle_s:g} is longer than {part}what was recorded, {there}"


def choose_layers(args: argparse.Namespace, sample: Sample) -> frozenset[str] | None:
    """The layers asked for, of those in the recording; None for all.

    Raises:
        IohError: One is not in it, or none is left.
    """
    if args.layers is None and not args.no_layer:
        return None
    known = list(sample.layers)
    wanted = known if args.layers is None else listed(args.layers)
    without = [name for text in args.no_layer for name in listed(text)]
    for name in (*wanted, *without):
        if name not in known:
            cause = f'no layer "{printable(name)}" in this recording'
            names = ", ".join(printable(k) for k in known)
            raise IohError(cause, f"Its layers: {names}", ExitCode.USAGE)
    left = frozenset(wanted) - frozenset(without)
    if not left:
        cause = "--layers and --no-layer leave nothing to show"
        raise IohError(cause, f"Its layers: {', '.join(map(printable, known))}", ExitCode.USAGE)
    return left
