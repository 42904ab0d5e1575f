"""Sampled NFS calls: matched by their XIDs, thinned out alike, written and read again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.bpf.maps import MapSpec
from ioh.layers.nfs_maps import SampledCalls
from ioh.model.calls import (
    CALL_NUMBERS,
    KEPT_BATCHES,
    MOST_CALLS,
    CallBatch,
    Calls,
    CallSpan,
    network_hists,
    packed_calls,
    split_calls,
)
from ioh.model.derive import derive
from ioh.model.hist import fine_index
from ioh.model.sample import LayerSample, OpTotals, Sample
from ioh.model.snapshot import LayerSnapshot
from ioh.session.decoder import ReadCalls
from ioh.session.records import CallRecord, RecordError, SampleRecord
from tests.sessions import recorded, samples_of
from tests.two_hosts import host
from tests.unit.fake_kernel import install

CLIENT, SERVER = "10.0.0.7", "10.0.0.9"
READ, WRITE, COMMIT = range(3)
MS = 1_000_000


Listed = list[tuple[int, int, str, int]]


def matched(client: Listed, server: Listed) -> dict[str, int]:
    hists = network_hists(
        ((packed_calls(1, client),), ()),
        ((packed_calls(1, server),), ()),
        lambda peer: peer == CLIENT,
        lambda peer: peer == SERVER,
    )
    return {op: hist.total for op, hist in hists.items() if hist.total}


def test_the_same_call_at_both_ends_is_one_and_what_it_took_longer_is_the_networks() -> None:
    ours = [(7, READ, SERVER, 5 * MS), (8, WRITE, SERVER, 5 * MS), (9, COMMIT, SERVER, 5 * MS)]
    theirs = [(7, READ, CLIENT, MS), (8, WRITE, CLIENT, MS), (9, COMMIT, CLIENT, MS)]
    assert matched(ours, theirs) == {"read": 1, "write": 1, "commit": 1}
    assert matched(ours[:1], theirs[1:]) == {}
    only = ((packed_calls(1, ours[:1]),), ())
    hist = network_hists(only, ((packed_calls(1, theirs),), ()), CLIENT.__eq__, SERVER.__eq__)
    assert hist["read"].counts[fine_index(4 * MS)] == hist["read"].total == 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(7, READ, SERVER, 5 * MS)], [(7, WRITE, CLIENT, MS)]),  # another kind
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, "10.0.0.8", MS)]),  # another client's
        ([(7, READ, "10.0.0.8", 5 * MS)], [(7, READ, CLIENT, MS)]),  # to another server
        ([(7, READ, SERVER, 5 * MS)] * 2, [(7, READ, CLIENT, MS)]),  # sent twice
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, CLIENT, MS)] * 2),  # served twice
        ([(7, READ, SERVER, 0)], [(7, READ, CLIENT, MS)]),  # twice, as the probe has it
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, CLIENT, 6 * MS)]),  # two that are not the same
    ],
)
def test_what_may_be_another_call_is_left_out(ours: Listed, theirs: Listed) -> None:
    assert matched(ours, theirs) == {}


def test_a_reply_under_way_when_an_interval_ends_is_of_the_later_one() -> None:
    """Each call counts in one interval, whichever end has it first."""
    random = Random(1)
    ours: list[CallBatch] = []
    theirs: list[CallBatch] = []
    total = 0
    previous: tuple[Calls, Calls] = ((), ())
    sent = [(xid, random.choice([0, 0, 1]), random.choice([0, 0, 1])) for xid in range(400)]
    for tick in range(12):
        of_tick = [xid for xid in range(400) if xid // 40 == tick]
        before = [xid for xid in range(400) if xid // 40 == tick - 1]
        our_calls = [x for x in of_tick if not sent[x][1]] + [x for x in before if sent[x][1]]
        their_calls = [x for x in of_tick if not sent[x][2]] + [x for x in before if sent[x][2]]
        ours.append(packed_calls(tick, [(x, READ, SERVER, 5 * MS) for x in our_calls]))
        theirs.append(packed_calls(tick, [(x, READ, CLIENT, MS) for x in their_calls]))
        now = tuple(ours[-KEPT_BATCHES:]), tuple(theirs[-KEPT_BATCHES:])
        hists = network_hists(
            split_calls(previous[0], now[0]),
            split_calls(previous[1], now[1]),
            lambda peer: peer == CLIENT,
            lambda peer: peer == SERVER,
        )
        total += hists["read"].total
        previous = now
    assert total == 400


@settings(max_examples=10)
@given(st.lists(st.integers(0, (1 << 32) - 1), unique=True, min_size=1, max_size=300))
def test_a_span_of_many_keeps_the_same_calls_at_both_ends(xids: list[int]) -> None:
    """However unlike they are: each end's choice contains the other's as far as it has the call."""
    few, many = CallSpan(), CallSpan()
    few.add((packed_calls(1, [(x, READ, SERVER, 5) for x in xids]),))
    many.add((packed_calls(1, [(x, READ, CLIENT, 5) for x in xids]),))
    for tick in range(2, 40):
        noise = [(tick << 32 | n, WRITE, "10.1.1.1", 5) for n in range(1000)]
        many.add((packed_calls(tick, noise),))
    kept = {
        xid
        for batch in many.calls
        for xid, op in zip(batch.numbers[::4], batch.numbers[1::4], strict=True)
        if op == READ
    }
    assert sum(len(batch.numbers) for batch in many.calls) <= 16_384 * CALL_NUMBERS
    assert kept <= set(xids) == {n for batch in few.calls for n in batch.numbers[::4]}


def test_the_probes_map_is_read_and_its_level_follows_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs = [MapSpec("sampled", 1, 28, 8, 1024), MapSpec("sample_level", 2, 4, 4, 1)]
    maps, held, _ = install(monkeypatch, specs)
    of = SampledCalls(("read", "write", "write", "write", "commit"))
    address = bytes([10, 0, 0, 9]) + bytes(12)
    entries = held["sampled"].entries
    entries[
        (77).to_bytes(4, "little") + (4).to_bytes(4, "little") + b"\x02\0\x08\x01" + address
    ] = (5 * MS).to_bytes(8, "little")
    for done, level in ((100, 0), (356, 1), (356 + 255, 0), (611 + 100_000, 9)):
        found = of.read(maps, {"read": OpTotals(count_total=done)})
        raw = held["sample_level"].entries[bytes(4)]
        assert int.from_bytes(raw, "little") == level
        assert (100_000 >> 9) <= 256
    assert found[0].peers == (SERVER,)
    assert found[0].numbers == (77, COMMIT, 0, 5 * MS)
    assert [batch.numbers for batch in found[1:]] == [()] * 3
    assert SampledCalls(()).read({}, {}) == ()


def nfs_client(sample: Sample) -> LayerSample:
    layer = sample.layers["nfs_client"]
    assert isinstance(layer, LayerSample)
    return layer


def test_a_recording_has_each_call_once_and_all_of_them_wherever_one_begins() -> None:
    samples = host("db01", 30)
    data = recorded(samples)
    without = [
        replace(sample, layers={"nfs_client": replace(nfs_client(sample), calls=())})
        for sample in samples
    ]
    assert len(data) - len(recorded(without)) < 30 * 8 * 8
    read = samples_of(data)
    assert [nfs_client(s).calls for s in read] == [nfs_client(s).calls for s in samples]
    snapshot = derive(read[20], read[21]).layers["nfs_client"]
    assert isinstance(snapshot, LayerSnapshot)
    assert [len(batch.numbers) // CALL_NUMBERS for batch in snapshot.calls] == [8]
    assert len(snapshot.earlier_calls) == KEPT_BATCHES - 1


@pytest.mark.parametrize(
    ("after_ns", "peers", "numbers"),
    [
        (0, [], [7, READ, 0, 5]),  # a peer that is not there
        (0, [b"::1"], [7, 3, 0, 5]),  # no kind
        (0, [b"::1"], [7, READ, 0]),  # no time
        (-1, [b"::1"], [7, READ, 0, 5]),  # not newer than what came before
    ],
)
def test_calls_that_make_no_sense_are_refused(
    after_ns: int, peers: list[bytes], numbers: list[int]
) -> None:
    calls = ReadCalls()
    good = CallRecord(0, 0, [b"::1"], [7, READ, 0, 5])
    empty = SampleRecord(0, [], [], [], [], [], [], [], [], None, [good])
    calls.take(empty, 10)
    bad = CallRecord(0, after_ns, peers, numbers)
    with pytest.raises(RecordError):
        calls.take(msgspec.structs.replace(empty, calls=[bad]), 11 if after_ns == 0 else 10)


def test_of_calls_that_come_without_end_few_are_kept() -> None:
    calls = ReadCalls()
    full = CallRecord(0, 0, [b"::1"], [7, READ, 0, 5] * MOST_CALLS)
    record = SampleRecord(0, [], [], [], [], [], [], [], [], None, [full])
    for at in range(1, 3 * KEPT_BATCHES):
        calls.take(record, at)
    assert calls.numbers == KEPT_BATCHES * MOST_CALLS * CALL_NUMBERS
    second, third = (
        msgspec.structs.replace(record, calls=[msgspec.structs.replace(full, layer=layer)])
        for layer in (1, 2)
    )
    for at in range(1, KEPT_BATCHES + 1):
        calls.take(second, at)
    with pytest.raises(RecordError):
        calls.take(third, 1)
