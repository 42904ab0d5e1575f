"""Check every byte of a recording, report what it holds, and write a repaired copy."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field

from ioh.model.errors import IohError
from ioh.model.sample import Sample
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
    """What a full pass over a recording found.

    ``seconds`` are by the monotonic clock, except between two boots of the machine.
    ``last_part`` differs from the header's if several files were read as one.  ``faults`` are
    unescaped messages, MAX_FAULTS at most.  ``marks`` and ``gaps`` are MAX_MOMENTS at most
    together; ``unlisted`` counts the others.
    """

    header: Header | None = None
    last_part: int = 1
    size_bytes: int = 0
    ticks: int = 0
    first_unix_s: float = 0.0
    last_unix_s: float = 0.0
    seconds: float = 0.0
    last_mono_ns: int = 0
    layers: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    unlisted: int = 0
    is_ended: bool = False
    lost_ticks: int = 0
    left_out: int = 0
    is_torn: bool = False
    faults: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        """Add one item."""
        if isinstance(item, Header):
            self.header = item
        elif isinstance(item, Tick):
            self._take_sample(item.sample)
        elif isinstance(item, Mark | Gap) and len(self.marks) + len(self.gaps) >= MAX_MOMENTS:
            self.unlisted += 1
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
            self._fault(f"byte {item.offset}: invalid record: {item.why}")
        else:
            where = f"byte {item.offset}: {item.size_bytes} bytes"
            self.is_torn = self.is_torn or item.is_tail
            tail = "at the end are not a whole record: the recording was cut off"
            self._fault(f"{where} {tail if item.is_tail else 'are damaged'}")

    def _take_sample(self, sample: Sample) -> None:
        if not self.ticks:
            self.first_unix_s = self.last_unix_s = sample.time_unix_s
            self.last_mono_ns = sample.mono_ns
        passed_s = (sample.mono_ns - self.last_mono_ns) / 1e9
        self.seconds += max(
            0.0, sample.time_unix_s - self.last_unix_s if passed_s < 0 else passed_s
        )
        self.ticks += 1
        self.last_unix_s, self.last_mono_ns = sample.time_unix_s, sample.mono_ns
        for name in sample.layers:
            self.layers[name] = self.layers.get(name, 0) + 1

    def leave_out(self) -> None:
        """Note that the last sample cannot be copied."""
        self.left_out += 1
        last = self.ticks + self.lost_ticks - 1
        self._fault(f"sample {last} holds numbers beyond 64 bits: left out of the copy")

    def _fault(self, text: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(text)


def check(path: str, repaired: str | None = None) -> CheckResult:
    """Read all of a recording; with ``repaired``, copy all samples, marks and gaps to a new file.

    A recording without samples gets no copy.  Raises IohError if it is not a recording or cannot be
    read, or if the copy cannot be created; OSError if the copy cannot be written.
    """
    result = CheckResult()
    writer: SessionWriter | None = None
    waiting: list[Item] = []  # what comes before the first sample
    builds = repaired is not None
    with contextlib.ExitStack() as stack:
        name = STDIN if path == "-" else path
        file = stack.enter_context(RecordedFile(name, _stdin_fd(path)))
        specs = None  # read from anywhere in the file: the first head may be damaged
        with contextlib.suppress(IohError), Session(name, _stdin_fd(path)) as session:
            specs = session.specs_before(0)
        reader = ItemReader(
            specs=specs, with_tables=builds, with_parts=builds, joins=True, name=name
        )
        for item in reader.items_of(file.pieces()):
            result.take(item)
            if repaired is None:
                continue
            if writer is None and isinstance(item, Tick) and result.header is not None:
                writer = _new_writer(result.header, repaired)
                stack.callback(writer.close)
            waiting.append(item)
            while waiting and writer is not None:
                if not _copy(waiting.pop(0), writer):
                    result.leave_out()
        result.size_bytes = reader.fed_bytes
        result.last_part = reader.header.part if reader.header is not None else 0
    return result


def _stdin_fd(path: str) -> int | None:
    return os.dup(0) if path == "-" else None


def _new_writer(header: Header, path: str) -> SessionWriter:
    return SessionWriter(
        FileOutput(path, option="--repair"),
        note=to_text(header.note),
        cycle_s=header.cycle_s,
        part=header.part,
        marks_note=False,  # the copied marks include it
        addresses=[to_text(address) for address in header.addresses],
    )


def _copy(item: Item, writer: SessionWriter) -> bool:
    """Write one item; False if no recording can hold the sample."""
    if isinstance(item, Tick):
        try:
            is_written = writer.write(item.sample)
        except ValueError:  # forged increments may lead beyond 64 bits
            return False
        if not is_written:
            raise OSError(errno.ENOSPC, writer.paused_why)
    elif isinstance(item, Mark):
        writer.mark(to_text(item.text), item.time_unix_s)
    elif isinstance(item, Gap):
        writer.gap(item)
    return True
