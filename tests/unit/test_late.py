"""What of a Snapshot is computed only when somebody looks at it, and what then comes of it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from ioh.model import derive as derive_module
from ioh.model.derive import derive
from ioh.model.hist import LatencyHist
from ioh.model.late import LateMapping
from ioh.model.snapshot import LayerSnapshot, OpStats
from tests import fakes

A, B = fakes.first(2)


def layer(name: str = next(iter(B.layers))) -> LayerSnapshot:
    found = derive(A, B).layers[name]
    assert isinstance(found, LayerSnapshot)
    return found


def test_nothing_is_subtracted_until_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    subtract = LatencyHist.__sub__

    def counted(newer: LatencyHist, older: LatencyHist) -> LatencyHist:
        looked.append(newer)
        return subtract(newer, older)

    monkeypatch.setattr(LatencyHist, "__sub__", counted)
    stats = next(iter(layer().ops.values()))
    assert stats.count is not None
    assert not looked
    assert stats.p99_us == stats.p99_us
    assert stats.latency is not None
    assert len(looked) == 1


def test_tables_and_parts_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []
    monkeypatch.setattr(derive_module, "derive_table", lambda spec, *_: derived.append(spec.name))
    found = next(
        x for x in derive(A, B).layers.values() if isinstance(x, LayerSnapshot) and x.tables
    )
    assert not derived
    first = next(iter(found.tables))
    assert found.tables[first] is found.tables[first]
    assert derived == [first]


def test_late_stats_are_equal_to_the_same_said_at_once() -> None:
    for stats in layer().ops.values():
        names = OpStats.__dataclass_fields__
        at_once = OpStats(**{name: getattr(stats, name) for name in names})
        assert stats == at_once
        assert hash(stats) == hash(at_once)
        assert repr(stats) == repr(at_once)
    fresh = layer().ops
    assert fresh == layer().ops
    for name, stats in layer().ops.items():
        assert pickle.loads(pickle.dumps(stats)) == fresh[name]
        assert copy.copy(stats) == fresh[name]
        assert replace(stats, count=7) == replace(fresh[name], count=7)


def test_a_field_that_is_none_is_an_error_as_ever() -> None:
    stats = next(iter(layer().ops.values()))
    with pytest.raises(AttributeError, match="p42_us"):
        stats.p42_us  # type: ignore[attr-defined]  # noqa: B018


def test_a_late_mapping_is_a_mapping() -> None:
    made = []

    def value(of: int) -> int:
        made.append(of)
        return of * 10

    late = LateMapping(lambda: {n: (lambda n=n: value(n)) for n in (1, 2)})  # type: ignore[misc]
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
