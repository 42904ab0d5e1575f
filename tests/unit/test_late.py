"""What of a Snapshot is computed only when somebody looks at it, and what then comes of it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest

from ioh.model.derive import derive
from ioh.model.derive_op import derive_op
from ioh.model.hist import FINE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.late import LateMapping
from ioh.model.sample import OpTotals
from ioh.model.snapshot import LayerSnapshot, OpStats
from tests import fakes

A, B = fakes.first(2)


def layer(name: str = next(iter(B.layers))) -> LayerSnapshot:
    found = derive(A, B).layers[name]
    assert isinstance(found, LayerSnapshot)
    return found


def test_late_stats_are_equal_to_the_same_said_at_once_whoever_copies_them() -> None:
    for name, stats in layer().ops.items():
        at_once = OpStats(**{each: getattr(stats, each) for each in OpStats.__dataclass_fields__})
        assert stats == at_once == layer().ops[name]
        assert (hash(stats), repr(stats)) == (hash(at_once), repr(at_once))
        fresh = layer().ops[name]
        assert pickle.loads(pickle.dumps(fresh)) == copy.copy(layer().ops[name]) == at_once
        assert replace(fresh, count=7) == replace(at_once, count=7)
        with pytest.raises(AttributeError, match="p42_us"):
            stats.p42_us  # type: ignore[attr-defined]  # noqa: B018


def test_a_late_mapping_is_a_mapping() -> None:
    made = []

    def value(of: int) -> int:
        made.append(of)
        return of * 10

    late = LateMapping({n: partial(value, n) for n in (1, 2)})
    assert 1 in late
    assert 3 not in late
    assert (len(late), list(late), made) == (2, [1, 2], [])
    assert late[2] == late[2] == 20
    assert made == [2]
    assert late == {1: 10, 2: 20}
    assert late == {1: 10, 2: 20}
    assert (late.get(3), late.get(3, 30), late.get(1), made) == (None, 30, 10, [2, 1])
    assert repr(late) == "{1: 10, 2: 20}"
    with pytest.raises(KeyError):
        late[3]


def test_a_late_mapping_but_for_one_value_is_as_late() -> None:
    late = LateMapping({"a": lambda: 1.0, "b": lambda: 1 / 0})
    for _ in range(2):
        other = late.but("a", 2.0)
        assert (other["a"], late["a"], list(other)) == (2.0, 1.0, ["a", "b"])
    with pytest.raises(ZeroDivisionError):
        other["b"]


@pytest.mark.parametrize("told", [0, 1, 19, 20, 999, 1000])
@pytest.mark.parametrize("off", [-1000, 1000])
@pytest.mark.parametrize("name", ["p50_us", "p95_us", "p99_us", "p999_us"])
def test_a_percentile_is_the_histograms_whatever_is_asked_for_first(
    told: int, off: int, name: str
) -> None:
    """``off``: so much more the counter says, which is read at another moment."""
    before = LatencyHist((3,) * FINE_BUCKETS)
    after = LatencyHist((3, 3 + told, *(3,) * (FINE_BUCKETS - 2)))
    sizes = SizeLatencyHist()
    older = OpTotals(count_total=2000, latency=before, size_lat=sizes)
    newer = OpTotals(count_total=max(2000, 2000 + told + off), latency=after, size_lat=sizes)
    stats = derive_op(older, newer, 1.0)
    quantile = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}[name]
    (expected,) = (after - before).percentiles_us((quantile,))
    assert getattr(stats, name) == expected
    assert (stats.p50_us, stats.p999_us) == (after - before).percentiles_us((0.5, 0.999))
