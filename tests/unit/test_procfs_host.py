"""The machine's numbers from two kernels, and from files that are not as they should be."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from ioh.model.derive import derive_host
from ioh.model.sample import HostSample
from ioh.procfs.files import read_numbers, read_pressure
from ioh.procfs.host import read_host

DATA = Path(__file__).parents[1] / "data"
KIB = 1024
# What psutil asks the C library for, not /proc.
NOT_IN_PROC = HostSample(cpu_count=2, load1=1.0, load5=1.0, load15=1.0)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc of a machine with two CPUs."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(psutil, "getloadavg", lambda: (1.0, 1.0, 1.0))
    return tmp_path


def test_guest_time_is_counted_once_and_idle_has_no_iowait(proc: Path) -> None:
    (proc / "stat").write_text("cpu  1000 20 300 40000 500 6 70 8 900 10\ncpu0 1 2 3 4\n")
    host = read_host()
    assert host.cpu_total_ticks == 1000 + 20 + 300 + 40000 + 500 + 6 + 70 + 8
    assert (host.cpu_idle_ticks, host.cpu_iowait_ticks, host.cpu_steal_ticks) == (40000, 500, 8)


@pytest.mark.parametrize("stat", ["", "cpu\n", "cpu  1 2 3\n", "cpu  1 x 3 4 5 6 7 8 9 10\n"])
@pytest.mark.parametrize("meminfo", ["", "MemTotal: x kB\n", "\n", "MemTotal: 8 kB\nMemFree: 2 kB"])
def test_what_is_hidden_or_malformed_is_unknown(proc: Path, stat: str, meminfo: str) -> None:
    assert read_host() == NOT_IN_PROC
    (proc / "stat").write_text(stat)
    (proc / "meminfo").write_text(meminfo)
    assert read_host() == NOT_IN_PROC


def test_a_list_of_numbers_leaves_malformed_lines_out(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_dirty 5\nnr_writeback\nnr_x y\n\nb \t 6\nc 7")
    wanted = {"nr_dirty", "nr_writeback", "nr_x", "b", ""}
    assert read_numbers(str(tmp_path / "vmstat"), wanted) == {"nr_dirty": 5, "b": 6}
    assert read_numbers(str(tmp_path / "gone"), wanted) == {}


def test_pressure(tmp_path: Path) -> None:
    some = "some avg10=0.13 avg60=0.05 avg300=0.01 total=197\n"
    (tmp_path / "io").write_text(some + "full total=x\nfull avg10=1 total=9\nnew total=3\n")
    assert read_pressure(str(tmp_path / "io")) == {"some": 197, "full": 9}
    assert read_pressure(str(tmp_path / "gone")) == {}


def test_debian_11(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(DATA / "proc-5.10/proc"))
    host = read_host(page_bytes=4096)
    assert host.mem_available_bytes == 6514452 * KIB
    assert host.cached_bytes == (5796804 + 276940 + 884732) * KIB
    assert host.dirty_bytes == 296 * 4096
    assert host.writeback_bytes == 7 * 4096
    assert host.dirty_limit_bytes == 325420 * 4096
    assert host.dirty_background_bytes == 162511 * 4096
    assert host.psi_io_some_us_total is None  # Debian 11 boots with PSI off


def test_6_18_knows_everything(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(DATA / "proc-6.18/proc"))
    host = read_host()
    assert [f for f in HostSample.__dataclass_fields__ if getattr(host, f) is None] == []


def test_live_host_agrees_with_itself() -> None:
    older, newer = read_host(), read_host()
    assert newer.mem_total_bytes == psutil.virtual_memory().total
    assert newer.load1 is not None
    assert derive_host(older, newer, 1.0).cpu_count == newer.cpu_count
