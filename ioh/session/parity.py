"""Parity records: the exclusive-or of a few records, which gives back any one of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ioh.session.correction import corrected
from ioh.session.frame import UNCOVERED, Damage, Event, Frame, FrameScanner, Kind

GROUP_RECORDS = 60
MAX_GROUP_RECORDS = 128
_HEAD = struct.Struct("<II")  # first sequence number, number of records


def make_parity(first_seq: int, raws: Sequence[bytes]) -> bytes:
    """The payload of the parity record over ``raws``, whole frames, shorter ones zero-filled."""
    size = max(map(len, raws))
    mixed = 0
    for raw in raws:
        mixed ^= int.from_bytes(raw, "little")
    return _HEAD.pack(first_seq, len(raws)) + mixed.to_bytes(size, "little")


def _lost_raw(parity: bytes, present: Sequence[Frame]) -> bytes:
    mixed = int.from_bytes(parity[_HEAD.size :], "little")
    for frame in present:
        mixed ^= int.from_bytes(frame.raw, "little")
    size = max([len(parity) - _HEAD.size, *(len(frame.raw) for frame in present)])
    return mixed.to_bytes(size, "little")


class Mender:
    """Passes events on, and gives back a record that was lost in between.

    While a record is missing, those behind it wait for the group's parity record, at most
    MAX_GROUP_RECORDS of them; else nothing waits.

    Args:
        next_seq: Number of the record that should come first; None where any may.
    """

    def __init__(self, next_seq: int | None = None) -> None:
        self._group: list[Frame] = []
        self._waiting: list[Event] = []
        self._next_seq = next_seq

    def take(self, event: Event) -> Iterator[Event]:
        """Events that are now in order."""
        if isinstance(event, Damage):
            if not event.is_tail:
                self._waiting.append(event)
                return
            self._waiting.append(event)
            yield from self._give_up()
            return
        if event.kind == Kind.PARITY:
            yield from self._close_group(event)
            return
        if event.kind not in UNCOVERED:
            if self._next_seq is not None and event.seq != self._next_seq and not self._waiting:
                self._waiting.append(Damage(event.offset, 0))
            self._next_seq = event.seq + 1
            self._group.append(event)
        if not self._waiting:
            if len(self._group) > MAX_GROUP_RECORDS:
                self._group.clear()
            yield event
            return
        self._waiting.append(event)
        if len(self._waiting) > MAX_GROUP_RECORDS or event.kind == Kind.END:
            yield from self._give_up()

    def finish(self) -> Iterator[Event]:
        """What was still waiting when the stream ended."""
        yield from self._give_up()

    def _give_up(self) -> Iterator[Event]:
        """What waited; damaged records by their own checksum where that helps."""
        for event in self._waiting:
            found = corrected(event.raw, event.offset) if isinstance(event, Damage) else None
            if found is not None:
                yield Damage(event.offset, len(found.raw), is_mended=True)
                yield found
            else:
                yield event
        self._waiting.clear()
        self._group.clear()

    def _close_group(self, parity: Frame) -> Iterator[Event]:
        payload = parity.payload
        first, count = _HEAD.unpack_from(payload) if len(payload) > _HEAD.size else (0, 0)
        wanted = set(range(first, first + min(count, MAX_GROUP_RECORDS)))
        present = [frame for frame in self._group if frame.seq in wanted]
        missing = wanted - {frame.seq for frame in present}
        found = None
        # A group that was entered in its middle (nothing awaited) is none of our business.
        if (
            len(missing) == 1
            and self._next_seq is not None
            and (self._waiting or self._is_last(missing, first + count))
        ):
            found = self._recover(payload, present, parity.offset)
        if found is not None:
            if not self._waiting:
                self._waiting.append(Damage(parity.offset, 0))
            yield from self._mended(found)
        self._next_seq = (first + count) if count else self._next_seq
        yield from self._give_up()
        yield parity

    def _is_last(self, missing: set[int], end: int) -> bool:
        return bool(self._group) and max(missing) == end - 1

    @staticmethod
    def _recover(payload: bytes, present: Sequence[Frame], offset: int) -> Frame | None:
        scanner = FrameScanner(offset)
        scanner.feed(_lost_raw(payload, present))
        for event in scanner.events(at_end=True):
            if isinstance(event, Frame):
                return event
            break
        return None

    def _mended(self, found: Frame) -> Iterator[Event]:
        """What waited, with the found record where its number belongs."""
        placed = False
        for event in self._waiting:
            is_later = isinstance(event, Frame) and (
                event.kind not in UNCOVERED and event.seq > found.seq
            )
            if is_later and not placed:
                yield found
                placed = True
            if isinstance(event, Damage):
                yield Damage(event.offset, event.size_bytes, is_mended=True)
            else:
                yield event
        if not placed:
            yield found
        self._waiting.clear()
