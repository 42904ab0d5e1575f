"""This machine as a source of rounds for the screen."""

from __future__ import annotations

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
        """The layers whose probes are still being compiled."""
        waiting = ", ".join(self._source.awaited)
        return f"compiling the probes: {waiting}" if waiting else ""

    def remark(self, snapshot: Snapshot) -> str:
        """Why this machine has nothing to show, if so."""
        why = why_nothing(snapshot)
        return f"nothing to show for this machine ({printable(why)}); {HINT}" if why else ""

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval."""
        self._source.set_interval(cycle_s)
        return True
