"""The connections of NFS mounts are told from all others."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.nfs_wire import NfsWire, nfs_wire
from tests.unit.snapshot_maker import layer, ticks

Rows = list[tuple[tuple[str, ...], dict[str, Any]]]
OURS = ("10.0.0.7:831", "10.0.0.9:2049")  # a client's port is reserved: below 1024
THEIRS = ("10.0.0.9:2049", "10.0.0.7:831")


def wire(connections: Rows, *, clients: Rows | None = None, server: str = "10.0.0.9") -> NfsWire:
    layers = {
        "nfs_client": layer("nfs_client", tables={"server": [(("nas", server), {})]}),
        "tcp": layer("tcp", tables={"connection": connections, "port": [(("2049", "nfs"), {})]}),
        "nfs_server": layer("nfs_server", tables={"client": clients or []}),
    }
    return nfs_wire(ticks(1, layers)[0])


def row(srtt_us: float, size: float = 1.0, **more: float) -> dict[str, Any]:
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


def test_several_connections_count_by_their_bytes() -> None:
    rows: Rows = [(OURS, row(4_000, 3.0)), (("10.0.0.7:832", OURS[1]), row(8_000, 1.0))]
    assert wire(rows).round_trip_us == 5_000


def test_a_server_on_this_machine_is_known_by_the_other_end() -> None:
    assert wire([(OURS, row(40)), (THEIRS, row(40))]).is_server_local
    # The mount is in another network namespace than nfsd, which knows the very connection.
    assert wire([(OURS, row(40))], clients=[(("10.0.0.7:831",), {})]).is_server_local
    assert not wire([(OURS, row(40))], clients=[(("10.0.0.7:832",), {})]).is_server_local


def test_a_loss_is_one_of_the_mounts_connections() -> None:
    lost = {"retrans_segs_per_s": 2.0}
    assert wire([(OURS, row(40, **lost))]).is_lossy
    assert not wire([(OURS, row(40)), (("10.0.0.7:99", "10.0.0.8:22"), row(40, **lost))]).is_lossy


def test_without_the_connections_nothing_but_the_ports_round_trip_is_known() -> None:
    assert wire([]) == NfsWire()
    old = layer("tcp", tables={"port": [(("2049", "nfs"), {"srtt_us": 300.0})]})
    assert nfs_wire(ticks(1, {"tcp": old})[0]) == NfsWire(300.0)
