"""An interval that is gone to says what it said live, however far back its rules look."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from ioh.feeds.file_feed import FileFeed, Played
from ioh.feeds.findings_cache import Rejudge
from ioh.findings.engine import Engine
from ioh.model.derive import derive
from ioh.model.finding import Finding
from ioh.model.snapshot import Snapshot
from ioh.session.reader import Session
from tests.feeds import Counting, told
from tests.screens import minute

SCENARIOS = Path(__file__).resolve().parents[1] / "data/scenarios"


@cache
def live(name: str) -> dict[int, tuple[Finding, ...]]:
    """What was found in each interval as it came."""
    engine, found = Engine(), {}
    with Session(str(SCENARIOS / name)) as session:
        samples = [item.sample for item in session.ticks(0)]
    for tick, (older, newer) in enumerate(pairwise(samples), 1):
        found[tick] = engine.judge(derive(older, newer)).findings
    return found


def feed(name: str) -> FileFeed:
    return FileFeed(str(SCENARIOS / name), Played(make_judge=Engine))


@pytest.mark.parametrize(
    ("name", "rule"), [("joined_writes.ioh", "consolidation"), ("faster_tier.ioh", "tiering")]
)
def test_going_to_an_interval_finds_what_was_found_live(name: str, rule: str) -> None:
    wanted = live(name)
    said = [tick for tick, found in wanted.items() if rule in {f.rule for f in found}]
    for tick in (said[0] - 1, said[0], said[-1]):
        with feed(name) as visited:
            judged = visited.judge(tick, lambda _: True)
        assert judged is not None
        assert judged.findings == wanted[tick]


INTERVALS = minute()


def look_back(visits: list[int], lost: int = -1) -> Rejudge:
    def visit(tick: int) -> Snapshot | None:
        visits.append(tick)
        return None if tick == lost else INTERVALS[tick - 1]

    return Rejudge(visit, Counting, 1.0)


def test_who_steps_on_is_told_at_once_and_who_steps_back_looks_again() -> None:
    visits: list[int] = []
    judge = look_back(visits)
    assert told(judge.judge(30, 1, lambda _: True)) == "16"
    assert visits == list(range(15, 31))
    visits.clear()
    assert told(judge.judge(32, 1, lambda _: True)) == "18"
    assert visits == [31, 32]
    visits.clear()
    assert told(judge.judge(29, 1, lambda _: True)) == "16"
    assert visits == list(range(14, 30))
    visits.clear()
    assert told(judge.judge(59, 1, lambda _: True)) == "16"
    assert visits == list(range(44, 60))


def test_there_is_nothing_before_the_first_interval_and_nothing_in_a_lost_one() -> None:
    assert told(look_back([]).judge(5, 1, lambda _: True)) == "5"
    assert told(look_back([]).judge(30, 28, lambda _: True)) == "3"
    assert look_back([], lost=30).judge(30, 1, lambda _: True) is None
    assert Rejudge(INTERVALS.__getitem__, lambda: None, 1.0).judge(5, 1, lambda _: True) is None
