"""Operations that have begun and not ended: which rows they get, and the age of the oldest."""

from __future__ import annotations

from dataclasses import replace

from ioh.model.in_progress import MOST_ROWS, Open, in_progress_table, oldest_first, oldest_us
from ioh.model.metric import tables
from ioh.model.snapshot import TableRow
from tests.unit.snapshot_maker import layer

NOW_NS = 10**15
MS = 10**6


def key(number: int, op: str = "read_direct") -> tuple[str, ...]:
    return (str(number), "fio", op, "/data", "vda")


def test_the_oldest_come_first_and_no_op_loses_its_oldest() -> None:
    def began(pid: int, ago_ms: int, op: str = "read_direct", number: int = 1) -> Open[int]:
        return Open(op, pid, NOW_NS - ago_ms * MS, number)

    found = [began(at, 500 + at, number=2) for at in range(30)]
    found += [began(0, 200, "fsync"), began(1, 150, "fsync", 7)]
    found.append(began(99, 99, "copy"))  # too young for a row
    rows = oldest_first(found, NOW_NS, lambda each: key(each.who, each.op))
    assert list(rows)[:2] == [key(29), key(28)]
    assert rows[key(29)] == (529_000, 2)
    assert rows[key(0, "fsync")] == (200_000, 1)
    assert len(rows) == MOST_ROWS + 1


def test_operations_with_the_same_names_share_a_row() -> None:
    """A file that was replaced: two inodes, one path."""
    found = [Open("fsync", inode, NOW_NS - inode * 1000 * MS, 3) for inode in (1, 2)]
    rows = oldest_first(found, NOW_NS, lambda each: key(7, each.op))
    assert rows == {key(7, "fsync"): (2_000_000, 6)}


def test_the_age_of_an_op_or_a_group_is_that_of_its_oldest() -> None:
    (spec,) = tables(in_progress_table("pid, comm, op, file, device"))
    assert [column.derived_name for column in spec.columns] == ["age_us", "count"]
    ages = {"write_direct": 3e6, "write_sync": 7e6, "fsync": 9e6}
    rows = tuple(TableRow(key(1, op), {"age_us": age, "count": 1}) for op, age in ages.items())
    app = replace(layer("syscall"), tables={"in_progress": rows})
    assert oldest_us(app, "write") == 7e6
    assert oldest_us(app, "write_direct") == 3e6
    assert oldest_us(app, "fsync") == 9e6
    assert oldest_us(app, "read") is None
    assert oldest_us(layer("syscall"), "write") is None
