"""One `ioh record` in the machine: starting it takes half a minute, so it records everything."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.writer import SessionWriter
from tests.kernel.recordings import await_bytes
from tests.kernel.rig import ioh_environment
from tests.scenarios.stage import BEGINS

STARTED_S = 600
# If probes were late, the first half minute would come from /proc.
_PATIENT = """
import ioh.commands, ioh.live.attaching
ioh.live.attaching.ATTACH_TIMEOUT_S = {seconds}
raise SystemExit(ioh.commands.main({arguments!r}))
"""


class Recorder:
    """`ioh record` of the machine, from its first tick on.

    Into a local file system: writing to the outer one costs a tick.
    """

    def __init__(self, path: Path, options: Sequence[str]) -> None:
        self.path = path
        program = _PATIENT.format(
            seconds=STARTED_S, arguments=["record", "-o", str(path), *options]
        )
        command = [sys.executable, "-c", program]
        self._process = subprocess.Popen(command, env=ioh_environment(), cwd="/")
        await_bytes(path, 1, self._process, STARTED_S)

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0

    def cut(self, output: Path, begin_s: float, mark_s: float | None, end_s: float) -> None:
        """Write the part between two times as a recording of its own; this one may go on."""
        with Session(str(self.path)) as session:
            ticks = session.ticks(session.tick_at(begin_s) + 1)
            samples = [tick.sample for tick in ticks if tick.sample.time_unix_s <= end_s]
        writer = SessionWriter(FileOutput(str(output)))
        for sample in samples:
            writer.write(sample)
        if mark_s is not None:
            writer.mark(BEGINS, mark_s)
        writer.close()
