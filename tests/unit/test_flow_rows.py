"""Breakdowns of a host with more files and processes than rows: all are counted."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.bpf.maps import MapSpec
from ioh.layers.flow_rows import (
    CALLS,
    COPY,
    FAULT,
    LOCK,
    META,
    META_WAITED,
    READ,
    READ_WAITED,
    SYNC,
    WRITE,
    FlowRows,
    RoundRobin,
)
from ioh.layers.submitter_table import SubmitterTable
from ioh.layers.syscall import SPEC
from ioh.model.derive_table import derive_table
from ioh.model.rows import FOREVER, Rows
from ioh.model.sample import OTHERS, Row, Table
from ioh.model.snapshot import TableRow
from tests.support.held import count_held
from tests.unit.fake_kernel import CPUS, install

PROCESS = next(table for table in SPEC.tables if table.name == "process")
BY_NUMBER = replace(PROCESS, keys=("pid",))


class Named:
    """FlowRows read tick by tick; ``asked`` counts the names that they requested."""

    def __init__(self, most: int, newcomers: int, idle_ticks: int = FOREVER) -> None:
        self.asked: Counter[int] = Counter()
        self.rows = FlowRows(Rows(1, most, idle_ticks), self._name, newcomers, CALLS)

    def _name(self, what: int) -> tuple[str]:
        self.asked[what] += 1
        return (f"/{what}",)

    def read(self, *sizes: tuple[int, int]) -> Table:
        """One tick with one read of each of these (what, bytes)."""
        for what, size in sizes:
            self.rows.add(what, READ, (1, size, 100))
        return self.rows.table()


def interval(older: Table, newer: Table) -> tuple[TableRow, ...]:
    return derive_table(BY_NUMBER, older, newer, 1.0)


def shown(older: Table, newer: Table) -> dict[str, object]:
    """Reads of each row in an interval, the busiest first."""
    return {row.key[0]: row.values["reads_per_s"] for row in interval(older, newer)}


def test_the_busiest_have_rows_and_the_others_share_one() -> None:
    named = Named(most=2, newcomers=2)
    table = named.read((1, 10), (2, 30), (3, 5), (4, 20))
    assert {key: row[:3] for key, row in table.items()} == {
        ("/2",): (1, 30, 100),
        ("/4",): (1, 20, 100),
        (OTHERS,): (2, 15, 200),
    }
    assert set(named.asked) == {2, 4}  # nobody sees the other names


def test_long_operations_have_a_row_even_if_they_move_no_bytes() -> None:
    named = Named(most=4, newcomers=4)
    for what in range(10):
        named.rows.add(what, WRITE, (1, 1000 + what, 5))
    named.rows.add(99, SYNC, (1, 0, 1_000_000))
    assert ("/99",) in named.rows.table()


def test_a_row_that_makes_room_adds_nothing_to_others_in_that_interval() -> None:
    named = Named(most=2, newcomers=2)
    tables = [named.read((1, 10), (2, 20)), named.read((2, 20)), named.read((2, 20), (3, 30))]
    assert set(tables[2]) == {("/2",), ("/3",), (OTHERS,)}
    assert tables[2][(OTHERS,)][0] == 1
    assert shown(tables[1], tables[2]) == {"/3": 1, "/2": 1}
    assert shown(tables[0], tables[2]) == {"/2": 2, "/3": 1}
    assert shown({}, tables[2]) == {"/2": 3, "/3": 1, OTHERS: 1}


def test_a_file_that_is_recreated_again_and_again_is_one_row() -> None:
    rows = FlowRows[int](Rows(1, 2, FOREVER), lambda _: ("/lock",), 2)
    for inode in range(1000):
        rows.add(inode, READ, (1, 1, 1))
        table = rows.table()
    assert table == {("/lock",): (1000, 1000, 1000, 0, 0, 0, 0, 0)}
    assert count_held(rows) < 100  # of 1,000


def total(rows: Mapping[tuple[str, ...], Row] | tuple[TableRow, ...]) -> float:
    assert isinstance(rows, tuple)
    return sum(row.values["reads_per_s"] or 0 for row in rows)


@settings(max_examples=30)
@given(
    ticks=st.lists(st.lists(st.integers(0, 12), max_size=14), min_size=2, max_size=12),
    idle_ticks=st.integers(0, 6),
    most=st.integers(1, 5),
    newcomers=st.integers(1, 5),
)
def test_every_interval_adds_up_as_rows_come_and_go(
    ticks: list[list[int]], idle_ticks: int, most: int, newcomers: int
) -> None:
    named = Named(most, newcomers, idle_ticks)
    tables = [named.read(*((what, what) for what in used)) for used in ticks]
    for first in range(len(tables)):
        for last in range(first + 1, len(tables)):
            wanted = sum(map(len, ticks[first + 1 : last + 1]))
            found = interval(tables[first], tables[last])
            assert total(found) == wanted
            assert all((row.values["reads_per_s"] or 0) >= 0 for row in found)
    assert all(len(table) <= most + 1 for table in tables)


def test_what_is_not_told_apart_is_in_the_row_of_others() -> None:
    named = Named(most=2, newcomers=2)
    named.rows.add_to_others(READ, (3, 70, 9))
    named.rows.add_to_others(WRITE, (5, 11, 13))
    named.rows.add_to_others(SYNC, (2, 0, 17))
    named.rows.add_to_others(FAULT, (6, 24, 31))
    named.rows.add_to_others(READ_WAITED, (1, 60, 8))
    named.rows.add_to_others(COPY, (4, 90, 12))
    named.rows.add_to_others(META, (7, 0, 70))
    named.rows.add_to_others(META_WAITED, (2, 0, 55))
    named.rows.add_to_others(LOCK, (1, 0, 99))
    table = named.read((1, 10))
    others = (
        *(3, 70, 9, 5, 11, 13, 2, 17, 6, 24, 31, 1, 60, 8, 0, 0, 0, 4, 90, 12),
        *(7, 70, 2, 55, 1, 99),
    )
    assert table == {("/1",): (1, 10, 100, *[0] * 23), (OTHERS,): others}
    assert shown(table, named.read((1, 10))) == {"/1": 1.0}


def test_the_rows_idle_longest_become_others() -> None:
    rows = Rows(2, 4, FOREVER, facts=1)
    for number in range(4):
        rows.add(("d", str(number)), (1, number), (number,))
    rows.add(("d", "0"), (1, None), (0,))
    assert rows.table()["d", "0"] == (2, None, 0)
    rows.add(("d", "4"), (1, 4), (4,))
    table = rows.table()
    assert ("d", "1") not in table
    assert table[OTHERS, ""] == (1, 1, None)
    rows.add(("d", "5"), (1, 5), (5,))
    assert rows.table()[OTHERS, ""] == (2, 3, None)
    assert sum(int(row[0] or 0) for row in rows.table().values()) == 7


def test_all_have_their_turn_before_one_has_its_second() -> None:
    turns = RoundRobin[int](3, 2, is_known=False)
    taken = [one for tick in range(2, 6) for one in turns.take(range(12), tick)]
    assert sorted(taken) == list(range(12))


def test_none_is_taken_again_before_a_rest() -> None:
    turns = RoundRobin[str](8, 5, is_known=False)
    seen = [tick for tick in range(1, 20) if turns.take(["a"], tick)]
    assert seen == [5, 10, 15]


def test_one_that_was_idle_is_taken_when_it_is_active_again() -> None:
    turns = RoundRobin[str](8, 5, is_known=True)
    assert turns.take(["a"], 1) == []
    assert turns.take(["b"], 7) == []
    assert turns.take(["a", "b"], 8) == ["a"]


SUBMITTERS = MapSpec("submitters", 5, 24, 24, 4096)
IDLE = 62  # ticks after which an entry is gone


class Probe:
    """The probe's side: what processes submit, on which CPU."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        maps, held, self.lib = install(patch, [SUBMITTERS])
        self.map, self.held = maps["submitters"], held["submitters"].entries
        self.table = SubmitterTable()
        self.added = [0, 0, 0, 0]

    def add(
        self,
        pid: int = 5,
        write: int = 0,
        count: int = 1,
        comm: bytes = b"fio",
        cpu: int = 0,
        joined: int = 0,
    ) -> None:
        """``count`` requests of 512 bytes, and ``joined`` bios of 512 bytes that joined one."""
        key = struct.pack("=II16s", pid, write, comm)
        words = list(struct.unpack(f"={3 * CPUS}Q", self.held.get(key, bytes(24 * CPUS))))
        words[3 * cpu] += count
        words[3 * cpu + 1] += 512 * count
        words[3 * cpu + 2] += 512 * joined
        self.held[key] = struct.pack(f"={3 * CPUS}Q", *words)
        self.added[2 * write] += count
        self.added[2 * write + 1] += 512 * (count + joined)

    def tick(self, times: int = 1) -> Table:
        for _ in range(times):
            found = self.table.read(self.map)
        return found


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


@pytest.mark.parametrize("comm", [b"\x1b[31m[/b]", b"\xff\xfe"])
def test_names_of_submitters_are_escaped(probe: Probe, comm: bytes) -> None:
    probe.add(comm=comm)
    ((_, name),) = probe.tick()
    assert name.isprintable()


def test_reads_and_writes_of_a_process_share_a_row(probe: Probe) -> None:
    """A bio that joins a request adds only bytes."""
    probe.add(count=2)
    probe.add(write=1, count=3, cpu=2)
    for _ in range(2):
        assert probe.tick() == {("5", "fio"): (2, 1024, 3, 1536)}
    probe.add(count=0, joined=3)
    assert probe.tick() == {("5", "fio"): (2, 2560, 3, 1536)}


def test_an_idle_row_becomes_part_of_the_others(probe: Probe) -> None:
    probe.add(count=2)
    for _ in range(IDLE + 3):
        probe.add(write=1)
        shown = probe.tick()
    assert len(probe.held) == 1
    assert shown == {("5", "fio"): (2, 1024, IDLE + 3, 512 * (IDLE + 3))}
    assert probe.tick(IDLE - 2) == shown
    assert probe.tick() == {(OTHERS, ""): shown["5", "fio"]}


def test_idle_entries_soon_make_room_if_many_new_ones_come(probe: Probe) -> None:
    """A host that starts 1,000 processes a second, each of which reads a little."""
    for pid in range(0, 9000, 1000):
        for each in range(pid, pid + 1000):
            probe.add(pid=each)
        assert len(probe.held) <= SUBMITTERS.max_entries - 100
        probe.tick()


def test_requests_submitted_while_an_entry_is_dropped_count(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.add()
    probe.tick(IDLE - 1)
    take = probe.lib.bpf_map_lookup_and_delete_elem

    def used_again(fd: int, key: bytes, value: object) -> int:
        probe.add(count=7)
        return take(fd, key, value)

    with monkeypatch.context() as patch:
        patch.setattr(probe.lib, "bpf_map_lookup_and_delete_elem", used_again)
        assert probe.tick() == {("5", "fio"): (8, 4096, 0, 0)}
    assert probe.held == {}  # it has made room
    probe.add()
    assert probe.tick() == {("5", "fio"): (9, 4608, 0, 0)}


ACTIONS = st.lists(
    st.tuples(st.sampled_from([5, 6]), st.integers(0, 1), st.integers(1, 9))
    | st.sampled_from([1, 2, IDLE - 1, IDLE, IDLE + 5]),
    max_size=25,
)


@settings(max_examples=40)
@given(ACTIONS)
def test_every_request_is_shown_once(actions: list[tuple[int, int, int] | int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        probe = Probe(patch)
        for action in [*actions, 1]:
            if isinstance(action, tuple):
                probe.add(*action)
                continue
            for _ in range(action):
                rows = probe.tick().values()
                sums = [sum(map(int, column)) for column in zip(*rows, strict=True)]
                assert sums == (probe.added if rows else [])
