"""Decode a session's bytes, fed in order, into samples, marks, gaps and damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ioh.model.errors import IohError
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.session.decoder import Decoder
from ioh.session.frame import SAMPLE_KINDS, Damage, Frame, FrameScanner, Kind
from ioh.session.packing import Unpacker
from ioh.session.records import (
    MOMENTS,
    End,
    Gap,
    Header,
    Mark,
    RecordError,
    SampleRecord,
    decode_head,
    decode_plain,
    refuse,
)

_FORMAT_1 = b"\xf6iohH"
BEGIN_BYTES = len(_FORMAT_1)  # what no_recording() needs of a file
# Where the first record must come, so that a large file of another kind is refused soon.
MAX_FIRST_OFFSET_BYTES = 1 << 20
# Far more than ioh writes between two whole samples.
MAX_DELTAS = 1000
_RECORD_WORK = 1400  # of a mark, gap or head, plus its bytes; the smallest mark earns 1536
_BAD_RECORD_WORK = 1 << 18  # of an invalid record with a good checksum


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample and its number in the session, from 0."""

    tick: int
    sample: Sample


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A whole but invalid record; ``why`` may hold anything: call printable() on it."""

    offset: int
    kind: int
    why: str


@dataclass(frozen=True, slots=True)
class LostTicks:
    """Unreadable samples before the next readable one, or at the end."""

    count: int


Item = Header | Tick | Mark | Gap | End | Damage | BadRecord | LostTicks


def no_recording(name: str, begin: bytes) -> IohError:
    """The error to raise for a file that is not a recording, by its first bytes."""
    file = printable(name)
    if begin.startswith(_FORMAT_1):
        cause = f"{file} has format 1, from before the first release, which ioh no longer reads"
        return IohError(cause, "Record again, or read it with the ioh that wrote it")
    cause = f"{file} is not a recording of ioh" + ("" if begin else " (empty)")
    return IohError(cause, "Make one with: ioh record")


class WorkBudget:
    """Limits the work of reading, in proportion to the bytes fed; no recording of ioh comes near.

    A record costs its unpacked bytes, plus _RECORD_WORK if it is not a sample; 8 numbers that a
    layer or a row begins with cost 1.  A sample costs Decoder.work, each about 0.2 µs for its user.
    """

    _AT_ONCE, _PER_BYTE = 8 << 20, 32
    _SAMPLES_AT_ONCE, _SAMPLES_PER_BYTE = 2 << 20, 256

    def __init__(self) -> None:
        self._left, self._left_for_samples = self._AT_ONCE, self._SAMPLES_AT_ONCE

    def earn(self, fed_bytes: int) -> None:
        """Add the allowance of bytes that were read."""
        self._left += self._PER_BYTE * fed_bytes
        self._left_for_samples += self._SAMPLES_PER_BYTE * fed_bytes

    def spend(self, work: int = 0, *, on_sample: int = 0) -> None:
        """Subtract work on records, or on a sample to be returned; IohError if it is too much."""
        self._left -= work
        self._left_for_samples -= on_sample
        if min(self._left, self._left_for_samples) < 0:
            cause = "the recording costs more to read than any that ioh writes: stopped there"
            raise IohError(cause, "ioh did not write it like this: ask where it comes from")


class ItemReader:
    """Decodes a session's bytes into items, without seeking, so that pipes work, too.

    ``offset`` is that of the first byte fed; ``specs`` come from elsewhere in the file (None: a
    head must come first).  Samples before ``from_tick`` are decoded, but not returned.  ``joins``
    accepts the parts of a recording one after the other, as cat writes them.
    """

    def __init__(  # noqa: PLR0913
        self,
        offset: int = 0,
        specs: Mapping[str, LayerSpec] | None = None,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        from_tick: int = 0,
        joins: bool = False,
        name: str = "this",
    ) -> None:
        self._name, self._joins = name, joins
        self._scanner = FrameScanner(offset)
        self._stream, self._unpacker, self._budget = Unpacker(), Unpacker(), WorkBudget()
        self._with = {"with_tables": with_tables, "with_parts": with_parts}
        self._specs = specs  # None: no head came yet
        self._decoder: Decoder | None = None  # None: only a whole sample helps
        self._from_tick = from_tick
        self._begin = b""  # the first bytes
        self.fed_bytes = 0
        self._head: bytes | None = None  # the payload of the last one
        self.header: Header | None = None
        self._last = -1  # the last sample decoded
        self._deltas = 0  # since the last whole one
        # The number that the next sample of this file must have; None: any.
        self._next = 0 if offset == 0 else None
        self._count = 0  # how many samples the file has held so far, readable or not
        self._ticks_before = 0  # in the files before this one
        self._joint: tuple[bytes, int, float] | None = None  # the sample that this file must repeat
        self.has_ended = False

    def feed(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._begin += piece[: BEGIN_BYTES - len(self._begin)]
        self.fed_bytes += len(piece)
        self._budget.earn(len(piece))
        self._scanner.feed(piece)

    def items(self, *, at_end: bool = False) -> Iterator[Item]:
        """Yield the items that are complete; IohError if this ioh cannot read the recording."""
        for event in self._scanner.events(at_end=at_end):
            if isinstance(event, Damage):
                yield event
                continue
            try:
                yield from self._take(event)
            except RecordError as error:
                self._decoder = None
                self._budget.spend(_BAD_RECORD_WORK)
                yield BadRecord(event.offset, event.kind, str(error))
        if at_end:
            yield from self._report_lost(self._count)
        if self._specs is None and (at_end or self.fed_bytes > MAX_FIRST_OFFSET_BYTES):
            raise no_recording(self._name, self._begin)

    def items_of(self, pieces: Iterable[bytes]) -> Iterator[Item]:
        """Yield the items of all pieces, or to the end of the recording; raises as items()."""
        for piece in pieces:
            self.feed(piece)
            yield from self.items()
            if self.has_ended and not self._joins:
                return
        yield from self.items(at_end=True)

    def _report_lost(self, until: int) -> Iterator[LostTicks]:
        """Report the unreadable samples before this one."""
        if self._next is not None and until > self._next:
            yield LostTicks(until - self._next)
            self._next = until

    def _take(self, frame: Frame) -> Iterator[Item]:
        kind = frame.kind
        if kind == Kind.HEAD:
            yield from self._take_head(frame)
        elif kind == Kind.JOINED and self._specs is None:
            cause = f"{self._name} has several hosts, which can be read from files only"
            raise IohError(cause, "Give the file by its name")
        self._count = max(self._count, frame.number + (kind in SAMPLE_KINDS))
        if self._specs is None:
            return
        if kind in SAMPLE_KINDS:
            yield from self._take_sample(frame, self._specs)
        elif kind in MOMENTS:
            yield decode_plain(self._plain(frame), MOMENTS[kind])
        elif kind == Kind.END:
            yield from self._report_lost(self._count)
            self.has_ended = True
            yield End(frame.number, frame.time_unix_s)

    def _plain(self, frame: Frame) -> bytes:
        plain = self._unpacker.unpack(frame.payload)
        self._budget.spend(_RECORD_WORK + len(plain))
        return plain

    def _take_head(self, frame: Frame) -> Iterator[Item]:
        is_next_file = self._joins and self._count > 0 and frame.number == 0
        if frame.payload == self._head and not is_next_file:
            return
        head = decode_head(self._plain(frame))
        if self._joins and self.header is not None and self.header != head.header:
            is_next_file = True
        if is_next_file:
            yield from self._report_lost(self._count - 1)  # the next file repeats the last sample
            self._begin_file()
        if self.header is None and self._next is not None:
            yield head.header
        self._head, self.header = frame.payload, head.header
        specs = {spec.name: spec for spec in head.specs}
        if specs != self._specs:
            self._decoder, self._specs = None, specs

    def _begin_file(self) -> None:
        """Begin another file: all counts but that of the returned samples start again."""
        self._ticks_before += max(0, self._count - 1)
        self._joint = self._decoder.moment if self._decoder is not None else None
        self._decoder = None
        self._next, self._count = int(self._next == self._count > 0), 0
        self.has_ended = False

    def _check_joint(self, decoder: Decoder) -> None:
        """Raise IohError unless the sample is the one that the previous file ended with.

        Otherwise the files' totals are unrelated.
        """
        joint, self._joint = self._joint, None
        if joint is not None and joint != decoder.moment:
            cause = f"{self._name} continues with a different recording"
            raise IohError(cause, "Give the files of one recording, each once and in order")

    def _take_sample(self, frame: Frame, specs: Mapping[str, LayerSpec]) -> Iterator[Item]:
        decoder, tick, is_whole = self._decoder, frame.number, frame.kind == Kind.WHOLE
        if decoder is None and not is_whole:
            return
        self._deltas = 0 if is_whole else self._deltas + 1
        if not is_whole and (tick != self._last + 1 or self._deltas > MAX_DELTAS):
            self._decoder = None
            return
        plain = self._stream.unpack(frame.payload, begins=is_whole)
        self._budget.spend(len(plain))
        record = decode_plain(plain, SampleRecord)
        if record.start is not None:
            decoder = Decoder(record.start, specs, **self._with)
        if decoder is None or is_whole != (record.start is not None):
            refuse("a sample of the wrong kind")
        self._budget.spend(decoder.take(record, frame.time_unix_s) // 8)
        self._decoder, self._last = decoder, tick
        if tick == 0:
            self._check_joint(decoder)
        if self._next is not None and tick < self._next:
            return  # returned before
        yield from self._report_lost(tick)
        self._next, self._joint = tick + 1, None
        if tick >= self._from_tick:
            sample = decoder.sample()
            self._budget.spend(on_sample=decoder.work)
            yield Tick(self._ticks_before + tick, sample)
