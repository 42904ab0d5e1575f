"""Which host serves whose mounts, and what of a call's time is the network's."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ioh.model.pairs import HostInterval, pairs
from ioh.model.snapshot import OpStats, Pair, PairOp
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


def test_what_the_server_took_is_told_from_the_network() -> None:
    served = server(
        ("10.0.0.7:713", 75, 800.0), ("10.0.0.7:714", 25, 1200.0), ("10.0.0.8:9", 7, 1e6)
    )
    (found,) = pairs([client(("nfs01", "10.0.0.9")), served])
    read = found.ops["read"]
    assert found == Pair("db01", "nfs01", {"read": read}, 2.0, 3.0, 3000.0)
    assert read == PairOp(100, 100, 5000.0, 900.0)
    assert (read.network_us, read.network_pct) == (4100.0, 82.0)


def test_each_server_has_its_own_mounts() -> None:
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
def test_an_address_that_tells_no_host_makes_no_pair(address: str) -> None:
    assert pairs([client(("nfs01", address)), server(("10.0.0.7:713", 100, 900.0))]) == ()


def test_ipv6_in_any_form() -> None:
    served = server(("[::ffff:10.0.0.7]:713", 100, 900.0))
    (found,) = pairs([client(("nfs01", "2001:DB8:0::9")), served])
    assert found.ops["read"].network_us == 4100


def test_what_one_end_does_not_know_is_not_known() -> None:
    here = client(("nfs01", "10.0.0.9"))
    (without,) = pairs([here, host("nfs01", THEIRS)])
    assert without.ops["read"] == PairOp(100, None, 5000.0, None)
    (from_proc,) = pairs([here, host("nfs01", THEIRS, nfs_server={"source": "proc"})])
    assert from_proc.ops["read"].network_us is None
    (nobody,) = pairs([here, server()])
    assert nobody.ops["read"].server_calls == 0
    (slower,) = pairs([here, server(("10.0.0.7:713", 100, 6000.0))])
    assert (slower.ops["read"].network_us, slower.ops["read"].network_pct) == (None, None)


def test_a_name_of_two_servers_does_not_tell_whose_mounts_they_are() -> None:
    both = client(("nfs", "10.0.0.9"), ("nfs", "10.0.0.10"))
    other = replace(server(("10.0.0.7:9", 50, 1000.0)), name="other", addresses=("10.0.0.10",))
    found = pairs([both, server(("10.0.0.7:713", 100, 900.0)), other])
    assert [pair.ops["read"] for pair in found] == [
        PairOp(None, 100, None, 900.0),
        PairOp(None, 50, None, 1000.0),
    ]


@pytest.mark.parametrize("address", ["192.0.2.1:713", "(others)", "?"])
def test_calls_that_may_have_come_by_another_address_are_not_told_to_be_lost(address: str) -> None:
    (found,) = pairs([client(("nfs01", "10.0.0.9")), server((address, 100, 900.0))])
    assert found.ops["read"] == PairOp(100, None, 5000.0, None)


def test_any_numbers_at_all() -> None:
    for seed in range(40):
        chance = Random(seed)
        made = [
            HostInterval(name, (f"10.0.0.{at}", name), by_chance(chance, 1.0))
            for at, name in enumerate(("a", "b", "c"))
        ]
        pairs([*made, client(("nfs01", "10.0.0.1")), server(("10.0.0.7:1", float("nan"), 1.0))])


def test_what_is_served_after_the_clients_last_interval_with_calls_is_of_the_pair_still() -> None:
    known: set[tuple[str, str]] = set()
    idle = host("db01", OURS, nfs_client={})
    served = server(("10.0.0.7:713", 9, 900.0))
    assert pairs([idle, served], known) == ()
    pairs([client(("nfs01", "10.0.0.9")), served], known)
    (found,) = pairs([idle, served], known)
    assert found.ops == {"read": PairOp(0, 9, None, 900.0)}
    assert pairs([idle, server()], known) == ()
