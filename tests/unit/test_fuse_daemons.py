"""The note about FUSE daemons: only of those that also read or write files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ioh.bpf.maps import MapSpec
from ioh.layers.fuse_daemons import FuseDaemons
from tests.unit.fake_kernel import install
from tests.unit.test_flows import FLOWS, PATHS, Probe


def test_daemons_are_named_while_they_do_something(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    probe, daemons = Probe(monkeypatch, tmp_path), FuseDaemons()
    asked = MapSpec("fuse_daemons", 1, 4, 8, 128)
    maps, held, _ = install(monkeypatch, [FLOWS, PATHS, asked])
    probe.flows, probe.paths = maps["flows"], maps["paths"]
    probe.held, probe.held_paths = held["flows"].entries, held["paths"].entries

    def told(*pids: int) -> tuple[str, ...]:
        """The notes of a tick in which these processes read /dev/fuse."""
        for pid in pids:
            held["fuse_daemons"].entries[struct.pack("=I", pid)] = struct.pack("=Q", 1)
        probe.tick()
        return daemons.notes(maps["fuse_daemons"], probe.tables)

    for pid, name in ((5, b"bindfs"), (6, b"fio"), (7, b"sshfs")):
        probe.process(pid, name)
        probe.add(6)
    assert told(7) == ()  # it serves from elsewhere
    probe.add(5)
    probe.add(6)
    [note] = told(5, 7)
    assert "FUSE daemons (bindfs)" in note
    assert [told() for _ in range(30)] == [(note,)] * 30
    assert told() == ()
