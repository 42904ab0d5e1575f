"""The session format: round trips, files cut off anywhere, and the samples that damage costs."""

from __future__ import annotations

import errno
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioh.model.errors import IohError
from ioh.model.metric import LayerSpec, tables
from ioh.model.sample import LayerSample, OpTotals, Row, Sample
from ioh.pipeline import snapshots
from ioh.session import records
from ioh.session.encoder import Encoder
from ioh.session.frame import Damage, Kind, make_frame
from ioh.session.packing import Unpacker
from ioh.session.records import End, Gap, Header, Mark, RecordError
from ioh.session.stream import BadRecord, LostTicks, Tick
from ioh.session.writer import SessionWriter
from tests.support import fakes
from tests.support.hostile_recordings import begun, frames, packed
from tests.support.sessions import Memory, any_samples, items, long_one, recorded, samples_of, small

_SLOW = settings(
    max_examples=20,
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


def test_a_long_recording_with_whole_samples_and_indexes_comes_back() -> None:
    samples, data = long_one()
    assert samples_of(data) == samples
    kinds = [frame.kind for frame in frames(data)]
    assert kinds.count(Kind.WHOLE) >= 3
    assert kinds.count(Kind.INDEX) >= 2
    assert kinds.count(Kind.HEAD) >= 2
    assert kinds[-1] == Kind.END


def test_every_prefix_opens_to_its_last_whole_record() -> None:
    samples = small(3)
    data = recorded(samples)
    whole = {0: 0}  # end of each record: samples so far
    count = 0
    for frame in frames(data):
        count += frame.kind in {Kind.WHOLE, Kind.DELTA}
        whole[frame.end] = count
    header_end = frames(data)[0].end
    expected = 0
    for end in sorted({*range(0, len(data), 5), *whole}):
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


def told_and_lost(data: bytes) -> tuple[list[Tick], int]:
    """The samples that can be read, in order, and how many are lost."""
    found = list(items(data))
    told = [item for item in found if isinstance(item, Tick)]
    return told, sum(item.count for item in found if isinstance(item, LostTicks))


def test_any_flipped_byte_is_noticed_and_the_lost_samples_are_counted() -> None:
    samples = small(6)
    data = recorded(samples)
    for at in range(0, len(data), 4):
        hurt = bytearray(data)
        hurt[at] ^= (0xFF, 0x01, 0x80)[at % 3]
        assert any(isinstance(item, Damage) for item in items(bytes(hurt))), at
        told, lost = told_and_lost(bytes(hurt))
        assert len(told) + lost == len(samples), at
        assert all(item.sample == samples[item.tick] for item in told)


def test_damage_costs_the_samples_up_to_the_next_whole_one() -> None:
    samples, data = long_one()
    wholes = [frame.number for frame in frames(data) if frame.kind == Kind.WHOLE]
    of_samples = [frame for frame in frames(data) if frame.kind in {Kind.WHOLE, Kind.DELTA}]
    for frame in of_samples[::61]:
        hurt = bytearray(data)
        hurt[frame.end - 1] ^= 0x10
        until = min([at for at in wholes if at > frame.number], default=260)
        told, lost = told_and_lost(bytes(hurt))
        assert lost == until - frame.number
        assert [item.tick for item in told] == [*range(frame.number), *range(until, 260)]
        assert all(item.sample == samples[item.tick] for item in told)


def test_8_kib_of_zeros_leave_the_rest_of_a_recording_readable() -> None:
    samples, data = long_one()
    for begin in (0, len(data) // 3, len(data) // 2, len(data) - 8192):
        hurt = bytearray(data)
        hurt[begin : begin + 8192] = bytes(len(hurt[begin : begin + 8192]))
        told, lost = told_and_lost(bytes(hurt))
        # If the very end is zeroed, nothing says how many samples there were.
        last = max(frame.number for frame in frames(bytes(hurt))) + (begin + 8192 >= len(data))
        assert len(told) + lost == last
        assert len(told) >= 30
        assert all(item.sample == samples[item.tick] for item in told)


def test_marks_gaps_and_the_end_are_in_order() -> None:
    memory = Memory()
    writer = SessionWriter(memory, note="first\x1b", addresses=["10.0.0.7"] * 1000)
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
    assert found[0].addresses == [b"10.0.0.7"] * 256
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


def test_a_host_too_large_for_the_format_loses_what_matters_least() -> None:
    op = fakes.Op()
    op.add(4096, 80_000)
    whole = op.totals()
    parts = {f"sd{at}": {"read": whole} for at in range(1200)}
    rows: dict[tuple[str, ...], Row] = {(f"dm-{at}",): (1, 2) for at in range(21_000)}
    (first,) = small(1)
    layer = first.layers["platter"]
    assert isinstance(layer, LayerSample)
    layer = replace(layer, parts=parts, tables={"queue": rows})
    samples = [
        replace(first, mono_ns=first.mono_ns + at, layers={"platter": layer}) for at in (0, 1)
    ]
    for told in samples_of(recorded(samples)):
        (played,) = told.layers.values()
        assert isinstance(played, LayerSample)
        assert played.ops == layer.ops
        assert list(played.parts) == list(parts)[:1024]
        assert list(played.tables["queue"].items()) == list(rows.items())[:20_000]
        assert played.parts["sd0"]["read"] == whole
        assert played.parts["sd1023"]["read"] == whole
    many = replace(layer, parts={name: {"read": whole, "write": whole} for name in parts})
    (told,) = samples_of(recorded([replace(first, layers={"platter": many})]))
    (played,) = told.layers.values()
    assert isinstance(played, LayerSample)
    assert played.parts["sd0"]["write"] == whole
    assert played.parts["sd1023"]["write"] == replace(whole, latency=None, size_lat=None)


def test_the_example_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    (example,) = re.findall(r"^\[10.*\]$", page, re.MULTILINE)
    op = OpTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    queues = tables("queue | | disk | depth\n depth | | .")
    spec = LayerSpec("disk", "Disk", 1, ("read",), {}, (), queues)
    before = LayerSample("bpf", {"read": op}, tables={"queue": {("sda",): (32,)}})
    op = replace(op, count_total=3, bytes_total=12_288, latency_ns_total=246_000)
    after = replace(before, ops={"read": op}, tables={"queue": {("sda",): (32,), ("sdb",): (64,)}})
    encoder = Encoder()
    for tick, layer in enumerate((before, after)):
        sample = replace(small(1)[0], mono_ns=10**9 * (tick + 1), layers={"disk": layer})
        plain, _ = encoder.encode(replace(sample, specs={"disk": spec}))
    record = msgspec.msgpack.decode(plain)
    assert record[3] == [[0, [b"sdb"]]]
    record[3] = [[0, ["sdb"]]]
    assert record == json.loads(example.replace("nil", "null"))


def test_unknown_kinds_of_records_are_skipped() -> None:
    data = recorded(small(3))
    first = frames(data)[0]
    novelty = make_frame(ord("Z"), 0, 1.0, b"\x92\x01\x02")
    assert samples_of(data[: first.end] + novelty + data[first.end :]) == small(3)


@pytest.mark.parametrize("when", [-1.0, 1e12, 1e300, float("inf"), float("nan")])
def test_a_time_without_a_date_is_refused_when_it_is_read(when: float) -> None:
    mark, gap = (Kind.MARK, packed([when, b"m"])), (Kind.GAP, packed([1.0, when, b"g"]))
    found = [*items(begun(mark, gap) + make_frame(Kind.MARK, 2, when, packed([1.0, b"m"])))]
    assert [type(each) for each in found[-3:]] == [BadRecord, BadRecord, Damage]


def test_names_of_any_length_stay_distinct() -> None:
    samples = small(2)
    long = {("x" * 9000 + str(i),): (1, i) for i in range(3)}
    layer = samples[1].layers["platter"]
    layer.tables["queue"].update(long)  # type: ignore[union-attr]
    told = samples_of(recorded(samples))[1].layers["platter"]
    names = [key for (key,) in told.tables["queue"] if key.startswith("x")]  # type: ignore[union-attr]
    assert len(names) == 3
    assert max(map(len, names)) <= 4096


def test_a_record_that_would_unpack_to_too_much_is_refused() -> None:
    near = zstandard.ZstdCompressionParameters.from_level(3, window_log=18, write_content_size=0)
    bomb = zstandard.ZstdCompressor(compression_params=near).compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(RecordError, match="more than 4194304 bytes"):
        Unpacker().unpack(bomb)
    far = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, write_content_size=0)
    wide = zstandard.ZstdCompressor(compression_params=far).compressobj()
    with pytest.raises(RecordError, match="memory"):
        Unpacker().unpack(wide.compress(bytes(1 << 20)) + wide.flush())


def test_threads_do_not_create_decoders_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgspec crashed when two hosts' streams began at the same moment."""
    make, met = msgspec.msgpack.Decoder, []
    other_is_in = threading.Barrier(2)

    def decoder(kind: Any) -> Any:
        try:
            other_is_in.wait(0.3)
            met.append(kind)
        except threading.BrokenBarrierError:
            pass
        return make(kind)

    monkeypatch.setattr(records, "_decoders", {})
    monkeypatch.setattr(msgspec.msgpack, "Decoder", decoder)
    end = records.encode_plain(records.End(1, 2.0))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: records.decode_plain(end, records.End), range(2)))
    assert found == [records.End(1, 2.0)] * 2
    assert not met
