"""Tables by process, file and mount: nothing is counted twice, or lost when entries go."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.bpf.maps import MapSpec
from ioh.layers import flows
from ioh.layers.flows import META_NAME, FlowTables
from ioh.layers.syscall import SPEC
from ioh.model.derive_table import derive_table
from ioh.model.sample import OTHERS, Table
from ioh.procfs.diskstats import make_dev
from tests.support.held import count_held
from tests.unit.fake_kernel import CPUS, install
from tests.unit.probe_text import ProbeText

SDA1 = 8 << 20 | 1
OPS = (
    "read_cached",
    "read_missed",
    "read_direct",
    "write_buffered",
    "write_sync",
    "fsync",
    "fault_read",
    "copy",
)
READ, MISSED, DIRECT_READ, BUFFERED_WRITE, WRITE, FSYNC, FAULT, COPY = map(SPEC.ops.index, OPS)
COLUMNS = [c.name for c in SPEC.tables[0].raw_columns]
FLOWS, PATHS = MapSpec("flows", 5, 24, 40, 4096), MapSpec("paths", 1, 16, 8 + 1280, 4096)


def mount(dev: str, mount_point: str, fstype: str, root: str = "/") -> str:
    return f"21 1 {dev} {root} {mount_point} rw - {fstype} /dev/{dev} rw\n"


class Probe:
    """The probe's side of the maps, and a /proc for the names."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        (root / "proc/self").mkdir(parents=True, exist_ok=True)
        self.mounts(mount("8:1", "/data", "ext4"))
        maps, held, self.lib = install(patch, [FLOWS, PATHS])
        self.flows, self.paths = maps["flows"], maps["paths"]
        self.held, self.held_paths = held["flows"].entries, held["paths"].entries
        self.names: dict[int, tuple[bytes, ...]] = {}
        self.unfinished: set[int] = set()
        self.added: Counter[str] = Counter()
        self.tables = FlowTables(root)

    def mounts(self, text: str) -> None:
        (self.root / "proc/self/mountinfo").write_text(text)

    def process(self, pid: int, comm: bytes) -> None:
        (self.root / f"proc/{pid}").mkdir(exist_ok=True)
        (self.root / f"proc/{pid}/comm").write_bytes(comm + b"\n")

    def name(self, ino: int, *names: bytes, complete: bool = True) -> None:
        """Set the name that the probe finds: the file, its folder, and so on."""
        self.names[ino] = names
        if not complete:
            self.unfinished.add(ino)

    def add(
        self,
        pid: int = 5,
        ino: int = 1,
        op: int = READ,
        count: int = 1,
        *,
        dev: int = SDA1,
        comm: bytes = b"probe",
    ) -> None:
        """``count`` operations of 10 bytes and 100 ns each, on any CPU."""
        key, cpu = struct.pack("=QIIII", ino, dev, pid, op, 0), count % CPUS
        if key not in self.held:
            fresh = struct.pack("=QQQ16s", 0, 0, 0, b"")
            self.held[key] = fresh * CPUS
            self._note_path(ino, dev)
        value = bytearray(self.held[key])
        old = struct.unpack_from("=QQQ", value, 40 * cpu)
        new = (old[0] + count, old[1] + 10 * count, old[2] + 100 * count)
        struct.pack_into("=QQQ16s", value, 40 * cpu, *new, comm)
        self.held[key] = bytes(value)
        reads = dict.fromkeys((READ, MISSED, DIRECT_READ), "read")
        kind = ({FSYNC: "sync", FAULT: "fault", COPY: "copy"} | reads).get(op, "write")
        waited = "_waited" if op in {MISSED, DIRECT_READ, WRITE} else ""
        for which in {"", waited}:
            counts = "copies" if kind == "copy" else f"{kind}s"
            self.added[f"{counts}{which}_total"] += count
            self.added[f"{kind}{which}_ns_total"] += 100 * count
            if kind != "sync":
                self.added[f"{kind}{which}_bytes_total"] += 10 * count

    def _note_path(self, ino: int, dev: int) -> None:
        if ino in self.names:
            raw = b"".join(name + b"\0" for name in self.names[ino])
            head = struct.pack("=II", len(raw), ino not in self.unfinished)
            value = (head + raw).ljust(PATHS.value_size, b"\0")
            self.held_paths[struct.pack("=QQ", ino, dev)] = value

    def tick(self, times: int = 1) -> dict[str, Table]:
        for _ in range(times):
            found = self.tables.read(self.flows, self.paths)
        return found


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    return Probe(monkeypatch, tmp_path)


def reads(table: Table) -> dict[str, object]:
    return {key[0]: row[0] for key, row in table.items()}


@pytest.mark.parametrize("name", [b"\x1b[31m[/b]", b"\xff", "\u202egnp.exe".encode()])
def test_hostile_names_are_escaped(probe: Probe, name: bytes) -> None:
    probe.name(1, name, name)
    probe.process(6, name)
    probe.add(comm=name)
    probe.add(pid=6)
    for table in probe.tick().values():
        for key in table:
            assert all(part.isprintable() for part in key)


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_program_that_has_ended_is_named_by_what_it_did_itself(
    probe: Probe, *, is_last: bool, is_known: bool
) -> None:
    """The shell before the exec looked for it: both programs' looks share an entry."""
    look = struct.pack("=QIIII", 0, SDA1, 5, SPEC.ops.index("stat"), META_NAME)
    shell = struct.pack("=QQQ16s", 2, 0, 100, b"bash") + bytes(40 * (CPUS - 1))
    probe.name(1, b"data")
    probe.process(5, b"bash")
    if is_known:
        probe.held[look] = shell
        assert set(probe.tick()["process"]) == {("5", "bash")}
        probe.held.pop(look)
        shell = struct.pack("=Q", 3) + shell[8:]
    (probe.root / "proc/5/comm").unlink()
    if not is_last:
        probe.held[look] = shell
    probe.add(comm=b"dd")
    probe.held[look] = shell
    assert ("5", "dd") in probe.tick()["process"]


def test_a_name_found_late_counts_only_what_comes_after_it(probe: Probe) -> None:
    probe.add(count=2)
    assert reads(probe.tick()["file"]) == {"inode 1 on /data": 2}
    assert probe.held == {}  # so that the probe looks for the name again
    probe.name(1, b"late")
    probe.add(count=3)
    assert reads(probe.tick()["file"]) == {"inode 1 on /data": 2, "/data/late": 3}
    assert len(probe.held) == 1


def test_a_name_that_is_never_found_is_requested_only_a_few_times(probe: Probe) -> None:
    for _ in range(5):
        probe.add()
        probe.tick()
        assert probe.held == {}
    probe.add()
    assert reads(probe.tick()["file"]) == {"inode 1 on /data": 6}
    assert len(probe.held) == 1


def test_files_outside_this_mount_namespace_are_named_by_device(probe: Probe) -> None:
    probe.name(1, b"\x1b[31m", b"etc", complete=False)
    probe.add(dev=253 << 20 | 4)
    probe.add(ino=2, dev=253 << 20 | 4)
    tables = probe.tick()
    unnamed = "inode 2 on device 253:4"
    assert set(tables["file"]) == {("device 253:4:/…/etc/\\x1b[31m",), (unnamed,)}
    assert set(tables["mount"]) == {("device 253:4", "")}


BTRFS = 44
LIVE, SNAPSHOT, UNNAMED = (257 ^ subvolume << 40 for subvolume in (256, 258, 259))


def test_a_btrfs_file_and_its_snapshot_have_separate_rows(probe: Probe) -> None:
    """Subvolumes use the same inode numbers; a file without a name has the one that ls shows."""
    probe.mounts(mount(f"0:{BTRFS}", "/data", "btrfs"))
    probe.tables = flows.FlowTables(probe.root)  # reads the mounts
    probe.name(LIVE, b"a.dbf", b"live")
    probe.name(SNAPSHOT, b"a.dbf", b"snap")
    for ino, count in ((LIVE, 23), (SNAPSHOT, 19), (UNNAMED, 1)):
        probe.add(ino=ino, count=count, dev=BTRFS)
    tables = probe.tick()
    named = {"/data/live/a.dbf": 23, "/data/snap/a.dbf": 19, "inode 257 on /data": 1}
    assert reads(tables["file"]) == named
    assert reads(tables["mount"]) == {"/data": 43}
    shift = int(ProbeText("syscall", {}).macros["SUBVOLUME_SHIFT"])
    assert (1 << shift) - 1 == flows._BTRFS_INO_MASK


def test_if_there_are_too_many_entries_the_least_active_are_dropped(probe: Probe) -> None:
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


def test_rows_that_are_idle_for_long_are_dropped_with_their_names(probe: Probe) -> None:
    probe.process(5, b"first")
    probe.name(1, b"a")
    probe.add()
    probe.tick(32)
    assert probe.held == {}  # which makes room
    tables = probe.tick(88)
    assert {name: reads(table) for name, table in tables.items()} == {
        "process": {OTHERS: 1},
        "file": {OTHERS: 1},
        "mount": {OTHERS: 1},
    }
    probe.process(5, b"second")
    probe.add()
    assert reads(probe.tick()["process"]) == {"5": 1, OTHERS: 1}
    assert set(probe.tick()["process"]) == {("5", "second"), (OTHERS, "")}


@pytest.mark.parametrize("idle_ticks", [*range(58, 64), 90, 92, 120, 122])
def test_a_row_used_again_when_idle_ones_are_dropped_is_kept(probe: Probe, idle_ticks: int) -> None:
    probe.add(count=2)
    probe.tick(idle_ticks)
    held = probe.tick()["process"]
    probe.add(count=3)
    assert gained(held, probe.tick()["process"])[0] == 3


def test_old_files_are_forgotten_with_and_without_a_name(probe: Probe) -> None:
    probe.name(99, b"busy")
    probe.add(ino=99)
    before = count_held(probe.tick() and probe.tables)
    for ino in range(1, 50):
        if ino % 2:
            probe.name(ino, b"file")
        probe.add(ino=ino)
        probe.tick()
    assert count_held(probe.tables) > before + 300
    for _ in range(120):
        probe.add(ino=99)
        tables = probe.tick()
    assert reads(tables["file"]) == {"/data/busy": 121, OTHERS: 49}
    assert count_held(probe.tables) < before + 50


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([5, 6]),
        st.sampled_from([0, 1, 2, 3]),
        st.sampled_from(list(map(SPEC.ops.index, OPS))),
        st.integers(1, 9),
    )
    | st.sampled_from([1, 2, 29, 31, 32, 95])
    | st.sampled_from([b"name", b"other"]),
    max_size=25,
)


def gained(older: Table, newer: Table, name: str = "process") -> list[int]:
    """Sum each column over the rows of an interval; no value may be negative or None."""
    spec = next(table for table in SPEC.tables if table.name == name)
    sums = [0.0] * len(COLUMNS)
    for row in derive_table(spec, older, newer, 1.0):
        for at, column in enumerate(spec.raw_columns):
            value = row.values[column.derived_name]
            assert value is not None
            assert value >= 0
            sums[at] += value
    return [round(value) for value in sums]


@settings(max_examples=25)
@given(actions=ACTIONS, races=st.integers(0, 3))
def test_every_operation_is_in_every_table_once(
    actions: list[tuple[int, int, int, int] | int | bytes],
    races: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        probe = Probe(patch, tmp_path_factory.mktemp("root"))
        take = probe.lib.bpf_map_lookup_and_delete_elem
        left = [races]

        def used_again(fd: int, key: bytes, value: object) -> int:
            if fd == probe.flows.fd and left[0]:
                left[0] -= 1
                ino, dev, pid, op, _ = struct.unpack("=QIIII", key)
                probe.add(pid, ino, op, dev=dev)
            return take(fd, key, value)

        patch.setattr(probe.lib, "bpf_map_lookup_and_delete_elem", used_again)
        shown: dict[str, Table] = {"process": {}, "file": {}, "mount": {}}
        sums = {name: [0] * len(COLUMNS) for name in shown}
        for action in [*actions, 1, 1]:
            if isinstance(action, bytes):
                probe.name(1, action)
                continue
            if isinstance(action, tuple):
                probe.add(*action)
                continue
            for _ in range(action):
                tables = probe.tick()
                for name, table in tables.items():
                    grown = gained(shown[name], table, name)
                    sums[name] = [a + b for a, b in zip(sums[name], grown, strict=True)]
                shown = tables
        wanted = [probe.added[column] for column in COLUMNS]
        assert sums == dict.fromkeys(sums, wanted)


def test_each_file_is_below_the_mount_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Several mounts of one NFS superblock; the probe noted each root's dentry, except for c."""
    dev, mounts = make_dev(0, 50), ((40, "a"), (41, "b"), (42, "c"))
    lines = [f"{n} 1 0:50 / /home/{at} rw - nfs4 srv:/home/{at} rw\n" for n, at in mounts]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("".join(lines))
    paths, roots = MapSpec("paths", 1, 16, 8 + 1280 + 16 * 8, 64), MapSpec("roots", 1, 4, 8, 64)
    maps, held, _ = install(monkeypatch, [FLOWS, paths, roots])
    for number, dentry in ((40, 0xA0), (41, 0xB0)):
        held["roots"].entries[struct.pack("=I", number)] = struct.pack("=Q", dentry)
    for ino, names, dentries in (
        (1, b"same\0", (0x11, 0xA0)),
        (2, b"same\0", (0x12, 0xB0)),
        (3, b"same\0deep\0b\0", (0x13, 0xD0, 0xB0, 0xE0)),  # v4: up to the server's root
        (4, b"lost\0", (0x14, 0xC0)),
    ):
        chain = struct.pack("=16Q", *dentries, *[0] * (16 - len(dentries)))
        path = struct.pack("=II1280s", len(names), 1, names) + chain
        held["paths"].entries[struct.pack("=QII", ino, dev, 0)] = path
        counted = struct.pack("=QQQ16s", ino, 10, 100, b"probe") + bytes(40) * (CPUS - 1)
        held["flows"].entries[struct.pack("=QIIII", ino, dev, 5, 0, 0)] = counted
    tables = FlowTables(tmp_path).read(maps["flows"], maps["paths"], maps["roots"])
    assert reads(tables["file"]) == {
        "/home/a/same": 1,
        "/home/b/same": 2,
        "/home/b/deep/same": 3,
        "/home/a/lost": 4,
    }
    assert reads(tables["mount"]) == {"/home/a": 1 + 4, "/home/b": 2 + 3}
