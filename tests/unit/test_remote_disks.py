"""The round trip to a disk on the network, and what slow_disk says about such a disk."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.finding import Finding
from ioh.model.path import paths
from ioh.model.remote_disks import RemoteDisk, network_us_per_s, remote_disks
from ioh.model.snapshot import LayerSnapshot
from tests.unit.snapshot_maker import Layers, calls, disk, found, layer, op, ticks

TARGET = "10.99.2.2:4420"
ON = f"nvme0n1 on nvme/tcp {TARGET}"


def linked(srtt_us: float, remote: str = TARGET) -> LayerSnapshot:
    """Two connections of the disk, and those of others."""
    rows: Any = [
        (("10.99.2.1:40000", remote), {"srtt_us": srtt_us, "in_bytes_per_s": 9e6}),
        (("10.99.2.1:40001", remote), {"srtt_us": 9e9, "in_bytes_per_s": 0.0}),
        (("10.99.2.1:40002", "10.99.2.2:44"), {"srtt_us": 9e9, "in_bytes_per_s": 9e9}),
        (("10.99.2.1:40003", "10.99.2.3:4420"), {"srtt_us": 9e9, "in_bytes_per_s": 9e9}),
    ]
    return layer("tcp", tables={"connection": rows})


def reading(name: str, on: str, tcp: LayerSnapshot | None = None, us: float = 48_000) -> Layers:
    """80 reads a second, one at a time or few."""
    made = disk(name, op(80, 8192, us, queue_us=0.0))
    made["tables"] = {"device": [((name, on), row) for (_, row) in made["tables"]["device"]]}
    layers: Layers = {"block": layer("block", **made)}
    return layers if tcp is None else {**layers, "tcp": tcp}


def slow(*args: Any, **more: Any) -> Finding:
    return found(reading(*args, **more))["slow_disk"]


@pytest.mark.parametrize(
    ("name", "on", "remote"),
    [
        ("nvme0n1", ON, TARGET),
        ("nvme0c0n1", f"nvme0c0n1 on nvme/tcp {TARGET}", TARGET),
        ("sda", "sda on iscsi [fd00::2]:3260", "[fd00::2]:3260"),
        ("nbd0", "nbd0", "10.99.2.2:10809"),
    ],
)
def test_the_round_trip_is_that_of_the_disks_connections(name: str, on: str, remote: str) -> None:
    layers = reading(name, on, linked(43_000, remote))
    (found_disk,) = remote_disks(ticks(1, layers)[0]).values()
    assert found_disk.end.endswith(f" {remote}")
    assert found_disk.round_trip_us == 43_000
    assert network_us_per_s(ticks(1, layers)[0], "read") == pytest.approx(80 * 43_000)
    short = reading(name, on, linked(43_000, remote), us=5_000)
    assert network_us_per_s(ticks(1, short)[0], "read") == pytest.approx(80 * 5_000)


@pytest.mark.parametrize(
    ("name", "on", "known"),
    [
        ("sda", "sda", {}),
        ("dm-0", f"vg-lv on nvme/tcp {TARGET}", {}),  # a name that a user chose
        ("nbd0", "nbd0", {}),  # a local program serves it
        ("nvme0n1", "nvme0n1 on nvme/rdma 10.99.2.2:4420",
         {"nvme0n1": RemoteDisk("nvme/rdma 10.99.2.2:4420", None)}),
    ],
)  # fmt: skip
def test_without_its_connection_nothing_is_known_of_the_way(
    name: str, on: str, known: dict[str, RemoteDisk]
) -> None:
    snapshot = ticks(1, reading(name, on, linked(43_000)))[0]
    assert remote_disks(snapshot) == known
    assert network_us_per_s(snapshot, "read") == 0


@pytest.mark.parametrize(
    ("on", "us", "expected"),
    [
        (ON, 48_000, {"block_queue": 0, "disk_network": 43_000, "device": 5_000}),
        (ON, 9_000, {"block_queue": 0, "disk_network": 9_000, "device": 0}),
        ("nvme0n1", 48_000, {"block_queue": 0, "device": 48_000}),
    ],
)
def test_the_path_shows_the_way_to_the_disk(on: str, us: float, expected: dict[str, int]) -> None:
    call = op(80, 8192, 50_000)
    app = calls("read_direct", call, read_lower_bytes_per_s=80 * 8192.0)
    layers = {"syscall": app, **reading("nvme0n1", on, linked(43_000), us=us)}
    found_path = paths(ticks(1, layers)[0])["read"]
    steps = {each.name: round(each.us or 0) for each in found_path.segments}
    assert steps == {"syscall": 50_000 - us, **expected}


def test_a_long_way_to_a_disk_is_not_the_disk() -> None:
    finding = slow("nvme0n1", ON, linked(43_000))
    far = "and the network's round trip is 43.0 ms of 48.0 ms."
    assert f"it is a remote disk (nvme/tcp {TARGET}), {far}" in finding.cause
    assert finding.command == f"ss -tin dst {TARGET}"
    assert "smartctl" not in finding.command + finding.advice


def test_a_slow_target_is_not_the_network() -> None:
    finding = slow("nvme0n1", ON, linked(300))
    assert "its target is slow: the network's round trip is 300 µs of 48.0 ms" in finding.cause
    assert "Run ioh on the target" in finding.advice


def test_without_tcp_both_are_possible() -> None:
    assert "the network or its target is slow" in slow("nvme0n1", ON).cause


def test_a_local_disk_is_judged_as_before() -> None:
    finding = slow("nvme0n1", "nvme0n1", linked(43_000))
    assert "the disk itself is slow" in finding.cause
    assert finding.command == "smartctl -a /dev/nvme0n1"
    assert "slow_disk" not in found(reading("nvme0n1", ON, linked(900), us=1_000))
