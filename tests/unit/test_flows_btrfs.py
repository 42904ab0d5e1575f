"""Files of btrfs: subvolumes number theirs alike, so the probe's number has the subvolume in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.layers import flows
from tests.unit.probe_text import ProbeText
from tests.unit.test_flows import Probe, mount, reads

BTRFS = 44
LIVE, SNAPSHOT, UNNAMED = (257 ^ subvolume << 40 for subvolume in (256, 258, 259))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    made = Probe(monkeypatch, tmp_path)
    made.mounts(mount(f"0:{BTRFS}", "/data", "btrfs"))
    made.tables = flows.FlowTables(tmp_path)  # which reads them
    return made


def test_a_file_and_its_snapshot_have_rows_of_their_own(probe: Probe) -> None:
    probe.name(LIVE, b"a.dbf", b"live")
    probe.name(SNAPSHOT, b"a.dbf", b"snap")
    probe.add(ino=LIVE, count=23, dev=BTRFS)
    probe.add(ino=SNAPSHOT, count=19, dev=BTRFS)
    tables = probe.tick()
    assert reads(tables["file"]) == {"/data/live/a.dbf": 23, "/data/snap/a.dbf": 19}
    assert reads(tables["mount"]) == {"/data": 42}


def test_without_a_name_it_has_the_number_that_ls_shows(probe: Probe) -> None:
    probe.add(ino=UNNAMED, dev=BTRFS)
    assert reads(probe.tick()["file"]) == {"inode 257 on /data": 1}


def test_both_sides_know_where_the_subvolume_begins() -> None:
    shift = int(ProbeText("syscall", {}).macros["SUBVOLUME_SHIFT"])
    assert (1 << shift) - 1 == flows._BTRFS_INO_MASK
