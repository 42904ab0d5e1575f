"""Which device's read-ahead a finding advises to change: that below the file system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, TableRow
from tests.unit.snapshot_maker import calls, disk, found, layer, op

KB, MB = 1024, 1 << 20
SDA = ("sda", "sda")
Rows = list[tuple[tuple[str, ...], dict[str, Value]]]


def block(name: str, below: LayerSnapshot, rate: float, others: Rows) -> LayerSnapshot:
    """The disk's row with its rate, and other devices in the table."""
    (row,) = below.tables["device"]
    rows = [TableRow(row.key, {**row.values, "read_bytes_per_s": rate})]
    rows += [TableRow(key, {"stacked": 1, "reads_per_s": 50.0, **values}) for key, values in others]
    assert rows[0].key[0] == name
    return replace(below, tables={**below.tables, "device": tuple(rows)})


def waste(others: Rows, fstype: str = "ext4") -> Finding:
    """Random reads of 4 KB for which the disk reads 128 KB."""
    app = calls(
        "read_buffered", op(500, 4 * KB, 900),
        {"mount": [(("/d", fstype), {"read_bytes_per_s": 500.0 * 4 * KB})]},
        read_lower_ops_per_s=500.0, read_lower_bytes_per_s=500.0 * 128 * KB,
    )  # fmt: skip
    fetched = layer("block", **disk("sda", op(500, 128 * KB, 800)))
    below = block("sda", fetched, 500.0 * 128 * KB, others)
    return found({"syscall": app, "block": below})["read_ahead_waste"]


def stacked(rate_share: float = 1.0, read_ahead: int = MB) -> dict[str, Value]:
    return {"read_bytes_per_s": 500.0 * 128 * KB * rate_share, "read_ahead_bytes": read_ahead}


def file_of(device: str) -> str:
    return f"echo 4 > /sys/block/{device}/queue/read_ahead_kb"


@pytest.mark.parametrize(
    ("others", "device"),
    [
        ([], "sda"),
        ([(("dm-0", "vg-lv on sda"), stacked())], "dm-0"),
        ([(("md0", "raid0 on sda1,sdb1"), stacked(2.0))], "md0"),
        (
            [
                (("md0", "raid1 on sda1,sdb1"), stacked()),
                (("dm-1", "vg-lv on md0 (raid1 on sda1,sdb1)"), stacked()),
            ],
            "dm-1",
        ),
        (
            [
                (("dm-0", "vg-calm on sda2"), stacked(0.1)),
                (("dm-1", "vg-busy on sda2"), stacked(0.9)),
            ],
            "dm-1",
        ),
        ([(("dm-0", "vg-lv on sda2"), stacked(0.1))], "sda"),  # most reads are of another partition
        ([(("dm-0", "vg-lv on sdaa"), stacked())], "sda"),
    ],
)
def test_the_device_advised_is_the_one_below_the_file_system(others: Rows, device: str) -> None:
    finding = waste(others)
    assert finding.command == file_of(device)
    window = "128 KB" if device == "sda" else "1 MB"
    assert f"(read_ahead_kb of {device}: {window})" in finding.cause


def test_btrfs_has_its_own_read_ahead() -> None:
    finding = waste([], "btrfs")
    assert finding.command.startswith("echo 4 | tee /sys/class/bdi/btrfs-*/read_ahead_kb   #")
    assert "read_ahead_kb" not in finding.cause, "the disk's does not count"


def heads(size: int, fetched: int, window: int) -> dict[str, Finding]:
    """Reads of the first ``size`` bytes of files; one request each fetches ``fetched`` bytes."""
    app = calls(
        "read_buffered", op(3000, size, 200), read_calls_per_s=3000.0,
        read_lower_ops_per_s=3000.0, read_lower_bytes_per_s=3000.0 * fetched,
    )  # fmt: skip
    block = layer("block", **disk("sda", op(3000, fetched, 150), read_ahead_bytes=window))
    return found({"syscall": app, "block": block})


@pytest.mark.parametrize(("fetched", "window"), [(16 * KB, 128 * KB), (8 * KB, 16 * KB)])
def test_the_advised_window_is_what_was_read_of_each_request(fetched: int, window: int) -> None:
    assert heads(4 * KB, fetched, window)["read_ahead_waste"].command == file_of("sda")
