"""Limits how much is in flight to the terminal, so that keys respond fast over any link.

Pictures still in flight on a slow link are stale, and the response to a key comes after them.  So
each write ends with a query for the cursor position, which terminals answer once they have shown
everything before it; while an answer takes too long, nothing more is written.  A terminal that
never answers gets the next write as soon as the kernel has taken the last one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

QUESTION = "\x1b[6n"
# Bytes in flight should be shown within this time, half of a key's limit.
TARGET_S = 0.4
MIN_BYTES, FIRST_BYTES, MAX_BYTES = 400, 512, 1 << 13
# A later answer is lost, for instance because tmux changed terminals.
LOST_S = 10.0
MUTE_S = 0.6  # a terminal that has not answered by then never will
ASK_AGAIN_S = 0.1  # for room, if there is no answer and no end of a write


class Link:
    """Counts bytes written and shown; thread-safe; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: deque[tuple[float, int]] = deque()  # when, and how many bytes before it
        self._window = FIRST_BYTES
        self._answers = self._is_writing = False
        self._first_s = float("inf")

    def room(self) -> int:
        """How many bytes may be written now."""
        with self._lock:
            now_s = self._clock()
            while self._asked and now_s - self._asked[0][0] > LOST_S:
                self._asked.popleft()
                self._window = MIN_BYTES
            if self._is_writing:
                return 0
            if self._is_mute():
                return MAX_BYTES
            if self._answers and self._asked and now_s - self._asked[0][0] > TARGET_S:
                return 0
            return max(0, self._window - sum(size for _, size in self._asked))

    def _is_mute(self) -> bool:
        return not self._answers and self._clock() - self._first_s > MUTE_S

    def begin(self, size: int) -> None:
        """Note the start of a write of ``size`` bytes that ends with a question."""
        with self._lock:
            self._is_writing = True
            self._first_s = min(self._first_s, self._clock())
            self._asked.append((self._clock(), size))

    def end(self) -> None:
        """Note that the kernel has taken a write."""
        with self._lock:
            self._is_writing = False

    def answered(self) -> None:
        """Note that the terminal has shown everything before the oldest question."""
        with self._lock:
            if not self._asked:
                return
            self._answers = True
            asked_s, size = self._asked.popleft()
            took_s = self._clock() - asked_s
            if took_s > TARGET_S:
                self._window = max(MIN_BYTES, min(self._window, int(size * TARGET_S / took_s)))
            elif took_s < TARGET_S / 2:
                self._window = min(MAX_BYTES, 2 * self._window)

    @property
    def is_settled(self) -> bool:
        """Whether no answer is outstanding that a shell would read as keys."""
        with self._lock:
            return self._is_mute() or not self._asked

    def forget(self) -> None:
        """Wait for no answer: another program gets the terminal."""
        with self._lock:
            self._asked.clear()
            self._is_writing = False
