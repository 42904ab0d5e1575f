"""Forks a recorder for each line on stdin, `FILE` to record into, and prints its process id.

Everything is imported beforehand, so that a recorder lives within hundredths of a second and a
test can afford to kill hundreds of them.
"""

from __future__ import annotations

import os
import signal
import sys

from ioh.commands import main
from ioh.live import source as live
from ioh.model import derive
from ioh.session import marks, rotation
from tests.kernel.witnessed import take_notes

PRELOADED = (derive, marks, rotation, live)


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            take_notes(line.rstrip("\n") + ".notes")
            arguments = ["record", "-o", line.rstrip("\n"), "-c", "0.1", "--proc"]
            os._exit(main([*arguments, "--layers", "block,tcp"]))
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
