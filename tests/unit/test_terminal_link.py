"""How much is written to a slow terminal, simulated byte by byte."""

from __future__ import annotations

from ioh.terminal.link import FIRST_BYTES, LOST_S, MAX_BYTES, MIN_BYTES, MUTE_S, TARGET_S, Link

STEP_S = 0.01
FRAME_BYTES = 5000
SLOW = 1500.0  # bytes a second


class Line:
    """A terminal at the end of a line; each step writes as much as the link allows."""

    def __init__(self, *, answers: bool, buffer: float = 1e9, delay_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.link = Link(lambda: self.now_s)
        self.answers, self.buffer, self.delay_s = answers, buffer, delay_s
        self.queue: list[float] = []  # bytes not shown yet, by write
        self.replies: list[float] = []
        self.is_blocked = False
        self.written = 0.0

    def run(self, seconds: float, rate: float, *, wanted: float = 1e9) -> None:
        """Let time pass; the screen always has a new picture to write."""
        until = self.now_s + seconds
        while self.now_s < until:
            self.now_s += STEP_S
            left = rate * STEP_S
            while self.queue and left > 0:
                taken = min(left, self.queue[0])
                self.queue[0] -= taken
                left -= taken
                if self.queue[0] <= 1e-9:
                    self.queue.pop(0)
                    self.replies.append(self.now_s + self.delay_s)
            while self.replies and self.replies[0] <= self.now_s:
                self.replies.pop(0)
                if self.answers:
                    self.link.answered()
            if self.is_blocked and sum(self.queue) <= self.buffer:
                self.link.end()
                self.is_blocked = False
            room = min(self.link.room(), FRAME_BYTES, wanted - self.written)
            if room > 0:
                size = int(room)
                self.link.begin(size)
                self.queue.append(size)
                self.written += size
                self.is_blocked = True

    @property
    def behind_s(self) -> float:
        """How long a key waits for its answer at the slow rate."""
        return sum(self.queue) / SLOW


def test_on_a_slow_link_little_is_in_flight() -> None:
    on = Line(answers=True, buffer=8192)
    on.run(60.0, SLOW)
    worst = 0.0
    for _ in range(300):
        on.run(0.1, SLOW)
        worst = max(worst, on.behind_s)
    assert worst < 1.0
    assert on.written > 0.5 * SLOW * on.now_s, "and the link is used"


def test_for_a_terminal_that_never_answers_one_write_waits_at_most() -> None:
    on = Line(answers=False, buffer=8192)
    for _ in range(600):
        on.run(0.1, SLOW)
        assert sum(on.queue) <= on.buffer + MAX_BYTES
    assert on.written > 0.9 * SLOW * on.now_s


def test_the_first_picture_is_sent_in_pieces_until_the_speed_is_known() -> None:
    on = Line(answers=True)
    for _ in range(300):
        on.run(0.02, SLOW)
        assert on.behind_s < 1.0
    assert on.written > 0.5 * SLOW * on.now_s


def test_a_terminal_that_never_answers_still_gets_the_first_picture() -> None:
    on = Line(answers=False)
    on.run(0.1, 1e6)
    assert FIRST_BYTES <= on.written < FRAME_BYTES
    on.run(MUTE_S + 0.1, 1e6)
    assert on.written >= FRAME_BYTES


def test_after_a_stall_little_is_queued() -> None:
    on = Line(answers=True)
    on.run(5.0, 1e6)
    on.run(60.0, 0.0)
    assert sum(on.queue) <= MAX_BYTES + FRAME_BYTES + 60 / LOST_S * MIN_BYTES


def test_a_long_fast_link_is_not_taken_for_a_slow_one() -> None:
    on = Line(answers=True, delay_s=TARGET_S / 2.5)
    on.run(3.0, 1e6)
    written = on.written
    on.run(1.0, 1e6)
    assert on.written - written > 3 * FRAME_BYTES


def test_the_link_knows_whether_an_answer_is_outstanding() -> None:
    on = Line(answers=True)
    on.run(0.1, 1e6)
    on.run(0.1, 1e6, wanted=0)
    states = [on.link.is_settled]
    on.link.begin(10)
    states.append(on.link.is_settled)
    on.link.answered()
    states.append(on.link.is_settled)
    assert states == [True, False, True]
