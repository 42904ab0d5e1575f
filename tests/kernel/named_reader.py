"""A process or thread with a name of its own (comm), which reads a file on request."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.kernel.talker import Talker

# Each input line is a number of reads.  A second name is that of the thread that reads.
_PROGRAM = """
import ctypes, os, sys, threading
def name(comm): ctypes.CDLL(None).prctl(15, os.fsencode(comm))
def serve():
    name(sys.argv[-1])
    fd = os.open(os.fsencode(sys.argv[1]), os.O_RDONLY)
    for line in sys.stdin:
        for _ in range(int(line)):
            os.pread(fd, 1000, 0)
        print("done", flush=True)
name(sys.argv[2])
if len(sys.argv) > 3:
    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
else:
    serve()
"""


class NamedReader(Talker):
    """Opens the file when it starts; each read is of up to 1,000 bytes."""

    def __init__(self, path: bytes | Path, *comms: str | bytes) -> None:
        super().__init__(sys.executable, "-c", _PROGRAM, os.fsencode(path), *comms)
        self.read(0)

    def read(self, times: int) -> None:
        assert self.ask(str(times)) == "done"
