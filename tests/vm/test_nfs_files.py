"""Which file each READ and WRITE was for, at both ends, whatever becomes of its name."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, opened
from tests.vm.nfs import EXPORT, mounted

SYNC = os.O_WRONLY | os.O_CREAT | os.O_SYNC
PIECE = bytes(100)


def write(fd: int, count: int) -> None:
    """Each becomes one WRITE."""
    for _ in range(count):
        assert os.write(fd, PIECE) == len(PIECE)


def writes_at_both_ends(ioh: Ioh, place: Path) -> list[dict[str, int]]:
    """WRITEs by the path below the mount, as the client and as the server names the files."""
    ends = (("nfs_client", place, ("path",)), ("nfs_server", EXPORT, ("path", "client")))
    return [
        {
            key[0].removeprefix(f"{top}/"): row["writes"]
            for key, row in ioh.table(layer, "file", *columns).items()
        }
        for layer, top, columns in ends
    ]


def test_a_file_with_the_inode_of_a_deleted_one_has_its_own_name(
    both_ends: Ioh, version: str
) -> None:
    """As with temporary files: ext4 reuses an inode number once nobody has the old file open."""
    numbers, done = set(), {"first": 11, "second": 13, "third": 17}
    with mounted(version) as place, part_of(both_ends) as ioh:
        for name, count in done.items():
            path = place / name
            with opened(path, SYNC) as fd:
                numbers.add(os.fstat(fd).st_ino)
                write(fd, count)
                if name == "first":  # the others fall into one interval
                    both_ends.settle()
            path.unlink()
    assert len(numbers) < len(done)
    assert writes_at_both_ends(ioh, place) == [done, done]


def test_a_renamed_file_counts_under_its_new_name(both_ends: Ioh, version: str) -> None:
    """As with logs that are rotated while a program has them open."""
    with mounted(version) as place, part_of(both_ends) as ioh:
        log, old = place / "log", place / "log.1"
        with opened(log, SYNC) as fd:
            write(fd, 11)
            both_ends.settle()
            log.rename(old)
            write(fd, 13)
            both_ends.settle()
            with opened(log, SYNC) as fresh:
                write(fresh, 17)
    done = {"log": 28, "log.1": 13}
    assert writes_at_both_ends(ioh, place) == [done, done]


def test_files_of_folders_mounted_separately_have_their_paths(both_ends: Ioh, version: str) -> None:
    """As with home directories: all mounts of one file system of a server share a superblock."""
    for name in ("home-one", "home-two"):
        (EXPORT / name / "deep").mkdir(parents=True, exist_ok=True)
    with (
        mounted(version, place="/mnt/first", folder="home-one") as one,
        mounted(version, place="/mnt/second", folder="home-two") as two,
        part_of(both_ends) as ioh,
    ):
        assert one.stat().st_dev == two.stat().st_dev
        for path, count in ((one / "same", 11), (two / "same", 13), (two / "deep" / "same", 17)):
            with opened(path, SYNC) as fd:
                write(fd, count)
    rows = ioh.table("nfs_client", "file", "path")
    assert {path: row["writes"] for (path,), row in rows.items()} == {
        str(one / "same"): 11,
        str(two / "same"): 13,
        str(two / "deep" / "same"): 17,
    }
