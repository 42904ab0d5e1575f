"""Tables of a host with more processes and files than entries are kept: the busiest stay."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ioh.layers.flow_rows import MAX_NEWCOMERS, MAX_ROWS
from ioh.layers.flows import FlowTables
from ioh.model.sample import Table
from tests.unit.test_flows import Probe, gained


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    return Probe(monkeypatch, tmp_path)


def test_a_thousand_files_a_tick_cost_as_many_rows_as_there_is_room_for(probe: Probe) -> None:
    older: dict[str, Table] = {"process": {}, "file": {}, "mount": {}}
    for tick in range(10):
        for ino in range(1000 * tick + 1, 1000 * tick + 301):
            probe.name(ino, b"file %d" % ino)
            probe.add(pid=ino, ino=ino)
        probe.lib.calls.clear()
        tables = probe.tick()
        assert probe.lib.calls.count("lookup") <= MAX_NEWCOMERS + 10
        for name, table in tables.items():
            assert len(table) <= MAX_ROWS + 1
            assert gained(older[name], table, name)[0] == 300
        older = tables
    assert len(probe.held) < 300 * 5


def test_of_more_entries_than_are_kept_those_that_did_least_go(probe: Probe) -> None:
    probe.tables = FlowTables(probe.root, has_others=True)
    for _ in range(3):
        for ino in range(1, 2600):
            probe.name(ino, b"file %d" % ino)
            probe.add(ino=ino, count=1 if ino % 2 else 1 + ino)
        tables = probe.tick()
    kept = {struct.unpack_from("=Q", key)[0] for key in probe.held}
    assert len(kept) == 2048
    assert kept >= set(range(2, 2600, 2))
    wanted = 3 * sum(1 if ino % 2 else 1 + ino for ino in range(1, 2600))
    for table in tables.values():
        assert sum(row[0] or 0 for row in table.values()) == wanted
