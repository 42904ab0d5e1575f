"""Files of NFS are named as their own mount shows them, of several of one superblock."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ioh.bpf.maps import MapSpec
from ioh.layers.flows import FlowTables
from ioh.procfs.diskstats import make_dev
from tests.unit.fake_kernel import CPUS, FakeMap, install

FLOWS = MapSpec("flows", 5, 24, 40, 64)
PATHS = MapSpec("paths", 1, 16, 8 + 1280 + 16 * 8, 64)
ROOTS = MapSpec("mount_roots", 1, 4, 8, 64)
DEV = make_dev(0, 50)


def mount(number: int, name: str) -> str:
    return f"{number} 1 0:50 / /home/{name} rw - nfs4 srv:/home/{name} rw\n"


def path(names: list[bytes], dentries: list[int]) -> bytes:
    raw = b"".join(name + b"\0" for name in names)
    head = struct.pack("=II1280s", len(raw), 1, raw)
    return head + struct.pack("=16Q", *dentries, *[0] * (16 - len(dentries)))


def flow(held: dict[str, FakeMap], ino: int, dev: int, path: bytes) -> None:
    """As many operations on a file as its number says."""
    held["paths"].entries[struct.pack("=QII", ino, dev, 0)] = path
    counted = struct.pack("=QQQ16s", ino, 10, 100, b"probe") + bytes(40) * (CPUS - 1)
    held["flows"].entries[struct.pack("=QIIII", ino, dev, 5, 0, 0)] = counted


def test_each_file_is_below_the_mount_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mount(40, "a") + mount(41, "b") + mount(42, "c"))
    maps, held, _ = install(monkeypatch, [FLOWS, PATHS, ROOTS])
    roots = held["mount_roots"].entries
    roots[struct.pack("=I", 40)] = struct.pack("=Q", 0xA0)
    roots[struct.pack("=I", 41)] = struct.pack("=Q", 0xB0)
    for ino, names, dentries in (
        (1, [b"same"], [0x11, 0xA0]),
        (2, [b"same"], [0x12, 0xB0]),
        (3, [b"same", b"deep", b"b"], [0x13, 0xD0, 0xB0, 0xE0]),  # v4: up to the server's root
        (4, [b"lost"], [0x14, 0xC0]),  # of no mount that was noted
    ):
        flow(held, ino, DEV, path(names, dentries))
    tables = FlowTables(tmp_path).read(maps["flows"], maps["paths"], maps["mount_roots"])
    assert {key[0]: row[0] for key, row in tables["file"].items()} == {
        "/home/a/same": 1,
        "/home/b/same": 2,
        "/home/b/deep/same": 3,
        "/home/a/lost": 4,
    }
    assert {key: row[0] for key, row in tables["mount"].items()} == {
        ("/home/a", "nfs4"): 1 + 4,
        ("/home/b", "nfs4"): 2 + 3,
    }
