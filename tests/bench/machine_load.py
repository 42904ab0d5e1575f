"""The state of the machine: CPU time that its host stole, and a mounted tracefs."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.bench.report import Report

TRACEFS = Path("/sys/kernel/tracing")

_STEAL = 7  # column of the first line of /proc/stat, without its name
_COUNTED = 8  # guest time, behind these, is part of user time


class StealClock:
    """Share of CPU time stolen since this object was made."""

    def __init__(self) -> None:
        self._then = self._read()

    @staticmethod
    def _read() -> list[int]:
        first = Path("/proc/stat").read_text().split("\n", 1)[0]
        return [int(n) for n in first.split()[1 : 1 + _COUNTED]]

    def steal_pct(self) -> float:
        spent = [b - a for a, b in zip(self._then, self._read(), strict=True)]
        return 100 * spent[_STEAL] / max(1, sum(spent))


@contextlib.contextmanager
def tracefs(report: Report) -> Iterator[None]:
    """Mount tracefs, since bpftrace needs it; add a note if that fails."""
    if (TRACEFS / "events").is_dir():
        yield
        return
    command = ["mount", "-t", "tracefs", "tracefs", str(TRACEFS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        report.note(f"nothing to compare with: bpftrace needs tracefs: {done.stderr.strip()}")
    try:
        yield
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(TRACEFS)], check=False)
