"""Failed calls by process and errno: rows add up, also those without room."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from ioh.bpf.maps import MapSpec
from ioh.layers.failure_table import FailureTable
from ioh.model.sample import OTHERS, Table
from ioh.procfs.mountinfo import MountTable
from tests.unit.fake_kernel import install

FAILURES = MapSpec("failures", 1, 16, 24, 1024)
SDA1 = 8 << 20 | 1


class Probe:
    """The probe's side of the map."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("21 1 8:1 / /da\\012ta rw - ext4 /dev/sda1 rw\n")
        maps, held, _ = install(patch, [FAILURES])
        self.map, self.entries = maps["failures"], held["failures"].entries
        self.mounts, self.table = MountTable(root), FailureTable(("read", "write"))

    def fail(self, count: int, *key: int, comm: bytes = b"fio") -> None:
        self.entries[struct.pack("=IIII", *key)] = struct.pack("=Q16s", count, comm)

    def read(self, ticks: int = 1) -> Table:
        for _ in range(ticks):
            found = self.table.table(self.map.drain(), self.mounts)
        return found


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    return Probe(monkeypatch, tmp_path)


def test_each_process_op_errno_and_mount_has_a_row(probe: Probe) -> None:
    assert probe.read() == {}
    probe.fail(3, 7, 0, SDA1, errno.EIO)
    probe.fail(2, 7, 1, 9 << 20 | 4, 999, comm=b"\x1b[2J\n")
    read = ("7", "fio", "read", "EIO", "/da\\x0ata")
    odd = ("7", "\\x1b[2J\\x0a", "write", "999", "9:4")
    assert probe.read() == {read: (3,), odd: (2,)}
    probe.fail(5, 7, 0, SDA1, errno.EIO)
    assert probe.read() == {read: (8,), odd: (2,)}
    others = (OTHERS, "", "", "", "")
    assert probe.read(60) == {read: (8,), others: (2,)}
    assert probe.read() == {others: (10,)}


def test_failures_beyond_the_room_are_in_one_row(probe: Probe) -> None:
    for pid in range(100):
        probe.fail(2, pid, 0, SDA1, errno.EIO)
    found = probe.read()
    others = found[OTHERS, "", "", "", ""]
    assert len(found) <= 65
    assert sum(count for (count,) in found.values() if count) == 200
    probe.fail(1, 100, 0, SDA1, errno.EIO)
    assert probe.read()["100", "fio", "read", "EIO", "/da\\x0ata"] == (1,)  # the newest have rows
    assert (others[0] or 0) > 0
