"""What lies on a disk, from a /proc and a /sys of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.layers.syscall import Syscall
from ioh.layers.syscall_probe import DEVICES
from ioh.model.filters import Filters
from ioh.procfs.devices import numbers_on
from ioh.procfs.diskstats import make_dev

SDA, SDA1, SDA2 = make_dev(8, 0), make_dev(8, 1), make_dev(8, 2)
SDB, SDC = make_dev(8, 16), make_dev(8, 32)
CRYPT, ROOT_LV, DATA_LV = make_dev(253, 0), make_dev(253, 1), make_dev(253, 2)
MD, MD_PART = make_dev(9, 0), make_dev(259, 0)
BTRFS, BTRFS_2 = make_dev(0, 44), make_dev(0, 30)
MOUNTS = """\
21 1 0:30 / / rw - btrfs /dev/sda2 rw
22 1 0:30 /home /home rw - btrfs /dev/sda2 rw,subvol=/home
23 1 0:44 / /data rw - btrfs /dev/mapper/vg-data rw
24 1 8:16 / /srv rw - ext4 /dev/sdb rw
25 1 0:45 / /gone rw - btrfs /dev/sdz rw
"""
# By name: number, and what holds it.
DEVICES_OF_HOST = {
    "sda": ("8:0", []),
    "sda/sda1": ("8:1", ["md0"]),
    "sda/sda2": ("8:2", ["dm-0"]),
    "sdb": ("8:16", ["md0"]),
    "sdc": ("8:32", []),
    "dm-0": ("253:0", ["dm-1", "dm-2"]),
    "dm-1": ("253:1", []),
    "dm-2": ("253:2", []),
    "md0": ("9:0", []),
    "md0/md0p1": ("259:0", []),
}


class Host:
    """Disks in sysfs; device mapper on a partition, volumes on that, an array of two disks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, (number, _) in DEVICES_OF_HOST.items():
            self.add(name, number)
        for name, (_, holders) in DEVICES_OF_HOST.items():
            for holder in holders:
                self.hold(name, holder)
        # One on a volume and, as a mirror, on a disk; one on a partition.
        for uuid, names in {"aa": ["dm-2", "sdc"], "bb": ["sda/sda2"], "features": []}.items():
            links = root / "sys/fs/btrfs" / uuid / "devices"
            links.mkdir(parents=True)
            for name in names:
                (links / name.rpartition("/")[2]).symlink_to(self.folder(name))
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text(MOUNTS)
        (root / "dev/mapper").mkdir(parents=True)
        (root / "dev/mapper/vg-data").symlink_to("../dm-2")

    def folder(self, name: str) -> Path:
        return self.root / "sys/devices" / name

    def add(self, name: str, number: str) -> None:
        folder = self.folder(name)
        (folder / "holders").mkdir(parents=True)
        (folder / "dev").write_text(number + "\n")
        if "/" in name:
            (folder / "partition").write_text(name[-1] + "\n")
        by_number = self.root / "sys/dev/block"
        by_number.mkdir(parents=True, exist_ok=True)
        (by_number / number).symlink_to(folder)

    def hold(self, name: str, holder: str) -> None:
        (self.folder(name) / "holders" / holder).symlink_to(self.folder(holder))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("dev", "expected"),
    [
        (SDA, (BTRFS_2, BTRFS, MD, CRYPT, ROOT_LV, DATA_LV, SDA1, SDA2, MD_PART)),
        (SDB, (MD, MD_PART)),
        (SDC, (BTRFS,)),
        (CRYPT, (BTRFS, ROOT_LV, DATA_LV)),
        (DATA_LV, (BTRFS,)),
        (make_dev(7, 0), ()),
    ],
)
def test_volumes_arrays_partitions_and_btrfs(
    host: Host, dev: int, expected: tuple[int, ...]
) -> None:
    assert numbers_on(dev, host.root) == expected


def test_a_circle_ends(host: Host) -> None:
    host.hold("dm-1", "sda")
    assert numbers_on(SDA, host.root)[:2] == (BTRFS_2, BTRFS)


def test_more_volumes_than_the_probe_knows_are_told(host: Host) -> None:
    for n in range(DEVICES - 1):
        host.add(f"dm-{n + 10}", f"253:{n + 10}")
        host.hold("sdc", f"dm-{n + 10}")
    filters = Filters(device=SDC, device_name="sdc")
    enough = Syscall(filters, host.root).notes()
    host.add("dm-99", "253:99")
    host.hold("sdc", "dm-99")
    told = "--device: sdc has 17 devices and file systems on it; files on 1 are not counted."
    assert set(Syscall(filters, host.root).notes()) - set(enough) == {told}
