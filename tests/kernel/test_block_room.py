"""On a host with many CPUs the probe has room for few devices; here, for one op of one device."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ioh.model.sample import OTHERS
from tests.kernel import rig
from tests.kernel.direct import read_directly, write_directly
from tests.kernel.rig import MIB, Loop, recording

READS = 20_011

pytestmark = pytest.mark.usefixtures("small_room")


@pytest.fixture
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys, ioh.commands, ioh.layers.block_probe as probe\n"
        "probe._room = lambda host: 1\n"
        "raise SystemExit(ioh.commands.main(sys.argv[1:]))"
    )
    monkeypatch.setattr(rig, "ioh_command", lambda *words: [sys.executable, "-c", program, *words])


def test_devices_without_room_in_the_probe_count_as_others(loop: Loop) -> None:
    """All their requests are counted."""
    with recording("--device", loop.path, "--layers", "block") as ioh:
        before = loop.stats()
        read_directly(loop.path, 23)
        write_directly(loop.path, 11, syncs=True)
        disk = loop.stats() - before
    assert disk.reads == 23
    assert disk.flushes == 11
    missing = {
        op: count - ioh.total("block", op)
        for op, count in (("read", 23), ("write", disk.writes), ("flush", 11))
    }
    assert min(missing.values()) >= 0
    assert sum(missing.values()) <= disk.hidden  # nobody can tell of which device
    parts = [interval["layers"]["block"]["parts"]["device"] for interval in ioh.intervals]
    assert {name for part in parts for name in part} == {loop.name, OTHERS}


def test_a_device_on_top_of_another_is_not_in_the_sum(loop: Loop, tmp_path: Path) -> None:
    """The loop device's reads are of holes, so that nothing reaches the disk."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(MIB))
    with recording("--layers", "block") as ioh:
        ioh.wait_for_lines(3)
        read_directly(path, 64)  # takes the only room
        ioh.settle()
        before = loop.stats()
        read_directly(loop.path, READS)
        disk = loop.stats() - before
    parts = [interval["layers"]["block"]["parts"]["device"] for interval in ioh.intervals]
    others = sum(
        part[OTHERS].get("read", {"count": 0})["count"] for part in parts if OTHERS in part
    )
    assert disk.reads == READS
    assert others >= READS - disk.hidden
    assert 0 < ioh.total("block", "read") < READS
