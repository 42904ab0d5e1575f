"""This machine as a source of rounds for the screen."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ioh.commands.sample import HINT, why_nothing
from ioh.live.source import LiveSource
from ioh.model.pairs import Round
from ioh.model.player import RoundSource
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.pipeline import alone


class ThisMachine(RoundSource):
    """The rounds of an open live source."""

    def __init__(self, source: LiveSource) -> None:
        self._source = source
        self.sample_soon = source.sample_soon

    def __iter__(self) -> Iterator[Round]:
        """Yield rounds as they come."""
        return alone(self._source)

    def stop(self) -> None:
        """End the iteration."""
        self._source.stop()

    def status(self) -> str:
        """Which probes are still being attached, or, on a new kernel, how many were compiled."""
        waiting = self._source.awaited
        if not waiting:
            return ""
        attached = self._source.attached.values()
        asked = [each for each in attached if each.layer.probe and each.is_wanted]
        if any(each.is_new for each in asked):
            done = f"{len(asked) - len(waiting)} of {len(asked)}"
            return f"compiling the probes for Linux {os.uname().release} (once): {done}"
        return f"attaching the probes: {', '.join(waiting)}"

    def remark(self, snapshot: Snapshot) -> str:
        """Why this machine has nothing to show, if so."""
        why = why_nothing(snapshot)
        return f"nothing to show for this machine ({printable(why)}); {HINT}" if why else ""

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval."""
        self._source.set_interval(cycle_s)
        return True
