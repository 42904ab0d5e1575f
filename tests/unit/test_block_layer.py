"""The block layer tick by tick, with a fake probe and a /sys whose devices come and go."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.bpf.totals import BYTES, COUNT, ERRORS, LATENCY, LATENCY_NS, SIZE_LAT, SLOWEST, WORDS
from ioh.layers.block import SPEC, Block
from ioh.layers.block_rows import StackedDevices
from ioh.layers.block_unseen import UnseenRequests
from ioh.layers.per_owner_totals import OwnedTotals
from ioh.model.derive_table import derive_table
from ioh.model.filters import Filters
from ioh.model.hist import LATENCY_BUCKETS, LatencyHist, SizeLatencyHist, fine_index
from ioh.model.sample import OTHERS, LayerSample, OpTotals
from ioh.procfs.block_fallback import BlockFallback
from ioh.procfs.diskstats import make_dev
from tests.support.fakes import size_index
from tests.unit import fake_kernel
from tests.unit.probe_text import text_of

DATA = Path(__file__).parents[1] / "data"
SDA, SDB, LOOP0 = make_dev(8, 0), make_dev(8, 16), make_dev(7, 0)
READ = SPEC.ops.index("read")


class Host:
    """A host with sda, sdb and loop devices, and the probe's side of the maps."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.root = folder / "root"
        shutil.copytree(DATA / "proc-5.10", self.root, symlinks=True)
        self.maps, self._held, _ = fake_kernel.install(patch, text_of("block").maps())
        self.layer = Block(Filters(), self.root)
        self._places: dict[str, str] = {}

    def request(self, dev: int, count: int = 1, size: int = 4096, us: int = 100) -> None:
        """Count reads of the device that end now."""
        key, entries = struct.pack("=II", dev, READ), self._held["totals"].entries
        if key not in entries and len(entries) >= self._held["totals"].spec.max_entries:
            key, entries = struct.pack("=I", READ), self._held["others"].entries
        words = list(struct.unpack(f"={WORDS}Q", entries.get(key, bytes(8 * WORDS))[: 8 * WORDS]))
        epoch = int.from_bytes(self._held["epoch"].get(bytes(4)) or b"", "little")
        words[COUNT] += count
        words[BYTES] += count * size
        words[LATENCY_NS] += count * us * 1000
        slot = SLOWEST + 3 * (epoch & 1)
        if words[slot] != epoch or words[slot + 1] < us * 1000:
            words[slot : slot + 3] = [epoch, us * 1000, size]
        words[LATENCY + fine_index(us * 1000)] += count
        words[SIZE_LAT + size_index(size) * LATENCY_BUCKETS + us.bit_length()] += count
        entries[key] = fake_kernel.counted(dict(enumerate(words)))

    def fail(self, dev: int, count: int) -> None:
        """Let reads of a device fail that has had others before."""
        entries, key = self._held["totals"].entries, struct.pack("=II", dev, READ)
        words = list(struct.unpack(f"={WORDS}Q", entries[key][: 8 * WORDS]))
        words[ERRORS] += count
        entries[key] = fake_kernel.counted(dict(enumerate(words)))

    def position(self, dev: int, judged: int, sequential: int) -> None:
        key, value = struct.pack("=I", dev), struct.pack("=64xQQ8x", judged + 1, sequential)
        self._held["recents"].entries[key] = value

    def read(self, ticks: int = 1) -> LayerSample:
        for _ in range(ticks):
            sample = self.layer.read(self.maps)
        return sample

    def loop_file(self, path: str | None) -> None:
        """Set loop0's backing file; None detaches it."""
        folder = self.root / "sys/block/loop0/loop"
        if path is None:
            shutil.rmtree(folder)
        else:
            folder.mkdir(exist_ok=True)
            (folder / "backing_file").write_text(f"{path}\n")

    def remove(self, number: str, name: str) -> None:
        link = self.root / "sys/dev/block" / number
        self._places[name] = str(link.readlink())
        link.unlink()
        self.list(number, name, None)

    def add(self, number: str, name: str, like: str, reads: int | None) -> None:
        """Add a disk that has done only ``reads`` reads; None: not yet in diskstats."""
        place = Path(self._places[like])
        made = self.root / "sys/dev/block" / place.parent / name
        if not made.exists():
            shutil.copytree(self.root / "sys/dev/block" / place, made, symlinks=True)
        (self.root / "sys/dev/block" / number).symlink_to(place.parent / name)
        self.list(number, name, reads)

    def list(self, number: str, name: str, reads: int | None) -> None:
        """Set a disk's reads in diskstats; None removes the disk from it."""
        path = self.root / "proc/diskstats"
        lines = [line for line in path.read_text().splitlines() if line.split()[2] != name]
        if reads is not None:
            lines.append(f"{number.replace(':', ' ')} {name} {reads} 0 {8 * reads} 1" + " 0" * 13)
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    return Host(monkeypatch, tmp_path)


def counts(sample: LayerSample) -> dict[str, int | None]:
    """Reads of the layer (under "") and of each part."""
    parts = {name: ops["read"].count_total for name, ops in sample.parts.items()}
    return {"": sample.ops["read"].count_total, **parts}


def reads_of_rows(older: LayerSample, newer: LayerSample) -> dict[str, float | None]:
    """Reads in the interval between the two, by row of the device table."""
    spec = next(table for table in SPEC.tables if table.name == "device")
    rows = derive_table(spec, older.tables["device"], newer.tables["device"], 1.0)
    return {row.key[0]: row.values["reads_per_s"] for row in rows}


def test_a_device_without_requests_counts_as_the_kernel_counts_it(host: Host) -> None:
    """And a loop device on it is stacked: its requests are in the total once."""
    folder = host.root / "sys/devices/virtual/block/zram5"
    folder.mkdir(parents=True)
    (host.root / "sys/dev/block/252:5").symlink_to(folder)
    host.list("252:5", "zram5", 100)
    host.request(SDA, 50)
    assert counts(host.read()) == {"": 50, "sda": 50}
    host.list("252:5", "zram5", 107)
    host.request(SDA, 2)
    sample = host.read()
    assert counts(sample) == {"": 59, "sda": 52, "zram5": 7}
    assert sample.ops["read"].bytes_total == 59 * 4096
    assert sample.parts["zram5"]["read"].latency_ns_total is None
    assert sample.parts["zram5"]["read"].errors_total is None
    assert counts(host.read()) == counts(sample)


def test_failed_requests_are_known_for_stacked_devices_too(host: Host) -> None:
    host.request(SDA, 5)
    host.request(LOOP0, 5)
    first = host.read()
    host.fail(LOOP0, 40)
    host.fail(SDA, 2)
    sample = host.read()
    assert counts(sample) == counts(first)
    assert sample.ops["read"].errors_total == 2
    assert sample.parts["loop0"]["read"].errors_total == 40
    assert sample.metrics["errors_total"] == 42


def test_a_loop_device_that_loses_its_file_is_not_counted_twice(host: Host) -> None:
    """The disk below repeated its requests, even those seen only after the file was gone."""
    host.request(LOOP0, 50)
    host.request(SDA, 50)
    assert counts(host.read()) == {"": 50, "loop0": 50, "sda": 50}
    host.request(LOOP0, 3)
    host.request(SDA, 3)
    host.position(LOOP0, 52, 9)
    host.loop_file(None)
    for _ in range(12):  # long enough that sysfs is read again
        told = host.read()
        assert counts(told) == {"": 53, "loop0": 53, "sda": 53}
        assert told.metrics["positioned_total"] == 0


def test_a_loop_device_that_gets_a_file_on_a_disk_is_stacked(host: Host) -> None:
    """It is stacked from its first request on, but not if its file is in memory."""
    host.loop_file(None)
    host.request(SDA, 7)
    host.read(12)
    host.loop_file("/srv/c.img")
    host.request(LOOP0, 5)
    assert counts(host.read(12)) == {"": 7, "loop0": 5, "sda": 7}
    host.loop_file("/run/b.img")
    host.request(LOOP0, 11, us=3000)
    host.position(LOOP0, 10, 4)
    told = host.read()
    assert counts(told) == {"": 18, "loop0": 16, "sda": 7}
    read = told.ops["read"]
    assert read.latency is not None
    assert read.size_lat is not None
    assert read.latency.total == read.size_lat.total == 18
    assert (read.bytes_total, read.latency_ns_total) == (18 * 4096, 7 * 100_000 + 11 * 3_000_000)
    assert (read.max_ns, told.metrics["positioned_total"]) == (3_000_000, 10)


@pytest.mark.parametrize("minor", [16, 32])
def test_a_disk_that_is_removed_and_comes_back_keeps_its_counts(host: Host, minor: int) -> None:
    """Under its old number, or under another one."""
    host.request(SDB, 50)
    host.read()
    host.request(SDB, 3)
    host.remove("8:16", "sdb")
    assert counts(host.read()) == {"": 53, "sdb": 53}
    gone = host.read(12)
    assert counts(gone) == {"": 53, "sdb": 53}
    assert gone.parts["sdb"]["read"].inflight is None
    host.add(f"8:{minor}", "sdb", like="sdb", reads=2)
    host.request(make_dev(8, minor), 2)
    back = host.read()
    assert counts(back) == {"": 55, "sdb": 55}
    assert reads_of_rows(gone, back) == {"sdb": 2}
    assert back.lost["unseen"] == 0


@pytest.mark.parametrize("ticks", [0, 3])
def test_another_disk_with_the_number_of_a_removed_one_starts_at_zero(
    host: Host, ticks: int
) -> None:
    """``ticks`` after the removal; 0: within the same tick."""
    host.request(SDB, 50)
    older = host.read()
    host.remove("8:16", "sdb")
    for _ in range(ticks):
        older = host.read()
    host.add("8:16", "sdq", like="sdb", reads=2)
    host.request(SDB, 2, us=3000)
    told = host.read()
    assert counts(told) == {"": 52, "sdb": 50, "sdq": 2}
    assert told.parts["sdq"]["read"].max_ns == 3_000_000
    assert reads_of_rows(older, told) == {"sdq": 2}


def test_a_request_that_ends_during_the_reading_is_in_one_interval(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interval that counts it also has its maximum."""
    host.request(SDA, us=10)
    host.read()
    sample = BlockFallback.sample

    def slow_sample(self: BlockFallback) -> object:
        host.request(SDA, us=7000)
        return sample(self)

    monkeypatch.setattr(BlockFallback, "sample", slow_sample)
    read: OpTotals = host.read().ops["read"]
    assert (read.count_total, read.max_ns) == (2, 7_000_000)
    monkeypatch.setattr(BlockFallback, "sample", sample)
    over = host.read().ops["read"]
    assert (over.count_total, over.max_ns) == (2, 0)


def test_requests_seen_before_failed_readings_are_in_the_next_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.request(SDA)
    host.read()
    host.request(SDA, 4)
    with monkeypatch.context() as patch:
        patch.setattr(StackedDevices, "report", Mock(side_effect=OSError(0, "refused")))
        for _ in range(2):
            with pytest.raises(OSError, match="refused"):
                host.read()
    assert counts(host.read()) == {"": 5, "sda": 5}


def test_a_disk_added_between_reading_diskstats_and_the_probe(host: Host) -> None:
    """Its row includes what it did before it was listed."""
    host.remove("8:16", "sdb")
    host.request(SDA)
    older = host.read()
    host.add("8:32", "sdc", like="sdb", reads=None)
    host.request(make_dev(8, 32), 5)
    host.read()
    host.list("8:32", "sdc", 7)
    host.request(make_dev(8, 32), 2)
    assert reads_of_rows(older, host.read())["sdc"] == 7


def test_more_devices_than_the_probe_has_room_for(host: Host) -> None:
    """Those without room share one part; the layer's totals include them."""
    room = host.maps["totals"].spec.max_entries
    host.list("8:0", "sda", 1000)
    for number in range(room):
        host.request(make_dev(259, number))
    full = host.read()
    assert OTHERS not in full.parts
    host.request(SDA, 5, us=3000)
    host.list("8:0", "sda", 1005)
    told = host.read()
    assert (told.ops["read"].count_total, told.ops["read"].max_ns) == (room + 5, 3_000_000)
    assert counts(told)[OTHERS] == 5
    assert reads_of_rows(full, told) == {"sda": 5}  # from diskstats
    host.list("8:0", "sda", 1009)
    over = host.read()
    assert (over.ops["read"].max_ns, over.lost["unseen"]) == (0, 0)  # unseen is unknown here


Readings = dict[str, dict[str, OpTotals]]


def of(**ops: int) -> dict[str, OpTotals]:
    return {name: OpTotals(count_total=count) for name, count in ops.items()}


# For each reading: diskstats, the probe, and the unseen requests so far.
UNSEEN: dict[str, list[tuple[Readings, Readings, int]]] = {
    "what was counted before the first reading is not missing": [
        ({}, {"sda": of(read=100)}, 0),
        # diskstats grows to 17 and the probe by 12: 5 are unseen.  A device whose requests are seen
        # below it loses none.
        ({"sda": of(read=10), "dm-0": of(read=1000)}, {"sda": of(read=112)}, 0),
        ({"sda": of(read=17)}, {"sda": of(read=112)}, 5),
        ({"sda": of(read=20)}, {"sda": of(read=118)}, 5),  # the count never goes down
    ],
    "classes as diskstats has them": [
        (
            {"sda": of(read=1, write=14, discard=16, flush=7)},
            {"sda": of(read=1, write=2, write_zeroes=4, zone_append=8, discard=16, flush=9)},
            0,
        ),
    ],
    "a name that comes to mean another device": [
        ({"loop0": of(read=100)}, {"loop0": of(read=98)}, 2),
        ({"loop0": of(read=10)}, {"loop0": of(read=108)}, 2),
        ({"loop0": of(read=20)}, {"loop0": of(read=117)}, 3),
    ],
    # As on Linux 6.1: diskstats shows 37 reads and 16 flushes as 53 reads and no flush.
    "flushes from multipath are reads of the disk below": [
        ({}, {"sda": of(read=5, flush=9)}, 0),
        ({"sda": of(read=53, flush=0)}, {"sda": of(read=42, flush=25)}, 0),
        ({"sda": of(read=54, flush=0)}, {"sda": of(read=42, flush=25)}, 1),
    ],
    # As on Linux 5.10, with 23 TEST UNIT READY commands.
    "commands of programs are reads to diskstats where they have times": [
        ({}, {"sda": of(read=5, other=9)}, 0),
        ({"sda": of(read=24)}, {"sda": of(read=6, other=32)}, 0),
        ({"sda": of(read=26)}, {"sda": of(read=7, other=32)}, 1),
    ],
}


@pytest.mark.parametrize("case", UNSEEN)
def test_unseen_requests_are_counted(case: str) -> None:
    unseen = UnseenRequests()
    if UNSEEN[case][0][0]:
        unseen.note({}, {})
    for disks, probed, count in UNSEEN[case]:
        assert unseen.note(disks, probed) == count


DEVICES = 12
# What a device did in a tick: its number, op, count, bucket, and its owner from then on.
DONE = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.sampled_from(["read", "write"]),
        st.integers(1, 9),
        st.integers(0, 2),
        st.sampled_from(["all", "all", "all", "other", None]),
    ),
    max_size=6,
)


@settings(max_examples=25)
@given(ticks=st.lists(DONE, max_size=12))
def test_totals_of_each_owner_are_what_its_devices_did(
    ticks: list[list[tuple[int, str, int, int, str | None]]],
) -> None:
    totals, owners = OwnedTotals(), dict[int, str | None]()
    done: dict[tuple[int, str], list[int]] = {
        (dev, op): [0, 0, 0] for dev in range(DEVICES) for op in ("read", "write")
    }
    wanted: Counter[tuple[str | None, str, int]] = Counter()
    for tick in [[], *ticks]:
        grown: Counter[tuple[int, str, int]] = Counter()
        for dev, op, count, bucket, owner in tick:
            done[dev, op][bucket] += count
            grown[dev, op, bucket] += count
            owners[dev] = owner
        for (dev, op, bucket), count in grown.items():
            wanted[owners[dev], op, bucket] += count
        readings = {
            dev: {op: op_totals(done[dev, op]) for op in ("read", "write")}
            for dev in range(DEVICES)
        }
        found = totals.update(readings, lambda dev: owners.get(dev, "all"))
    for owner in ("all", "other"):
        for op in ("read", "write"):
            counts = [wanted[owner, op, bucket] for bucket in range(3)]
            got = found.get(owner, {}).get(op, op_totals([0, 0, 0]))
            assert (got.count_total, got.bytes_total) == (sum(counts), 10 * sum(counts))
            assert got.latency is not None
            assert got.size_lat is not None
            assert list(got.latency.counts or (0, 0, 0)) == counts
            assert list(got.size_lat.counts or (0, 0, 0)) == counts


def op_totals(counts: list[int]) -> OpTotals:
    total = sum(counts)
    latency, size_lat = LatencyHist(tuple(counts)), SizeLatencyHist(tuple(counts))
    return OpTotals(total, 10 * total, 0, 100 * total, latency=latency, size_lat=size_lat)
