"""Looks at every byte of a recording, says what is in it, and writes a whole one out of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ioh.model.sample import Sample
from ioh.session.frame import Damage
from ioh.session.output import FileOutput
from ioh.session.reader import STDIN, open_for_reading, unreadable
from ioh.session.records import End, Gap, Header, Mark, to_text
from ioh.session.stream import BadRecord, Item, ItemReader, LostTicks, Tick
from ioh.session.writer import SessionWriter

_CHUNK_BYTES = 1 << 18
MAX_FAULTS = 1000


@dataclass
class Findings:
    """What a whole pass over a recording found.

    Shape:
        ``last_part`` differs from the header's where several files were read as one;
        ``faults`` are lines for people, unescaped, MAX_FAULTS at most.
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
    is_ended: bool = False
    lost_ticks: int = 0
    mended: int = 0
    is_torn: bool = False
    faults: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        """Note one item."""
        if isinstance(item, Header):
            self.header = item
        elif isinstance(item, Tick):
            self._take_sample(item.sample)
        elif isinstance(item, Mark):
            self.marks.append(item)
        elif isinstance(item, Gap):
            self.gaps.append(item)
        elif isinstance(item, End):
            self.is_ended = True
        elif isinstance(item, LostTicks):
            self.lost_ticks += item.count
            self._fault(f"{item.count} samples are lost before sample {self.ticks}")
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
        elif damage.is_mended:
            self.mended += 1
            self._fault(f"{where} are damaged; what was there is given back by a parity record")
        else:
            self._fault(f"{where} are damaged")

    def leave_out(self) -> None:
        """Note that the last sample taken cannot be copied."""
        self.lost_ticks += 1
        self._fault(f"sample {self.ticks - 1} holds numbers beyond 64 bits: left out of the copy")

    def _fault(self, text: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(text)


def check(path: str, repaired: str | None = None) -> Findings:
    """Read all of a recording; write every sample, mark and gap into a new file if asked to.

    No file is made of a recording without a sample.

    Raises:
        IohError: It is no recording or cannot be read, or the new file cannot be made.
        OSError: The new file cannot be written.
    """
    found = Findings()
    writer: SessionWriter | None = None
    held: list[Item] = []
    name = STDIN if path == "-" else path
    fd = open_for_reading(path) if path != "-" else os.dup(0)
    try:
        reader = ItemReader(name=name, joins=True)
        at_end = False
        while not at_end:
            piece = _read(fd, name)
            at_end = not piece
            found.size_bytes += len(piece)
            reader.feed(piece)
            for item in reader.items(at_end=at_end):
                found.take(item)
                if repaired is None:
                    continue
                held.append(item)
                if writer is None and isinstance(item, Tick) and found.header is not None:
                    writer = _new_writer(found.header, repaired)
                if writer is not None:
                    for kept in held:
                        if not _copy(kept, writer):
                            found.leave_out()
                    held.clear()
        found.last_part = reader.part
    finally:
        os.close(fd)
        if writer is not None:
            writer.close()
    return found


def _read(fd: int, name: str) -> bytes:
    """The next bytes; what fails here is not the copy."""
    try:
        return os.read(fd, _CHUNK_BYTES)
    except OSError as error:
        raise unreadable(name, error) from error


def _new_writer(header: Header, path: str) -> SessionWriter:
    return SessionWriter(
        FileOutput(path, option="--repair"),
        note=to_text(header.note),
        cycle_s=header.cycle_s,
        part=header.part,
        marks_note=False,  # its mark is among those that are copied
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
