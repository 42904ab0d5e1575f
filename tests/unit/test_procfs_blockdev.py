"""What a block device is stacked on, what is stacked on it, its limits, what --device accepts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ioh.layers.syscall import Syscall
from ioh.layers.syscall_probe import DEVICES
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.procfs.blockdev import BlockDevice, BlockDevices, read_block_device
from ioh.procfs.devices import ChosenDevice, numbers_on, resolve_device
from ioh.procfs.diskstats import make_dev, parse_dev, read_diskstats

DATA = Path(__file__).parents[1] / "data"
OLD = DATA / "proc-5.10"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(OLD, tmp_path / "root", symlinks=True)
    return tmp_path / "root"


def device(number: str, root: Path = OLD) -> BlockDevice:
    dev = parse_dev(number)
    assert dev is not None
    found = read_block_device(dev, root)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("number", "name", "stack", "is_stacked"),
    [
        ("8:0", "sda", "sda", False),
        ("8:1", "sda1", "sda1 of sda", False),
        ("253:0", "dm-0", "vg-lv on sda2,sdb", True),
        ("253:1", "dm-1", "crypt on dm-0 (vg-lv on sda2,sdb)", True),
        ("9:0", "md0", "raid1 on cciss/c0d0,sdb", True),
        ("7:0", "loop0", "file /srv/my data/a\\x1b[31m.img on dm-1", True),
        ("7:1", "loop1", "file /run/b.img on tmpfs", False),
        ("104:0", "cciss/c0d0", "cciss/c0d0", False),
    ],
)
def test_stack(number: str, name: str, stack: str, is_stacked: bool) -> None:
    found = device(number)
    assert (found.name, found.stack, found.is_stacked) == (name, stack, is_stacked)


@pytest.mark.parametrize(
    ("file", "stack", "is_stacked"),
    [
        ("/dev/sdb", "loop on sdb", True),
        ("/btr/x", "file /btr/x on sdb", True),  # no device number, but a source
        ("/mnt/nfs/x", "file /mnt/nfs/x on nfs4", False),
        ("/dev/ram3", "loop on ram3", False),  # brd counts nothing, so the loop device does
    ],
)
def test_loop_over(root: Path, file: str, stack: str, is_stacked: bool) -> None:
    (root / "sys/block/loop1/loop/backing_file").write_text(f"{file}\n")
    loop = device("7:1", root)
    assert (loop.stack, loop.is_stacked) == (stack, is_stacked)


@pytest.mark.parametrize(
    ("name", "slaves", "stack", "is_stacked"),
    [
        ("dm-7", ["ram3"], "dm-7 on ram3", False),
        ("dm-7", ["ram3", "sdb"], "dm-7 on ram3,sdb", True),
        ("zd0", [], "zd0 on zfs", True),
        ("zram5", [], "zram5", False),
    ],
)
def test_only_what_lies_on_a_counted_device_is_stacked(
    root: Path, name: str, slaves: list[str], stack: str, is_stacked: bool
) -> None:
    folder = root / f"sys/devices/virtual/block/{name}"
    (folder / "slaves").mkdir(parents=True)
    for slave in slaves:
        made = root / f"sys/devices/virtual/block/{slave}"
        made.mkdir(parents=True, exist_ok=True)
        (folder / "slaves" / slave).symlink_to(made)
    (root / "sys/dev/block/250:7").symlink_to(folder)
    found = device("250:7", root)
    assert (found.stack, found.is_stacked, found.is_counted) == (stack, is_stacked, not is_stacked)


@pytest.mark.parametrize(
    ("transport", "address", "stack"),
    [
        ("pcie", "0000:01:00.0", "nvme0n1"),
        ("loop", "", "nvme0n1"),
        ("tcp", "traddr=10.99.2.2,trsvcid=4420", "nvme0n1 on nvme/tcp 10.99.2.2:4420"),
        (
            "tcp", "traddr=fd00::2,trsvcid=4421,src_addr=fd00::1",
            "nvme0n1 on nvme/tcp [fd00::2]:4421",
        ),
        ("rdma", "traddr=10.99.2.2,trsvcid=4420", "nvme0n1 on nvme/rdma 10.99.2.2:4420"),
        ("fc", "traddr=nn-0x1:pn-0x2", "nvme0n1 on nvme/fc nn-0x1:pn-0x2"),
        ("tcp", "traddr=\x1b[31m,trsvcid=1", "nvme0n1 on nvme/tcp \\x1b[31m:1"),
        ("tcp", "", "nvme0n1 on nvme/tcp"),
    ],
)  # fmt: skip
def test_an_nvme_disk_on_the_network(root: Path, transport: str, address: str, stack: str) -> None:
    controller = root / "sys/devices/virtual/nvme-fabrics/ctl/nvme0"
    (controller / "nvme0n1").mkdir(parents=True)
    (controller / "transport").write_text(f"{transport}\n")
    (controller / "address").write_text(f"{address}\n")
    (root / "sys/dev/block/259:7").symlink_to(controller / "nvme0n1")
    found = device("259:7", root)
    assert (found.stack, found.is_stacked) == (stack, False)


def test_an_iscsi_disk(root: Path) -> None:
    session = "platform/host3/session1"
    at = root / "sys/devices" / session / "connection1:0/iscsi_connection/connection1:0"
    at.mkdir(parents=True)
    disk = root / "sys/devices" / session / "target3:0:0/3:0:0:1/block/sdz"
    disk.mkdir(parents=True)
    (root / "sys/dev/block/259:7").symlink_to(disk)
    assert device("259:7", root).stack == "sdz on iscsi"
    (at / "address").write_text("10.99.3.2\n")
    (at / "port").write_text("3260\n")
    assert device("259:7", root).stack == "sdz on iscsi 10.99.3.2:3260"


def test_limits() -> None:
    sda = device("8:0")
    assert (sda.max_request_bytes, sda.max_hw_request_bytes) == (1280 * 1024, 32767 * 1024)
    assert (sda.max_segments, sda.queue_depth_limit) == (168, 64)
    assert (sda.scheduler, sda.model) == ("mq-deadline", "QEMU HARDDISK")
    assert sda.rotational is None  # a virtual disk, and it claims to rotate
    assert sda.counts_io
    assert not device("8:16").counts_io
    sda1 = device("8:1")  # uses its disk's queue
    assert sda1.is_partition
    assert (sda1.disk_dev, sda1.disk_name) == (make_dev(8, 0), "sda")
    assert sda1.queue_depth_limit == 64


@pytest.mark.parametrize(
    ("said", "model", "turns"),
    [
        ("1", "ST4000NM0035", True),
        ("0", "QEMU HARDDISK", False),
        ("1", "Virtual disk", None),
        ("", "ST4000NM0035", None),
    ],
)
def test_a_virtual_disk_that_claims_to_rotate_is_not_believed(
    root: Path, said: str, model: str, turns: bool | None
) -> None:
    sda = (root / "sys/dev/block/8:0").resolve()
    (sda / "queue/rotational").write_text(f"{said}\n")
    (sda / "device/model").write_text(f"{model}\n")
    assert device("8:0", root).rotational is turns


def test_bio_devices_have_no_request_queue() -> None:
    assert not device("253:0").has_requests
    assert device("253:0").queue_depth_limit is None
    zram = device("253:0", DATA / "proc-6.18")
    assert (zram.name, zram.has_requests, zram.is_stacked) == ("zram0", False, False)
    loop = device("7:0", DATA / "proc-6.18")
    assert (loop.stack, loop.is_stacked) == ("file /var/tmp/cap/a b.img on vda", True)
    assert read_block_device(make_dev(99, 9), OLD) is None


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("sda", "sda"),
        ("8:16", "sdb"),
        ("vg-lv", "dm-0"),
        ("/dev/mapper/vg-lv", "dm-0"),
        ("/dev/cciss/c0d0", "cciss/c0d0"),
    ],
)
def test_ways_to_name_a_device(argument: str, name: str) -> None:
    assert resolve_device(argument, OLD).name == name


@pytest.mark.parametrize("argument", ["sda1", "8:1", "/dev/disk/by-id/ata-QEMU-part1"])
def test_partition_stands_for_its_disk(argument: str) -> None:
    note = "sda1 is a partition, but requests carry only the whole disk: all of sda is shown"
    assert resolve_device(argument, OLD) == ChosenDevice(make_dev(8, 0), "sda", (note,))


def test_stacked_device_says_where_its_requests_are() -> None:
    (note,) = resolve_device("vg-lv", OLD).notes
    assert note.endswith("its I/O becomes requests of vg-lv on sda2,sdb")


@pytest.mark.parametrize(
    "argument", ["", "..", "/dev/sdz", "99:1", "/mnt/nfs/x", "/dev/../etc/passwd", "a\0b\x1b[0m"]
)
def test_unknown_device_lists_the_known_ones(argument: str, tmp_path: Path) -> None:
    with pytest.raises(IohError, match="no block device") as error:
        resolve_device(argument, OLD)
    assert error.value.code is ExitCode.USAGE
    assert "sda, sdb" in error.value.hint
    assert str(error.value).isprintable()
    with pytest.raises(IohError, match="has no block device"):
        resolve_device("sda", tmp_path)


def test_refresh_sees_a_loop_device_get_another_file(root: Path) -> None:
    devices = BlockDevices(root)
    loop, sda = make_dev(7, 1), make_dev(8, 0)
    first = devices.get(loop)
    devices.get(sda)
    (root / "sys/block/loop1/loop/backing_file").write_text("/srv/c.img\n")
    assert devices.get(loop) is first
    devices.refresh()
    changed = devices.get(loop)
    assert changed is not None
    assert changed.stack == "file /srv/c.img on sda1"
    devices.forget(loop)


def test_refresh_sees_a_new_array_get_its_limits(root: Path) -> None:
    """Even among many devices, whose turn to be read again comes late."""
    devices = BlockDevices(root)
    for number in ("8:0", "8:1", "253:0", "253:1", "7:0", "7:1", "104:0"):
        devices.get(parse_dev(number) or 0)
    devices.refresh()
    devices.refresh()
    limit = root / "sys/block/md0/queue/max_sectors_kb"
    md0 = make_dev(9, 0)
    for kib in (2147483647, 64):
        limit.write_text(f"{kib}\n")
        devices.refresh()
        found = devices.get(md0)
        assert found is not None
        assert found.max_request_bytes == kib * 1024


def test_every_live_disk_is_described() -> None:
    names = {s.dev: s.name for s in read_diskstats() or ()}
    disks = {path.name.replace("!", "/") for path in Path("/sys/block").iterdir()}
    assert disks
    for dev, name in names.items():
        found = read_block_device(dev)
        assert found is not None
        assert found.name == name
        assert found.is_partition == (name not in disks)
        assert resolve_device(name).name == found.disk_name


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
# By name: device number, and its holders.
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
    """Disks in sysfs: dm on a partition, volumes on that, an array of a partition and a disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, (number, _) in DEVICES_OF_HOST.items():
            self.add(name, number)
        for name, (_, holders) in DEVICES_OF_HOST.items():
            for holder in holders:
                self.hold(name, holder)
        # One btrfs mirrored on a volume and a disk, and one on a partition.
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
def test_volumes_arrays_partitions_and_btrfs_on_a_device_are_found(
    host: Host, dev: int, expected: tuple[int, ...]
) -> None:
    assert numbers_on(dev, host.root) == expected


def test_a_cycle_of_holders_ends(host: Host) -> None:
    host.hold("dm-1", "sda")
    assert numbers_on(SDA, host.root)[:2] == (BTRFS_2, BTRFS)


def test_more_volumes_than_the_probe_can_hold_are_reported(host: Host) -> None:
    for n in range(DEVICES - 1):
        host.add(f"dm-{n + 10}", f"253:{n + 10}")
        host.hold("sdc", f"dm-{n + 10}")
    filters = Filters(device=SDC, device_name="sdc")
    enough = Syscall(filters, host.root).notes()
    host.add("dm-99", "253:99")
    host.hold("sdc", "dm-99")
    told = "--device: sdc has 17 devices and file systems on it; files on 1 are not counted."
    assert set(Syscall(filters, host.root).notes()) - set(enough) == {told}
