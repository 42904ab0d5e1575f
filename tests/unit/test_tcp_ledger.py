"""Sums over connections that come and go: every byte once, whatever ends between which reads."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioh.layers.tcp_ledger import ConnectionEnd, Ledger, Totals, decode_endings
from ioh.procfs.sock_diag import Change, Counters, Dump

# More are not made, or some seeds make them faster than a dump can tell of them.
MANY = 50


def message_of(pair: bytes) -> bytes:
    """As much of an inet_diag message as the ledger looks at."""
    return bytes(16) + bytes([2]) + bytes(3) + pair


def pair_of(number: int) -> bytes:
    return struct.pack("!HH16s16s", 2049, number, b"here", b"there")


def dump_of(known: dict[int, Counters], now: dict[int, Counters]) -> Dump:
    changed = [
        Change(cookie, counters, 100, 50, message_of(pair_of(cookie)))
        for cookie, counters in now.items()
        if known.get(cookie) != counters
    ]
    return Dump(dict(now), changed, set())


def tick(ledger: Ledger, now: dict[int, Counters], *endings: ConnectionEnd) -> Totals:
    ledger.apply(dump_of(ledger.known, now), list(endings))
    return ledger.totals


def ending(cookie: int, counters: Counters, number: int | None = None) -> ConnectionEnd:
    return ConnectionEnd(cookie, counters, 100, 2, pair_of(cookie if number is None else number))


def began(now: dict[int, Counters]) -> Ledger:
    ledger = Ledger()
    ledger.begin([dump_of({}, now)], [])
    return ledger


@pytest.mark.parametrize("cookie", [0, 99])
def test_a_connection_that_no_dump_saw_counts_whole(cookie: int) -> None:
    """Where somebody else has asked for its cookie, too."""
    ledger = began({})
    end = ending(cookie, Counters(5, 6, 1, 1))
    assert tick(ledger, {}, end) == Totals(5, 5, 1, 1)
    assert tick(ledger, {7: Counters(7, 9, 2, 1, 3, 4)}) == Totals(12, 12, 3, 2, 3, 4)


def test_a_connection_that_ended_before_the_baseline_does_not_count() -> None:
    ledger = Ledger()
    ledger.begin(
        [dump_of({}, {1: Counters(5, 5)})], [ending(0, Counters(9, 9)), ending(1, Counters(6, 6))]
    )
    assert tick(ledger, {}) == Totals()
    assert ledger.no_close_total == 0


def test_a_dump_that_skips_a_connection_does_not_count_it_again() -> None:
    ledger = began({1: Counters(1000, 1000)})
    tick(ledger, {})
    assert tick(ledger, {1: Counters(1003, 1000)}) == Totals(3)
    assert tick(ledger, {1: Counters(1004, 1000)}) == Totals(4)
    assert ledger.no_close_total == 0


def test_an_end_that_never_comes_is_a_loss() -> None:
    ledger = began({1: Counters(1, 1)})
    for _ in range(5):
        tick(ledger, {})
    assert ledger.no_close_total == 1
    assert ledger.known == {}


@pytest.mark.parametrize(
    "after", [Counters(1, 1), Counters(10, 20), Counters(500, 3), Counters(500, 500)]
)
def test_a_socket_that_connects_anew_keeps_its_cookie(after: Counters) -> None:
    ledger = began({1: Counters(10, 20)})
    tick(ledger, {1: after}, ending(1, Counters(12, 25)))
    tick(ledger, {1: Counters(600, 600)})
    assert tick(ledger, {}, ending(1, Counters(601, 602))) == Totals(2 + 601, 5 + 602)


def test_a_connection_described_while_it_ended_counts_once() -> None:
    ledger = began({})
    # The answer gave it cookie 5; the probe had read 0 a moment before.
    tick(ledger, {5: Counters(30, 40)}, ending(0, Counters(30, 40), 5))
    assert tick(ledger, {}) == Totals(60, 80)  # a total never goes back ...
    assert tick(ledger, {7: Counters(30, 40)}) == Totals(60, 80)  # ... so it waits
    assert tick(ledger, {7: Counters(31, 42)}) == Totals(61, 82)
    assert ledger.no_close_total == 0


def test_a_fin_between_the_halves_of_an_answer_is_taken_back() -> None:
    ledger = began({})
    assert tick(ledger, {1: Counters(11, 0)}) == Totals(11)  # 10 bytes and a FIN not yet told
    assert tick(ledger, {1: Counters(10, 0)}) == Totals(11)
    assert tick(ledger, {}, ending(1, Counters(10, 0))) == Totals(11)
    assert tick(ledger, {}, ending(0, Counters(10, 0))) == Totals(20)


def test_segments_wrap_at_32_bits() -> None:
    ledger = began({1: Counters(0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFE, 5)})
    assert tick(ledger, {1: Counters(1, 1, 0, 1, 1, 6)}) == Totals(1, 1, 0, 2, 3, 1)


def test_endings_are_decoded_in_the_order_in_which_they_happened() -> None:
    def item(ns: int, received: int) -> tuple[bytes, bytes]:
        key = struct.pack("=QQ", 0xFFFF888000000000 - ns, ns)
        value = struct.pack("=QQQQIIIII", 3, received, 8, 2, 1, 4, 5, 250, 2) + pair_of(9)
        return key, value

    first, second = decode_endings([item(2000, 20), item(1000, 10)])
    assert first == ConnectionEnd(3, Counters(10, 8, 2, 1, 4, 5), 250, 2, pair_of(9))
    assert second.counters.bytes_received == 20


@dataclass
class Kernel:
    """A made-up kernel: connections move, end and begin at any moment of a tick."""

    rng: random.Random
    sockets: dict[int, list[int]] = field(default_factory=dict)
    cookies: dict[int, int] = field(default_factory=dict)
    endings: list[ConnectionEnd] = field(default_factory=list)
    moved: list[int] = field(default_factory=lambda: [0, 0])
    number: int = 0

    def step(self) -> None:
        match self.rng.randrange(4):
            case 0 if len(self.sockets) < MANY:
                self.number += 1
                self.sockets[self.number] = [0, 0]
            case 1 if self.sockets:
                sock = self.rng.choice(list(self.sockets))
                final = self.sockets.pop(sock)
                cookie = self.cookies.get(sock, 0)
                self.endings.append(ending(cookie, Counters(*final), sock))
            case _ if self.sockets:
                sock = self.rng.choice(list(self.sockets))
                for i in range(2):
                    size = self.rng.randrange(100)
                    self.sockets[sock][i] += size
                    self.moved[i] += size

    def dump(self, known: dict[int, Counters]) -> Dump:
        """One socket after the other, while the others go on."""
        now: dict[int, Counters] = {}
        for sock in list(self.sockets):
            if sock not in self.sockets or self.rng.random() < 0.02:
                continue  # ended meanwhile, or passed over
            cookie = self.cookies.setdefault(sock, 1000 + sock)
            now[cookie] = Counters(*self.sockets[sock])
            self.step()
        return dump_of(known, now)

    def drain(self) -> list[ConnectionEnd]:
        """Entries made while the kernel's map is read may stay for the next time."""
        keep = self.rng.randrange(3)
        taken, self.endings = (self.endings, []) if keep else (self.endings[:-1], self.endings[-1:])
        return taken


@settings(max_examples=30)
@given(st.integers(0, 1 << 32))
@example(2665)
def test_nothing_is_lost_and_nothing_counts_twice(seed: int) -> None:
    kernel = Kernel(random.Random(seed))
    ledger = Ledger()
    for _ in range(kernel.rng.randrange(20)):
        kernel.step()
    kernel.endings.clear()
    ledger.begin([kernel.dump({})], [])
    while any(c not in ledger.known for c in map(kernel.cookies.get, kernel.sockets)):
        ledger.begin([kernel.dump({})], [])
    kernel.endings.clear()
    ledger.known = {kernel.cookies[s]: Counters(*c) for s, c in kernel.sockets.items()}
    kernel.moved = [0, 0]
    before = Totals()
    for _ in range(20):
        for _ in range(kernel.rng.randrange(30)):
            kernel.step()
        ledger.apply(kernel.dump(ledger.known), kernel.drain())
        after = ledger.totals
        assert all(new >= old for old, new in zip(before, after, strict=True))
        before = after
    for _ in range(2):  # nothing moves any more: what was late is there now
        ledger.apply(
            dump_of(
                ledger.known,
                {
                    kernel.cookies.setdefault(s, 1000 + s): Counters(*c)
                    for s, c in kernel.sockets.items()
                },
            ),
            kernel.endings,
        )
        kernel.endings = []
    assert [ledger.totals.in_bytes, ledger.totals.out_bytes] == kernel.moved
    assert ledger.no_close_total == 0
