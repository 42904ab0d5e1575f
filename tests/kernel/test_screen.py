"""The screen with real probes: it appears before they do, shows ioh json's numbers, and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioh.model.sample import LayerSample
from ioh.session.reader import Session
from ioh.sinks.cells import format_duration, format_ms, format_scaled
from ioh.tui.first_picture import STARTING
from ioh.tui.rows import megabytes
from tests.kernel.rig import Volume, ioh_command, ioh_ended
from tests.kernel.test_lifecycle import Traces, held
from tests.support.pty_screen import PtyScreen

PROGRAMS = 10  # of syscall, tcp and block, at least
IOH = ioh_command()
ENDINGS: dict[str, Callable[[PtyScreen], None]] = {
    "a key": lambda shown: shown.press("q"),
    "SIGTERM": lambda shown: os.kill(shown.pid, signal.SIGTERM),
    "SIGHUP": lambda shown: os.kill(shown.pid, signal.SIGHUP),
    "SIGKILL": lambda shown: os.kill(shown.pid, signal.SIGKILL),
    "the connection": PtyScreen.close,
}


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_nothing_is_left_behind_however_the_screen_ends(tmp_path: Path, ending: str) -> None:
    with PtyScreen([*IOH, "--layers", "block"], tmp_path) as shown:
        # The screen appears before the probes are attached, perhaps before it can report compiling.
        shown.wait_for(STARTING)
        shown.wait_until(lambda: attached(shown) >= 2)
        traces = Traces(shown.pid)
        ENDINGS[ending](shown)
        status = shown.wait()
        assert status == (-signal.SIGKILL if ending == "SIGKILL" else 0), shown.text[-2000:]
        traces.assert_gone()
        assert "Traceback" not in shown.text


def attached(shown: PtyScreen) -> int:
    """How many BPF programs ioh itself holds."""
    return len(held({shown.pid}, "prog_id"))


@pytest.mark.parametrize("delay_s", [0.05, 0.2, 0.5, 1.0])
def test_sigterm_during_startup_ends_it_without_a_traceback(tmp_path: Path, delay_s: float) -> None:
    with PtyScreen(IOH, tmp_path) as shown:
        shown.read(delay_s)
        os.kill(shown.pid, signal.SIGTERM)
        status = shown.wait()
        # Until Python handles the signal, it has its default effect.
        assert status in {0, -signal.SIGTERM}
        assert "Traceback" not in shown.text


# The title of its box, its name, and the step of the path that has its numbers.
LAYERS = (("app", "syscall", "system call"), ("block", "block", "device"))
ENOUGH = 5


def fio(volume: Volume) -> subprocess.Popen[bytes]:
    """Reads and writes of two sizes, for longer than the test runs."""
    load = ["--rw=randrw", "--bs=8k,16k", "--size=64m", "--direct=1", "--rate_iops=200"]
    where = f"--directory={volume.mount}"
    command = ["fio", "--name=load", where, *load, "--time_based", "--runtime=120"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def recorded(folder: Path) -> int:
    """How many recorded samples have both layers from BPF so far: a probe may be late."""
    for path in folder.glob("ioh-*.ioh"):
        if path.stat().st_size:
            with Session(str(path)) as session:
                layers = [tick.sample.layers for tick in session.ticks(0)]
            return sum(
                all(is_measured(found.get(name)) for _, name, _ in LAYERS) for found in layers
            )
    return 0


def is_measured(layer: object) -> bool:
    return isinstance(layer, LayerSample) and layer.source == "bpf"


def interval_of(session: Path, stamp: str) -> dict[str, Any]:
    """The interval that a line ``date: … interval … s`` belongs to."""
    _, time_unix_s, *_, interval_s, _ = stamp.split()
    shown = ioh_ended("json", str(session)).stdout
    found: list[dict[str, Any]] = [
        interval
        for interval in map(json.loads, shown.splitlines())
        if int(interval["time_unix_s"]) == int(time_unix_s)
        and f"{interval['interval_s']:.3f}" == interval_s
    ]
    assert len(found) == 1, f"{len(found)} intervals are like {stamp}"
    return found[0]


def title_numbers(saved: str, title: str) -> dict[str, list[str]]:
    """The numbers in a box's title, of reads and of writes: MB/s and mean."""
    titles = re.findall(rf"╭ \d {title} .*?╮", saved)
    assert len(titles) == 1, saved
    found = re.findall(r" ([RW]) (\S+) (\S+ \S+) ", titles[0])
    return {op: numbers for op, *numbers in found}


def step_numbers(saved: str, step: str) -> list[str]:
    """The numbers beside a step of the mean read: MB/s, ops/s, p99 in ms."""
    reads = saved.partition("── READ ")[2].partition("\n──")[0]
    found = re.findall(rf"(?m)^.\d {step} .*% +(\S+) +(\S+) +(\S+) ", reads)
    assert len(found) == 1, saved
    return list(found[0])


def test_numbers_on_the_screen_are_those_of_json(tmp_path: Path, volume: Volume) -> None:
    load = fio(volume)
    try:
        with PtyScreen([*IOH, "--layers", "syscall,block"], tmp_path) as shown:
            shown.wait_until(lambda: attached(shown) >= 2)
            shown.press("R")
            shown.wait_until(lambda: recorded(tmp_path) >= ENOUGH)
            shown.press(" ", "S")
            shown.wait_until(lambda: any(tmp_path.glob("ioh-*.txt")))
            shown.press("R", "q")
            assert shown.wait() == 0
    finally:
        load.kill()
        load.wait()
    (text,) = tmp_path.glob("ioh-*.txt")
    (session,) = tmp_path.glob("ioh-*.ioh")
    saved, _, rest = text.read_text().partition("\ndate: ")
    interval = interval_of(session, "date: " + rest.splitlines()[0])
    for title, layer, step in LAYERS:
        shown_there = title_numbers(saved, title)
        for letter, op in (("R", "read"), ("W", "write")):
            kind = f"{op}_waited" if layer == "syscall" else op  # others' reads from memory aside
            stats = interval["layers"][layer]["ops"][kind]
            assert stats["count"] > 0
            moved, rate = megabytes(stats["bytes_per_s"]), format_scaled(stats["ops_per_s"])
            assert shown_there[letter] == [moved, format_duration(stats["latency_us"])]
            if letter == "R":
                assert step_numbers(saved, step) == [moved, rate, format_ms(stats["p99_us"])]
