"""Names the FUSE daemons at work: what they do for other programs counts beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ioh.layers.flows import FlowTables

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_TICKS = 30  # the note stays so long
_NAMES = 3
_NOTE = (
    "includes the calls of FUSE daemons ({}): a program's call on their file systems counts twice, "
    "for the program and for the daemon"
)


class FuseDaemons:
    """Processes that read requests from /dev/fuse, and read or write files."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # by name: its last tick at work
        self._tick = 0

    def notes(self, daemons: Map, flows: FlowTables) -> tuple[str, ...]:
        """The note, if one did something lately; call it after the flows were read."""
        self._tick += 1
        for key, _ in daemons.drain():
            pid = int.from_bytes(key, sys.byteorder)
            if pid in flows.at_work:
                self._last[flows.process(pid)[1]] = self._tick
        self._last = {k: tick for k, tick in self._last.items() if self._tick - tick <= _TICKS}
        names = sorted(self._last)
        text = ", ".join(names[:_NAMES]) + (" and others" if len(names) > _NAMES else "")
        return (_NOTE.format(text),) if names else ()
