"""Tables read back row by row: what was handed out stays, what fits no table is refused."""

from __future__ import annotations

import pytest

from ioh.model.sample import Value
from ioh.session.records import RecordError, Rows, TableShape
from ioh.session.tablestate import TablesState

SHAPES = [TableShape(0, b"files", 1, 2), TableShape(1, b"procs", 1, 2)]


def _filled() -> TablesState:
    state = TablesState(SHAPES)
    added: list[tuple[int, list[bytes], list[Value]]] = [
        (0, [b"a"], [1, 2]),
        (0, [b"b"], [3, 4]),
        (1, [b"c"], [5, 6]),
        (1, [b"d"], [7, 8]),
    ]
    state.apply(Rows(added=added))
    return state


def test_what_was_handed_out_never_changes() -> None:
    state = _filled()
    before = state.by_layer()[0]["files"]
    state.apply(Rows(gaps=[1, 2], incs=[10, 100]))
    assert before == {("a",): (1, 2), ("b",): (3, 4)}
    assert state.by_layer()[0]["files"] == {("a",): (1, 12), ("b",): (3, 4)}
    assert state.by_layer()[1]["procs"] == {("c",): (105, 6), ("d",): (7, 8)}


def test_rows_come_and_go_and_change_between_two_looks() -> None:
    state = _filled()
    assert len(state.by_layer()[1]["procs"]) == 2
    state.apply(Rows(gaps=[7], incs=[1]))
    state.apply(Rows(removed=[0, 1], added=[(1, [b"e"], [9, None])]))
    assert state.by_layer()[0]["files"] == {("b",): (3, 4)}
    assert list(state.by_layer()[1]["procs"].items()) == [(("d",), (7, 9)), (("e",), (9, None))]


def test_a_row_that_goes_and_comes_back_has_its_new_values() -> None:
    state = _filled()
    assert state.by_layer()[0]["files"]["a",] == (1, 2)
    state.apply(Rows(removed=[0], added=[(0, [b"a"], [0, 0])]))
    assert list(state.by_layer()[0]["files"].items()) == [(("b",), (3, 4)), (("a",), (0, 0))]


@pytest.mark.parametrize(
    "rows",
    [
        Rows(gaps=[8], incs=[1]),
        Rows(set_gaps=[8], sets=[1]),
        Rows(removed=[4]),
        Rows(added=[(2, [b"x"], [1, 2])]),
        Rows(added=[(0, [b"x"], [1])]),
        Rows(added=[(0, [b"x", b"y"], [1, 2])]),
        Rows(added=[(0, [b"a"], [1, 2])]),
        Rows(gaps=[0], incs=[]),
    ],
)
def test_changes_that_fit_no_table_are_refused(rows: Rows) -> None:
    with pytest.raises(RecordError):
        _filled().apply(rows)
