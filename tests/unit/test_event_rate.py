"""What costs too much to be counted is let go of, one op at a time."""

from __future__ import annotations

from ioh.layers.event_rate import MOST_EVENTS_PER_S, EventRate

MOST_OPS = MOST_EVENTS_PER_S // 2


def played(*seconds: dict[str, int], every_s: float = 1.0) -> list[str]:
    """What it names after each interval with so many operations."""
    rate, totals, named = EventRate(), dict.fromkeys({**seconds[0]}, 0), []
    rate.busiest(totals, 0.0)
    for n, counts in enumerate(seconds, 1):
        totals = {op: totals[op] + count for op, count in counts.items()}
        named.append(rate.busiest(totals, n * every_s)[0])
    return named


def test_three_intervals_in_a_row() -> None:
    busy, calm = {"read": MOST_OPS + 1, "commit": 5}, {"read": MOST_OPS - 5, "commit": 5}
    assert played(busy, busy, busy) == ["", "", "read"]
    assert played(*[calm] * 9) == [""] * 9
    assert played(busy, busy, calm, busy, busy) == [""] * 5


def test_the_limit_is_of_a_second() -> None:
    busy = {"read": MOST_OPS // 4 + 1}
    assert played(*[busy] * 3, every_s=0.25)[-1] == "read"
    assert played(*[busy] * 3)[-1] == ""


def test_all_together_count_and_the_busiest_goes() -> None:
    many = {"read": MOST_OPS // 2, "sort": MOST_OPS // 3, "wait": MOST_OPS // 3}
    assert played(many, many, many)[-1] == "read"


def test_nothing_to_compare_with() -> None:
    rate = EventRate()
    assert rate.busiest({}, 1.0) == ("", 0.0)
    assert rate.busiest({"read": 10**9}, 1.0) == ("", 0.0)
    assert rate.busiest({"read": 10**10}, 1.0) == ("", 0.0)  # no time has passed
