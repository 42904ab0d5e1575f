"""How much may be on its way to the terminal, so that a key is answered soon over any link.

Pictures that a slow link has not carried yet are stale, and the answer to a key comes after them.
So each write ends with a question that every terminal answers once it has shown what came before
(where its cursor is), and nothing more is written while what is on its way takes too long.  One
that never answers is measured by how long it keeps a write waiting.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

QUESTION = "\x1b[6n"
# What is on its way should be shown within that time, half of what a key may take.
TARGET_S = 0.4
MIN_BYTES, FIRST_BYTES, MAX_BYTES = 400, 512, 1 << 13
MAX_RATE = 1 << 20  # bytes a second, from which nobody waits for a picture
# An answer that takes longer was lost, as when tmux changes terminals.
LOST_S = 10.0
MUTE_S = 0.6  # a terminal that has not answered by then never does
# Without answers: a write that waits fills the kernel's buffer, whose end nobody can see.  Half of
# the rate that it showed then empties it for good; what waits longer stood still, and says nothing.
_BUFFER_BYTES = 8192
_WAITED_S, _STOOD_S = 0.1, 5.0
_MIN_RATE = 500.0
_TRY_AGAIN_S = 600.0


class Link:
    """Counts what was written and what was shown; used by several threads; ``clock`` monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: deque[tuple[float, int]] = deque()  # when, and how many bytes before it
        self._window = FIRST_BYTES
        self._answers = self._is_writing = False
        self._rate = float("inf")  # bytes a second, of a terminal that does not answer
        self._free_s = self._slow_s = 0.0
        self._first_s = float("inf")

    def room(self) -> int:
        """How many bytes may be written now."""
        with self._lock:
            now_s = self._clock()
            while self._asked and now_s - self._asked[0][0] > LOST_S:
                self._asked.popleft()
                self._window = MIN_BYTES
            if self._is_writing or now_s < self._free_s:
                return 0
            if not self._answers and now_s - self._first_s <= MUTE_S:  # it may yet
                return max(0, self._window - sum(size for _, size in self._asked))
            if not self._answers:
                return max(MIN_BYTES, int(min(MAX_RATE, self._rate) * TARGET_S))
            if self._asked and now_s - self._asked[0][0] > TARGET_S:
                return 0
            return max(0, self._window - sum(size for _, size in self._asked))

    def wait_s(self) -> float:
        """When to ask for room again, if neither an answer nor the end of a write comes."""
        with self._lock:
            return max(TARGET_S / 4, self._free_s - self._clock())

    def begin(self, size: int) -> None:
        """So many bytes are being written, the last of them a question."""
        with self._lock:
            self._is_writing = True
            self._first_s = min(self._first_s, self._clock())
            self._asked.append((self._clock(), size))

    def end(self, size: int, began_s: float) -> None:
        """They were taken by the kernel."""
        with self._lock:
            self._is_writing = False
            now_s = self._clock()
            took_s = now_s - began_s
            if self._answers:
                return
            if _WAITED_S < took_s < _STOOD_S:
                self._rate = max(_MIN_RATE, min(self._rate, size / took_s) / 2)
                self._free_s = now_s + _BUFFER_BYTES / self._rate / 2
                self._slow_s = now_s
            elif self._rate < MAX_RATE:
                if now_s - self._slow_s > _TRY_AGAIN_S:
                    self._rate, self._slow_s = 2 * self._rate, now_s
                self._free_s = now_s + size / self._rate

    def answered(self) -> None:
        """The terminal has shown what was written before the oldest question."""
        with self._lock:
            if not self._asked:
                return
            self._answers, self._free_s = True, 0.0
            asked_s, size = self._asked.popleft()
            took_s = self._clock() - asked_s
            if took_s > TARGET_S:
                self._window = max(MIN_BYTES, min(self._window, int(size * TARGET_S / took_s)))
            elif took_s < TARGET_S / 2:
                self._window = min(MAX_BYTES, 2 * self._window)

    @property
    def is_settled(self) -> bool:
        """Whether no answer is under way that a shell would take for keys."""
        with self._lock:
            is_mute = not self._answers and self._clock() - self._first_s > MUTE_S
            return is_mute or not self._asked

    def forget(self) -> None:
        """Whatever was asked is not waited for: the terminal goes to somebody else."""
        with self._lock:
            self._asked.clear()
            self._is_writing = False
