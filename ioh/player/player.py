"""The base of all players: a thread that can be ended, and the history of each machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from ioh.history.history import BaseHistory
from ioh.model.closing import Closing
from ioh.model.pairs import HostState
from ioh.model.player import Mode, News, Overview, PlayerEnded, RecordingState

JOIN_TIMEOUT_S = 5.0


class BasePlayer(Closing):
    """Reports intervals from run() until it is stopped; a context manager that ends it."""

    can_play = False
    mode: Mode

    def __init__(self, histories: Sequence[BaseHistory]) -> None:
        self.histories: Sequence[BaseHistory] = tuple(histories)
        self.names = tuple(history.name for history in histories if history.name)
        self._is_stopped = self._ends_screen = False
        self._is_running = threading.Lock()

    @property
    def states(self) -> tuple[HostState, ...]:
        """The present state of each host; empty for this machine alone."""
        return ()

    @property
    def recording(self) -> RecordingState:
        """The state of the recording by key R."""
        return RecordingState()

    def run(self, report: Callable[[News], None]) -> None:
        """Read until stop(); report every interval once."""
        with self._is_running:
            try:
                if not self._is_stopped:
                    self._report(report)
            except BaseException as error:  # noqa: BLE001 (raised again by the screen's thread)
                report(News(error=error, is_over=True))
            else:
                if self._ends_screen:
                    report(News(error=PlayerEnded(), is_over=True))

    def _report(self, report: Callable[[News], None]) -> None:
        """The body of run()."""
        raise NotImplementedError

    def _release(self) -> None:
        """Close what run() uses, after it has ended."""
        for history in self.histories:
            history.close()

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
        self._is_stopped = True

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self._ends_screen = True
        self.stop()

    def close(self) -> None:
        """End run(), whichever thread it is in, and release what it used."""
        self.stop()
        if self._is_running.acquire(timeout=JOIN_TIMEOUT_S):
            self._is_running.release()
            self._release()

    def overview(self, host: int = 0) -> Overview:
        """The begins of one host's findings, and all hosts' findings."""
        own = self.histories[host].overview()
        if len(self.histories) == 1:
            return own
        each = (history.overview() for history in self.histories)
        return replace(own, found=tuple(finding for one in each for finding in one.found))

    def set_speed(self, speed: float) -> None:
        """Set the speed, relative to the recording's pace, if it has one."""

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval, if the source can; return whether it did."""
        del cycle_s
        return False

    def play_from(self, tick: int, host: int = 0) -> None:
        """Continue from an interval of one host; a live source cannot be played again."""

    def hold(self) -> None:
        """Report no new interval until play_from(); a live source cannot be paused."""

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Set a mark, now if ``time_unix_s`` is None; return a printable line about it."""
        raise NotImplementedError

    def toggle_recording(self) -> str:
        """Start or end a recording; return a printable line about it."""
        raise NotImplementedError
