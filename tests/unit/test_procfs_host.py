"""The machine's numbers from two kernels, and from files that are not as they should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioh.model.derive import derive_host
from ioh.model.sample import HostSample
from ioh.procfs.host import (
    CpuTicks,
    parse_loadavg,
    parse_meminfo,
    parse_pressure,
    parse_stat,
    parse_vmstat,
    read_host,
)

DATA = Path(__file__).parents[1] / "data"
KIB = 1024


def test_guest_time_is_counted_once_and_idle_has_no_iowait() -> None:
    ticks = parse_stat("cpu  1000 20 300 40000 500 6 70 8 900 10\ncpu0 1 2 3 4\ncpu1 1 2 3 4\n")
    total = 1000 + 20 + 300 + 40000 + 500 + 6 + 70 + 8
    assert ticks == CpuTicks(total=total, idle=40000, iowait=500, steal=8, online=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CpuTicks()),
        ("cpu\n", CpuTicks()),
        ("cpu  1 2 3\n", CpuTicks()),
        ("cpu  1 x 3 4\ncpu0 1\n", CpuTicks(online=1)),
        ("cpu  1 2 3 4\ncpux 1\n", CpuTicks(total=10, idle=4)),
        ("cpu  1 2 3 4 5 6 7 8 9 10 11 12\n", CpuTicks(36, 4, 5, 8, None)),
        ("intr 1 2\ncpu 1 2 3 4\n", CpuTicks()),
    ],
)
def test_malformed_stat(text: str, expected: CpuTicks) -> None:
    assert parse_stat(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.52 0.58 0.59 1/467 12345\n", (0.52, 0.58, 0.59)),
        ("", (None, None, None)),
        ("0.5 nan 1_0 1/1 1", (0.5, None, None)),
        ("inf -1 2", (None, None, 2.0)),
    ],
)
def test_loadavg(text: str, expected: tuple[float | None, ...]) -> None:
    assert parse_loadavg(text) == expected


def test_meminfo_takes_sizes_only() -> None:
    text = "MemTotal: 8 kB\nHugePages_Total: 0\nDirty: x kB\nCached 5 kB\nA: 1 MB\n: : :\n"
    assert parse_meminfo(text) == {"MemTotal": 8 * KIB}


def test_vmstat_leaves_malformed_lines_out() -> None:
    assert parse_vmstat("nr_dirty 5\nnr_writeback\nnr_x y\n\nb 6") == {"nr_dirty": 5, "b": 6}


def test_pressure() -> None:
    text = (
        "some avg10=0.13 avg60=0.05 avg300=0.01 total=197\nfull total=x\nfull avg10=1 total=9 new=1"
    )
    assert parse_pressure(text) == {"some": 197, "full": 9}


def test_debian_11() -> None:
    host = read_host(DATA / "proc-5.10", page_bytes=4096)
    assert host.cpu_count == 2
    assert host.load1 == 0.52
    assert host.mem_available_bytes == 6514452 * KIB
    assert host.cached_bytes == (5796804 + 276940) * KIB
    assert host.dirty_bytes == 296 * 4096
    assert host.writeback_bytes == 7 * 4096
    assert host.dirty_limit_bytes == 325420 * 4096
    assert host.dirty_background_bytes == 162511 * 4096
    assert host.psi_io_some_us_total is None  # Debian 11 boots with PSI off


def test_6_18_knows_everything() -> None:
    host = read_host(DATA / "proc-6.18")
    missing = [f for f in HostSample.__dataclass_fields__ if getattr(host, f) is None]
    assert missing == []


def test_an_empty_root_knows_nothing(tmp_path: Path) -> None:
    assert read_host(tmp_path) == HostSample()


def test_live_host_agrees_with_itself() -> None:
    older = read_host()
    newer = read_host()
    assert newer.cpu_count == os.sysconf("SC_NPROCESSORS_ONLN")
    assert newer.mem_total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert newer.load1 is not None
    assert derive_host(older, newer, 1.0).cpu_count == newer.cpu_count
