"""How far a reader has to go for any sample of a busy recording, and what damage costs there."""

from __future__ import annotations

from functools import cache
from random import Random

from ioh.session.frame import Frame, FrameScanner, Kind
from ioh.session.parity import GROUP_RECORDS
from ioh.session.writer import SEEK_BYTES
from tests.demo_samples import samples
from tests.sessions import recorded, samples_of

COUNT = 110
WHOLE = (Kind.FULL, Kind.CHECKPOINT)


@cache
def busy() -> bytes:
    return recorded(samples()[:COUNT])


def frames() -> list[Frame]:
    scanner = FrameScanner()
    scanner.feed(busy())
    return [event for event in scanner.events(at_end=True) if isinstance(event, Frame)]


def test_no_sample_is_far_from_a_whole_one() -> None:
    since = []
    for frame in frames():
        if frame.kind in WHOLE:
            since.append(0)
        elif frame.kind == Kind.DELTA:
            since[-1] += len(frame.raw)
    largest = max(len(frame.raw) for frame in frames() if frame.kind == Kind.DELTA)
    assert max(since) <= SEEK_BYTES + largest
    assert len(since) >= 3
    # No more often than that: a whole sample is as large as several others.
    assert min(since[:-1]) >= SEEK_BYTES


def test_reading_begins_between_groups_of_parity() -> None:
    group = 0
    for frame in frames():
        if frame.kind == Kind.PARITY:
            group = 0
        elif frame.kind == Kind.CHECKPOINT:
            assert group == 0
        elif frame.kind not in {Kind.INDEX, Kind.END}:
            group += 1
        assert group <= GROUP_RECORDS


def test_a_flipped_byte_of_a_short_group_is_put_right() -> None:
    data, random = busy(), Random(4)
    for _ in range(6):
        at = random.randrange(frames()[0].end, len(data))
        hurt = bytearray(data)
        hurt[at] ^= 1 << random.randrange(8)
        assert samples_of(bytes(hurt)) == samples()[:COUNT]
