"""What the kernel does to disks on its own account, and limits of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.layers.block_rows import MachineTables
from ioh.procfs.blockdev import BlockDevices
from ioh.procfs.io_limits import IoLimits, parse_io_max, parse_throttle, read_limits
from ioh.procfs.maintenance import Job, parse_mdstat, read_jobs

MDSTAT = """\
Personalities : [raid1] [raid6] [raid5] [raid4]
md1 : active raid1 sdd1[1] sdc1[0]
      1048512 blocks super 1.2 [2/2] [UU]
      \tresync=DELAYED
md127 : active raid5 sdb1[1] sda1[0]
      1048512 blocks super 1.2 [2/2] [UU]
      [=>...................]  resync =  8.5% (90000/1048512) finish=0.1min speed=90000K/sec
      bitmap: 0/1 pages [0KB], 65536KB chunk
md2 : active (auto-read-only) raid1 sdf1[1]
      5 blocks
      [>....................]  check = 0.0% (0/5)

unused devices: <none>
"""


def test_mdstat() -> None:
    assert parse_mdstat(MDSTAT) == [
        Job("md127", "resync", 8.5, 90000 * 1024),
        Job("md2", "check", 0.0, None),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n", "md0", "      [=>] resync = 8.5%", "md0 : \n  [=>] x = y%"]
)
def test_mdstat_that_makes_no_sense(text: str) -> None:
    assert parse_mdstat(text) == []


@pytest.fixture
def btrfs(tmp_path: Path) -> Path:
    """Two file systems, one of which balances."""
    for uuid, kind in (("a-b", "balance\n"), ("c-d", "none\n"), ("features", "")):
        folder = tmp_path / "sys/fs/btrfs" / uuid
        folder.mkdir(parents=True)
        if kind:
            (folder / "exclusive_operation").write_text(kind)
    for name in ("sdb", "sdc"):
        (tmp_path / "sys/fs/btrfs/c-d/devices" / name).mkdir(parents=True)
    return tmp_path


def test_btrfs_says_what_excludes_other_operations(btrfs: Path) -> None:
    assert read_jobs(btrfs) == [Job("btrfs a-b", "balance")]


def test_a_scrub_is_seen_by_its_socket(btrfs: Path) -> None:
    lead = "00000000f34d09ba: 00000002 00000000 00010000 0001 01 1212593"
    folder = btrfs / "proc/net"
    folder.mkdir(parents=True)
    (folder / "unix").write_text(
        f"Num RefCount\n{lead} /run/x\n{lead} /var/lib/btrfs/scrub.progress.c-d\n"
    )
    assert read_jobs(btrfs) == [Job("btrfs a-b", "balance"), Job("btrfs on sdb,sdc", "scrub")]


def test_io_max() -> None:
    unlimited = "8:0 rbps=max wbps=max riops=max wiops=max"
    text = f"8:16 rbps=2097152 wbps=max riops=max wiops=120\n{unlimited}\nx\n"
    assert parse_io_max(text) == {8 << 20 | 16: (2097152, None, None, 120)}


def test_throttle_of_version_1() -> None:
    assert parse_throttle(("7:0 1048576\n", "", "7:0 50\n7:1 x\n", "")) == {
        7 << 20: (1048576, None, 50, None)
    }


def test_limits_of_version_2(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/a.slice/b\x1b"
    group.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("io\n")
    (group / "io.max").write_text("8:0 rbps=1000 wbps=max riops=max wiops=max\n")
    limits = IoLimits(tmp_path)
    assert limits.read() == {("/a.slice/b\\x1b", 8 << 20): (1000, None, None, None)}
    (group / "io.max").write_text("")
    assert [bool(limits.read()) for _ in range(30)] == [True] * 29 + [False]


def test_limits_of_version_1(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/blkio/slow"
    group.mkdir(parents=True)
    (group / "blkio.throttle.write_bps_device").write_text("7:3 5000\n")
    assert read_limits(tmp_path) == {("/slow", 7 << 20 | 3): (None, 5000, None, None)}


def test_tables_are_empty_where_there_is_nothing(tmp_path: Path) -> None:
    assert MachineTables(tmp_path, BlockDevices(tmp_path)).read() == {"limit": {}, "job": {}}
