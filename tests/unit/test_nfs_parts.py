"""The NFS layers' parts: totals by dev_t under the names of mounts that come and go."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from ioh.bpf.totals import BYTES, COUNT, LATENCY, STARTED, WORDS
from ioh.layers.base import Layer
from ioh.layers.nfs_client import NfsClient
from ioh.layers.nfs_server import NfsServer
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from ioh.model.snapshot import LayerSnapshot
from tests.unit.fake_kernel import CPUS, install, notice_mounts_at_once
from tests.unit.probe_text import text_of
from tests.unit.test_layer_read import in_a_sample

LAYERS = [NfsClient, NfsServer]


class Host:
    """A layer whose file systems (minor number: where, and READs so far) come and go."""

    def __init__(self, layer: type[Layer], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "proc/self").mkdir(parents=True)
        self._mountinfo = root / "proc/self/mountinfo"
        self._mountinfo.touch()
        notice_mounts_at_once(monkeypatch)
        self._maps, self._held, _ = install(monkeypatch, text_of(layer).maps())
        self.layer = layer(Filters(), root)
        self._samples: list[LayerSample] = []

    def look(self, places: Mapping[int, str], reads: Mapping[int, int], inside: str = "/") -> None:
        lines = [f"40 26 0:{n} {inside} {at} rw - nfs4 srv:{at} rw\n" for n, at in places.items()]
        self._mountinfo.write_text("".join(lines))
        for minor, count in reads.items():
            counters = [0] * WORDS
            counters[STARTED] = counters[COUNT] = count
            counters[BYTES], counters[LATENCY + 100] = 10 * count, count
            values = struct.pack(f"={WORDS}Q", *counters).ljust(WORDS * 8 * CPUS, b"\0")
            self._held["totals"].entries[struct.pack("=II", minor, 0)] = values
        self._samples.append(self.layer.read(self._maps))

    def reads(self) -> dict[str, int | None]:
        """READs of each mount point that was busy between the last two looks."""
        older, newer = self._samples[-2:]
        pair = in_a_sample(0, self.layer, older), in_a_sample(1, self.layer, newer)
        layer = derive(*pair).layers[self.layer.spec.name]
        assert isinstance(layer, LayerSnapshot)
        op = self.layer.spec.ops[0]
        for part in layer.parts.values():
            latency = part[op].latency
            assert latency is not None
            assert latency.total == part[op].count
        return {name.rpartition(" on ")[2]: part[op].count for name, part in layer.parts.items()}


@pytest.fixture(params=LAYERS, ids=lambda layer: layer.spec.name)
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize("ticks", [0, 2])
def test_a_dev_that_another_mount_has_got_brings_no_history(host: Host, ticks: int) -> None:
    """With ``ticks`` in between, or within one; until then it keeps its name."""
    host.look({53: "/x"}, {53: 100})
    for _ in range(ticks):
        host.look({}, {53: 103})  # what write-back or a lazy umount has left
    if ticks:
        assert host.reads() == {}
    host.look({53: "/y"}, {53: 107})
    assert host.reads() == {"/y": 4 if ticks else 7}
    host.look({53: "/y"}, {53: 109})
    assert host.reads() == {"/y": 2}


def test_a_mount_that_comes_back_under_another_dev(host: Host) -> None:
    host.look({53: "/x"}, {53: 100})
    host.look({}, {53: 100})
    host.look({54: "/x"}, {54: 5})
    assert host.reads() == {"/x": 5}
    host.look({53: "/y", 54: "/x"}, {53: 101, 54: 7})
    assert host.reads() == {"/x": 2, "/y": 1}
    host.look({53: "/y", 54: "/x"}, {53: 104, 54: 8})
    assert host.reads() == {"/x": 1, "/y": 3}


def test_a_dev_that_a_file_system_of_another_mount_namespace_has_got(host: Host) -> None:
    host.look({53: "/x"}, {53: 97})
    host.look({}, {53: 100})
    assert host.reads() == {"/x": 3}  # what write-back or a lazy umount has left
    host.look({}, {53: 100})
    host.look({}, {53: 104})
    assert host.reads() == {"0:53": 4}
    host.look({53: "/x"}, {53: 105})
    assert host.reads() == {"/x": 1}
