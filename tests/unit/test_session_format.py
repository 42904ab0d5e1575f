"""The session format: what goes in comes out, from any prefix and past any damaged byte."""

from __future__ import annotations

import errno
import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioh.model.errors import IohError
from ioh.model.sample import Sample
from ioh.pipeline import snapshots
from ioh.session.frame import Damage, Frame, FrameScanner, Kind, make_frame
from ioh.session.packing import decompress
from ioh.session.records import End, Gap, Header, Mark, RecordError
from ioh.session.stream import BadRecord, LostTicks, Tick
from ioh.session.writer import SessionWriter
from tests import fakes
from tests.sessions import Memory, any_samples, items, recorded, samples_of, small

_SLOW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@_SLOW
@given(any_samples(), st.integers(1, 5000))
def test_replay_of_a_recording_is_the_live_view(samples: list[Sample], piece: int) -> None:
    data = recorded(samples)
    replayed = [item.sample for item in items(data, piece) if isinstance(item, Tick)]
    assert replayed == samples
    assert list(snapshots(replayed)) == list(snapshots(samples))


def test_a_long_recording_with_checkpoints_and_an_index_comes_back() -> None:
    samples = list(itertools.islice(fakes.seeded(), 260))
    data = recorded(samples)
    assert samples_of(data) == samples
    kinds = [frame.kind for frame in frames(data)]
    assert kinds.count(Kind.CHECKPOINT) >= 2
    assert kinds.count(Kind.INDEX) >= 1
    assert kinds[-1] == Kind.END


def frames(data: bytes) -> list[Frame]:
    scanner = FrameScanner()
    scanner.feed(data)
    return [event for event in scanner.events(at_end=True) if isinstance(event, Frame)]


def test_a_sample_after_the_first_is_small() -> None:
    sizes = {kind: [] for kind in Kind}  # type: ignore[var-annotated]
    for frame in frames(recorded(small(40))):
        sizes[Kind(frame.kind)].append(len(frame.raw))
    assert max(sizes[Kind.DELTA]) < min(sizes[Kind.FULL]) + 60
    assert sum(sizes[Kind.PARITY]) < sum(sizes[Kind.DELTA])


def test_every_prefix_opens_to_its_last_whole_record() -> None:
    samples = small(11)
    data = recorded(samples)
    whole = {0: 0}  # offset behind a sample's record: samples so far
    count = 0
    for frame in frames(data):
        count += frame.kind in {Kind.FULL, Kind.DELTA}
        whole[frame.end] = count
    header_end = frames(data)[0].end
    expected = 0
    for end in range(len(data) + 1):
        expected = whole.get(end, expected)
        if end < header_end:
            with pytest.raises(IohError, match="not a recording"):
                list(items(data[:end]))
            continue
        found = list(items(data[:end]))
        assert [i.sample for i in found if isinstance(i, Tick)] == samples[:expected]
        tails = [i for i in found if isinstance(i, Damage)]
        assert bool(tails) == (end not in whole)
        assert all(tail.is_tail for tail in tails)


@pytest.mark.parametrize(("flip", "step"), [(0xFF, 1), (0x01, 3), (0x80, 5)])
def test_every_flipped_byte_is_noticed_and_costs_at_most_one_record(flip: int, step: int) -> None:
    samples = small(11)
    data = recorded(samples)
    for at in range(0, len(data), step):
        hurt = bytearray(data)
        hurt[at] ^= flip
        found = list(items(bytes(hurt)))
        assert any(isinstance(item, Damage | BadRecord) for item in found), at
        told = [item.sample for item in found if isinstance(item, Tick)]
        assert len(told) >= len(samples) - 1, at
        assert all(sample in samples for sample in told)


@pytest.mark.parametrize(("flip", "step"), [(0xFF, 7), (0x01, 11), (0x80, 13)])
def test_a_flipped_byte_of_a_recording_that_was_cut_off_is_put_right(flip: int, step: int) -> None:
    """There is no parity record yet for its last records: their checksums do."""
    samples = small(11)
    memory = Memory()
    writer = SessionWriter(memory)
    for sample in samples:
        writer.write(sample)
    data = bytes(memory.data)
    assert not any(frame.kind == Kind.PARITY for frame in frames(data))
    for at in range(0, len(data), step):
        hurt = bytearray(data)
        hurt[at] ^= flip
        found = list(items(bytes(hurt)))
        assert any(isinstance(item, Damage) and item.is_mended for item in found), at
        assert [item.sample for item in found if isinstance(item, Tick)] == samples, at


def test_two_wrong_bytes_are_not_put_right_by_guessing() -> None:
    samples = small(8)
    memory = Memory()
    writer = SessionWriter(memory)
    for sample in samples:
        writer.write(sample)
    last = frames(bytes(memory.data))[-1]
    random.seed(9)
    for _ in range(60):
        hurt = bytearray(memory.data)
        for at in random.sample(range(last.offset, last.end), 2):
            hurt[at] ^= random.randrange(1, 256)
        found = list(items(bytes(hurt)))
        assert [item.sample for item in found if isinstance(item, Tick)] == samples[:-1]


def test_parity_gives_every_single_lost_record_back() -> None:
    samples = small(20)
    data = recorded(samples)
    for frame in frames(data):
        if frame.kind in {Kind.HEADER, Kind.SPECS, Kind.FULL, Kind.DELTA}:
            gone = data[: frame.offset] + data[frame.end :]
            zeroed = data[: frame.offset] + bytes(len(frame.raw)) + data[frame.end :]
            for hurt in (gone, zeroed):
                found = list(items(hurt))
                assert [i.sample for i in found if isinstance(i, Tick)] == samples
                assert any(isinstance(i, Damage) and i.is_mended for i in found)


def test_what_parity_cannot_mend_ends_at_the_next_whole_sample() -> None:
    samples = list(itertools.islice(fakes.seeded(), 200))
    data = recorded(samples)
    deltas = [f for f in frames(data) if f.kind == Kind.DELTA]
    hurt = bytearray(data)
    for frame in deltas[10:14]:
        hurt[frame.offset + 30] ^= 0xFF
    found = list(items(bytes(hurt)))
    told = [item for item in found if isinstance(item, Tick)]
    assert all(item.sample == samples[item.tick] for item in told)
    lost = [item.count for item in found if isinstance(item, LostTicks)]
    assert len(told) + sum(lost) == len(samples)
    assert 4 <= sum(lost) <= 190
    assert told[-1].sample == samples[-1]


def test_marks_gaps_and_the_end_stand_in_their_places() -> None:
    memory = Memory()
    writer = SessionWriter(memory, note="first\x1b")
    made = small(8)
    assert not writer.mark("too early", 5.0)
    for sample in made[:3]:
        assert writer.write(sample)
    assert writer.mark("fio run 3 starts", 6.0)
    memory.fail = OSError(errno.ENOSPC, "No space left on device")
    assert not writer.write(made[3])
    assert not writer.mark("while full", 7.0)
    assert not writer.write(made[4])
    assert writer.paused_why == "No space left on device"
    memory.fail = None
    for sample in made[5:]:
        assert writer.write(sample)
    assert writer.paused_why == ""
    writer.close()
    writer.close()
    assert memory.closed
    found = list(items(bytes(memory.data)))
    told = [type(item).__name__ for item in found]
    assert " ".join(told) == "Header Mark Mark Tick Tick Tick Mark Gap Mark Tick Tick Tick End"
    assert isinstance(found[0], Header)
    assert found[0].note == b"first\x1b"
    assert [m.text for m in found if isinstance(m, Mark)][1:] == [
        b"too early", b"fio run 3 starts", b"while full",
    ]  # fmt: skip
    gap = next(item for item in found if isinstance(item, Gap))
    assert (gap.from_unix_s, gap.to_unix_s) == (made[2].time_unix_s, made[5].time_unix_s)
    assert gap.reason == b"No space left on device"
    told_samples = [item.sample for item in found if isinstance(item, Tick)]
    assert told_samples == made[:3] + made[5:]
    assert isinstance(found[-1], End)
    assert found[-1].ticks == 6


def test_a_failure_that_will_not_pass_is_raised_and_nothing_is_torn() -> None:
    memory = Memory()
    writer = SessionWriter(memory)
    made = small(5)
    assert writer.write(made[0])
    memory.fail = BrokenPipeError()
    with pytest.raises(BrokenPipeError):
        writer.write(made[1])
    memory.fail = None
    assert writer.write(made[2])
    assert samples_of(bytes(memory.data)) == [made[0], made[2]]


def test_unknown_kinds_of_records_are_passed_over() -> None:
    data = recorded(small(3))
    first = frames(data)[0]
    seq = 0xFFFFFFFF
    novelty = make_frame(Kind.END, 0, seq, b"\x92\x01\x02").replace(b"E", b"Z", 1)
    extra = bytearray(novelty)
    later = make_frame(ord("I"), 0, seq, b"x")  # whole, yet no index
    mixed = data[: first.end] + later + bytes(extra) + data[first.end :]
    assert samples_of(mixed) == small(3)


@given(st.binary(max_size=4000))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_no_recording(data: bytes) -> None:
    with pytest.raises(IohError, match="not a recording"):
        list(items(data))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_payloads_of_anything_with_good_checksums_do_no_harm(data: st.DataObject) -> None:
    good = recorded(small(6))
    kind = data.draw(st.sampled_from([*Kind, ord("?")]))
    payload = data.draw(st.binary(max_size=300))
    flags = data.draw(st.integers(0, 1))
    at = data.draw(st.sampled_from(frames(good))).end
    bad = make_frame(kind, flags, data.draw(st.integers(0, 40)), payload)
    for _ in items(good[:at] + bad + good[at:]):
        pass


def test_names_of_any_length_are_kept_apart() -> None:
    samples = small(2)
    long = {("x" * 9000 + str(i),): (1, i) for i in range(3)}
    layer = samples[1].layers["platter"]
    layer.tables["queue"].update(long)  # type: ignore[union-attr]
    told = samples_of(recorded(samples))[1].layers["platter"]
    names = [key for (key,) in told.tables["queue"] if key.startswith("x")]  # type: ignore[union-attr]
    assert len(names) == 3
    assert max(map(len, names)) <= 4096


def test_a_record_that_unpacks_to_too_much_is_refused_before_it_does() -> None:
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(RecordError, match="67108864"):
        decompress(1, bomb)
    unknown = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100))
    with pytest.raises(RecordError, match="unknown size"):
        decompress(1, unknown)


def test_damage_of_many_bytes_leaves_the_rest() -> None:
    samples = list(itertools.islice(fakes.seeded(), 130))
    data = bytearray(recorded(samples))
    random.seed(5)
    middle = len(data) // 2
    data[middle : middle + 4096] = random.randbytes(4096)
    found = list(items(bytes(data)))
    told = [item for item in found if isinstance(item, Tick)]
    assert all(item.sample == samples[item.tick] for item in told)
    assert told[-1].tick == 129
