"""The screen's terminal: what it can do, the first picture, and how to restore it in any case."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ioh.model.waking import WakePipe

# How long the screen may take to end by itself after a signal.
GRACE_S = 3.0
# Keyboard protocol, alternate screen, cursor, mouse, focus and paste reports: as they were.
_RESTORE = b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\r\n"

# Draws a picture for a terminal of (columns, lines).
Lines = Callable[[tuple[int, int]], list[str]]

# Alternate screen, no cursor; and back.
_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?1049l\x1b[?25h"
_SETTLE_S = 0.05  # until SIGTSTP takes effect
_USUAL_SIZE = (80, 24)  # of a terminal that does not report its size


def has_terminal(*, stdin_is_pipe: bool) -> bool:
    """Whether a screen can be shown: a terminal for output and one for keys."""
    if os.environ.get("TERM", "dumb") in {"", "dumb"} or not os.isatty(1):
        return False
    if not stdin_is_pipe:
        return os.isatty(0)
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def shows_unicode(environment: Mapping[str, str]) -> bool:
    """Whether the terminal can draw blocks and lines; the Linux console has too few of them."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "C")
    is_utf8 = locale.casefold().replace("-", "").partition("@")[0].endswith(".utf8")
    return is_utf8 and environment.get("TERM") != "linux"


def take_keyboard() -> int:
    """Replace stdin by the terminal, and return the old stdin.  OSError: no terminal."""
    stdin = os.dup(0)
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    os.dup2(terminal, 0)
    os.close(terminal)
    return stdin


@contextlib.contextmanager
def starting(draw: Lines) -> Iterator[Callable[[Lines], None]]:
    """Show a first picture until the screen starts; remove it if the screen fails to start.

    Yields a function that shows another picture.
    """
    shown = draw

    def show(draw: Lines) -> None:
        nonlocal shown
        shown = draw
        _write(b"\x1b[H" + "\x1b[K\r\n".join(draw(screen_size())).encode() + b"\x1b[K")

    def stop(*_: object) -> None:
        """Handle Ctrl-Z before the screen does."""
        _write(_LEAVE)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        time.sleep(_SETTLE_S)
        signal.signal(signal.SIGTSTP, stop)
        _write(_ENTER)
        show(shown)

    with contextlib.suppress(termios.error):  # in the background this stops ioh until fg
        termios.tcsetattr(1, termios.TCSANOW, termios.tcgetattr(1))
    if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, stop)
    _write(_ENTER)
    show(draw)
    try:
        yield show
    except BaseException:
        _write(_LEAVE)
        raise


def screen_size() -> tuple[int, int]:
    """Return columns and lines: the terminal's, or what the environment says of one without."""
    with contextlib.suppress(OSError):
        columns, lines = os.get_terminal_size(1)
        if columns and lines:
            return columns, lines
    sizes = (os.environ.get(name, "") for name in ("COLUMNS", "LINES"))  # as the screen does
    columns, lines = (int(text) if text.isdecimal() else 0 for text in sizes)
    return columns or _USUAL_SIZE[0], lines or _USUAL_SIZE[1]


def _write(text: bytes) -> None:
    with contextlib.suppress(OSError):  # a closed terminal is handled by the screen
        os.write(1, text)


@contextlib.contextmanager
def stderr_on_terminal() -> Iterator[None]:
    """Point stderr to the terminal, even if it was redirected: the screen is written there."""
    saved = os.dup(2)
    os.dup2(1, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class TerminalWatch:
    """Ends the process when its terminal closes, or after a signal; a context manager.

    The screen cannot do that itself: writing to a closed terminal can block it forever, and reading
    returns immediately.  ``end`` asks the screen to end.  ``close``, called from a thread, ends
    everything else in order, above all recordings.  ``code`` returns the exit status.
    """

    def __init__(
        self, end: Callable[[], None], close: Callable[[], None], code: Callable[[], int]
    ) -> None:
        self._end, self._close, self._code = end, close, code
        self._terminal = os.dup(0)
        self._before: list[Any] | None = None
        with contextlib.suppress(termios.error):
            self._before = termios.tcgetattr(self._terminal)
        self._waking = WakePipe()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)

    def __enter__(self) -> TerminalWatch:  # noqa: PYI034 (Self came with Python 3.11)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._waking.wake()
        self._thread.join()
        self._waking.close()
        os.close(self._terminal)

    def end(self) -> None:
        """Ask the screen to end, and enforce it; safe to call from a signal handler."""
        self._end()
        self._waking.wake()

    def _run(self) -> None:
        gone, either = select.poll(), select.poll()
        for poll in (gone, either):
            poll.register(self._terminal, 0)  # reports only a hangup
        either.register(self._waking, select.POLLIN)
        either.poll()
        deadline = time.monotonic() + GRACE_S
        has_gone = bool(gone.poll(0))
        while not has_gone and not self._is_over and time.monotonic() < deadline:
            has_gone = bool(gone.poll(50))
        if self._is_over:
            return
        self._end()
        self._close()
        if not has_gone:
            self._restore()
        os._exit(self._code())

    def _restore(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            if self._before is not None:
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)
            if select.select([], [self._terminal], [], 0.2)[1]:
                os.write(self._terminal, _RESTORE)
