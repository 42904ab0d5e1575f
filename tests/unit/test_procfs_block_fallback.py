"""The block layer from /proc/diskstats: sums, stacks, wraps, and devices that come and go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ioh.layers.block import SPEC
from ioh.model.sample import LayerSample, Unavailable
from ioh.procfs.block_fallback import BlockFallback, increase, looks_like_partition
from ioh.procfs.blockdev import read_block_device
from ioh.procfs.diskstats import make_dev

DATA = Path(__file__).parents[1] / "data"
COLUMNS = [c.name for c in SPEC.tables[0].raw_columns]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "proc-5.10", tmp_path / "root", symlinks=True)
    return tmp_path / "root"


def rewrite(root: Path, **lines: str) -> None:
    """Replace the numbers of some devices; an empty string takes the device away."""
    path = root / "proc/diskstats"
    kept = []
    for line in path.read_text().splitlines():
        words = line.split()
        numbers = lines.get(words[2].replace("-", "_"))
        if numbers is None:
            kept.append(line)
        elif numbers:
            kept.append(" ".join([*words[:3], numbers, *["0"] * (17 - len(numbers.split()))]))
    path.write_text("\n".join(kept) + "\n")


def read(fallback: BlockFallback) -> LayerSample:
    sample = fallback.sample()
    assert isinstance(sample, LayerSample)
    return sample


SDA = "1000 10 80000 2000 500 50 40000 3000 2 4000 5600 60 0 9600 100 70 500"
SDA_LATER = "1007 12 80112 2021 511 55 40088 3033 3 4010 5660 61 2 9616 101 73 503"


def test_totals_start_at_zero(root: Path) -> None:
    sample = read(BlockFallback(SPEC, root=root))
    assert sample.source == "proc"
    assert {op: t.count_total for op, t in sample.ops.items()} == {
        "read": 0,
        "write": 0,
        "flush": 0,
        "discard": 0,
    }
    assert sample.parts == {}
    assert list(sample.tables["device"]) == [("sda", "sda"), ("dm-0", "vg-lv on sda2,sdb")]


def test_a_device_of_which_somebody_else_knows_more(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    rewrite(root, sdb="1 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0")
    before = read(fallback).tables["device"]
    assert ("sdb", "sdb") not in before
    rows = fallback.activate([make_dev(8, 16), make_dev(99, 0)])
    assert list(rows) == [("sdb", "sdb")]
    assert dict(zip(COLUMNS, rows["sdb", "sdb"], strict=True))["reads_total"] == 0
    assert not fallback.activate([make_dev(8, 16)])
    assert read(fallback).tables["device"] == {**before, **rows}


WAY, LATER = "100 0 800 50 0 0 0 0 0 50 50", "130 4 1040 65 0 0 0 0 0 60 65"


@pytest.fixture
def nvme(root: Path) -> Path:
    """An NVMe disk with two ways to it, as of Linux 6.1: the disk itself counts nothing."""
    with (root / "proc/diskstats").open("a") as file:
        file.write(f"259 0 nvme0n1{' 0' * 17}\n")
        file.write(f"0 0 nvme0c0n1 {WAY}{' 0' * 6}\n0 0 nvme0c1n1 7{WAY[3:]}{' 0' * 6}\n")
    for name in ("nvme0n1", "nvme0c0n1", "nvme0c1n1"):
        (root / f"sys/devices/{name}/queue").mkdir(parents=True)
        (root / f"sys/block/{name}").symlink_to(f"../devices/{name}")
        (root / f"sys/devices/{name}/queue/nr_requests").write_text("1023\n")
        if "c" in name:
            (root / f"sys/devices/{name}/mq").mkdir()
    (root / "sys/dev/block/259:0").symlink_to("../../devices/nvme0n1")
    return root


def test_each_way_to_an_nvme_disk_is_a_device(nvme: Path) -> None:
    fallback = BlockFallback(SPEC, root=nvme)
    read(fallback)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 0, "what each had before is the past"
    rewrite(nvme, nvme0c0n1=LATER)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 30
    assert sample.metrics["read_merges_total"] == 4
    assert list(sample.parts) == ["nvme0c0n1"]
    disk = read_block_device(make_dev(259, 0), nvme)
    assert disk is not None
    assert disk.stack == "nvme0n1 on nvme0c0n1,nvme0c1n1"
    assert disk.is_stacked
    row = dict(zip(COLUMNS, sample.tables["device"]["nvme0c0n1", "nvme0c0n1"], strict=True))
    assert (row["reads_total"], row["queue_depth_limit"]) == (30, 1023)


@pytest.mark.parametrize("own", ["0 0 0 0 0 0 0 0 0 0 0", "30 0 240 15 0 0 0 0 0 10 15"])
def test_an_nvme_disk_is_the_ways_to_it(nvme: Path, own: str) -> None:
    """Since Linux 6.5 it counts itself, too."""
    fallback = BlockFallback(SPEC, make_dev(259, 0), root=nvme)
    read(fallback)
    rewrite(nvme, nvme0c0n1=LATER, nvme0n1=own)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 30
    assert list(sample.parts) == ["nvme0c0n1"]


def test_growth_of_one_disk(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    read(fallback)
    rewrite(root, sda=SDA_LATER)
    sample = read(fallback)
    got = {op: (t.count_total, t.bytes_total, t.latency_ns_total) for op, t in sample.ops.items()}
    assert got == {
        "read": (7, 112 * 512, 21_000_000),
        "write": (11, 88 * 512, 33_000_000),
        "flush": (3, 0, 3_000_000),
        "discard": (1, 16 * 512, 1_000_000),
    }
    assert sample.parts["sda"] == sample.ops
    assert sample.metrics == {
        "read_merges_total": 2,
        "write_merges_total": 5,
        "discard_merges_total": 2,
    }
    row = dict(zip(COLUMNS, sample.tables["device"]["sda", "sda"], strict=True))
    assert row == {
        "reads_total": 7,
        "read_bytes_total": 112 * 512,
        "writes_total": 11,
        "write_bytes_total": 88 * 512,
        "flushes_total": 3,
        "discards_total": 1,
        "read_ns_total": 21_000_000,
        "write_ns_total": 33_000_000,
        "read_merges_total": 2,
        "write_merges_total": 5,
        "busy_ns_total": 10_000_000,
        "weighted_ns_total": 60_000_000,
        "inflight": 3,
        "queue_depth_limit": 64,
        "max_request_bytes": 1280 * 1024,
        "max_hw_request_bytes": 33553408,
        "max_segments": 168,
        "read_ahead_bytes": None,
        "chunk_bytes": None,
        "rotational": None,
        "stacked": 0,
    }


def test_stacked_devices_and_partitions_are_not_added(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    read(fallback)
    more = "2000 0 90000 9000 1000 0 90000 9000 0 9000 9000 0 0 0 0 0 0"
    rewrite(root, sda1=more, dm_0=more, dm_1=more, md0=more, loop0=more, loop1=more)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 2000 - 20  # loop1, whose file is in memory
    assert set(sample.parts) == {"dm-0", "dm-1", "md0", "loop0", "loop1"}


@pytest.mark.parametrize(("device", "count"), [(None, 0), (make_dev(253, 0), 7)])
def test_a_device_without_requests_counts_only_if_chosen(
    tmp_path: Path, device: int | None, count: int
) -> None:
    root = tmp_path / "root"
    shutil.copytree(DATA / "proc-6.18", root, symlinks=True)
    fallback = BlockFallback(SPEC, device, root)
    rewrite(root, zram0="0 0 0 0 0 0 0 0 0 0 0")
    read(fallback)
    rewrite(root, zram0="7 0 56 0 0 0 0 0 0 0 0")
    sample = read(fallback)
    assert sample.ops["read"].count_total == count
    assert sample.parts["zram0"]["read"].count_total == 7


def test_chosen_device_counts_even_if_stacked(root: Path) -> None:
    fallback = BlockFallback(SPEC, make_dev(253, 0), root)
    read(fallback)
    rewrite(root, sda=SDA_LATER, dm_0="460 0 36080 1010 230 0 18000 1500 0 1900 2500 0 0 0 0 0 0")
    sample = read(fallback)
    assert sample.ops["read"].count_total == 10
    assert set(sample.parts) == {"dm-0"}


def test_device_that_goes_and_comes_back(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    whole = (root / "proc/diskstats").read_text()
    read(fallback)
    rewrite(root, sda=SDA_LATER)
    assert read(fallback).ops["read"].count_total == 7
    rewrite(root, sda="")
    assert read(fallback).ops["read"].count_total == 7
    (root / "proc/diskstats").write_text(whole)
    rewrite(root, sda="5 0 40 1 0 0 0 0 0 0 0 0 0 0 0 0 0")
    sample = read(fallback)
    assert sample.ops["read"].count_total == 12  # a new disk: all of it since the last sample
    assert sample.parts["sda"]["read"].count_total == 5


def test_number_that_means_another_device(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    read(fallback)
    rewrite(root, sda="5 0 40 1 0 0 0 0 0 0 0 0 0 0 0 0 0")
    assert read(fallback).ops["read"].count_total == 5


def test_milliseconds_wrap_and_waver() -> None:
    def growth_ms(older_ms: int, newer_ms: int) -> int:
        rest = [0] * 12
        return increase((1, 0, 0, older_ms, *rest), (2, 0, 0, newer_ms, *rest))[3]

    assert growth_ms(2, 9) == 7
    assert growth_ms((1 << 32) - 5, 7) == 12
    assert growth_ms(9, 7) == 0


def test_switched_off_statistics_are_told(root: Path) -> None:
    notes = read(BlockFallback(SPEC, root=root)).notes
    assert notes[-1] == "statistics are turned off (queue/iostats) for sdb"
    assert "millisecond" in notes[1]


def test_loop_device_with_another_file_has_another_row(root: Path) -> None:
    fallback = BlockFallback(SPEC, make_dev(7, 1), root)
    read(fallback)
    rewrite(root, loop1="21 0 168 6 0 0 0 0 0 4 6 0 0 0 0 0 0")
    read(fallback)
    (root / "sys/block/loop1/loop/backing_file").write_text("/srv/c.img\n")
    rewrite(root, loop1="23 0 184 6 0 0 0 0 0 4 6 0 0 0 0 0 0")
    sample = read(fallback)
    key = ("loop1", "file /srv/c.img on sda1")
    assert {k: row[0] for k, row in sample.tables["device"].items()} == {key: 2}
    assert sample.ops["read"].count_total == 3


def test_not_there(tmp_path: Path, root: Path) -> None:
    assert isinstance(BlockFallback(SPEC, root=tmp_path / "none").sample(), Unavailable)
    assert isinstance(BlockFallback(SPEC, make_dev(99, 9), root).sample(), Unavailable)


def test_without_sysfs_partitions_are_told_by_name(root: Path) -> None:
    shutil.rmtree(root / "sys")
    fallback = BlockFallback(SPEC, root=root)
    read(fallback)
    rewrite(root, sda=SDA_LATER, sda1=SDA_LATER)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 7
    assert ("sda", "sda") in sample.tables["device"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sda1", True),
        ("sda", False),
        ("sdb1", False),
        ("nvme0n1p2", True),
        ("nvme0n1", False),
        ("dm-1", False),
        ("md1", False),
        ("loop0p1", True),
        ("1", False),
        ("", False),
    ],
)
def test_partition_names(name: str, expected: bool) -> None:
    assert looks_like_partition(name, {"sda", "nvme0n1", "loop0", "md1", name}) is expected


def test_live_totals_only_grow() -> None:
    fallback = BlockFallback(SPEC)
    older = read(fallback)
    newer = read(fallback)
    for op, totals in older.ops.items():
        assert (newer.ops[op].count_total or 0) >= (totals.count_total or 0)
