"""Textual's terminal driver: input, output, and job control (Ctrl-Z, fg)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import IO

from textual import events
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from ioh.model.waking import WakePipe
from ioh.terminal.keyboard import Keyboard
from ioh.terminal.link import QUESTION, Link

_MOUSE = (1000, 1006)  # clicks and the wheel; 1003 would also report each motion
_SETTLED_S = 0.5  # wait for the terminal's last answer: a shell would read it as keys
# A shorter stop did not happen: the kernel drops SIGTSTP if nobody could continue ioh.
_BRIEF_S = 0.2
_SETTLE_S = 0.05


class _Writer(WriterThread):
    """Textual's writer thread, which also reports what it wrote."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file)
        self.wrote: Callable[[str], None] | None = None

    def run(self) -> None:
        """Write until stop()."""
        while (text := self._queue.get()) is not None:
            with contextlib.suppress(OSError):  # hung up: noticed elsewhere
                self._file.write(text)
                self._file.flush()
            if self.wrote is not None:
                self.wrote(text)


class TerminalDriver(LinuxDriver):
    """Writes to the terminal and reads keys from it, as a job of a shell.

    Textual 8.2.8 stops only its own process, with SIGSTOP.  Then a shell waits for the other
    programs of a pipe, sudo without a shell waits forever, and nothing can continue an ioh that is
    its own session (``ssh -t``, a tmux window).  This driver sends SIGTSTP to the process group;
    the kernel drops it if nobody could continue ioh.

    Shape:
        ``came_back`` is called when the terminal is back, with the seconds that the process was
        stopped, 0 if it kept running; ``has_room`` when more of a picture may be written.
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
        self._link = Link(time.monotonic)
        self.has_room: Callable[[], None] = lambda: None
        setattr(linux_driver, "WriterThread", _Writer)  # noqa: B010 (mypy: not exported)
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._listen()
        self.came_back: Callable[[float], None] = lambda _: None
        # Ends the input thread's wait; polling would cost 0.1 % of a CPU.
        self._over = WakePipe()

    def _listen(self) -> None:
        call = self._loop.call_soon_threadsafe
        stop = (lambda *_: call(self.suspend)) if self._can_stop else signal.SIG_IGN
        signal.signal(signal.SIGTSTP, stop)
        signal.signal(signal.SIGCONT, lambda *_: call(self._take_again))

    @property
    def is_away(self) -> bool:
        """Whether the terminal is another program's, or not taken yet."""
        return self._writer_thread is None or not self._writer_thread.is_alive()

    def suspend(self) -> bool:
        """Stop until somebody continues ioh; False without a stop if nobody could."""
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
        """Take the terminal back after a SIGSTOP: a shell used it in between."""
        if not self.is_away and _is_in_foreground(self.fileno):
            self.suspend_application_mode()
        self.come_back()

    def come_back(self, stood_s: float = 0.0) -> None:
        """Take the terminal, unless it is taken already or ioh is in the background (``bg``)."""
        if self.is_away and _is_in_foreground(self.fileno):
            self.start_application_mode()
            self._report_back(stood_s)

    def _report_back(self, stood_s: float) -> None:
        if not self.is_away:  # else ioh went to the background just now
            self.came_back(stood_s)

    def write(self, data: str) -> None:
        """Write to the terminal; do nothing while it is away."""
        if not self.is_away:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal."""
        self._link.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if isinstance(self._writer_thread, _Writer):
            self._writer_thread.wrote = self._wrote

    # ---- pictures

    def room(self) -> int:
        """How many bytes of a picture may be written now; if 0, ask again after ASK_AGAIN_S."""
        return 0 if self.is_away else self._link.room()

    def send(self, picture: str) -> None:
        """Write a part of a picture."""
        picture += QUESTION
        self._link.begin(len(picture.encode(errors="replace")))
        self.write(picture)

    def _wrote(self, text: str) -> None:
        if text.endswith(QUESTION):
            self._link.end()
            self._report_room()

    def _report_room(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.has_room)

    # ---- keys

    def run_input_thread(self) -> None:
        """Read keys until disable_input()."""
        keyboard = Keyboard(time.monotonic)
        while True:  # not until exit_event: a byte left in the pipe would end the next thread
            ready, _, _ = select.select([self.fileno, self._over], [], [], keyboard.timeout_s)
            if self._over in ready:
                self._over.forget()
                return
            if not ready:
                found = keyboard.tick()
            else:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:  # hung up: noticed elsewhere
                    self.exit_event.wait()
                found = keyboard.feed(data)
            for event in found:
                self.process_message(event)

    def process_message(self, message: Message) -> None:
        """Pass an event on; a cursor position is the answer to send()."""
        if isinstance(message, events.CursorPosition):
            self._link.answered()
            self._report_room()
        else:
            super().process_message(message)

    def _query_in_band_window_resize(self) -> None:
        """Ask for nothing: sizes come with SIGWINCH, not as input."""

    # ---- the mouse

    @property
    def has_mouse(self) -> bool:
        """Whether ioh gets clicks."""
        return self._mouse

    def use_mouse(self, *, on: bool) -> None:
        """Get clicks, or leave them to the terminal, which selects text with them."""
        self._disable_mouse_support()
        self._mouse = on
        self._enable_mouse_support()

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}h" for mode in _MOUSE))

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}l" for mode in _MOUSE))

    # ---- the end

    def disable_input(self) -> None:
        """Read no more keys."""
        if not self.is_away:
            if self._key_thread is not None and self._key_thread.is_alive():
                self._over.wake()
            super().disable_input()

    def stop_application_mode(self) -> None:
        """Restore the terminal, unless it is away."""
        if self.is_away:
            return
        until_s = time.monotonic() + _SETTLED_S
        while not self._link.is_settled and time.monotonic() < until_s:
            time.sleep(0.005)
        super().stop_application_mode()

    def close(self) -> None:
        """End the writer."""
        if not self.is_away:
            super().close()


def _is_in_foreground(fd: int) -> bool:
    """Whether this process group is in the foreground; True if unknown."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(fd) == os.getpgrp()
    return True


def correct_environment() -> None:
    """Remove variables that textual 8.2.8 misreads."""
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # an empty one means nothing (no-color.org)
    with contextlib.suppress(OSError):
        if all(os.get_terminal_size(1)):
            # They may be another terminal's, and textual prefers them to the true size.
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
