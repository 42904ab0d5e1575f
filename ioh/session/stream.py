"""Bytes of a session, fed in order, as what they tell: samples, marks, gaps and damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioh.model.errors import IohError
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.session.decoder import Decoder
from ioh.session.frame import SAMPLE_KINDS, Damage, Event, Frame, FrameScanner, Kind
from ioh.session.packing import StreamUnpacker, decompress
from ioh.session.parity import Mender
from ioh.session.records import (
    FORMAT_VERSION,
    MOMENT_BYTES,
    End,
    Gap,
    Header,
    Mark,
    RecordError,
    Specs,
    decode_moment,
    decode_plain,
    our_edges,
)
from ioh.session.specs import check_spec

# How far into a stream its header must come, so that a large file of anything is refused soon.
MAX_HEADER_OFFSET_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample and its number in the session, from 0."""

    tick: int
    sample: Sample


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is whole and yet no use.

    Shape:
        ``why`` is for people and may hold anything: printable() it.
    """

    offset: int
    kind: int
    why: str


@dataclass(frozen=True, slots=True)
class LostTicks:
    """Samples that cannot be told, before the next one that can."""

    count: int


Item = Header | Tick | Mark | Gap | End | Damage | BadRecord | LostTicks


def check_header(header: Header) -> None:
    """Refuse what this ioh cannot read.

    Raises:
        IohError: A newer format, or other bucket edges.
    """
    if header.format_version > FORMAT_VERSION:
        cause = (
            f"the recording has format {header.format_version}, this ioh reads up to "
            f"{FORMAT_VERSION}"
        )
        raise IohError(cause, "Update ioh")
    edges = our_edges()
    if any(getattr(header, name) != edges[name] for name in edges):
        cause = "the recording counts in other histogram buckets than this ioh"
        raise IohError(cause, "Read it with the version of ioh that `ioh verify` names")


class ItemReader:
    """Turns a session's bytes into items; works on pipes, since it never looks back.

    Args:
        offset: Where the first byte fed lies; 0 demands a header first.
        specs: LayerSpecs known already, where reading begins in the middle.
        with_tables: False leaves tables out, which is much faster.
        with_parts: False leaves single devices and mounts out.
        from_tick: Samples before this one are decoded, but not built.
        joins: The files of an endless recording may come one behind the other, as cat does it.
        name: Of the file, for errors.
    """

    def __init__(  # noqa: PLR0913
        self,
        offset: int = 0,
        specs: dict[str, LayerSpec] | None = None,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        from_tick: int = 0,
        joins: bool = False,
        name: str = "this",
    ) -> None:
        self._name, self._joins = name, joins
        self._scanner = FrameScanner(offset)
        self._mender = Mender(0 if offset == 0 else None)
        self._decoder = Decoder(with_tables=with_tables, with_parts=with_parts)
        self._decoder.specs = dict(specs or {})
        self._unpacker = StreamUnpacker()
        self._from_tick = from_tick
        self._next_tick = 0 if offset == 0 else None
        self._needs_header = offset == 0
        self._fed_bytes = 0
        self._is_suspect = False  # a record may be missing since the last sample
        self._ticks_before = 0  # the first sample's number, of this file
        self._joint: tuple[str, int, float] | None = None  # the sample that it must begin with
        self.part = 0
        self.ended = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._fed_bytes += len(piece)
        self._scanner.feed(piece)

    def items(self, *, at_end: bool = False) -> Iterator[Item]:
        """What can be told by now.

        Args:
            at_end: No more bytes will come.

        Raises:
            IohError: These bytes are no recording, or not one for this ioh.
        """
        for event in self._scanner.events(at_end=at_end):
            if self._is_next_file(event):
                for mended in self._mender.finish():
                    yield from self._items_of(mended)
                self._begin_file()
            for mended in self._mender.take(event):
                yield from self._items_of(mended)
        if at_end:
            for mended in self._mender.finish():
                yield from self._items_of(mended)
        if self._needs_header and (at_end or self._fed_bytes > MAX_HEADER_OFFSET_BYTES):
            cause = f"{printable(self._name)} is not a recording of ioh"
            cause += "" if self._fed_bytes else " (empty)"
            raise IohError(cause, "ioh record makes one")

    def _is_next_file(self, event: Event) -> bool:
        return (
            self._joins
            and not self._needs_header
            and isinstance(event, Frame)
            and event.kind == Kind.HEADER
        )

    def _begin_file(self) -> None:
        """Everything but what the stream told counts anew."""
        before = self._decoder
        self._mender, self._unpacker, self._decoder = Mender(0), StreamUnpacker(), before.anew()
        self._ticks_before += max(0, before.tick)
        self._joint, self._next_tick = before.moment if before.tick >= 0 else None, 0
        self._is_suspect = self.ended = False

    def _check_joint(self) -> bool:
        """Whether the sample is the one that the file before ended with.

        Raises:
            IohError: It is another one: the files' totals have nothing to do with each other.
        """
        if self._joint is None:
            return False
        if self._joint != self._decoder.moment:
            cause = f"{printable(self._name)} goes on with another recording"
            raise IohError(cause, "Give it the files of one recording, each once and in order")
        self._joint = None
        return True

    def _items_of(self, event: Event) -> Iterator[Item]:
        if isinstance(event, Damage):
            self._is_suspect = self._is_suspect or not event.is_mended
            yield event
            return
        try:
            if event.kind in SAMPLE_KINDS:
                yield from self._take_sample(event)
            elif event.kind != Kind.PARITY:
                yield from self._take(event, decompress(event.flags, event.payload))
        except RecordError as error:
            self._is_suspect = True
            yield BadRecord(event.offset, event.kind, str(error))

    def _take(self, frame: Frame, plain: bytes) -> Iterator[Item]:
        kind = frame.kind
        if kind == Kind.HEADER:
            header = decode_plain(plain, Header)
            check_header(header)
            is_first, self._needs_header, self.part = self._needs_header, False, header.part
            if is_first or not self._joins:
                yield header
        elif kind == Kind.SPECS:
            for spec in decode_plain(plain, Specs).specs:
                check_spec(spec)
                self._decoder.specs[spec.name] = spec
        elif kind == Kind.MARK:
            yield decode_plain(plain, Mark)
        elif kind == Kind.GAP:
            yield decode_plain(plain, Gap)
        elif kind == Kind.END:
            self.ended = True
            yield decode_plain(plain, End)

    def _take_sample(self, frame: Frame) -> Iterator[Item]:
        if self._needs_header:
            return
        decoder, awaited, payload = self._decoder, self._next_tick, frame.payload
        moment = decode_moment(payload)
        if frame.kind == Kind.DELTA:
            if decoder.is_broken:
                return
            try:
                plain = self._unpacker.unpack(frame.flags, payload[MOMENT_BYTES:])
            except RecordError:
                decoder.break_chain()
                raise
            if not decoder.take_delta(moment, plain):
                return
        else:
            if frame.kind == Kind.CHECKPOINT and not (decoder.is_broken or self._is_suspect):
                return  # known already
            decoder.take_full(moment, decompress(frame.flags, payload[MOMENT_BYTES:]))
            self._is_suspect = False
        if awaited is not None and decoder.tick < awaited:
            return  # told before
        if awaited is not None and decoder.tick > awaited:
            yield LostTicks(decoder.tick - awaited)
        self._next_tick = decoder.tick + 1
        if not self._check_joint() and decoder.tick >= self._from_tick:
            yield Tick(self._ticks_before + decoder.tick, decoder.sample())
