"""Everybody who is at work is looked at in turn, and nobody is remembered for ever."""

from __future__ import annotations

from ioh.layers.flow_rows import RoundRobin
from tests.held import count_held


def test_all_have_their_turn_before_one_has_its_second() -> None:
    turns = RoundRobin[int](3, 2, is_known=False)
    taken = [one for tick in range(2, 6) for one in turns.take(range(12), tick)]
    assert sorted(taken) == list(range(12))


def test_nobody_is_looked_at_again_before_a_rest() -> None:
    turns = RoundRobin[str](8, 5, is_known=False)
    seen = [tick for tick in range(1, 20) if turns.take(["a"], tick)]
    assert seen == [5, 10, 15]


def test_who_was_idle_meanwhile_is_looked_at_when_he_is_back() -> None:
    turns = RoundRobin[str](8, 5, is_known=True)
    assert turns.take(["a"], 1) == []
    assert turns.take(["b"], 7) == []
    assert turns.take(["a", "b"], 8) == ["a"]


def test_those_who_have_gone_are_forgotten() -> None:
    turns = RoundRobin[int](1, 1, is_known=True)
    for tick in range(200):
        turns.take(range(tick * 100, tick * 100 + 100), tick)
    assert count_held(turns) < 8000  # of 20,000
