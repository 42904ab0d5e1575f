"""NFS mounts that share a superblock: what the kernel prints for each of them counts once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ioh.layers.nfs_client import NfsClient
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from ioh.model.snapshot import LayerSnapshot
from tests.unit.fake_kernel import install, notice_mounts_at_once
from tests.unit.probe_text import text_of
from tests.unit.test_layer_read import in_a_sample

OLD_S = 3600
READ = 1000  # bytes of each


@dataclass(frozen=True)
class Shown:
    """A mount as mountstats and mountinfo print it; ``dev`` is a minor number, 0 for no mount.

    Of ``reads`` done by programs none was answered by the cache.
    """

    dev: int
    place: str
    reads: int
    export: str = "srv:/home"
    age_s: int = OLD_S
    vers: str = "4.2"
    cached: int = 0

    @property
    def mountinfo(self) -> str:
        return (
            f"40 26 0:{self.dev} / {self.place} rw - nfs4 {self.export} rw,addr=10.0.0.9\n"
            if self.dev
            else ""
        )

    @property
    def mountstats(self) -> str:
        asked, moved = (self.reads + self.cached) * READ, self.reads * READ
        return (
            f"device {self.export} mounted on {self.place} with fstype nfs4 statvers=1.1\n"
            f"\topts:\trw,vers={self.vers},proto=tcp\n"
            f"\tage:\t{self.age_s}\n"
            f"\tbytes:\t{asked} 0 0 0 {moved} 0 0 0\n"
            f"\txprt:\ttcp 665 1 2 0 9 {self.reads} {self.reads} 0 214 0 8 63 62\n"
            f"\tREAD: {self.reads} {self.reads} 0 0 0 1 2 {self.reads} 0\n\n"
        )


class Host:
    """A machine whose mounts come and go, and the layer that looks at them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, source: str = "proc") -> None:
        self._folder = root / "proc/self"
        self._folder.mkdir(parents=True)
        (self._folder / "mountinfo").touch()
        notice_mounts_at_once(monkeypatch)
        self._maps, _, _ = install(monkeypatch, text_of(NfsClient).maps())
        self.is_bpf = source == "bpf"
        self.layer = NfsClient(Filters(), root)
        self._samples: list[LayerSample] = []

    def look(self, *mounts: Shown) -> LayerSample:
        (self._folder / "mountinfo").write_text("".join(m.mountinfo for m in mounts))
        (self._folder / "mountstats").write_text("".join(m.mountstats for m in mounts))
        sample = self.layer.read(self._maps) if self.is_bpf else self.layer.read_proc()
        assert isinstance(sample, LayerSample)
        self._samples.append(sample)
        return sample

    def interval(self) -> LayerSnapshot:
        """The last two looks, a second apart."""
        older, newer = self._samples[-2:]
        pair = (in_a_sample(0, self.layer, older), in_a_sample(1, self.layer, newer))
        found = derive(*pair).layers["nfs_client"]
        assert isinstance(found, LayerSnapshot)
        return found

    def bytes_by(self, table: str) -> Mapping[str, float | None]:
        """Bytes read in the last interval by the first word of each row's key."""
        rows = self.interval().tables[table]
        return {row.key[0]: row.values["read_bytes_per_s"] for row in rows}

    def proc_bytes(self) -> tuple[int | None, float | None]:
        """The same of the whole layer and of its procedures, in reads."""
        interval = self.interval()
        rows = [r.values["calls_per_s"] for r in interval.tables["procedure"] if "READ" in r.key]
        return interval.ops["read"].bytes, sum(r or 0 for r in rows)


@pytest.fixture(params=["bpf", "proc"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch, request.param)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """From /proc alone, where procedures and totals have nothing else."""
    return Host(tmp_path, monkeypatch)


def test_one_superblock_at_many_places_counts_once(host: Host) -> None:
    for reads in (5, 12):
        homes = [Shown(53, f"/home/u{n}", reads, f"srv:/home/u{n}") for n in range(50)]
        sample = host.look(*homes, Shown(54, "/other", 2 * reads, "srv:/other"))
    assert host.bytes_by("server") == {"srv": (7 + 14) * READ}
    assert host.bytes_by("mount") == {
        **{f"/home/u{n}": 7 * READ for n in range(50)},
        "/other": 14 * READ,
    }
    assert sample.metrics["app_read_bytes_total"] == 21 * READ
    assert any("one superblock" in note for note in sample.notes)
    if not host.is_bpf:
        assert host.proc_bytes() == (21 * READ, 21)
        assert {name: part["read"].bytes for name, part in host.interval().parts.items()} == {
            "srv:/home/u0 on /home/u0": 7 * READ,
            "srv:/other on /other": 14 * READ,
        }


def test_one_more_mount_of_a_known_superblock_brings_no_history(host: Host) -> None:
    host.look(Shown(53, "/a", 1000))
    host.look(Shown(53, "/a", 1007), Shown(53, "/b", 1007, "srv:/b"))
    assert host.bytes_by("server") == {"srv": 7 * READ}
    assert host.bytes_by("mount") == {"/a": 7 * READ, "/b": 7 * READ}
    if not host.is_bpf:
        assert host.proc_bytes() == (7 * READ, 7)


def test_sums_go_on_where_mounts_go(host: Host) -> None:
    other = Shown(54, "/c", 10, "srv:/c")
    host.look(Shown(53, "/a", 1000), Shown(53, "/b", 1000, "srv:/b"), other)
    host.look(Shown(53, "/b", 1002, "srv:/b"), other)  # its first mount has gone
    assert host.bytes_by("server") == {"srv": 2 * READ}
    if not host.is_bpf:
        assert host.proc_bytes() == (2 * READ, 2)
    host.look(Shown(54, "/c", 13, "srv:/c"))  # its last one
    assert host.bytes_by("server") == {"srv": 3 * READ}
    if not host.is_bpf:
        assert host.proc_bytes() == (3 * READ, 3)


@pytest.mark.parametrize(
    ("age_s", "bytes_read"),
    [(0, 5 * READ), (OLD_S, 0)],  # mounted just now; long ago in another mount namespace
)
def test_what_a_superblock_that_is_new_here_has_counted(
    host: Host, age_s: int, bytes_read: int
) -> None:
    host.look(Shown(53, "/a", 9))
    host.look(Shown(53, "/a", 9), Shown(54, "/b", 5, "srv:/b", age_s))
    assert host.bytes_by("server").get("srv", 0) == bytes_read
    if not host.is_bpf:
        assert host.interval().ops["read"].bytes == bytes_read


@pytest.mark.parametrize("reads", [4, 40])
def test_a_dev_that_another_superblock_has_got(proc: Host, reads: int) -> None:
    proc.look(Shown(53, "/a", 9))
    proc.look(Shown(53, "/a", reads, age_s=0))
    assert proc.bytes_by("mount") == {"/a": reads * READ}
    assert proc.proc_bytes() == (reads * READ, reads)


def test_mounts_over_each_other(proc: Host) -> None:
    for reads in (10, 11):
        proc.look(Shown(53, "/a", reads), Shown(54, "/a", 2 * reads))
    assert proc.bytes_by("server") == {"srv": 3 * READ}
    assert proc.bytes_by("mount") == {"/a": 2 * READ}  # the last one hides the others
    assert proc.proc_bytes() == (3 * READ, 3)


def test_names_that_the_kernel_escapes(proc: Host) -> None:
    for reads in (1, 4):
        places = (r"/a\040b", r"/a\134b", r"/\303\244", "/ä")
        proc.look(*(Shown(53, place, reads, r"srv:/x\011y") for place in places))
    assert proc.proc_bytes() == (3 * READ, 3)
    assert proc.bytes_by("server") == {"srv": 3 * READ}


def test_mounts_that_mountinfo_does_not_have(proc: Host) -> None:
    proc.look(Shown(53, "/a", 10))
    sample = proc.look(Shown(53, "/a", 11), Shown(0, "/b", 11, "old:/b"))  # gone meanwhile
    assert proc.proc_bytes() == (1 * READ, 1)
    assert set(sample.tables["server"]) == {("srv", "10.0.0.9"), ("old", "?")}
    proc.look(Shown(0, "/a", 13))  # no mountinfo at all
    proc.look(Shown(0, "/a", 17))
    assert proc.proc_bytes() == (4 * READ, 4)
