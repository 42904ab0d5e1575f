"""ioh that also notes each sample that it hands to its writer: `witnessed.py NOTES ARGUMENTS`.

The notes survive a kill, since they are in the page cache.  A sample that they hold and a
recording lacks was lost between the reading of the kernel and the file.

Without arguments it reads lines from stdin, each a `FILE`; for each it forks a recorder into that
file and prints its process id.  Everything is imported beforehand, so that a recorder starts
within hundredths of a second and a test can kill hundreds of them.
"""

from __future__ import annotations

import os
import signal
import sys

from ioh.commands import main
from ioh.live import source as live
from ioh.model import derive
from ioh.model.sample import Sample
from ioh.recorder import marks, rotation
from ioh.session.writer import SessionWriter

PRELOADED = (derive, marks, rotation, live)
QUICK = ("-c", "0.1", "--proc", "--layers", "block,tcp")


def take_notes(path: str) -> None:
    """From now on write one line for each sample: its time."""
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    write = SessionWriter.write

    def noted(writer: SessionWriter, sample: Sample) -> bool:
        os.write(notes, f"{sample.time_unix_s!r}\n".encode())
        return write(writer, sample)

    SessionWriter.write = noted  # type: ignore[method-assign,assignment]


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            path = line.rstrip("\n")
            take_notes(f"{path}.notes")
            os._exit(main(["record", "-o", path, *QUICK]))
        print(pid, flush=True)


if __name__ == "__main__":
    if not sys.argv[1:]:
        serve()
    else:
        take_notes(sys.argv[1])
        sys.exit(main(sys.argv[2:]))
