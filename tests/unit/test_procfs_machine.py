"""The machine as a whole, and its processes: CPU, memory, disks, limits, jobs, servers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ioh.layers.block_rows import MachineTables
from ioh.model.sample import HostSample
from ioh.procfs.blockdev import BlockDevices
from ioh.procfs.diskstats import (
    DiskStats,
    dev_text,
    parse_dev,
    parse_diskstats,
    read_diskstats,
)
from ioh.procfs.files import read_numbers, read_pressure
from ioh.procfs.host import read_host
from ioh.procfs.io_limits import IoLimits, parse_io_max, parse_throttle, read_limits
from ioh.procfs.maintenance import parse_mdstat, read_jobs
from ioh.procfs.processes import (
    ProcessStat,
    ServerProcesses,
    list_pids,
    read_cgroup,
    read_comm,
    read_cpu_ticks,
    read_process_io,
    read_process_stat,
    server_name,
    session_name,
)

DATA = Path(__file__).parents[1] / "data"
# What psutil gets from the C library, not from /proc.
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


@pytest.mark.parametrize("stat", ["cpu\n", "cpu  1 2 3\n", "cpu  1 x 3 4 5 6 7 8 9 10\n"])
@pytest.mark.parametrize("meminfo", ["", "MemTotal: x kB\n", "\n", "MemTotal: 8 kB\nMemFree: 2 kB"])
def test_what_is_hidden_or_malformed_is_unknown(proc: Path, stat: str, meminfo: str) -> None:
    assert read_host() == NOT_IN_PROC
    (proc / "stat").write_text(stat)
    (proc / "meminfo").write_text(meminfo)
    assert read_host() == NOT_IN_PROC


def test_numbers_and_pressure_leave_malformed_lines_out(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_dirty 5\nnr_writeback\nnr_x y\n\nb \t 6\nc 7")
    wanted = {"nr_dirty", "nr_writeback", "nr_x", "b", ""}
    assert read_numbers(str(tmp_path / "vmstat"), wanted) == {"nr_dirty": 5, "b": 6}
    some = "some avg10=0.13 avg60=0.05 avg300=0.01 total=197\n"
    (tmp_path / "io").write_text(some + "full total=x\nfull avg10=1 total=9\nnew total=3\n")
    assert read_pressure(str(tmp_path / "io")) == {"some": 197, "full": 9}
    gone = str(tmp_path / "gone")
    assert read_pressure(gone) == read_numbers(gone, wanted) == {}
    assert read_diskstats(tmp_path) is None
    nothing = MachineTables(tmp_path, BlockDevices(tmp_path)).read()
    assert nothing == {"limit": {}, "job": {}}


def test_linux_6_18_has_every_field(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(DATA / "proc-6.18/proc"))
    host = read_host()
    assert [f for f in HostSample.__dataclass_fields__ if getattr(host, f) is None] == []


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
    assert parse_mdstat(MDSTAT) == {
        ("md127", "resync"): (8.5, 90000 * 1024),
        ("md2", "check"): (0.0, None),
    }
    for text in ("", "md0", "      [=>] resync = 8.5%", "md0 : \n  [=>] x = y%"):
        assert parse_mdstat(text) == {}


def test_btrfs_jobs_come_from_exclusive_operation_and_the_scrub_socket(tmp_path: Path) -> None:
    for uuid, kind in (("a-b", "balance\n"), ("c-d", "none\n"), ("features", "")):
        folder = tmp_path / "sys/fs/btrfs" / uuid
        folder.mkdir(parents=True)
        if kind:
            (folder / "exclusive_operation").write_text(kind)
    for name in ("sdb", "sdc"):
        (tmp_path / "sys/fs/btrfs/c-d/devices" / name).mkdir(parents=True)
    balance = {("btrfs a-b", "balance"): (None, None)}
    assert read_jobs(tmp_path) == balance
    lead = "00000000f34d09ba: 00000002 00000000 00010000 0001 01 1212593"
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/unix").write_text(
        f"Num RefCount\n{lead} /run/x\n{lead} /var/lib/btrfs/scrub.progress.c-d\n"
    )
    scrub = {("btrfs on sdb,sdc", "scrub"): (None, None)}
    assert read_jobs(tmp_path) == balance | scrub


def test_io_limits_of_cgroup_v1_and_v2_are_per_device(tmp_path: Path) -> None:
    unlimited = "8:0 rbps=max wbps=max riops=max wiops=max"
    text = f"8:16 rbps=2097152 wbps=max riops=max wiops=120\n{unlimited}\nx\n"
    assert parse_io_max(text) == {8 << 20 | 16: (2097152, None, None, 120)}
    old = ("7:0 1048576\n", "", "7:0 50\n7:1 x\n", "")
    assert parse_throttle(old) == {7 << 20: (1048576, None, 50, None)}
    group = tmp_path / "sys/fs/cgroup/blkio/slow"
    group.mkdir(parents=True)
    (group / "blkio.throttle.write_bps_device").write_text("7:3 5000\n")
    assert read_limits(tmp_path) == {("/slow", 7 << 20 | 3): (None, 5000, None, None)}


def test_io_limits_of_cgroup_v2(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/a.slice/b\x1b"
    group.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("io\n")
    (group / "io.max").write_text("8:0 rbps=1000 wbps=max riops=max wiops=max\n")
    limits = IoLimits(tmp_path)
    assert limits.read() == {("/a.slice/b\\x1b", 8 << 20): (1000, None, None, None)}
    (group / "io.max").write_text("")  # noticed at the next reading, 30 ticks after the first
    assert [bool(limits.read()) for _ in range(30)] == [True] * 29 + [False]


LINE = "8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"


def test_every_column_has_its_field() -> None:
    (found,) = parse_diskstats(f"   {LINE} 18 nineteen")
    numbers = [*range(1, 18)]
    for sectors in (3, 7, 14):
        numbers[sectors - 1] *= 512
    inflight = numbers.pop(8)
    assert found == DiskStats(8 << 20 | 16, "sdb", inflight, *numbers)


@pytest.mark.parametrize(
    "line",
    [
        "",
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
        *((text, None) for text in ("8:1048576", "8", "8:1:2", "-8:1", "a:b", "")),
    ],
)
def test_device_number(text: str, dev: int | None) -> None:
    assert parse_dev(text) == dev
    if dev is not None:
        assert dev_text(dev) == text


ROOT = Path(__file__).parents[1] / "data/proc-6.18"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\nnew: 7\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("io", IO, (3, 1, 4, 2)),
        *(("io", text, None) for text in ("", IO.replace("syscw", "x"), IO.replace("4", "four"))),
        (
            "stat",
            "7 (a) (b\nc) S 3 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 1024\n",
            ProcessStat("a) (b\\x0ac", 3, 99),
        ),
        *(("stat", text, None) for text in ("", "7 (a)", "7 a) S", "7 (a) S " + "x " * 30)),
        ("cgroup", "1:cpu:/a\n0::/b c\n", "/b c"),
        *(("cgroup", text, None) for text in ("1:cpu:/a\n", "", "0::x")),
    ],
)
def test_what_is_malformed_is_unknown(tmp_path: Path, name: str, text: str, read: object) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7" / name).write_text(text)
    readers = {"io": read_process_io, "stat": read_process_stat, "cgroup": read_cgroup}
    assert readers[name](7, tmp_path) == read


def test_cpu_times_are_of_programs(tmp_path: Path) -> None:
    """The names have brackets and blanks; kernel threads and malformed lines are left out."""
    for pid, text in {
        7: "7 (a) b) S 1 1 1 0 -1 0 1 2 3 4 500 60 7 8 20 0 1 0 99 1024\n",
        2: "2 (kthreadd) S 0 0 0 0 -1 0 0 0 0 0 0 9 0 0 20 0 1 0 1 0\n",
        30: "30 (kworker/0:1) S 2 0 0 0 -1 0 0 0 0 0 0 900 0 0 20 0 1 0 1 0\n",
        31: "31 (cut) S 1 1",
    }.items():
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(text)
    assert read_cpu_ticks(tmp_path) == {(7, "99"): ("a) b", 560)}


def test_fake_root(tmp_path: Path) -> None:
    assert sorted(list_pids(ROOT)) == [1, 40, 41]
    assert read_comm(41, ROOT) == "a) b\\x1b[31m"
    assert read_process_stat(41, ROOT) == ProcessStat("a) b\\x1b[31m", 1, 501)
    assert read_cgroup(40, ROOT) == "/user.slice/fio.scope"
    assert list_pids(tmp_path) == []
    for read in (read_comm, read_process_io, read_process_stat, read_cgroup):
        assert read(1, tmp_path) is None


def test_this_process(tmp_path: Path) -> None:
    pid = os.getpid()
    stat = read_process_stat(pid)
    assert stat is not None
    assert stat.parent_pid == os.getppid()
    assert stat.comm == read_comm(pid)
    end_s = time.process_time() + 0.2
    while time.process_time() < end_s:
        pass
    spent_s = time.process_time()
    comm, ticks = read_cpu_ticks()[pid, str(stat.start_ticks)]
    assert comm == stat.comm
    assert spent_s - 0.03 <= ticks / os.sysconf("SC_CLK_TCK") <= time.process_time()
    before = read_process_io(pid)
    file = tmp_path / "f"
    with file.open("wb", buffering=0) as stream:
        for _ in range(23):
            stream.write(b"x" * 8192)
    after = read_process_io(pid)
    assert before is not None
    assert after is not None
    assert (after[2] - before[2], after[3] - before[3]) == (23, 23 * 8192)


def process(root: Path, pid: int, comm: str, parent: int, *words: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({comm}) S {parent}" + 18 * " 0")
    (folder / "cmdline").write_text("\0".join((*words, "")))


def test_the_first_of_a_servers_processes_is_the_server(tmp_path: Path) -> None:
    process(tmp_path, 1, "init", 0)
    process(tmp_path, 10, "postgres", 1)
    process(tmp_path, 11, "postgres", 10)
    process(tmp_path, 12, "postgres) S 10 (x", 1)
    process(tmp_path, 20, "a_server_with_a", 1)  # cut by the kernel
    names = ["postgres", "a_server_with_a_name"]
    assert ServerProcesses(names, tmp_path).pids() == {10, 20}
    assert server_name(1, tmp_path) is session_name(1, tmp_path) is None


def test_a_program_executed_after_the_fork_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes are looked at again every few seconds."""
    now_s = [100.0]
    monkeypatch.setattr("ioh.procfs.processes.time.monotonic", lambda: now_s[0])
    process(tmp_path, 10, "sh", 1)
    watch = ServerProcesses(["postgres"], tmp_path)
    assert watch.pids() == frozenset()
    process(tmp_path, 10, "postgres", 1)
    assert watch.pids() == frozenset()
    now_s[0] += 3.0
    assert watch.pids() == {10}
    (tmp_path / "proc/10/stat").unlink()
    now_s[0] += 3.0
    assert watch.pids() == frozenset()


@pytest.mark.parametrize(
    ("named", "line", "name"),
    [
        (server_name, "/usr/lib/postgresql/15/bin/postgres -D /v/15/main", "postgres 15/main"),
        (server_name, "postgres -D/srv/data -p 5433", "postgres 5433"),
        (server_name, "postgres -D /srv/pg-15/data -c a=b -c port=5434", "postgres 5434"),
        (server_name, "/usr/sbin/mariadbd --datadir=/srv/m --port=3307", "mariadbd 3307"),
        (server_name, "mariadbd --port", "mariadbd"),
        (server_name, "/opt/app", "app"),
        (server_name, "\x1b[31mred -p \x07", "\\x1b[31mred \\x07"),
        (session_name, "postgres: alice shop [local] idle in transaction", "alice shop [local]"),
        (session_name, "postgres: alice shop [local]", "alice shop [local]"),
        (session_name, "postgres: 15/main: alice shop 10.7(41) SELECT", "alice shop 10.7(41)"),
        (session_name, "postgres: 15/main: background writer ", "background writer"),
        (session_name, "/usr/sbin/mariadbd", ""),
    ],
)
def test_names_tell_servers_and_sessions_apart(
    named: Callable[[int, Path], str | None], line: str, name: str, tmp_path: Path
) -> None:
    words = line.split(" ") if named is server_name else [line]  # a process title is one argument
    process(tmp_path, 10, "x", 1, *words)
    assert named(10, tmp_path) == name
