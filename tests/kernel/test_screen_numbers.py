"""What stands on the screen is what `ioh json` says of the same interval."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ioh.session.reader import Session
from ioh.sinks.cells import format_fixed
from tests.kernel.rig import Volume, ioh_environment
from tests.kernel.test_screen import PROGRAMS, attached
from tests.pty_screen import ROOT, PtyScreen

ROWS = (("R app", "syscall", "read"), ("W app", "syscall", "write"))
ENOUGH = 5
BLOCK_ROWS = (("R block", "block", "read"), ("W block", "block", "write"))


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
    command = [sys.executable, "-m", "ioh", "json", str(session)]
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


def cells(saved: str, label: str) -> list[str]:
    """The numbers of one line of the screen."""
    lines = [line for line in saved.splitlines() if line.startswith(label + " ")]
    assert len(lines) == 1, saved
    return lines[0].removeprefix(label).split()


def test_numbers_on_the_screen_are_those_of_json(tmp_path: Path, volume: Volume) -> None:
    load = fio(volume)
    try:
        with PtyScreen([sys.executable, "-m", "ioh"], tmp_path) as shown:
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
    for label, layer, op in ROWS + BLOCK_ROWS:
        stats = interval["layers"][layer]["ops"][op]
        assert stats["count"] > 0
        rate = stats["ops_per_s"]
        assert cells(saved, label)[:5] == [
            format_fixed(stats["bytes_per_s"] / 1e6, 7, 3),
            format_fixed(rate, 7, 0 if rate >= 100 else 1),
            format_fixed(stats["avg_bytes"] / 1024, 6, 1),
            format_fixed(stats["latency_us"] / 1e3, 6, 3),
            format_fixed(stats["p50_us"] / 1e3, 6, 3),
        ]
