"""btrfs file systems by disk, from a /proc and a /sys of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.procfs.btrfs import btrfs_on
from ioh.procfs.diskstats import make_dev

SDA, SDA2, SDB, DM = make_dev(8, 0), make_dev(8, 2), make_dev(8, 16), make_dev(253, 0)
MOUNTS = """\
21 1 0:30 / / rw - btrfs /dev/sda2 rw
22 1 0:30 /home /home rw - btrfs /dev/sda2 rw,subvol=/home
23 1 0:44 / /data rw - btrfs /dev/mapper/vg-data rw
24 1 8:16 / /srv rw - ext4 /dev/sdb rw
25 1 0:45 / /gone rw - btrfs /dev/sdz rw
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two file systems: one on a partition, one on a volume and, as a mirror, on a disk."""
    devices = {"sda": "8:0", "sda/sda2": "8:2", "sdb": "8:16", "dm-0": "253:0"}
    for name, number in devices.items():
        folder = tmp_path / "sys/devices" / name
        folder.mkdir(parents=True)
        (folder / "dev").write_text(number + "\n")
    (tmp_path / "sys/devices/sda/sda2/partition").write_text("2\n")
    for uuid, names in {"aa": ["sda/sda2"], "bb": ["dm-0", "sdb"], "features": []}.items():
        links = tmp_path / "sys/fs/btrfs" / uuid / "devices"
        links.mkdir(parents=True)
        for name in names:
            (links / name.rpartition("/")[2]).symlink_to(tmp_path / "sys/devices" / name)
    (tmp_path / "dev/mapper").mkdir(parents=True)
    (tmp_path / "dev/mapper/vg-data").symlink_to("../dm-0")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    return tmp_path


@pytest.mark.parametrize(
    ("dev", "expected"),
    [(SDA, (30,)), (SDA2, (30,)), (DM, (44,)), (SDB, (44,)), (make_dev(7, 0), ())],
)
def test_file_systems_of_a_disk_a_partition_and_a_mirror(
    root: Path, dev: int, expected: tuple[int, ...]
) -> None:
    assert btrfs_on(dev, root) == expected


def test_a_machine_without_btrfs(tmp_path: Path) -> None:
    assert btrfs_on(SDA, tmp_path) == ()
