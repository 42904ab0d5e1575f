"""The connections of NFS mounts are told from all others."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.nfs_wire import NfsWire, nfs_wire
from tests.unit.snapshot_maker import layer, op, ticks

Rows = list[tuple[tuple[str, ...], dict[str, Any]]]
OURS = ("10.0.0.7:831", "10.0.0.9:2049")  # a client's port is reserved: below 1024
THEIRS = ("10.0.0.9:2049", "10.0.0.7:831")


def wire(
    connections: Rows,
    *,
    clients: Rows | None = None,
    server: str = "10.0.0.9",
    reads: float = 100.0,
    read_us: float = 1000.0,
    port: dict[str, Any] | None = None,
) -> NfsWire:
    servers: Rows = [(("nas", server), {"reads_per_s": reads})]
    ports: Rows = [(("2049", "nfs"), port or {})]
    layers = {
        "nfs_client": layer(
            "nfs_client", {"read": op(reads, 8192, read_us)}, tables={"server": servers}
        ),
        "tcp": layer("tcp", tables={"connection": connections, "port": ports}),
        "nfs_server": layer("nfs_server", tables={"client": clients or []}),
    }
    return nfs_wire(ticks(1, layers)[0])


def row(srtt_us: float, size: float = 1.0, **more: float | None) -> dict[str, Any]:
    return {"srtt_us": srtt_us, "in_bytes_per_s": size, "out_bytes_per_s": 0.0, **more}


@pytest.mark.parametrize(
    ("local", "remote", "server"),
    [
        (*OURS, "10.0.0.9"),
        ("[fd00::7]:831", "[fd00::9]:2049", "fd00:0::9"),
        ("[fe80::7]:831", "[fe80::9]:2049", "fe80::9%eth0"),
    ],
)
def test_the_round_trip_is_that_of_the_mounts_connections(
    local: str, remote: str, server: str
) -> None:
    others: Rows = [
        (("10.0.0.7:2049", "10.0.0.5:702"), row(50_000, 9e9)),  # this host's own client
        (("10.0.0.7:702", "10.0.0.8:2049"), row(60_000, 9e9)),  # not a mount's
    ]
    found = wire([((local, remote), row(4_000)), *others], server=server)
    assert found == NfsWire(4_000, is_lossy=False, is_server_local=False)


@pytest.mark.parametrize(
    ("in_flight", "srtt_us", "min_rtt_us", "is_known"),
    [
        (1, 20_000, 200, False),  # acknowledged with the reply
        (1, 20_000, 19_000, True),  # a long way
        (4, 20_000, 200, True),  # the next request is acknowledged meanwhile
        (1, 20_000, None, True),
    ],
)
def test_the_round_trip_of_a_lone_call_may_be_the_servers_time(
    in_flight: int, srtt_us: float, min_rtt_us: float | None, is_known: bool
) -> None:
    found = wire([(OURS, row(srtt_us, min_rtt_us=min_rtt_us))], reads=100, read_us=in_flight * 1e4)
    assert (found.round_trip_us == srtt_us) is is_known


def test_a_server_may_have_another_port() -> None:
    servers: Rows = [(("nas", "10.0.0.9"), {"reads_per_s": 9.0, "port": 12049})]
    ours, other = (("10.0.0.7:831", f"10.0.0.9:{port}") for port in (12049, 2049))
    layers = {
        "nfs_client": layer("nfs_client", tables={"server": servers}),
        "tcp": layer("tcp", tables={"connection": [(ours, row(4_000)), (other, row(9))]}),
    }
    assert nfs_wire(ticks(1, layers)[0]).round_trip_us == 4_000


def test_several_connections_count_by_their_bytes() -> None:
    rows: Rows = [(OURS, row(4_000, 3.0)), (("10.0.0.7:832", OURS[1]), row(8_000, 1.0))]
    assert wire(rows).round_trip_us == 5_000


def test_a_server_on_this_machine_is_known_by_the_other_end() -> None:
    assert wire([(OURS, row(40)), (THEIRS, row(40))]).is_server_local
    # The mount is in another network namespace than nfsd, which knows the very connection.
    assert wire([(OURS, row(40))], clients=[(("10.0.0.7:831",), {})]).is_server_local
    assert not wire([(OURS, row(40))], clients=[(("10.0.0.7:832",), {})]).is_server_local
    # Of a mount in another network namespace, only the server's end is seen.
    assert wire([(THEIRS, row(40))]).is_server_local
    assert wire([(THEIRS, row(40))], server="10.0.0.8").is_server_local is None


def test_a_mount_of_another_network_namespace_is_known_by_the_servers_end() -> None:
    """As on a host with containers: only the server's end is in this namespace."""
    found = wire([(THEIRS, row(4_000, **lost(again=2.0)))])
    assert found == NfsWire(4_000, is_lossy=True, is_server_local=True)
    other = ("10.0.0.7:2049", "10.0.0.5:702")  # this host serves, but not its own mount
    assert wire([(other, row(4_000))], port=row(4_000)) == NfsWire()


def test_a_server_is_weighted_by_its_calls() -> None:
    there, far = (("10.0.0.7:831", f"10.0.0.{n}:2049") for n in (8, 9))
    servers: Rows = [
        (("near", "10.0.0.8"), {"reads_per_s": 80.0, "writes_per_s": 10.0}),
        (("far", "10.0.0.9"), {"reads_per_s": 10.0, "writes_per_s": None}),
    ]
    layers = {
        "nfs_client": layer("nfs_client", tables={"server": servers}),
        "tcp": layer("tcp", tables={"connection": [(there, row(1_000)), (far, row(31_000, 9e9))]}),
    }
    assert nfs_wire(ticks(1, layers)[0]).round_trip_us == pytest.approx(4_000)


def lost(again: float = 0.0, needless: float | None = 0.0, reordered: float | None = 0.0) -> Any:
    return {
        "retrans_segs_per_s": again,
        "needless_segs_per_s": needless,
        "reordered_segs_per_s": reordered,
    }


@pytest.mark.parametrize(
    ("counts", "is_lossy"),
    [
        (lost(), False),
        (lost(again=2.0), True),  # requests
        (lost(reordered=2.0), True),  # replies: the server sends them again
        (lost(again=2.0, needless=2.0), False),  # the peer had them, its acknowledgement was late
        (lost(again=0.9), False),  # of 100 calls
        (lost(again=2.0, needless=None, reordered=None), False),  # not known yet
        ({"retrans_segs_per_s": 2.0}, True),  # an old recording
    ],
)
def test_a_loss_counts_if_it_delays_the_mean_call(counts: Any, is_lossy: bool) -> None:
    assert wire([(OURS, row(40, **counts))]).is_lossy is is_lossy
    ssh = ("10.0.0.7:99", "10.0.0.8:22")
    assert not wire([(OURS, row(40)), (ssh, row(40, **counts))]).is_lossy


@pytest.mark.parametrize(
    ("read_us", "ago_s", "is_lossy"),
    [
        (9e6, 4.0, True),  # the calls were under way when the segments were lost
        (9e6, 10.0, False),  # a slow server: the loss was before
        (9e6, None, False),
        (1000, 0.5, False),  # quick calls
    ],
)
def test_calls_that_outlived_an_outage_are_lossy(
    read_us: float, ago_s: float | None, is_lossy: bool
) -> None:
    found = wire([(OURS, row(600_000, since_loss_s=ago_s))], read_us=read_us)
    assert found.is_lossy is is_lossy


def test_unread_calls_wait_for_a_thread_of_the_local_server() -> None:
    port = {"unread_bytes": 2400.0, "in_bytes_per_s": 48_000.0}
    assert wire([(OURS, row(40)), (THEIRS, row(40))], port=port).unread_us == 50_000
    assert wire([(OURS, row(40)), (THEIRS, row(40))]).unread_us is None
    assert wire([(OURS, row(40))], port=port).unread_us is None, "other clients' calls"


def test_without_the_connections_nothing_but_the_ports_round_trip_is_known() -> None:
    assert wire([]) == NfsWire()
    old = layer("tcp", tables={"port": [(("2049", "nfs"), {"srtt_us": 300.0})]})
    assert nfs_wire(ticks(1, {"tcp": old})[0]) == NfsWire(300.0)
