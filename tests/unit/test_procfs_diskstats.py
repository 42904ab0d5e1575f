"""/proc/diskstats of two kernels, and of this one against sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.procfs.diskstats import (
    DiskStats,
    make_dev,
    parse_dev,
    parse_diskstats,
    read_diskstats,
    split_dev,
)

DATA = Path(__file__).parents[1] / "data"
LINE = "8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"


def test_every_column_has_its_field() -> None:
    assert parse_diskstats(f"   {LINE} 18 nineteen") == [
        DiskStats(
            dev=8 << 20 | 16,
            name="sdb",
            reads_total=1,
            read_merges_total=2,
            read_bytes_total=3 * 512,
            read_ms_total=4,
            writes_total=5,
            write_merges_total=6,
            write_bytes_total=7 * 512,
            write_ms_total=8,
            inflight=9,
            busy_ms_total=10,
            weighted_ms_total=11,
            discards_total=12,
            discard_merges_total=13,
            discard_bytes_total=14 * 512,
            discard_ms_total=15,
            flushes_total=16,
            flush_ms_total=17,
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "8",
        "8 16 sdb",
        LINE.removesuffix(" 17"),
        LINE.replace("5", "x"),
        "x" + LINE,
        LINE.replace(" 3", " -3"),
    ],
)
def test_malformed_line_is_left_out(line: str) -> None:
    assert [s.name for s in parse_diskstats(f"{line}\n{LINE}\n")] == ["sdb"]


@pytest.mark.parametrize(
    ("text", "dev"),
    [
        ("8:16", 8 << 20 | 16),
        ("259:1048575", 259 << 20 | 1048575),
        ("8:1048576", None),
        ("8", None),
        ("8:1:2", None),
        ("-8:1", None),
        ("a:b", None),
        ("", None),
    ],
)
def test_device_number(text: str, dev: int | None) -> None:
    assert parse_dev(text) == dev
    if dev is not None:
        assert make_dev(*split_dev(dev)) == dev


def test_missing_file(tmp_path: Path) -> None:
    assert read_diskstats(tmp_path) is None


@pytest.mark.parametrize("kernel", ["proc-5.10", "proc-6.18"])
def test_fake_roots_lose_no_line(kernel: str) -> None:
    stats = read_diskstats(DATA / kernel)
    assert stats is not None
    lines = (DATA / kernel / "proc/diskstats").read_text().splitlines()
    assert [s.name for s in stats] == [line.split()[2] for line in lines]


def test_live_numbers_lie_between_two_readings_of_sysfs() -> None:
    def sysfs(name: str) -> list[int]:
        return [int(n) for n in Path(f"/sys/class/block/{name}/stat").read_text().split()]

    names = [path.name for path in Path("/sys/block").iterdir()]
    before = {name: sysfs(name) for name in names}
    stats = {s.name.replace("/", "!"): s for s in read_diskstats() or ()}
    after = {name: sysfs(name) for name in names}
    assert set(names) <= set(stats)
    for name in names:
        for column, value in enumerate(stats[name][2:]):
            if column == 8:  # in flight goes up and down
                continue
            scale = 512 if column in {2, 6, 13} else 1
            assert before[name][column] * scale <= value <= after[name][column] * scale
