"""Bytes of a recording of format 1, fed in order, as its items."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from ioh.model.errors import IohError
from ioh.model.metric import LayerSpec
from ioh.session.frame import MAX_PAYLOAD_BYTES, MAX_PLAIN_BYTES, V1_MARKER, Damage
from ioh.session.packing import Unpacker
from ioh.session.records import End, Gap, Header, Mark, RecordError, decode_plain, refuse
from ioh.session.specs import check_spec
from ioh.session.stream import Item, Tick, WorkBudget, check_header
from ioh.session.v1 import records as v1
from ioh.session.v1.state import State

_WINDOW_BYTES = 2 * MAX_PLAIN_BYTES


class V1Reader:
    """As ItemReader, for one file of format 1 that is whole, or cut off at its end."""

    def __init__(self) -> None:
        self._data, self._offset = bytearray(), 0  # of its first byte
        self._stream, self._unpacker = Unpacker(_WINDOW_BYTES), Unpacker(_WINDOW_BYTES)
        self._budget = WorkBudget()
        self._specs: dict[str, LayerSpec] = {}
        self._state: State | None = None
        self._next = 0
        self.part = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._budget.earn(len(piece))
        self._data += piece

    def items(self, *, at_end: bool = False) -> Iterator[Item]:
        """The items that are whole by now.

        Args:
            at_end: No more bytes will come.

        Raises:
            IohError: It is damaged, a file follows another one, or it cannot be read by this ioh.
        """
        at, data = 0, self._data
        while len(data) - at >= v1.HEAD.size:
            head = bytes(data[at : at + v1.HEAD.size])
            marker, kind, flags, length, _, check, own_check = v1.HEAD.unpack(head)
            is_head = marker == V1_MARKER and crc32(head[:-2]) & 0xFFFF == own_check
            end = at + v1.HEAD.size + length
            try:
                if not is_head or length > MAX_PAYLOAD_BYTES:
                    refuse("it is no record")
                if end > len(data):
                    break
                payload = bytes(data[at + v1.HEAD.size : end])
                if crc32(payload, crc32(head[: v1.FIRST_BYTES])) != check:
                    refuse("its checksum is wrong")
                yield from self._take(kind, flags, payload)
            except RecordError as error:
                cause = f"byte {self._offset + at} of a recording of format 1 is damaged: {error}"
                hint = "--repair converts all that lies before it"
                raise IohError(cause, hint) from None
            at = end
        del data[:at]
        self._offset += at
        if at_end and data:
            yield Damage(self._offset, len(data), is_tail=True)

    def _take(self, kind: int, flags: int, payload: bytes) -> Iterator[Item]:
        """The items of one record; those that only mended damage are passed over."""
        if kind in {v1.FULL, v1.DELTA, v1.CHECKPOINT}:
            yield from self._take_sample(kind, flags, payload)
        elif kind == v1.HEADER:
            header = decode_plain(self._plain(flags, payload), Header)
            check_header(header)
            if self.part:
                cause = "a recording of format 1 follows another one"
                raise IohError(cause, "Convert each file by itself")
            self.part = max(1, header.part)
            yield header
        elif kind == v1.SPECS:
            for spec in decode_plain(self._plain(flags, payload), v1.Specs).specs:
                check_spec(spec)
                self._specs[spec.name] = spec
        elif kind == v1.MARK:
            yield decode_plain(self._plain(flags, payload), Mark)
        elif kind == v1.GAP:
            yield decode_plain(self._plain(flags, payload), Gap)
        elif kind == v1.END:
            yield decode_plain(self._plain(flags, payload), End)

    def _take_sample(self, kind: int, flags: int, payload: bytes) -> Iterator[Item]:
        moment, packed = v1.split_sample(payload)
        if kind == v1.CHECKPOINT and moment.tick < self._next:
            return  # known already
        if moment.tick != self._next:
            refuse(f"sample {moment.tick} comes behind {self._next} others")
        plain = self._plain(flags, packed)
        if kind == v1.DELTA:
            if self._state is None:
                refuse("changes of a sample that is missing")
            self._state.take_delta(plain)
        else:
            self._state = State(dict(self._specs), plain)
        self._next = moment.tick + 1
        self._budget.spend_on_sample(self._state.work)
        yield Tick(moment.tick, self._state.sample(moment.time_unix_s))

    def _plain(self, flags: int, payload: bytes) -> bytes:
        """A payload before compression."""
        if flags & v1.STREAM:
            payload = self._stream.unpack(payload, begins=bool(flags & v1.BEGINS))
        elif flags & v1.ZSTD:
            payload = self._unpacker.unpack(payload)
        self._budget.spend(len(payload))
        return payload
