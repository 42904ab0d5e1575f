"""Bytes of a recording of format 1, fed in order, as its items."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.model.errors import IohError
from ioh.model.metric import LayerSpec
from ioh.session.frame import MAX_PLAIN_BYTES, Damage, Frame
from ioh.session.packing import Unpacker
from ioh.session.records import End, Gap, Header, Mark, RecordError, decode_plain, refuse
from ioh.session.specs import check_spec
from ioh.session.stream import BadRecord, Item, LostTicks, Tick, WorkBudget, check_header
from ioh.session.v1 import records as v1
from ioh.session.v1.state import State

_WINDOW_BYTES = 2 * MAX_PLAIN_BYTES


class V1Reader:
    """As ItemReader, for one file of format 1; records that only mend damage are passed over."""

    def __init__(self) -> None:
        self._scanner = v1.Scanner()
        self._stream, self._unpacker = Unpacker(_WINDOW_BYTES), Unpacker(_WINDOW_BYTES)
        self._budget = WorkBudget()
        self._specs: dict[str, LayerSpec] = {}
        self._state: State | None = None
        self._is_suspect = False  # a record may be missing since the last sample
        self._next = 0
        self.part = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._budget.earn(len(piece))
        self._scanner.feed(piece)

    def items(self, *, at_end: bool = False) -> Iterator[Item]:
        """The items that are whole by now.

        Args:
            at_end: No more bytes will come.

        Raises:
            IohError: A file follows another one, or it cannot be read by this ioh.
        """
        for event in self._scanner.events(at_end=at_end):
            if isinstance(event, Damage):
                self._is_suspect = True
                yield event
                continue
            try:
                yield from self._take(event)
            except RecordError as error:
                self._is_suspect, self._state = True, None
                self._budget.spend_on_bad_record()
                yield BadRecord(event.offset, event.kind & 0xFF, str(error))

    def _take(self, frame: Frame) -> Iterator[Item]:
        kind = frame.kind & 0xFF
        if kind in {v1.FULL, v1.DELTA, v1.CHECKPOINT}:
            yield from self._take_sample(frame, kind)
        elif kind == v1.HEADER:
            header = decode_plain(self._plain(frame, frame.payload), Header)
            check_header(header)
            if self.part:
                cause = "a recording of format 1 follows another one"
                raise IohError(cause, "Convert each file by itself")
            self.part = max(1, header.part)
            yield header
        elif kind == v1.SPECS:
            for spec in decode_plain(self._plain(frame, frame.payload), v1.Specs).specs:
                check_spec(spec)
                self._specs[spec.name] = spec
        elif kind == v1.MARK:
            yield decode_plain(self._plain(frame, frame.payload), Mark)
        elif kind == v1.GAP:
            yield decode_plain(self._plain(frame, frame.payload), Gap)
        elif kind == v1.END:
            end = decode_plain(self._plain(frame, frame.payload), End)
            if end.ticks > self._next:
                yield LostTicks(end.ticks - self._next)
            yield end

    def _take_sample(self, frame: Frame, kind: int) -> Iterator[Item]:
        moment, payload = v1.split_sample(frame.payload)
        state = self._state
        if kind == v1.DELTA:
            if state is None or moment.tick != state.moment.tick + 1:
                self._state = None
                return
            if frame.kind >> 8 & v1.STREAM:
                begins = bool(frame.kind >> 8 & v1.BEGINS)
                plain = self._stream.unpack(payload, begins=begins)
                self._budget.spend(len(plain))
            else:
                plain = self._plain(frame, payload)
            state.take_delta(moment, plain)
        else:
            if kind == v1.CHECKPOINT and state is not None and not self._is_suspect:
                return  # known already
            state = State(dict(self._specs))
            state.take_full(moment, self._plain(frame, payload))
            self._state, self._is_suspect = state, False
        if moment.tick < self._next:
            return  # given before
        if moment.tick > self._next:
            yield LostTicks(moment.tick - self._next)
        self._next = moment.tick + 1
        self._budget.spend_on_sample(state.work)
        yield Tick(moment.tick, state.sample())

    def _plain(self, frame: Frame, payload: bytes) -> bytes:
        """A payload that stands by itself, before compression."""
        if frame.kind >> 8 & v1.STREAM:
            refuse("a piece of a stream")
        if frame.kind >> 8 & v1.ZSTD:
            payload = self._unpacker.unpack(payload)
        self._budget.spend(len(payload))
        return payload
