"""The block layer from /proc/diskstats: sums, stacks, wraparound, devices that come and go."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from ioh.layers.block import SPEC
from ioh.model.sample import LayerSample
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
    """Replace the numbers of some devices; an empty string removes the device."""
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


SDA_LATER = "1007 12 80112 2021 511 55 40088 3033 3 4010 5660 61 2 9616 101 73 503"


def test_a_device_whose_io_the_probe_saw_gets_a_row(root: Path) -> None:
    fallback = BlockFallback(SPEC, root=root)
    rewrite(root, sdb="1 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0")
    sample = read(fallback)
    assert sample.ops.keys() == {"read", "write", "flush", "discard"}
    assert {op.count_total for op in sample.ops.values()} == {0}
    assert (sample.source, sample.parts) == ("proc", {})
    before = sample.tables["device"]
    assert list(before) == [("sda", "sda"), ("dm-0", "vg-lv on sda2,sdb")]
    rows = fallback.activate([make_dev(8, 16), make_dev(99, 0)])
    assert list(rows) == [("sdb", "sdb")]
    assert dict(zip(COLUMNS, rows["sdb", "sdb"], strict=True))["reads_total"] == 0
    assert not fallback.activate([make_dev(8, 16)])
    assert read(fallback).tables["device"] == {**before, **rows}


WAY, LATER = "100 0 800 50 0 0 0 0 0 50 50", "130 4 1040 65 0 0 0 0 0 60 65"


@pytest.fixture(params=[("0 0", "0 0"), ("259 1", "259 2")])
def nvme(root: Path, request: pytest.FixtureRequest) -> Path:
    """An NVMe disk with two paths to it, as of Linux 6.1: the disk itself counts nothing.

    Whether diskstats has the paths' numbers or not, sysfs does not list them by number.
    """
    first, second = request.param
    with (root / "proc/diskstats").open("a") as file:
        file.write(f"259 0 nvme0n1{' 0' * 17}\n")
        file.write(f"{first} nvme0c0n1 {WAY}{' 0' * 6}\n")
        file.write(f"{second} nvme0c1n1 7{WAY[3:]}{' 0' * 6}\n")
    for name in ("nvme0n1", "nvme0c0n1", "nvme0c1n1"):
        (root / f"sys/devices/{name}/queue").mkdir(parents=True)
        (root / f"sys/block/{name}").symlink_to(f"../devices/{name}")
        (root / f"sys/devices/{name}/queue/nr_requests").write_text("1023\n")
        if "c" in name:
            (root / f"sys/devices/{name}/mq").mkdir()
    (root / "sys/dev/block/259:0").symlink_to("../../devices/nvme0n1")
    return root


def test_each_path_to_an_nvme_disk_is_a_device(nvme: Path) -> None:
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
    merges = {"read": 2, "write": 5, "discard": 2}
    assert sample.metrics == {f"{op}_merges_total": count for op, count in merges.items()}
    row = dict(zip(COLUMNS, sample.tables["device"]["sda", "sda"], strict=True))
    for op, (count, moved, took_ns) in got.items():
        assert row["flushes_total" if op == "flush" else f"{op}s_total"] == count
        if op in {"read", "write"}:
            assert (row[f"{op}_bytes_total"], row[f"{op}_ns_total"]) == (moved, took_ns)
            assert row[f"{op}_merges_total"] == merges[op]
    state = ("busy_ns_total", "weighted_ns_total", "inflight", "stacked")
    assert [row[name] for name in state] == [10_000_000, 60_000_000, 3, 0]
    limits = ("queue_depth_limit", "max_request_bytes", "max_hw_request_bytes", "max_segments")
    assert [row[name] for name in limits] == [64, 1280 * 1024, 33553408, 168]
    assert [row[name] for name in ("read_ahead_bytes", "chunk_bytes", "rotational")] == [None] * 3


@pytest.mark.parametrize(
    ("device", "count", "parts"),
    [
        # Only loop1 counts of the devices on top of something: its file is in memory.
        (None, 1980, {"dm-0", "dm-1", "md0", "loop0", "loop1"}),
        (make_dev(253, 0), 1550, {"dm-0"}),
    ],
)
def test_stacked_devices_and_partitions_are_not_added_unless_chosen(
    root: Path, device: int | None, count: int, parts: set[str]
) -> None:
    fallback = BlockFallback(SPEC, device, root)
    read(fallback)
    more = "2000 0 90000 9000 1000 0 90000 9000 0 9000 9000 0 0 0 0 0 0"
    rewrite(root, sda1=more, dm_0=more, dm_1=more, md0=more, loop0=more, loop1=more)
    sample = read(fallback)
    assert (sample.ops["read"].count_total, set(sample.parts)) == (count, parts)


@pytest.mark.parametrize("device", [None, make_dev(253, 0)])
def test_a_device_without_requests_counts(tmp_path: Path, device: int | None) -> None:
    root = tmp_path / "root"
    shutil.copytree(DATA / "proc-6.18", root, symlinks=True)
    fallback = BlockFallback(SPEC, device, root)
    rewrite(root, zram0="0 0 0 0 0 0 0 0 0 0 0")
    read(fallback)
    rewrite(root, zram0="7 0 56 0 0 0 0 0 0 0 0")
    sample = read(fallback)
    assert sample.ops["read"].count_total == 7
    assert sample.parts["zram0"]["read"].count_total == 7


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
    assert sample.ops["read"].count_total == 12  # a new disk: all its reads are new
    assert sample.parts["sda"]["read"].count_total == 5


def test_milliseconds_may_wrap_or_go_back() -> None:
    def growth_ms(older_ms: int, newer_ms: int) -> int:
        rest = [0] * 12
        return increase((1, 0, 0, older_ms, *rest), (2, 0, 0, newer_ms, *rest))[3]

    assert growth_ms(2, 9) == 7
    assert growth_ms((1 << 32) - 5, 7) == 12
    assert growth_ms(9, 7) == 0


def test_switched_off_statistics_are_reported(root: Path) -> None:
    notes = read(BlockFallback(SPEC, root=root)).notes
    assert notes[-1] == "statistics are turned off (queue/iostats) for sdb"
    assert "millisecond" in notes[1]


def test_without_sysfs_partitions_are_recognized_by_name(root: Path) -> None:
    shutil.rmtree(root / "sys")
    fallback = BlockFallback(SPEC, root=root)
    read(fallback)
    rewrite(root, sda=SDA_LATER, sda1=SDA_LATER)
    sample = read(fallback)
    assert sample.ops["read"].count_total == 7
    assert ("sda", "sda") in sample.tables["device"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["sda1", "nvme0n1p2", "loop0p1"], True),
        (["sda", "sdb1", "nvme0n1", "dm-1", "md1", "1", ""], False),
    ],
)
def test_partition_names(names: list[str], expected: bool) -> None:
    for name in names:
        disks = {"sda", "nvme0n1", "loop0", "md1", name}
        assert looks_like_partition(name, disks) is expected, name


def test_a_device_that_completes_nothing_is_in_progress(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three bios in flight on a volume; the disk below does one request after another."""
    clock = [10**12]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    (root / "sys/block/dm-0").mkdir(parents=True, exist_ok=True)
    (root / "sys/block/dm-0/inflight").write_text("       1        2\n")
    fallback = BlockFallback(SPEC, root=root)
    ages = []
    for second in range(8):
        done = min(4, second)  # by the volume: the last one at second 4
        idle = second == 7
        rewrite(
            root,
            dm_0=f"{done} 0 8 1 0 0 0 0 {0 if idle else 3} {second} 1 0 0 0 0 0 0",
            sda=f"{second} 0 8 1 0 0 0 0 1 {second} 1 0 0 0 0 0 0",
        )
        rows = read(fallback).tables["in_progress"]
        assert {key[0] for key in rows} <= {"dm-0"}
        ages.append({key[2]: row for key, row in rows.items()})
        clock[0] += 10**9
    assert ages[:5] == [{}] * 5
    assert ages[5:] == [
        {"read": (1_000_000, 1), "write": (1_000_000, 2)},
        {"read": (2_000_000, 1), "write": (2_000_000, 2)},
        {},
    ]
