"""The NFS layers' own decoding, and the names of parts whose mounts come and go."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from ioh.bpf.maps import MapSpec
from ioh.bpf.totals import BYTES, COUNT, ERRORS, LATENCY, STARTED, WORDS
from ioh.layers import nfs_client
from ioh.layers.base import Layer
from ioh.layers.nfs_client import SPEC, NfsClient, _rpc_values
from ioh.layers.nfs_maps import read_procedures
from ioh.layers.nfs_server import NfsServer, name_client
from ioh.layers.part_totals import OTHER_PARTS, PART_OP, Parts, PartTotals, sum_parts
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from ioh.model.snapshot import LayerSnapshot
from ioh.procfs.mountstats import NfsMount
from tests.unit.fake_kernel import CPUS, install, notice_mounts_at_once
from tests.unit.probe_text import text_of
from tests.unit.test_layer_read import in_a_sample

V4 = ipaddress.ip_address("10.99.1.2").packed.ljust(16, b"\0")
V6 = ipaddress.ip_address("2001:db8::7").packed


@pytest.mark.parametrize(
    ("family", "address", "shown"),
    [(2, V4, "10.99.1.2:713"), (10, V6, "[2001:db8::7]:713"), (1, V6, "?")],
)
def test_a_clients_name(family: int, address: bytes, shown: str) -> None:
    assert name_client(family, (713).to_bytes(2, "big"), address) == shown


class Totals:
    """The probe's map of totals, with room for so many entries."""

    def __init__(self, patch: pytest.MonkeyPatch, room: int = 64) -> None:
        maps, held, _ = install(patch, [MapSpec("totals", 5, 8, WORDS * 8, room)])
        self.map, self.entries = maps["totals"], held["totals"].entries

    def put(self, part: int, op: int, started: int = 3, count: int = 3, errors: int = 0) -> None:
        counters = [0] * WORDS
        counters[STARTED], counters[COUNT], counters[ERRORS] = started, count, errors
        self.entries[PART_OP.pack(part, op)] = struct.pack(f"={WORDS}Q", *counters) * CPUS


def test_file_systems_that_find_the_table_full(monkeypatch: pytest.MonkeyPatch) -> None:
    held, totals = Totals(monkeypatch, room=16), PartTotals(SPEC.ops, queue=True)
    assert totals.read(held.map, 0) == {}
    assert PART_OP.pack(OTHER_PARTS, 0) in held.entries  # where the probe looks for it
    for part in (49, OTHER_PARTS):
        held.put(part, 0)
    parts = totals.read(held.map, 1)
    assert sum_parts(parts, SPEC.ops)["read"].count_total == 6 * CPUS
    assert set(Parts(lambda dev: f"/mnt/{dev}").name(parts)) == {"/mnt/49", "(others)"}
    again = PartTotals(SPEC.ops, queue=True).read(held.map, 2)
    assert again[OTHER_PARTS]["read"].count_total == 3 * CPUS
    full = Totals(monkeypatch, room=2)  # from the start
    assert PartTotals(SPEC.ops, queue=True).read(full.map, 0) == {}
    assert len(full.entries) == 2


def test_reads_are_counted_whatever_the_procedure_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maps, held, _ = install(monkeypatch, [MapSpec("procedures", 5, 32, 56, 64)])
    for version, name in ((3, b"READ"), (4, b"READ_PLUS"), (4, b"OP_COMMIT"), (4, b"LOOKUP")):
        row = struct.pack("=7Q", 1, 0, 10, 100, 1000, 2, 3)
        held["procedures"].entries[struct.pack("=I28s", version, name)] = row * CPUS
    found = read_procedures(maps["procedures"])
    assert set(found) == {("v3", "READ"), ("v4", "READ_PLUS"), ("v4", "COMMIT"), ("v4", "LOOKUP")}
    values = _rpc_values(found)
    assert (values["rpc_reads_total"], values["rpc_commits_total"]) == (2 * CPUS, CPUS)
    assert values["rpc_read_rtt_ns_total"] == 200 * CPUS
    assert values["rpc_writes_total"] == 0
    assert values["rpc_retransmits_total"] == 8 * CPUS


def test_nothing_slow_lies_between_the_end_of_the_tick_and_its_totals(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An operation that ends in between counts in this tick, its maximum in the next."""
    maps, held, _ = install(monkeypatch, text_of(NfsClient).maps())
    ended: list[int] = []

    def read_mountstats(_: Path) -> list[NfsMount]:
        ended.append(len(held["epoch"].entries))
        return []

    monkeypatch.setattr(nfs_client, "read_mountstats", read_mountstats)
    NfsClient(Filters(), tmp_path).read(maps)
    assert (ended, len(held["epoch"].entries)) == ([0], 1)


def test_what_a_part_did_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held, totals = Totals(monkeypatch), PartTotals(SPEC.ops, queue=True)
    for part in (7, 8):
        held.put(part, 0)
    before = sum_parts(totals.read(held.map, 1), SPEC.ops)
    totals.retire(held.map, 7)
    left = totals.read(held.map, 2)
    assert set(left) == {8}
    after = sum_parts({**left, 0: totals.retired}, SPEC.ops)
    assert after["read"].count_total == before["read"].count_total == 6 * CPUS
    totals.retire(held.map, 8)
    assert totals.retired["read"].count_total == 6 * CPUS


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
