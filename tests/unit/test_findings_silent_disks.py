"""The rule about disks that do not answer, on made-up seconds: where it speaks and where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.findings.devices import is_disk_of
from ioh.findings.engine import Engine
from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import HostStats, LayerSnapshot, Snapshot
from tests.unit.snapshot_maker import judged, layer, ticks

Rows = list[tuple[tuple[str, ...], dict[str, Value]]]
GB = 1 << 30


def block(*silent: tuple[str, str, str, float], busy: str = "", limited: str = "") -> LayerSnapshot:
    """Devices in flight: name, what it lies on, op, seconds; a busy one; one with a limit."""
    waiting: Rows = [
        ((name, on, op), {"age_us": age_s * 1e6, "count": 4}) for name, on, op, age_s in silent
    ]
    return layer(
        "block",
        tables={
            "in_progress": waiting,
            "device": [((busy, busy), {"writes_per_s": 0.2})] if busy else [],
            "limit": [(("backup", limited), {"write_limit_bytes_per_s": 1e4})] if limited else [],
        },
    )


def app(
    device: str, age_s: float, op: str = "write_sync", blocked: int | None = 1
) -> LayerSnapshot:
    key = ("77", "dd", op, "/mnt/data", device)
    row: dict[str, Value] = {"age_us": age_s * 1e6, "count": 1, "blocked": blocked}
    young = ("78", "fio", op, "/mnt/other", device)
    return layer(
        "syscall",
        tables={"in_progress": [(key, row), (young, {**row, "age_us": 2e6})]},
    )


def told(*layers: LayerSnapshot, **host: Any) -> Finding | None:
    (second,) = ticks(1, {each.spec.name: each for each in layers})
    second = replace(second, host=replace(second.host, **host))
    return judged([second])[0].get("disk_no_answer")


def test_a_silent_device_is_named_with_who_waits_longest() -> None:
    found = told(block(("loop3", "file /disk on loop0", "write", 12)), app("loop3", 12.6))
    assert found is not None
    assert (found.subject, found.severity) == ("loop3", "critical")
    assert found.cause == (
        "loop3 (file /disk on loop0) does not answer: 4 writes in flight, and nothing has "
        "completed for at least 12 s. dd[77] has waited for 12.6 s, longest of all: "
        "write sync, /mnt/data."
    )
    assert told(block(("sda", "sda", "read", 5))) is not None
    assert told(block(("sda", "sda", "read", 4.9)), app("sda", 4.9)) is None


def test_a_device_with_requests_in_flight_is_not_said_to_have_none() -> None:
    """Its age is counted from a sample, so a call that waits for it is older."""
    assert told(block(("loop3", "loop3", "write", 4.8)), app("loop3", 5.2)) is None
    assert told(block(("sda", "sda", "write", 4.8)), app("sda1", 5.2)) is None


def test_only_the_lowest_device_is_reported() -> None:
    """A volume on a partition of a hung disk waits with it; the program's file is on the volume."""
    volume, disk = ("dm-0", "vg-data on sdb1", "write", 8.0), ("sdb", "sdb", "write", 8.0)
    both = {"block": block(disk, volume), "syscall": app("dm-0", 9)}
    (lowest,) = Engine().judge(ticks(1, both)[0]).findings
    assert lowest.subject == "sdb"
    assert "dd[77]" in lowest.cause
    found = told(block(volume, busy="sdb"), app("dm-0", 9))
    assert found is not None
    assert found.subject == "dm-0"


def test_calls_that_wait_while_their_device_has_nothing_in_flight_are_reported() -> None:
    found = told(block(busy="sda"), app("loop0", 7))
    assert found is not None
    assert (found.subject, found.severity) == ("loop0", "critical")
    assert found.cause == (
        "Calls on loop0 do not end, although it has nothing in flight: its file system is frozen, "
        "or the volume is suspended. dd[77] has waited for 7 s, longest of all: "
        "write sync, /mnt/data."
    )
    assert "dmsetup" not in found.command
    found = told(block(), app("dm-3", 7))
    assert found is not None
    assert found.command.startswith("dmsetup info /dev/dm-3; ")


DIRTY = {"dirty_limit_bytes": 4 * GB, "dirty_background_bytes": 2 * GB, "dirty_bytes": 3 * GB}


@pytest.mark.parametrize(
    ("calls", "disks", "host"),
    [
        (app("loop0", 4), block(), {}),  # a read of a disk at rest, however slow
        (app("loop0", 30, blocked=0), block(), {}),  # splice into a full pipe
        (app("loop0", 30, blocked=None), block(), {}),
        (app("loop0", 30, op="fsync"), block(busy="loop0"), {}),  # gigabytes to write
        (app("loop0p2", 30), block(busy="loop0"), {}),
        (app("loop0", 30), block(limited="loop0"), {}),
        (app("loop0", 30, op="write_buffered"), block(), DIRTY),  # another disk or server is slow
        (app("nas1:/export (nfs4)", 30), block(), {}),  # nfs_no_answer
        (app("bindfs (fuse)", 30), block(), {}),
        (app("", 30), block(), {}),
    ],
)
def test_calls_that_wait_for_something_else_are_not(
    calls: LayerSnapshot, disks: LayerSnapshot, host: dict[str, int]
) -> None:
    assert told(calls, disks, **host) is None


def test_a_write_waits_for_its_file_system_if_memory_is_clean() -> None:
    clean = {**DIRTY, "dirty_bytes": 2 * GB}
    assert told(app("loop0", 30, op="write_buffered"), block(), **clean) is not None


def test_the_finding_lasts_as_long_as_the_silence() -> None:
    def second(at: int) -> Snapshot:
        age_s = at - 3 if 4 <= at < 14 else 0
        silent = [("sdb", "sdb", "write", float(age_s))] if age_s else []
        made = ticks(1, {"block": block(*silent)}, start=at)[0]
        return replace(made, host=HostStats())

    fired = ["disk_no_answer" in found for found in judged(map(second, range(20)))]
    assert fired == [8 <= at < 15 for at in range(20)]


def test_a_partition_is_of_its_disk() -> None:
    assert is_disk_of("sda", "sda")
    assert is_disk_of("sda", "sda12")
    assert is_disk_of("loop1", "loop1p2")
    assert not is_disk_of("loop1", "loop12")
    assert not is_disk_of("dm-1", "dm-10")
    assert not is_disk_of("sda", "sdab")
