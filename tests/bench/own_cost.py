"""ioh's own CPU share and memory: all its processes, idle, loaded and with many files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.report import Report, say
from tests.bench.watchers import IOH, Watcher, WatcherError, watching
from tests.bench.workloads import Targets, in_background

IOH_TEXT = Watcher("ioh text", (*IOH, "text"), "date:")
CPU_BUDGET_PCT = 1.0
MEMORY_BUDGET_MB = 50.0
FILES = 2000
PROCESSES_PER_S = 50
FILES_PER_PROCESS = FILES // PROCESSES_PER_S
_KB = 1024 / 1e6


def memory_mb(pid: int, field: str) -> float:
    """``Rss`` or ``Pss`` of one process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.findall(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[0]) * _KB


class ControlGroup:
    """A version 2 control group: counts even what short-lived children have used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words that, in front of a command, start it inside the group."""
        return ("sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs"))

    def cpu_s(self) -> float:
        found = re.search(r"^usage_usec (\d+)", (self.path / "cpu.stat").read_text(), re.MULTILINE)
        assert found
        return int(found[1]) / 1e6

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def memory_mb(self, field: str) -> float:
        """Sum over the processes of ``Rss`` or ``Pss``."""
        found = 0.0
        for pid in self.pids():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += memory_mb(pid, field)
        return found

    def maps_mb(self) -> float:
        """Kernel memory of the BPF maps that the processes hold."""
        sizes: dict[str, int] = {}
        for pid in self.pids():
            for info in Path(f"/proc/{pid}/fdinfo").iterdir():
                with contextlib.suppress(OSError):
                    fields = dict(re.findall(r"^(\w+):\s+(\d+)$", info.read_text(), re.MULTILINE))
                    if "map_id" in fields:
                        sizes[fields["map_id"]] = int(fields["memlock"])
        return sum(sizes.values()) / 1e6


@contextlib.contextmanager
def control_group() -> Iterator[ControlGroup]:
    """Make a control group; in the end kill what is in it, and remove it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    if not roots:
        msg = "ioh's own cost: no version 2 control groups here"
        raise WatcherError(msg)
    group = ControlGroup(roots[0] / f"ioh-bench-{os.getpid()}")
    group.path.mkdir()
    try:
        yield group
    finally:
        for pid in group.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _remove(group.path)


def _remove(path: Path) -> None:
    for _ in range(100):  # the dead stay in it for a moment
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.05)


def measure(report: Report, targets: Targets, window_s: float, files_s: float) -> None:
    """Three runs: idle, under both workloads, with many files and short processes."""
    try:
        with loaded(report) as group:
            cpu_figure(report, group, "idle", window_s)
            memory_figures(report, group, "idle")
            report.figure("kernel memory of the BPF maps", "MB", [group.maps_mb()])
        jobs = [targets.cached, targets.devices[-1]]
        with loaded(report) as group, in_background(jobs, window_s + 60):
            time.sleep(1)
            cpu_figure(report, group, "under load", window_s)
            memory_figures(report, group, "under load")
        with loaded(report) as group:
            before = group.memory_mb("Pss")
            with short_processes(targets.dir):
                cpu_figure(report, group, "2,000 files, 50 processes/s", files_s, CPU_BUDGET_PCT)
            memory_figures(report, group, f"{files_s:.0f} s of files and processes")
            report.figure(
                f"growth in {files_s:.0f} s of files", "MB", [group.memory_mb("Pss") - before]
            )
    except WatcherError as error:
        report.figure("own CPU and memory", "", [], CPU_BUDGET_PCT)
        report.note(f"own CPU and memory: {error}")


@contextlib.contextmanager
def loaded(report: Report) -> Iterator[ControlGroup]:
    """``ioh text`` in a control group of its own, two ticks old."""
    with control_group() as group, watching(IOH_TEXT, group.prefix):
        time.sleep(1)
        yield group


def cpu_figure(
    report: Report,
    group: ControlGroup,
    when: str,
    window_s: float,
    budget: float | None = CPU_BUDGET_PCT,
) -> None:
    say(f"ioh's own CPU share, {when}: {window_s:.0f} s")
    spent, started = group.cpu_s(), time.monotonic()
    time.sleep(window_s)
    share = (group.cpu_s() - spent) / (time.monotonic() - started)
    report.figure(f"own CPU, {when}", "% of a core", [100 * share], budget)


def memory_figures(report: Report, group: ControlGroup, when: str) -> None:
    """PSS and RSS; RSS, the stricter one, counts a shared page once for each process."""
    for field in ("Pss", "Rss"):
        name = f"{field.upper()} of {len(group.pids())} processes, {when}"
        report.figure(name, "MB", [group.memory_mb(field)], MEMORY_BUDGET_MB)


@contextlib.contextmanager
def short_processes(where: Path) -> Iterator[None]:
    """Run PROCESSES_PER_S processes a second; together they read all FILES once a second."""
    files = where / "files"
    files.mkdir()
    names = [str(files / f"{n:04}") for n in range(FILES)]
    for name in names:
        Path(name).write_bytes(b"x" * 4096)
    script = Path(__file__).with_name("short_processes.py")
    command = [IOH[0], str(script), str(PROCESSES_PER_S), str(FILES_PER_PROCESS), *names]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait()
