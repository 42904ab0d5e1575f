"""What the screen costs: bytes to the terminal, CPU, memory, time to first numbers and of keys.

A key is answered once what it asks for is on the terminal: the other panel, the clock of the other
interval.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

from ioh.session.output import FileOutput
from ioh.session.writer import SessionWriter
from tests.bench.own_cost import ControlGroup, control_group, memory_mb
from tests.bench.recording import endless
from tests.bench.report import Report, say
from tests.bench.watchers import IOH, ROOT, WatcherError
from tests.bench.workloads import Targets, in_background
from tests.support.demo_samples import samples
from tests.support.emulator import Emulated

BYTES_PER_S = {(120, 40): 8000.0, (80, 24): 2000.0}
CPU_PCT, MEMORY_MB = 2.0, 60.0
FIRST_PAINT_S, FIRST_NUMBERS_S, KEY_MS = 0.3, 1.0, 50.0
SETTLE_S = 4.0
# No multiples of a tick; by the end of the longer one, the screen looks for findings at its new
# place.
BETWEEN_KEYS_S = (0.13, 0.6)
GIVE_UP_S = 5.0
_PANELS = "lgh"
_ESC_AND_BACK = ("\x1b", "1")
_TITLES = ("latency by size", "latency over time", "throughput, B/s")
# Each goes to a new place: the end, minutes and steps back; the start, minutes and steps forward.
_JUMPS = ("\x1b[F", *("b", "b", "\x1b[D") * 14, "\x1b[H", *("n", "n", "\x1b[C") * 14)
_TICK_S = os.sysconf("SC_CLK_TCK")


def read_for(on: Emulated, seconds: float) -> None:
    """Let the program run, and read what it writes."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        on.read(left)


def cpu_s(pid: int) -> float:
    """CPU time of one process so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK_S


def wait_for_bytes(on: Emulated, wanted: bytes, begin: int = 0) -> float:
    """Wait until these bytes have been written; returns the time."""
    on.wait_until(lambda: wanted in on.shown[begin:])
    return time.monotonic()


def start(command: Sequence[str], size: tuple[int, int], *, prefix: Sequence[str] = ()) -> Emulated:
    """A program on a terminal of that size."""
    return Emulated([*prefix, *command], ROOT, *size)


def key_times_ms(on: Emulated, keys: Sequence[str], look: Callable[[Emulated], str]) -> list[float]:
    """Time from each key until what ``look`` finds on the terminal has changed."""
    found = []
    for key, wait_s in zip(keys, cycle(BETWEEN_KEYS_S), strict=False):
        before, began = look(on), time.monotonic()
        os.write(on.fd, key.encode())
        while look(on) == before and time.monotonic() - began < GIVE_UP_S:
            on.read(0.5)
        found.append((on.read_at_s - began) * 1e3)
        read_for(on, wait_s)
    return found


def panel_shown(on: Emulated) -> str:
    """Which panels are on the terminal, from top to bottom: the one chosen is the first."""
    text = "\n".join(on.lines)
    return " ".join(sorted((title for title in _TITLES if title in text), key=text.index))


def clock_shown(on: Emulated) -> str:
    """Which interval is on the terminal."""
    return " ".join(re.findall(r"\d\d:\d\d:\d\d", on.lines[0]))


def quit_from(on: Emulated) -> None:
    os.write(on.fd, b"q")
    on.wait()


def steady(
    report: Report,
    on: Emulated,
    name: str,
    size: tuple[int, int],
    window_s: float,
    group: ControlGroup | None = None,
) -> None:
    """Measure bytes, CPU and memory of a screen without keys; of a group, all its processes."""
    read_for(on, SETTLE_S)
    begin, began = len(on.shown), time.monotonic()
    own_s, all_s = cpu_s(on.pid), group.cpu_s() if group else 0.0
    read_for(on, window_s)
    passed = time.monotonic() - began
    rate = (len(on.shown) - begin) / passed
    report.figure(f"screen, {name}: to the terminal", "bytes/s", [rate], BYTES_PER_S.get(size))
    share = 100 * (cpu_s(on.pid) - own_s) / passed
    budget = None if group else CPU_PCT
    report.figure(f"screen, {name}: CPU of its process", "% of a core", [share], budget)
    report.figure(f"screen, {name}: PSS of its process", "MB", [memory_mb(on.pid, "Pss")])
    if group is None:
        return
    share = 100 * (group.cpu_s() - all_s) / passed
    report.figure(f"screen, {name}: CPU of all of ioh", "% of a core", [share], CPU_PCT)
    for field, most in (("Pss", MEMORY_MB), ("Rss", None)):
        what = f"{field.upper()} of its {len(group.pids())} processes"
        report.figure(f"screen, {name}: {what}", "MB", [group.memory_mb(field)], most)


def keys(report: Report, on: Emulated, name: str) -> None:
    """Measure keys: panels, then Esc out of a layer and back."""
    times = key_times_ms(on, _PANELS * 7, panel_shown)
    report.figure(f"screen, {name}: key to its answer", "ms", times, KEY_MS)
    times = key_times_ms(on, _ESC_AND_BACK * 7, panel_shown)[::2]
    report.figure(f"screen, {name}: Esc to its answer", "ms", times, KEY_MS)


def measure_demo(report: Report, window_s: float) -> None:
    """Measure five made-up layers; the CPU time includes the demo's own work."""
    for size in BYTES_PER_S:
        name = f"demo {size[0]}x{size[1]}"
        say(f"screen: {name}, {window_s:.0f} s")
        with start((*IOH, "demo"), size) as on:
            on.wait_for("block")
            steady(report, on, name, size, window_s)
            keys(report, on, name)
            quit_from(on)


def measure_live(report: Report, targets: Targets, window_s: float, starts: int) -> None:
    """Measure this machine under fio, with every layer that it has."""
    jobs = [targets.cached, targets.devices[-1]]
    with in_background(jobs, window_s * 2 + 60 + 10 * starts):
        for answers in (False, True):
            measure_starts(report, starts, answers=answers)
        for size in BYTES_PER_S:
            name = f"live {size[0]}x{size[1]}, under load"
            say(f"screen: {name}, {window_s:.0f} s")
            with control_group() as cost, start(IOH, size, prefix=cost.prefix) as on:
                on.wait_for("block")
                steady(report, on, name, size, window_s, cost)
                keys(report, on, name)
                quit_from(on)


def measure_starts(report: Report, starts: int, *, answers: bool) -> None:
    """Measure starts on a terminal that answers where its cursor is, or on one that never does."""
    paints, numbers = [], []
    for at in range(starts):
        say(f"screen: start {at + 1} of {starts}, under load")
        began = time.monotonic()
        with start(IOH, (120, 40)) as on:
            on.answers = answers
            paints.append(wait_for_bytes(on, b"LIVE") - began)
            numbers.append(wait_for_bytes(on, b"IOPS") - began)
            quit_from(on)
    where = "" if answers else ", on a terminal that never answers"
    report.figure(f"screen: start to first paint{where}", "s", paints, FIRST_PAINT_S)
    report.figure(f"screen: start to first numbers{where}", "s", numbers, FIRST_NUMBERS_S)


def measure_seeking(report: Report, seconds: int) -> None:
    """Measure keys in a long recording, each pressed before the last one's interval was read."""
    with tempfile.TemporaryDirectory(prefix="ioh-bench-") as folder:
        path = Path(folder) / "story.ioh"
        say(f"screen: a recording of {seconds} s, made up")
        write_story(path, seconds)
        with start((*IOH, "replay", str(path)), (120, 40)) as on:
            on.wait_for("block")
            os.write(on.fd, b" ")
            read_for(on, 1.0)
            times = key_times_ms(on, _JUMPS, clock_shown)
            quit_from(on)
    name = f"screen: key to its answer, seeking in {seconds:,} s"
    report.figure(name, "ms", times, KEY_MS)
    report.figure(f"{name}, slowest of {len(times)}", "ms", [max(times)])


def write_story(path: Path, seconds: int) -> None:
    """Record a made-up minute, again and again; its totals keep growing."""
    writer = SessionWriter(FileOutput(str(path)))
    for _, sample in zip(range(seconds), endless(samples()), strict=False):
        writer.write(sample)
    writer.close()


def measure_peers(report: Report, window_s: float) -> None:
    """Measure other monitors that are installed, at one update a second."""
    for name, options in (("btop", ("--utf-force",)), ("glances", ("-t", "1"))):
        program = shutil.which(name)
        if program is None:
            report.note(f"{name}: not installed, so not compared")
            continue
        say(f"screen: {name}, {window_s:.0f} s")
        with start((program, *options), (120, 40)) as on:
            read_for(on, SETTLE_S)
            begin, spent = len(on.shown), cpu_s(on.pid)
            read_for(on, window_s)
            rate = (len(on.shown) - begin) / window_s
            report.figure(f"{name} 120x40: to the terminal", "bytes/s", [rate])
            share = 100 * (cpu_s(on.pid) - spent) / window_s
            report.figure(f"{name} 120x40: CPU", "% of a core", [share])
            report.figure(f"{name} 120x40: RSS", "MB", [memory_mb(on.pid, "Rss")])
            os.kill(on.pid, signal.SIGTERM)
            on.wait()


def measure(report: Report, targets: Targets, window_s: float, starts: int, session_s: int) -> None:
    measure_demo(report, window_s)
    try:
        measure_live(report, targets, window_s, starts)
    except WatcherError as error:
        report.figure("screen, live", "", [], CPU_PCT)
        report.note(f"screen, live: {error}")
    measure_seeking(report, session_s)
    measure_peers(report, window_s)
