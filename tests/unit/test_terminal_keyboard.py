"""Bytes from a terminal as events: whole, in pieces, late, and some that no terminal sends."""

from __future__ import annotations

import random
from itertools import chain

import pytest
from textual import events

from ioh.terminal.keyboard import ESC_S, NO_ESCAPE, REST_S, Keyboard

X10_BEYOND_COLUMN_95 = b"\x1b[M \xc8\xc9"


class Typing:
    """A keyboard and its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.keyboard = Keyboard(lambda: self.now_s)

    def send(self, *pieces: bytes) -> list[str]:
        return named(chain(*(list(self.keyboard.feed(piece)) for piece in pieces)))

    def wait(self, seconds: float) -> list[str]:
        self.now_s += seconds
        return named(self.keyboard.tick())


def named(found: object) -> list[str]:
    return [e.key if isinstance(e, events.Key) else type(e).__name__ for e in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"q", ["q"]),
        ("é".encode(), ["é"]),
        (b"\x1b[A\x1bOP\x1b[27u\x1b[5~", ["up", "f1", "escape", "pageup"]),
        (b"\x1b[<0;10;10M\x1b[<0;10;10m", ["MouseDown", "MouseUp"]),
        (b"\x1bx", ["alt+x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\xe4A", ["replacement_character", "A"]),
        (X10_BEYOND_COLUMN_95 + b"q", ["q"]),
        (b"\x1b[999zq", ["q"]),
        (b"\x1b[99999999999uq", ["q"]),
        (b"\x1b[48;9999;9999;1;1tq", ["q"]),
        (b"\x1b[200~rm -rf\r\x1b[A\x1b[201~q", ["Paste", "q"]),
        (b"\x10\x03", ["ctrl+p", "ctrl+c"]),
    ],
)
def test_keys_are_the_same_whole_and_in_pieces(sent: bytes, keys: list[str]) -> None:
    assert Typing().send(sent) == keys
    assert Typing().send(*(sent[at : at + 1] for at in range(len(sent)))) == keys


def test_esc_is_a_key_once_nothing_follows() -> None:
    assert ESC_S < 0.05
    on = Typing()
    assert on.send(b"\x1b") == []
    assert on.wait(ESC_S / 2) == []
    assert on.wait(ESC_S) == ["escape"]
    assert on.send(b"q") == ["q"]


def test_a_sequence_that_a_link_splits_is_one_key() -> None:
    on = Typing()
    assert on.send(b"\x1b[") == []
    assert on.wait(REST_S / 2) == []
    assert on.send(b"A") == ["up"]
    assert on.send(b"\x1b") + on.wait(ESC_S * 2) == ["escape"]
    assert on.send(b"[A") == [NO_ESCAPE, "up"], "it was none"
    assert on.send(b"\x1b") + on.wait(ESC_S * 2) == ["escape"]
    on.now_s += REST_S
    assert on.send(b"[A") == ["left_square_bracket", "A"]


def test_an_endless_paste_or_sequence_does_not_swallow_later_keys() -> None:
    on = Typing()
    assert on.send(b"\x1b[200~abc") == []
    assert on.wait(REST_S) == ["Paste"]
    assert on.send(b"\x1b[12;") + on.wait(REST_S) == []
    assert on.send(b"\x1b[" + b"0" * 99) == []
    assert on.send(b"q") == ["q"]


@pytest.mark.parametrize("seed", range(3))
def test_q_is_recognized_after_any_bytes(seed: int) -> None:
    dice, on = random.Random(seed), Typing()
    often = b"\x1b\x1b\x1b[[[]O<>;;?0123456789~uMRtI"
    bad = bytes(dice.choice(often + bytes(range(256))) for _ in range(10_000))
    at = 0
    while at < len(bad):
        size = dice.randint(1, 60)
        on.send(bad[at : at + size])
        at += size
    on.wait(REST_S)
    on.wait(REST_S)
    assert on.send(b"q")[-1:] == ["q"]
