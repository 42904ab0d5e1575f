"""Time from start to the first numbers, and the launcher's share of it."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Sequence

from tests.bench.report import Report, say
from tests.bench.watchers import IOH, ROOT, end

FIRST_NUMBERS_BUDGET_S = 1.0
LAUNCHER_BUDGET_S = 0.2


def measure(report: Report, starts: int) -> None:
    say(f"time to the first numbers, {starts} starts")
    first = [first_numbers_s() for _ in range(starts)]
    report.figure("start to first numbers", "s", first, FIRST_NUMBERS_BUDGET_S)
    launcher, direct = [], []
    for _ in range(starts):
        launcher.append(run_s((str(ROOT / "ioh.sh"), "--version")))
        direct.append(run_s((IOH[0], "-I", "-m", "ioh", "--version")))
    # Without the time in which ioh itself prints its version.
    share = [whole - statistics.median(direct) for whole in launcher]
    report.figure("launcher's own share", "s", share, LAUNCHER_BUDGET_S, below=True)


def first_numbers_s() -> float:
    """Time until the first line of ``ioh text`` that has a number and is not a heading."""
    started = time.monotonic()
    process = subprocess.Popen(
        [*IOH, "text"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    try:
        for line in process.stdout:
            if not line.startswith("#") and re.search(r"\d", line):
                return time.monotonic() - started
    finally:
        end(process)
        process.stdout.close()
    msg = "ioh text printed no numbers"
    raise RuntimeError(msg)


def run_s(command: Sequence[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started
