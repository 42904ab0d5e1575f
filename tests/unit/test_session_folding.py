"""What follows from other numbers is not recorded, and comes back all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.model.derive import add_ops
from ioh.model.hist import FINE_BUCKETS, LATENCY_BUCKETS, SIZE_BUCKETS
from ioh.model.sample import LayerSample, Sample
from ioh.session.cells import Cells, pack_cells, starts_of, unpack_cells
from ioh.session.folding import Usual, note_usual
from ioh.session.frame import Frame, FrameScanner, Kind
from ioh.session.packing import StreamUnpacker
from ioh.session.records import MOMENT_BYTES, Changes, Delta, RecordError, decode_plain
from tests import fakes
from tests.sessions import recorded, samples_of

Sizes = Sequence[int]


def disks(ticks: int, whole: Sequence[str], parts: Sequence[str], sizes: Sizes) -> list[Sample]:
    """Samples of some disks, of which only those in ``whole`` count for the layer's own ops."""
    ops = {part: fakes.Op() for part in parts}
    made = []
    for tick in range(ticks):
        for number, op in enumerate(ops.values()):
            for size in sizes:
                op.add(size, 90_000 + 7_000 * number + tick * 311, times=2 + number)
        parted = {part: {"read": op.totals()} for part, op in ops.items()}
        total = add_ops([parted[part]["read"] for part in whole])
        layer = LayerSample("bpf", {"read": total}, parts=parted, lost={"no_start": 0})
        made.append(fakes.sample(tick, {"platter": layer}))
    return made


def changes_of(data: bytes) -> list[Changes]:
    scanner = FrameScanner()
    scanner.feed(data)
    frames = [event for event in scanner.events(at_end=True) if isinstance(event, Frame)]
    unpacker = StreamUnpacker()
    return [
        decode_plain(unpacker.unpack(frame.flags, frame.payload[MOMENT_BYTES:]), Delta).changes
        for frame in frames
        if frame.kind == Kind.DELTA
    ]


def cells_in(change: Changes) -> int:
    return len(change.cells)


def test_a_whole_is_told_by_its_parts() -> None:
    samples = disks(6, ["sda", "sdb"], ["sda", "sdb"], [8192])
    data = recorded(samples)
    assert samples_of(data) == samples
    for change in changes_of(data):
        assert change.is_folded
        assert cells_in(change) == 2  # one latency bucket of each disk, and nothing else
        assert change.members == []


def test_sizes_are_told_by_latencies_but_for_the_rarer_ones() -> None:
    samples = disks(6, ["sda"], ["sda"], [8192, 4096, 4096, 4096])
    data = recorded(samples)
    assert samples_of(data) == samples
    for change in changes_of(data)[1:]:
        assert cells_in(change) == 2  # the latency bucket, and the size that is not the usual one


@pytest.mark.parametrize("whole", [["sda"], ["sda", "sdb"], ["dm0"], ["sdb", "dm0"]])
def test_which_parts_add_up_is_found_out_once(whole: list[str]) -> None:
    samples = disks(8, whole, ["sda", "sdb", "dm0"], [8192])
    data = recorded(samples)
    assert samples_of(data) == samples
    for change in changes_of(data):
        assert cells_in(change) == 3
        assert change.members == []


def test_parts_that_come_to_add_up_later_are_found_out_too() -> None:
    samples = disks(12, ["sda"], ["sda", "dm0"], [8192])
    idle = disks(1, ["sda"], ["sda", "dm0"], [])
    samples = [*idle, *samples[1:]]
    data = recorded(samples)
    assert samples_of(data) == samples
    first, *rest = changes_of(data)
    assert first.members == [(0, [0])]
    assert all(change.members == [] and cells_in(change) == 2 for change in rest)


def _numbers(sample: Sample) -> list[object]:
    own = (sample.self_cpu_ns_total, sample.bpf_ns_total)
    return [*own, *(getattr(sample.host, field.name) for field in fields(sample.host))]


def test_sums_are_told_by_histograms_as_far_as_they_can_be() -> None:
    samples = disks(6, ["sda"], ["sda"], [8192])
    told = [len(change.incs) for change in changes_of(recorded(samples))]
    # Of the op: time, time in queue, and the maximum's, of the part alone; the rest is the host's.
    host = sum(a != b for a, b in zip(_numbers(samples[0]), _numbers(samples[1]), strict=True))
    assert set(told) == {host + 3}


_inc = st.integers(-(1 << 63), (1 << 64) - 1).filter(bool) | st.integers(1, 90)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 3), st.dictionaries(st.integers(0, 441), _inc, min_size=1), max_size=4
    )
)
def test_cells_are_packed_and_unpacked(cells: Cells) -> None:
    hists = [(0,) * FINE_BUCKETS, (0,) * (SIZE_BUCKETS * LATENCY_BUCKETS)] * 2
    assert unpack_cells(*pack_cells(cells, hists), starts_of(hists)) == cells


_COLUMN = 7
_few_sizes = st.dictionaries(st.integers(0, 4), st.integers(-3, 3), min_size=1)


def _most_frequent(hist: Sequence[int]) -> int:
    counts = hist[_COLUMN::LATENCY_BUCKETS]
    return counts.index(max(counts)) * LATENCY_BUCKETS + _COLUMN


@given(st.lists(_few_sizes, max_size=12))
def test_the_most_frequent_size_is_kept_as_if_it_were_looked_for(
    ticks: list[dict[int, int]],
) -> None:
    hist = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    known: Usual = {5: {_COLUMN: _most_frequent(hist)}}
    for sizes in ticks:
        incs = {size * LATENCY_BUCKETS + _COLUMN: inc for size, inc in sizes.items()}
        for at, inc in incs.items():
            hist[at] += inc
        note_usual(known, {5: incs}, {5: hist})  # type: ignore[arg-type]
        assert known[5].setdefault(_COLUMN, _most_frequent(hist)) == _most_frequent(hist)


def test_numbers_of_too_many_bytes_or_cut_off_are_none() -> None:
    hists = [(0,) * FINE_BUCKETS]
    starts = starts_of(hists)
    common = bytes([0])  # at once, and its increment elsewhere
    for rest in (b"", b"\x80", b"\x80" * 11 + b"\x01", b"\x80" * 1_000_000):
        with pytest.raises(RecordError, match="cut off"):
            unpack_cells(common, rest, starts)
    assert unpack_cells(common, b"\x80" * 10 + b"\x01", starts) == {0: {0: 1 << 69}}
