"""Looks at every byte of a recording, says what is in it, and writes a whole one out of it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

from ioh.model.errors import IohError
from ioh.model.sample import Sample
from ioh.session.frame import Damage
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.recorded_file import STDIN, RecordedFile
from ioh.session.records import End, Gap, Header, Mark, to_text
from ioh.session.stream import BadRecord, Item, ItemReader, LostTicks, Tick
from ioh.session.writer import SessionWriter

MAX_FAULTS = 1000
MAX_MOMENTS = 10_000


@dataclass
class CheckResult:
    """What a whole pass over a recording found.

    ``last_part`` differs from the header's where several files were read as one.  ``faults`` are
    lines for people, unescaped, MAX_FAULTS at most; ``marks`` and ``gaps`` MAX_MOMENTS at most,
    ``untold`` so many more.
    """

    header: Header | None = None
    last_part: int = 1
    size_bytes: int = 0
    ticks: int = 0
    first_unix_s: float = 0.0
    last_unix_s: float = 0.0
    layers: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    untold: int = 0
    is_ended: bool = False
    lost_ticks: int = 0
    left_out: int = 0
    is_torn: bool = False
    faults: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        """Note one item."""
        if isinstance(item, Header):
            self.header = item
        elif isinstance(item, Tick):
            self._take_sample(item.sample)
        elif isinstance(item, Mark | Gap) and len(self.marks) + len(self.gaps) >= MAX_MOMENTS:
            self.untold += 1
        elif isinstance(item, Mark):
            self.marks.append(item)
        elif isinstance(item, Gap):
            self.gaps.append(item)
        elif isinstance(item, End):
            self.is_ended = True
        elif isinstance(item, LostTicks):
            first = self.ticks + self.lost_ticks
            self.lost_ticks += item.count
            last = self.ticks + self.lost_ticks - 1
            which = f"sample {first} is" if first == last else f"samples {first} to {last} are"
            self._fault(f"{which} lost")
        elif isinstance(item, BadRecord):
            self._fault(f"byte {item.offset}: a record that makes no sense: {item.why}")
        else:
            self._take_damage(item)

    def _take_sample(self, sample: Sample) -> None:
        if not self.ticks:
            self.first_unix_s = sample.time_unix_s
        self.ticks += 1
        self.last_unix_s = sample.time_unix_s
        for name in sample.layers:
            self.layers[name] = self.layers.get(name, 0) + 1

    def _take_damage(self, damage: Damage) -> None:
        where = f"byte {damage.offset}: {damage.size_bytes} bytes"
        if damage.is_tail:
            self.is_torn = True
            self._fault(f"{where} at the end are no whole record: the recording was cut off")
        else:
            self._fault(f"{where} are damaged")

    def leave_out(self) -> None:
        """Note that the last sample taken cannot be copied."""
        self.left_out += 1
        last = self.ticks + self.lost_ticks - 1
        self._fault(f"sample {last} holds numbers beyond 64 bits: left out of the copy")

    def _fault(self, text: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(text)


def check(path: str, repaired: str | None = None) -> CheckResult:
    """Read all of a recording; write every sample, mark and gap into a new file if asked to.

    No file is made of a recording without a sample.  Raises IohError where it is no recording or
    cannot be read, or the new file cannot be made; OSError where that cannot be written.
    """
    found = CheckResult()
    writer: SessionWriter | None = None
    held: list[Item] = []
    with contextlib.ExitStack() as stack:
        file = RecordedFile(STDIN, os.dup(0)) if path == "-" else RecordedFile(path)
        stack.enter_context(file)
        reader = _reader(path, builds=repaired is not None)
        for item in reader.items_of(file.pieces()):
            found.take(item)
            held += [item] if repaired is not None else []
            if held and writer is None and isinstance(item, Tick) and found.header is not None:
                writer = _new_writer(found.header, str(repaired))
                stack.callback(writer.close)
            while held and writer is not None:
                if not _copy(held.pop(0), writer):
                    found.leave_out()
        found.size_bytes = reader.fed_bytes
        found.last_part = reader.header.part if reader.header is not None else 0
    return found


def _reader(path: str, *, builds: bool) -> ItemReader:
    """A reader, which knows the layers even where the first head is damaged."""
    name, fd = (STDIN, os.dup(0)) if path == "-" else (path, None)
    specs = None
    with contextlib.suppress(IohError), Session(name, fd) as found:
        specs = found.specs_before(0)
    return ItemReader(specs=specs, with_tables=builds, with_parts=builds, joins=True, name=name)


def _new_writer(header: Header, path: str) -> SessionWriter:
    return SessionWriter(
        FileOutput(path, option="--repair"),
        note=to_text(header.note),
        cycle_s=header.cycle_s,
        part=header.part,
        marks_note=False,  # its mark is among those that are copied
        addresses=[to_text(address) for address in header.addresses],
    )


def _copy(item: Item, writer: SessionWriter) -> bool:
    """Write one item; False for a sample that no recording can hold."""
    if isinstance(item, Tick):
        try:
            is_written = writer.write(item.sample)
        except ValueError:  # made-up increments may lead beyond 64 bits
            return False
        if not is_written:
            raise OSError(28, writer.paused_why)
    elif isinstance(item, Mark):
        writer.mark(to_text(item.text), item.time_unix_s)
    elif isinstance(item, Gap):
        writer.gap(item)
    return True
