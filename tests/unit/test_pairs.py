"""Which host serves whose mounts, how much of a call's time is the network's, sampled calls."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

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
from ioh.model.pairs import HostInterval, pairs
from ioh.model.sample import LayerSample, OpTotals, Sample
from ioh.model.snapshot import LayerSnapshot, OpStats, Pair, PairOp
from ioh.session.decoder import ReadCalls
from ioh.session.records import CallRecord, RecordError, SampleRecord
from tests.support import two_hosts
from tests.support.sessions import recorded, samples_of
from tests.unit.fake_kernel import install
from tests.unit.snapshot_maker import by_chance, layer, op, ticks

BRIDGE = "172.17.0.1"
OURS = ("127.0.0.1", "::1", BRIDGE, "10.0.0.7", "fe80::7%eth0")
THEIRS = ("127.0.0.1", "::1", BRIDGE, "10.0.0.9", "2001:db8::9")


def host(name: str, addresses: tuple[str, ...], **layers: Any) -> HostInterval:
    made = {each: layer(each, **what) for each, what in layers.items()}
    return HostInterval(name, addresses, ticks(1, made)[0])


def rpc(calls: float, execute_us: float, queue_us: float) -> OpStats:
    return op(calls, 4096, execute_us, queue_us=queue_us, service_us=execute_us - queue_us)


def client(*servers: tuple[str, str], **layers: Any) -> HostInterval:
    """100 READs a second on the first server's mount and 50 on each other one's, by TCP."""
    parts = {
        f"{name}:/srv on /mnt{at}": {"read": rpc(50 if at else 100, 9000 if at else 5300, 300)}
        for at, (name, _) in enumerate(servers)
    }
    rows = [(server, {"reads_per_s": 100.0, "retransmits_per_s": 2.0}) for server in servers]
    tcp = [
        (("10.0.0.7:713", "10.0.0.9:2049"), {"srtt_us": 4000, "retrans_segs_per_s": 1.0}),
        (("10.0.0.7:714", "10.0.0.9:2049"), {"srtt_us": 2000, "retrans_segs_per_s": 2.0}),
        (("10.0.0.7:715", "10.0.0.9:22"), {"srtt_us": 1, "retrans_segs_per_s": 99.0}),
        (("10.0.0.7:716", "10.0.0.8:2049"), {"srtt_us": 1, "retrans_segs_per_s": 99.0}),
    ]
    return host(
        "db01",
        OURS,
        nfs_client={"parts": parts, "tables": {"server": rows}},
        tcp={"tables": {"connection": tcp}},
        **layers,
    )


def server(*clients: tuple[str, float, float]) -> HostInterval:
    rows = [
        ((address,), {"reads_per_s": reads, "read_latency_us": us})
        for address, reads, us in clients
    ]
    return host("nfs01", THEIRS, nfs_server={"tables": {"client": rows}})


def test_server_time_is_separated_from_network_time() -> None:
    served = server(
        ("10.0.0.7:713", 75, 800.0), ("10.0.0.7:714", 25, 1200.0), ("10.0.0.8:9", 7, 1e6)
    )
    (found,) = pairs([client(("nfs01", "10.0.0.9")), served])
    read = found.ops["read"]
    assert found == Pair("db01", "nfs01", {"read": read}, 2.0, 3.0, 3000.0)
    assert read == PairOp(100, 100, 5000.0, 900.0)
    assert (read.network_us, read.network_pct) == (4100.0, 82.0)


def test_each_server_is_paired_with_its_own_mounts() -> None:
    both = client(("nfs01", "10.0.0.9"), ("nfs01b", "10.0.0.10"))
    other = replace(server(("10.0.0.7:9", 50, 1000.0)), name="other", addresses=("10.0.0.10",))
    found = pairs([both, server(("10.0.0.7:713", 100, 900.0)), other])
    assert [(pair.server, pair.ops["read"].client_calls) for pair in found] == [
        ("nfs01", 100),
        ("other", 50),
    ]
    assert found[1].ops["read"].network_us == 8700 - 1000
    assert found[1].tcp_rtt_us is None


@pytest.mark.parametrize("address", [BRIDGE, "127.0.0.1", "10.0.0.99", "?", ""])
def test_an_address_that_identifies_no_host_makes_no_pair(address: str) -> None:
    assert pairs([client(("nfs01", address)), server(("10.0.0.7:713", 100, 900.0))]) == ()


def test_ipv6_addresses_match_in_any_form() -> None:
    served = server(("[::ffff:10.0.0.7]:713", 100, 900.0))
    (found,) = pairs([client(("nfs01", "2001:DB8:0::9")), served])
    assert found.ops["read"].network_us == 4100


def test_what_one_end_does_not_measure_is_unknown() -> None:
    here = client(("nfs01", "10.0.0.9"))
    (without,) = pairs([here, host("nfs01", THEIRS)])
    assert without.ops["read"] == PairOp(100, None, 5000.0, None)
    (from_proc,) = pairs([here, host("nfs01", THEIRS, nfs_server={"source": "proc"})])
    assert from_proc.ops["read"].network_us is None
    (nobody,) = pairs([here, server()])
    assert nobody.ops["read"].server_calls == 0
    (slower,) = pairs([here, server(("10.0.0.7:713", 100, 6000.0))])
    assert (slower.ops["read"].network_us, slower.ops["read"].network_pct) == (None, None)


def test_a_name_shared_by_two_servers_leaves_the_client_numbers_unknown() -> None:
    both = client(("nfs", "10.0.0.9"), ("nfs", "10.0.0.10"))
    other = replace(server(("10.0.0.7:9", 50, 1000.0)), name="other", addresses=("10.0.0.10",))
    found = pairs([both, server(("10.0.0.7:713", 100, 900.0)), other])
    assert [pair.ops["read"] for pair in found] == [
        PairOp(None, 100, None, 900.0),
        PairOp(None, 50, None, 1000.0),
    ]


@pytest.mark.parametrize("address", ["192.0.2.1:713", "(others)", "?"])
def test_calls_that_may_come_from_another_address_are_not_reported_lost(address: str) -> None:
    (found,) = pairs([client(("nfs01", "10.0.0.9")), server((address, 100, 900.0))])
    assert found.ops["read"] == PairOp(100, None, 5000.0, None)


def test_any_numbers_can_be_paired() -> None:
    for seed in range(40):
        chance = Random(seed)
        made = [
            HostInterval(name, (f"10.0.0.{at}", name), by_chance(chance, 1.0))
            for at, name in enumerate(("a", "b", "c"))
        ]
        pairs([*made, client(("nfs01", "10.0.0.1")), server(("10.0.0.7:1", float("nan"), 1.0))])


def test_calls_served_after_the_client_became_idle_still_count_for_the_pair() -> None:
    known: set[tuple[str, str]] = set()
    idle = host("db01", OURS, nfs_client={})
    served = server(("10.0.0.7:713", 9, 900.0))
    assert pairs([idle, served], known) == ()
    pairs([client(("nfs01", "10.0.0.9")), served], known)
    (found,) = pairs([idle, served], known)
    assert found.ops == {"read": PairOp(0, 9, None, 900.0)}
    assert pairs([idle, server()], known) == ()


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


def test_the_extra_time_of_a_call_at_the_client_is_the_networks() -> None:
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
        ([(7, READ, SERVER, 5 * MS)], [(7, WRITE, CLIENT, MS)]),  # another operation
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, "10.0.0.8", MS)]),  # from another client
        ([(7, READ, "10.0.0.8", 5 * MS)], [(7, READ, CLIENT, MS)]),  # to another server
        ([(7, READ, SERVER, 5 * MS)] * 2, [(7, READ, CLIENT, MS)]),  # sent twice
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, CLIENT, MS)] * 2),  # served twice
        ([(7, READ, SERVER, 0)], [(7, READ, CLIENT, MS)]),  # 0 ns: the probe saw the XID twice
        ([(7, READ, SERVER, 5 * MS)], [(7, READ, CLIENT, 6 * MS)]),  # slower at the server
    ],
)
def test_a_call_that_may_be_a_different_one_is_left_out(ours: Listed, theirs: Listed) -> None:
    assert matched(ours, theirs) == {}


def test_a_reply_in_flight_when_an_interval_ends_counts_in_the_later_one() -> None:
    """Each call counts in one interval only, whichever end reports it first."""
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
def test_a_span_of_many_intervals_keeps_the_same_calls_at_both_ends(xids: list[int]) -> None:
    """However different the loads: of its calls, each end keeps those that the other end keeps."""
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


def test_sampled_calls_are_read_and_the_sampling_level_follows_the_load(
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


def test_a_recording_stores_each_call_once_and_all_are_read_back() -> None:
    samples = two_hosts.host("db01", 30)
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
        (0, [], [7, READ, 0, 5]),  # a missing peer
        (0, [b"::1"], [7, 3, 0, 5]),  # an unknown operation
        (0, [b"::1"], [7, READ, 0]),  # a missing time
        (-1, [b"::1"], [7, READ, 0, 5]),  # not newer than what came before
    ],
)
def test_malformed_calls_are_refused(after_ns: int, peers: list[bytes], numbers: list[int]) -> None:
    calls = ReadCalls()
    good = CallRecord(0, 0, [b"::1"], [7, READ, 0, 5])
    empty = SampleRecord(0, [], [], [], [], [], [], [], [], None, [good])
    calls.take(empty, 10)
    bad = CallRecord(0, after_ns, peers, numbers)
    with pytest.raises(RecordError):
        calls.take(msgspec.structs.replace(empty, calls=[bad]), 11 if after_ns == 0 else 10)


def test_the_number_of_calls_kept_is_limited() -> None:
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
