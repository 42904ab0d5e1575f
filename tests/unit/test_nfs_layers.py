"""The NFS layers: decoding, parts whose mounts come and go; each superblock counts once."""

from __future__ import annotations

import ipaddress
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from socket import htons

import pytest

from ioh.bpf.maps import MapSpec
from ioh.bpf.totals import BYTES, COUNT, LATENCY, STARTED, WORDS
from ioh.layers import nfs_client
from ioh.layers.base import Layer
from ioh.layers.nfs_client import SPEC, NfsClient, _rpc_values
from ioh.layers.nfs_maps import read_procedures
from ioh.layers.nfs_mounts import proc_ops
from ioh.layers.nfs_server import _CALL, _FLOW_KEY, ClientTables, NfsServer, name_client
from ioh.layers.part_totals import OTHER_PARTS, PART_OP, PartNames, PartTotals, sum_parts
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from ioh.model.snapshot import LayerSnapshot
from ioh.procfs.diskstats import make_dev
from ioh.procfs.mountstats import NO_CALLS, NfsMount
from tests.unit.fake_kernel import CPUS, counted, install, notice_mounts_at_once
from tests.unit.probe_text import text_of
from tests.unit.test_layer_read import in_a_sample

V4 = ipaddress.ip_address("10.99.1.2").packed.ljust(16, b"\0")
V6 = ipaddress.ip_address("2001:db8::7").packed


@pytest.mark.parametrize(
    ("family", "address", "shown"),
    [(2, V4, "10.99.1.2:713"), (10, V6, "[2001:db8::7]:713"), (1, V6, "?")],
)
def test_a_clients_name(family: int, address: bytes, shown: str) -> None:
    assert name_client(family, htons(713), address) == shown


def test_file_systems_that_do_not_fit_in_the_map_count_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = MapSpec("totals", 5, 8, WORDS * 8, 16)
    maps, held, _ = install(monkeypatch, [spec, replace(spec, name="small", max_entries=2)])
    entries, totals = held["totals"].entries, PartTotals(SPEC.ops, queue=True)
    assert totals.read(maps["totals"], 0) == {}
    assert PART_OP.pack(OTHER_PARTS, 0) in entries  # where the probe looks for it
    for part in (49, OTHER_PARTS):
        entries[PART_OP.pack(part, 0)] = counted({STARTED: 3, COUNT: 3})
    parts = totals.read(maps["totals"], 1)
    assert sum_parts(parts, SPEC.ops)["read"].count_total == 6
    assert set(PartNames(lambda dev: f"/mnt/{dev}").name(parts)) == {"/mnt/49", "(others)"}
    again = PartTotals(SPEC.ops, queue=True).read(maps["totals"], 2)
    assert again[OTHER_PARTS]["read"].count_total == 3
    assert PartTotals(SPEC.ops, queue=True).read(maps["small"], 0) == {}  # full from the start
    assert len(held["small"].entries) == 2


def test_totals_keep_what_a_retired_part_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, held, _ = install(monkeypatch, [MapSpec("totals", 5, 8, WORDS * 8, 64)])
    totals, entries = PartTotals(SPEC.ops, queue=True), held["totals"].entries
    for part, op in ((7, 0), (7, 1), (8, 0)):
        entries[PART_OP.pack(part, op)] = counted({STARTED: 5, COUNT: 3})
    before = sum_parts(totals.read(maps["totals"], 1), SPEC.ops)["read"]
    assert (before.count_total, before.inflight) == (6, 4)
    totals.retire(maps["totals"], 7)
    left = totals.read(maps["totals"], 2)
    assert {part: set(ops) for part, ops in left.items()} == {8: {"read"}}
    assert sum_parts({**left, 0: totals.retired}, SPEC.ops)["read"].count_total == 6
    totals.retire(maps["totals"], 8)
    assert totals.retired["read"].count_total == 6


def test_files_by_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("21 1 8:1 / /srv rw - ext4 /dev/sda1 rw\n")
    flows, paths = MapSpec("flows", 5, 40, 40, 64), MapSpec("paths", 1, 16, 8 + 1280, 64)
    maps, held, _ = install(monkeypatch, [flows, paths])
    dev, names = make_dev(8, 1), struct.pack("=II", 5, 1) + b"file\0"
    held["paths"].entries[struct.pack("=QQ", 77, dev)] = names.ljust(8 + 1280, b"\0")
    for op, port in ((0, 1), (1, 1), (4, 2), (5, 2)):
        key = _FLOW_KEY.pack(77, dev, op, 2, htons(port), 0, V4)
        held["flows"].entries[key] = struct.pack("=QQQ16s", 1, 10, 100, b"") * CPUS
    found = ClientTables(tmp_path).read(maps["flows"], maps["paths"])
    n = CPUS
    assert found["file"] == {
        ("/srv/file", "10.99.1.2:1"): (2 * n, 20 * n, 200 * n, 0, 0, 0, 0, 0),
        ("/srv/file", "10.99.1.2:2"): (0, 0, 0, n, 10 * n, 100 * n, n, 100 * n),
    }
    assert set(found["client"]) == {("10.99.1.2:1",), ("10.99.1.2:2",)}
    assert found["export"]["/srv", "ext4"][:2] == (2 * n, 20 * n)


def test_calls_that_nfsd_has_not_answered_are_in_progress(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two READs and a WRITE of two clients for seconds, a COMMIT or so, and a call just begun."""
    maps, held, _ = install(monkeypatch, text_of("nfs_server").maps())
    monkeypatch.setattr(time, "monotonic_ns", lambda: 60 * 10**9)
    held["totals"].entries[PART_OP.pack(make_dev(8, 1), 0)] = counted({STARTED: 3, COUNT: 3})
    size = held["servings"].spec.value_size

    def serve(
        thread: int, op: int, start_s: float, port: int, came_s: float = 1.0, state: str = "D"
    ) -> None:
        (tmp_path / f"proc/{thread}").mkdir(parents=True)
        (tmp_path / f"proc/{thread}/stat").write_text(f"{thread} (nfsd) {state} 2 0")
        call = _CALL.pack(
            int(came_s * 1e9), int(start_s * 1e9), op, 2 * bool(port), htons(port), V4
        )
        held["servings"].entries[struct.pack("=I", thread)] = call.ljust(size, b"\0")

    serve(71, 0, 50, 713)
    serve(72, 0, 52, 713)
    serve(73, 4, 55, 714)
    serve(74, 0xFF, 0, 713, came_s=40)
    serve(75, 0, 59.99, 715, state="S")
    for thread, idle in ((76, "S"), (77, "I")):  # dropped calls: the thread waits for another one
        serve(thread, 0xFF, 0, 716, state=idle)
    layer = NfsServer(Filters(), tmp_path)
    sample = layer.read(maps)
    assert sample.tables["in_progress"] == {
        ("74", "10.99.1.2:713", "other"): (20_000_000, 1),
        ("71", "10.99.1.2:713", "read"): (10_000_000, 2),
        ("73", "10.99.1.2:714", "write_file_sync"): (5_000_000, 1),
    }
    in_flight = {name: op.inflight for name, op in sample.ops.items()}
    assert [in_flight[op] for op in ("read", "write_file_sync", "commit")] == [3, 1, None]
    assert sample.metrics["busy_threads"] == 5
    # Of which file system it is not known before the end.
    assert {op.inflight for ops in sample.parts.values() for op in ops.values()} == {None}
    held["servings"].entries.clear()
    assert layer.read(maps).tables["in_progress"] == {}
    assert layer.read(maps).ops["commit"].inflight == 0


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


def test_mountstats_are_read_before_the_tick_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing slow may come between the end of the tick and the reading of its totals.

    An operation that ends in between counts in this tick, but its maximum in the next.
    """
    maps, held, _ = install(monkeypatch, text_of("nfs_client").maps())
    ended: list[int] = []

    def read_mountstats(_: Path) -> list[NfsMount]:
        ended.append(len(held["epoch"].entries))
        return []

    monkeypatch.setattr(nfs_client, "read_mountstats", read_mountstats)
    NfsClient(Filters(), tmp_path).read(maps)
    assert (ended, len(held["epoch"].entries)) == ([0], 1)


LAYERS = [NfsClient, NfsServer]


class Host:
    """A layer that watches mounts come and go."""

    def __init__(
        self, layer: type[Layer], root: Path, patch: pytest.MonkeyPatch, *, is_bpf: bool = True
    ) -> None:
        self.folder = root / "proc/self"
        self.folder.mkdir(parents=True)
        (self.folder / "mountinfo").touch()
        notice_mounts_at_once(patch)
        self.maps, self.held, _ = install(patch, text_of(layer.spec.name).maps())
        self.layer, self.is_bpf = layer(Filters(), root), is_bpf
        self._samples: list[LayerSample] = []

    def look(self, mountinfo: str) -> LayerSample:
        (self.folder / "mountinfo").write_text(mountinfo)
        sample = self.layer.read(self.maps) if self.is_bpf else self.layer.read_proc()
        assert isinstance(sample, LayerSample)
        self._samples.append(sample)
        return sample

    def interval(self) -> LayerSnapshot:
        """The interval between the last two looks, a second apart."""
        older, newer = self._samples[-2:]
        pair = in_a_sample(0, self.layer, older), in_a_sample(1, self.layer, newer)
        found = derive(*pair).layers[self.layer.spec.name]
        assert isinstance(found, LayerSnapshot)
        return found


class FileSystems(Host):
    """``see()`` takes mount points, and the number of READs so far, both by minor number."""

    def see(self, places: Mapping[int, str], reads: Mapping[int, int]) -> None:
        for minor, count in reads.items():
            words = {STARTED: count, COUNT: count, BYTES: 10 * count, LATENCY + 100: count}
            self.held["totals"].entries[PART_OP.pack(minor, 0)] = counted(words)
        lines = [f"40 26 0:{n} / {at} rw - nfs4 srv:{at} rw\n" for n, at in places.items()]
        self.look("".join(lines))

    def reads(self) -> dict[str, int | None]:
        """READs of each mount point that was busy between the last two looks."""
        op, parts = self.layer.spec.ops[0], self.interval().parts
        for part in parts.values():
            latency = part[op].latency
            assert latency is not None
            assert latency.total == part[op].count
        return {name.rpartition(" on ")[2]: part[op].count for name, part in parts.items()}


@pytest.fixture(params=LAYERS, ids=lambda layer: layer.spec.name)
def host(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FileSystems:
    return FileSystems(request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize("ticks", [0, 2])
def test_a_dev_reused_by_another_mount_starts_without_history(
    host: FileSystems, ticks: int
) -> None:
    """It is reused after ``ticks`` without a mount, or within one; until then it keeps its name."""
    host.see({53: "/x"}, {53: 100})
    for _ in range(ticks):
        host.see({}, {53: 103})  # left over from write-back or a lazy umount
    if ticks:
        assert host.reads() == {}
    host.see({53: "/y"}, {53: 107})
    assert host.reads() == {"/y": 4 if ticks else 7}
    host.see({53: "/y"}, {53: 109})
    assert host.reads() == {"/y": 2}


def test_a_mount_that_comes_back_under_another_dev(host: FileSystems) -> None:
    host.see({53: "/x"}, {53: 100})
    host.see({}, {53: 100})
    host.see({54: "/x"}, {54: 5})
    assert host.reads() == {"/x": 5}
    host.see({53: "/y", 54: "/x"}, {53: 101, 54: 7})
    assert host.reads() == {"/x": 2, "/y": 1}
    host.see({53: "/y", 54: "/x"}, {53: 104, 54: 8})
    assert host.reads() == {"/x": 1, "/y": 3}


def test_a_dev_reused_in_another_mount_namespace_is_shown_by_its_number(host: FileSystems) -> None:
    host.see({53: "/x"}, {53: 97})
    host.see({}, {53: 100})
    assert host.reads() == {"/x": 3}  # left over from write-back or a lazy umount
    host.see({}, {53: 100})
    host.see({}, {53: 104})
    assert host.reads() == {"0:53": 4}
    host.see({53: "/x"}, {53: 105})
    assert host.reads() == {"/x": 1}


OLD_S = 3600
READ = 1000  # bytes of each


@dataclass(frozen=True)
class Shown:
    """A mount as mountstats and mountinfo print it; ``dev`` is a minor number, 0 for no mount.

    The cache answered none of its ``reads``.
    """

    dev: int
    place: str
    reads: int
    export: str = "srv:/home"
    age_s: int = OLD_S
    options: str = ""

    @property
    def mountinfo(self) -> str:
        return (
            f"40 26 0:{self.dev} / {self.place} rw - nfs4 {self.export} rw,addr=10.0.0.9\n"
            if self.dev
            else ""
        )

    @property
    def mountstats(self) -> str:
        moved = self.reads * READ
        return (
            f"device {self.export} mounted on {self.place} with fstype nfs4 statvers=1.1\n"
            f"\topts:\trw,vers=4.2,proto=tcp{self.options}\n"
            f"\tage:\t{self.age_s}\n"
            f"\tbytes:\t{moved} 0 0 0 {moved} 0 0 0\n"
            f"\txprt:\ttcp 665 1 2 0 9 {self.reads} {self.reads} 0 214 0 8 63 62\n"
            f"\tREAD: {self.reads} {self.reads} 0 0 0 1 2 {self.reads} 0\n\n"
        )


class Superblocks(Host):
    """Mounts that both mountinfo and mountstats show."""

    def see(self, *mounts: Shown) -> LayerSample:
        (self.folder / "mountstats").write_text("".join(m.mountstats for m in mounts))
        return self.look("".join(m.mountinfo for m in mounts))

    def bytes_by(self, table: str) -> Mapping[str, float | None]:
        """Bytes read in the last interval, by the first field of each row's key."""
        rows = self.interval().tables[table]
        return {row.key[0]: row.values["read_bytes_per_s"] for row in rows}

    def proc_bytes(self) -> tuple[int | None, float | None]:
        """Bytes read by the layer, and READ calls in its breakdown by procedure."""
        interval = self.interval()
        rows = [r.values["calls_per_s"] for r in interval.tables["procedure"] if "READ" in r.key]
        return interval.ops["read"].bytes, sum(r or 0 for r in rows)


@pytest.fixture(params=["bpf", "proc"])
def mounts(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Superblocks:
    return Superblocks(NfsClient, tmp_path, monkeypatch, is_bpf=request.param == "bpf")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Superblocks:
    """Without probes, where /proc is the only source of procedures and totals."""
    return Superblocks(NfsClient, tmp_path, monkeypatch, is_bpf=False)


def test_one_superblock_at_many_places_counts_once(mounts: Superblocks) -> None:
    for reads in (5, 12):
        homes = [Shown(53, f"/home/u{n}", reads, f"srv:/home/u{n}") for n in range(50)]
        sample = mounts.see(*homes, Shown(54, "/other", 2 * reads, "srv:/other"))
    assert mounts.bytes_by("server") == {"srv": (7 + 14) * READ}
    assert mounts.bytes_by("mount") == {
        **{f"/home/u{n}": 7 * READ for n in range(50)},
        "/other": 14 * READ,
    }
    assert sample.metrics["app_read_bytes_total"] == 21 * READ
    assert any("one superblock" in note for note in sample.notes)
    if not mounts.is_bpf:
        assert mounts.proc_bytes() == (21 * READ, 21)
        assert {name: part["read"].bytes for name, part in mounts.interval().parts.items()} == {
            "srv:/home/u0 on /home/u0": 7 * READ,
            "srv:/other on /other": 14 * READ,
        }


def test_another_mount_of_a_known_superblock_adds_no_history(mounts: Superblocks) -> None:
    mounts.see(Shown(53, "/a", 1000))
    mounts.see(Shown(53, "/a", 1007), Shown(53, "/b", 1007, "srv:/b"))
    assert mounts.bytes_by("server") == {"srv": 7 * READ}
    assert mounts.bytes_by("mount") == {"/a": 7 * READ, "/b": 7 * READ}
    if not mounts.is_bpf:
        assert mounts.proc_bytes() == (7 * READ, 7)


def test_sums_stay_right_when_mounts_go_away(mounts: Superblocks) -> None:
    other = Shown(54, "/c", 10, "srv:/c")
    mounts.see(Shown(53, "/a", 1000), Shown(53, "/b", 1000, "srv:/b"), other)
    mounts.see(Shown(53, "/b", 1002, "srv:/b"), other)  # the superblock's first mount is gone
    assert mounts.bytes_by("server") == {"srv": 2 * READ}
    if not mounts.is_bpf:
        assert mounts.proc_bytes() == (2 * READ, 2)
    mounts.see(Shown(54, "/c", 13, "srv:/c"))  # its last mount is gone
    assert mounts.bytes_by("server") == {"srv": 3 * READ}
    if not mounts.is_bpf:
        assert mounts.proc_bytes() == (3 * READ, 3)


@pytest.mark.parametrize(
    ("age_s", "bytes_read"),
    [(0, 5 * READ), (OLD_S, 0)],  # mounted just now; long ago in another mount namespace
)
def test_the_past_of_a_new_superblock_counts_only_if_just_mounted(
    mounts: Superblocks, age_s: int, bytes_read: int
) -> None:
    mounts.see(Shown(53, "/a", 9))
    mounts.see(Shown(53, "/a", 9), Shown(54, "/b", 5, "srv:/b", age_s))
    assert mounts.bytes_by("server").get("srv", 0) == bytes_read
    if not mounts.is_bpf:
        assert mounts.interval().ops["read"].bytes == bytes_read


@pytest.mark.parametrize("reads", [4, 40])
def test_a_dev_reused_by_another_superblock_counts_from_zero(proc: Superblocks, reads: int) -> None:
    proc.see(Shown(53, "/a", 9))
    proc.see(Shown(53, "/a", reads, age_s=0))
    assert proc.bytes_by("mount") == {"/a": reads * READ}
    assert proc.proc_bytes() == (reads * READ, reads)


def test_mounts_over_each_other(proc: Superblocks) -> None:
    for reads in (10, 11):
        proc.see(Shown(53, "/a", reads), Shown(54, "/a", 2 * reads))
    assert proc.bytes_by("server") == {"srv": 3 * READ}
    assert proc.bytes_by("mount") == {"/a": 2 * READ}  # the last one hides the others
    assert proc.proc_bytes() == (3 * READ, 3)


def test_names_that_the_kernel_escapes(proc: Superblocks) -> None:
    for reads in (1, 4):
        places = (r"/a\040b", r"/a\134b", r"/\303\244", "/ä")
        proc.see(*(Shown(53, place, reads, r"srv:/x\011y") for place in places))
    assert proc.proc_bytes() == (3 * READ, 3)
    assert proc.bytes_by("server") == {"srv": 3 * READ}


@pytest.mark.parametrize(("options", "port"), [("", None), (",port=12049", 12049)])
def test_a_servers_port_is_known(proc: Superblocks, options: str, port: int | None) -> None:
    for reads in (1, 4):
        proc.see(Shown(53, "/a", reads, options=options))
    (row,) = proc.interval().tables["server"]
    assert (row.values["port"], row.values["read_bytes_per_s"]) == (port, 3 * READ)


def test_mounts_that_mountinfo_lacks(proc: Superblocks) -> None:
    proc.see(Shown(53, "/a", 10))
    sample = proc.see(Shown(53, "/a", 11), Shown(0, "/b", 11, "old:/b"))  # gone meanwhile
    assert proc.proc_bytes() == (1 * READ, 1)
    assert set(sample.tables["server"]) == {("srv", "10.0.0.9"), ("old", "?")}
    proc.see(Shown(0, "/a", 13))  # no mountinfo at all
    proc.see(Shown(0, "/a", 17))
    assert proc.proc_bytes() == (4 * READ, 4)


def test_a_failed_rpc_counts_only_as_an_error_without_bpf_too() -> None:
    failed = NO_CALLS._replace(calls=40, errors=7, execute_ms=330)
    read = proc_ops(replace(NfsMount("", ""), procedures={"READ": failed}))["read"]
    assert (read.count_total, read.errors_total) == (33, 7)
