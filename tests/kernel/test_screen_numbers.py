"""What stands on the screen is what `ioh json` says of the same interval."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from ioh.session.reader import Session
from ioh.sinks.cells import format_ms, format_scaled
from ioh.tui.render.panel import megabytes
from tests.kernel.rig import Volume, ioh_command, ioh_environment
from tests.kernel.test_screen import PROGRAMS, attached
from tests.pty_screen import ROOT, PtyScreen

PANELS = (("app", "syscall"), ("block", "block"))
ENOUGH = 5


def fio(volume: Volume) -> subprocess.Popen[bytes]:
    """Reads and writes of two sizes for longer than the test looks."""
    load = ["--rw=randrw", "--bs=8k,16k", "--size=64m", "--direct=1", "--rate_iops=200"]
    where = f"--directory={volume.mount}"
    command = ["fio", "--name=load", where, *load, "--time_based", "--runtime=120"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def recorded(folder: Path) -> int:
    """How many samples the recording holds by now."""
    for path in folder.glob("ioh-*.ioh"):
        if path.stat().st_size:
            with Session(str(path)) as session:
                return len(session)
    return 0


def interval_of(session: Path, stamp: str) -> dict[str, Any]:
    """The interval that ``date: … interval … s`` tells of."""
    _, time_unix_s, *_, interval_s, _ = stamp.split()
    command = ioh_command("json", str(session))
    shown = subprocess.run(
        command, cwd=ROOT, env=ioh_environment(), capture_output=True, check=True
    ).stdout
    found: list[dict[str, Any]] = [
        interval
        for interval in map(json.loads, shown.splitlines())
        if int(interval["time_unix_s"]) == int(time_unix_s)
        and f"{interval['interval_s']:.3f}" == interval_s
    ]
    assert len(found) == 1, f"{len(found)} intervals are like {stamp}"
    return found[0]


def title_numbers(saved: str, panel: str) -> dict[str, list[str]]:
    """What a panel's title says of reads and of writes: MB/s, a second, ms, p99."""
    lines = [line for line in saved.splitlines() if re.match(rf"\S+ \d {panel} ", line)]
    assert len(lines) == 1, saved
    found = re.findall(r" ([RW]) +(\S+) MB/s +(\S+)/s +(\S+) ms +p99 +(\S+) ", lines[0])
    return {op: numbers for op, *numbers in found}


def test_numbers_on_the_screen_are_those_of_json(tmp_path: Path, volume: Volume) -> None:
    load = fio(volume)
    try:
        with PtyScreen(ioh_command(), tmp_path) as shown:
            shown.wait_until(lambda: attached(shown) >= PROGRAMS)
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
    for panel, layer in PANELS:
        shown_there = title_numbers(saved, panel)
        for letter, op in (("R", "read"), ("W", "write")):
            stats = interval["layers"][layer]["ops"][op]
            assert stats["count"] > 0
            assert shown_there[letter] == [
                megabytes(stats["bytes_per_s"]),
                format_scaled(stats["ops_per_s"]),
                format_ms(stats["latency_us"]),
                format_ms(stats["p99_us"]),
            ]
