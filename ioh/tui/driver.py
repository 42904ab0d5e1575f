"""Textual's terminal, and how it goes back to the shell and comes again: Ctrl-Z, bg, fg."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

# A stop that was over so soon was none: nobody here could end it, so the kernel did not begin it.
_BRIEF_S = 0.2
_SETTLE_S = 0.05


def _nobody(stood_s: float) -> None:
    del stood_s


class TerminalDriver(LinuxDriver):
    """What writes to the terminal and reads keys from it, as a shell's job.

    Textual 8.2.8 stops its own process alone, by SIGSTOP: a shell waits for the other programs
    of a pipe, sudo for ever where it has no shell, and nothing could continue an ioh that is a
    session of its own (``ssh -t``, a window of tmux).  Here all of them get SIGTSTP, which the
    kernel drops where nobody could undo it.

    Shape:
        ``came_back`` is called when there is a terminal again, with the time for which the
        process stood still, 0 where it went on meanwhile.
    """

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        self._can_stop = signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._listen()
        self.came_back: Callable[[float], None] = _nobody

    def _listen(self) -> None:
        stop = self._on_stop if self._can_stop else signal.SIG_IGN
        signal.signal(signal.SIGTSTP, stop)
        signal.signal(signal.SIGCONT, self._on_continued)

    def _on_stop(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.stand_still)

    def _on_continued(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._take_again)

    @property
    def is_away(self) -> bool:
        """Whether the terminal is somebody else's, or not taken yet."""
        return self._writer_thread is None or not self._writer_thread.is_alive()

    def stand_still(self) -> bool:
        """Stop until somebody continues ioh, the terminal as it was before.

        Returns:
            False where nothing could continue it, and nothing was stopped.
        """
        if not self._can_stop:
            return False
        self.suspend_application_mode()
        began = time.monotonic()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        time.sleep(_SETTLE_S)
        self._listen()
        stood_s = time.monotonic() - began
        self.come_back(stood_s if stood_s > _BRIEF_S else 0.0)
        return stood_s > _BRIEF_S

    def _take_again(self) -> None:
        """Continued after a stop that nobody was told of: the terminal was a shell's meanwhile."""
        if not self.is_away and _is_in_foreground(self.fileno):
            self.suspend_application_mode()
        self.come_back()

    def come_back(self, stood_s: float = 0.0) -> None:
        """Take the terminal, unless it is taken, or somebody else's still (``bg``)."""
        if self.is_away and _is_in_foreground(self.fileno):
            self.start_application_mode()  # type: ignore[no-untyped-call]
            self._tell_back(stood_s)

    def _tell_back(self, stood_s: float) -> None:
        if not self.is_away:  # else it went to the background in that very moment
            self.came_back(stood_s)

    def write(self, data: str) -> None:
        """Write to the terminal; away from it there is nothing to write to."""
        if not self.is_away:
            super().write(data)

    def disable_input(self) -> None:
        """Read no more keys."""
        if not self.is_away:
            super().disable_input()

    def stop_application_mode(self) -> None:
        """Leave the terminal as it was; another's is left alone."""
        if not self.is_away:
            super().stop_application_mode()

    def close(self) -> None:
        """End what writes."""
        if not self.is_away:
            super().close()


def _is_in_foreground(fd: int) -> bool:
    """Whether the terminal is this process group's; also where it does not say."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(fd) == os.getpgrp()
    return True
