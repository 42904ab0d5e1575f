"""The note about FUSE daemons: only while such a file system is mounted and its daemon works."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.layers.fuse_daemons import FuseDaemons
from tests.unit.test_flows import Probe, mount


def note(daemons: FuseDaemons, probe: Probe) -> tuple[str, ...]:
    probe.tick()
    return daemons.notes(probe.tables)


@pytest.mark.parametrize(
    ("fstype", "device", "is_daemon"),
    [
        ("fuse.bindfs", "/dev/fuse", True),
        ("fuse", "/dev/fuse", True),
        ("fuse.bindfs", "/dev/null", False),  # it only uses the file system
        ("fusectl", "/dev/fuse", False),  # mounted on most hosts
        ("ext4", "/dev/fuse", False),
    ],
)
def test_daemons_are_named_while_they_do_something(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fstype: str, device: str, is_daemon: bool
) -> None:
    probe = Probe(monkeypatch, tmp_path)
    probe.mounts(mount("8:1", "/data", "ext4") + mount("0:40", "/mnt", fstype))
    for pid, name, file in ((5, b"bindfs", device), (6, b"fio", "/mnt/data")):
        probe.process(pid, name)
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/7").symlink_to(file)
    probe.tables = type(probe.tables)(tmp_path)
    daemons = FuseDaemons(tmp_path, sees_pids=True)
    assert note(daemons, probe) == ()
    probe.add(5)
    probe.add(6)
    told = note(daemons, probe)
    assert len(told) == is_daemon
    assert not is_daemon or "FUSE daemons (bindfs)" in told[0]
    probe.add(6)
    assert note(daemons, probe) == told
    for _ in range(40):
        last = note(daemons, probe)
    assert last == ()
