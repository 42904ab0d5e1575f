"""Who did what to which file: names and bytes of the breakdowns, hostile names included."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ioh.model.sample import OTHERS
from ioh.model.snapshot import LayerSnapshot
from tests.kernel.mounts import mounted
from tests.kernel.named_reader import NamedReader
from tests.kernel.part import WatchedVolume, part_of
from tests.kernel.recordings import marked
from tests.kernel.rig import (
    Ioh,
    Loop,
    Volume,
    about,
    aligned,
    ioh_command,
    ioh_environment,
    opened,
    recording,
    run,
)

HOSTILE_COMM = b"\x1b[31m[/b]"
HOSTILE_FILE = b"new\nline \xe2\x80\xaegnp.exe \xff\x1b[2J\xc2\x9b"
SPELLED_FILE = "new\\x0aline \\u202egnp.exe \\xff\\x1b[2J\\x9b"
SIZE = 1 << 16


def written(ioh: Ioh) -> dict[str, int]:
    """Writes by path."""
    rows = ioh.table("syscall", "file", "path")
    return {path: row["writes"] for (path,), row in rows.items() if row["writes"]}


def hostile_file(volume: Volume) -> bytes:
    path = os.fsencode(volume.mount) + b"/" + HOSTILE_FILE
    os.rename(volume.file("plain", SIZE), path)  # noqa: PTH104 (bytes)
    return path


def test_processes_files_and_mounts_have_rows(watched: WatchedVolume) -> None:
    volume = watched.volume
    a, b = volume.file("a", SIZE), volume.file("b", SIZE)
    with watched.part() as ioh:
        with NamedReader(a, "reader-of-a") as first, NamedReader(b, "of b") as second:
            first.read(23)
            second.read(19)
            watched.ioh.settle()
        with opened(b, os.O_WRONLY) as fd:
            for _ in range(13):
                os.write(fd, bytes(100))
            os.fsync(fd)
    processes = ioh.table("syscall", "process", "pid", "comm")
    assert processes.keys() == {
        (str(first.pid), "reader-of-a"),
        (str(second.pid), "of b"),
        (str(os.getpid()), Path("/proc/self/comm").read_text().strip()),
    }
    assert processes[str(first.pid), "reader-of-a"]["reads"] == 23
    assert processes[str(first.pid), "reader-of-a"]["read_bytes"] == 23_000
    files = ioh.table("syscall", "file", "path")
    assert files.keys() == {(str(a),), (str(b),)}
    assert files[str(a),]["read_bytes"] == 23_000
    assert files[str(b),]["read_bytes"] == 19_000
    assert files[str(b),]["write_bytes"] == 1300
    assert files[str(b),]["syncs"] == 1
    mounts = ioh.table("syscall", "mount", "mount", "fstype")
    assert mounts.keys() == {(str(volume.mount), "ext4")}
    row = mounts[str(volume.mount), "ext4"]
    assert (row["reads"], row["writes"], row["read_bytes"]) == (42, 13, 42_000)


def test_a_process_has_a_row_for_each_program_that_it_executes(watched: WatchedVolume) -> None:
    """A shell reads its script, then executes the program that does the work."""
    script, data = (watched.volume.file(name, SIZE) for name in ("script", "data"))
    wait = f"exec 3<{script}; read -ru3 -N5 x; read -r y"
    work = f"exec dd if={data} of=/dev/null bs=512 count=29 status=none"
    with (
        watched.part() as ioh,
        subprocess.Popen(["bash", "-c", f"{wait}; {work}"], stdin=subprocess.PIPE) as process,
    ):
        watched.ioh.settle()
        process.communicate(b"\n")
        assert process.returncode == 0
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.keys() == {(str(process.pid), "bash"), (str(process.pid), "dd")}
    assert rows[str(process.pid), "dd"]["reads"] == 29


def test_a_file_with_the_inode_of_a_deleted_one_has_its_own_name(
    watched: WatchedVolume,
) -> None:
    """As with temporary files and logs: ext4 reuses an inode number at once."""
    numbers = set()
    with watched.part() as ioh:
        for name, writes in (("first", 11), ("second", 13), ("third", 17)):
            path = watched.volume.mount / name
            with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
                numbers.add(os.fstat(fd).st_ino)
                for _ in range(writes):
                    os.write(fd, bytes(100))
                if name == "first":  # the others fall into one interval
                    watched.ioh.settle()
            path.unlink()
    assert len(numbers) == 1
    assert written(ioh) == {
        f"{watched.volume.mount}/{name}": writes
        for name, writes in (("first", 11), ("second", 13), ("third", 17))
    }


def in_one_tick(volume: Volume, work: Callable[[], object]) -> LayerSnapshot:
    options = ("--device", volume.device, "--layers", "syscall")
    with marked(volume.mount.parent / "a.ioh", *options) as ioh:
        layers, _ = ioh.one_interval(work)
    return layers["syscall"]


def rows_of(layer: LayerSnapshot, table: str, column: str) -> dict[tuple[str, ...], int]:
    """Counts in one column, from its rates."""
    rows = layer.tables[table]
    return {row.key: round((row.values[f"{column}_per_s"] or 0) * layer.interval_s) for row in rows}


def test_new_files_beyond_the_probes_room_are_all_counted(volume: Volume) -> None:
    """As compilers and mail servers make them: the busiest have rows, and all are counted."""
    count = 20000

    def work() -> None:
        for number in range(count):
            path = volume.mount / f"{number}"
            with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
                os.write(fd, bytes(100))
            path.unlink()

    layer = in_one_tick(volume, work)
    comm = Path("/proc/self/comm").read_text().strip()
    assert rows_of(layer, "process", "writes")[str(os.getpid()), comm] == count
    assert layer.metrics["unlisted_per_s"] == 0
    files = rows_of(layer, "file", "writes")
    assert sum(files.values()) == count
    assert files[OTHERS,] > count / 2


def test_a_busy_file_among_thousands_of_new_ones_has_a_row(volume: Volume) -> None:
    """The new ones come first in the same tick, and leave no room for all that follow."""
    small, written, pieces = 3000, 1 << 17, 64

    def work() -> None:
        for number in range(small):
            with opened(volume.mount / f"{number}", os.O_WRONLY | os.O_CREAT) as fd:
                os.write(fd, bytes(100))
        with opened(volume.mount / "busy", os.O_WRONLY | os.O_CREAT) as fd:
            for _ in range(pieces):
                os.pwrite(fd, bytes(written), 0)

    layer = in_one_tick(volume, work)
    files = rows_of(layer, "file", "writes")
    assert sum(files.values()) == small + pieces
    told_bytes = sum(rows_of(layer, "file", "write_bytes").values())
    assert told_bytes == about(small * 100 + pieces * written)
    assert files[f"{volume.mount}/busy",] > pieces / 2


def test_a_renamed_file_counts_under_its_new_name(watched: WatchedVolume) -> None:
    """As with logs that are rotated while a program has them open."""
    log, old = watched.volume.mount / "log", watched.volume.mount / "log.1"
    with watched.part() as ioh, opened(log, os.O_WRONLY | os.O_CREAT) as fd:
        for _ in range(11):
            os.write(fd, bytes(100))
        watched.ioh.settle()
        log.rename(old)
        for _ in range(13):
            os.write(fd, bytes(100))
        watched.ioh.settle()
        with opened(log, os.O_WRONLY | os.O_CREAT) as fresh:
            for _ in range(17):
                os.write(fresh, bytes(100))
    assert written(ioh) == {str(log): 28, str(old): 13}


def test_files_in_a_renamed_folder_count_under_their_new_paths(
    watched: WatchedVolume,
) -> None:
    old, new = watched.volume.mount / "old", watched.volume.mount / "new"
    old.mkdir()
    with watched.part() as ioh, opened(old / "data", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, bytes(100))
        watched.ioh.settle()
        old.rename(new)
        for _ in range(16):
            os.write(fd, bytes(100))
            watched.ioh.settle()
        with watched.part() as later:
            for _ in range(13):
                os.write(fd, bytes(100))
    for part, paths in (
        (ioh, {str(old / "data"), str(new / "data")}),
        (later, {str(new / "data")}),
    ):
        assert written(part).keys() == paths
    assert sum(written(ioh).values()) == 1 + 16 + 13


def test_each_program_of_a_process_has_a_row_when_they_read_one_file(
    watched: WatchedVolume,
) -> None:
    path = watched.volume.file("data", SIZE)
    script = f"exec 3<{path}; read -ru3 -N5 x; read -r y; exec tail -c +1 -f {path}"
    pipe = subprocess.PIPE
    with (
        watched.part() as ioh,
        subprocess.Popen(["bash", "-c", script], stdin=pipe, stdout=pipe) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        watched.ioh.settle()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read(SIZE)
        watched.ioh.settle()
        process.kill()
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.keys() == {(str(process.pid), "bash"), (str(process.pid), "tail")}
    assert rows[str(process.pid), "tail"]["read_bytes"] == SIZE


def test_memory_files_have_their_own_names(own: Ioh) -> None:
    """They are in no folder, and each used to be called the root of an unknown device."""
    with part_of(own) as ioh:
        for name, writes in (("one", 11), ("two", 13)):
            fd = os.memfd_create(name)
            for _ in range(writes):
                os.write(fd, bytes(100))
            os.close(fd)
    assert written(ioh) == {"memfd:one": 11, "memfd:two": 13}


def test_a_process_that_lives_between_two_ticks_has_a_row(volume: Volume) -> None:
    path = volume.file("data", SIZE)
    with recording("--device", volume.device, "--layers", "syscall", cycle_s=2) as ioh:
        ioh.wait_for_lines(2)
        with NamedReader(path, "short-lived") as process:
            process.read(29)
    busy = [i for i in ioh.intervals if i["layers"]["syscall"]["ops"]["read"]["count"]]
    assert len(busy) == 1
    assert ioh.counts("syscall") == {"read_buffered": 29}
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.keys() == {(str(process.pid), "short-lived")}
    assert rows[str(process.pid), "short-lived"]["read_bytes"] == 29_000


def test_hostile_names_are_escaped_in_json(watched: WatchedVolume) -> None:
    volume = watched.volume
    path = hostile_file(volume)
    with watched.part() as ioh:
        with NamedReader(path, HOSTILE_COMM) as alive:
            alive.read(23)
            watched.ioh.settle()
        with NamedReader(path, HOSTILE_COMM) as gone:
            gone.read(19)
    raw = watched.ioh.raw
    assert raw.isascii()
    assert not any((byte < 32 and byte != 10) or byte == 127 for byte in raw)
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.keys() == {(str(p.pid), "\\x1b[31m[/b]") for p in (alive, gone)}
    files = ioh.table("syscall", "file", "path")
    assert files.keys() == {(f"{volume.mount}/{SPELLED_FILE}",)}
    assert files[f"{volume.mount}/{SPELLED_FILE}",]["reads"] == 42


def test_hostile_names_are_escaped_in_text(volume: Volume) -> None:
    path = hostile_file(volume)
    with subprocess.Popen(
        ioh_command("text", "-d", "all", "-c", "0.5", "-t", "3", "--device", volume.device),
        stdout=subprocess.PIPE,
        env={**ioh_environment(), "LC_ALL": "C.UTF-8"},
    ) as ioh:
        assert ioh.stdout is not None
        first = os.read(ioh.stdout.fileno(), 1 << 16)
        with NamedReader(path, HOSTILE_COMM) as reader:
            reader.read(23)
            rest, _ = ioh.communicate(timeout=20)
    text = (first + rest).decode("utf-8", "strict")
    assert {c for c in text if not c.isprintable()} <= {"\n"}
    assert "\\x1b[31m[/b]" in text
    assert "gnp.exe \\xff\\x1b[2J\\x9b" in text


def test_a_file_twenty_directories_down_is_named(watched: WatchedVolume) -> None:
    volume = watched.volume
    folders = [f"level-{n:02}" for n in range(20)]
    folder = volume.mount.joinpath(*folders)
    folder.mkdir(parents=True)
    path = volume.file("data", SIZE).rename(folder / "data")
    with watched.part() as ioh, opened(path, os.O_RDONLY) as fd:
        os.read(fd, 100)
    ((shown,),) = ioh.table("syscall", "file", "path").keys()
    # The probe follows a limited number of parents; "…" stands for what it left out.
    assert shown.startswith(str(volume.mount))
    assert shown.endswith("/".join([*folders[-12:], "data"]))
    assert shown == str(path) or "…" in shown


def test_deleted_files_and_files_in_a_bind_mount_are_named(watched: WatchedVolume) -> None:
    volume = watched.volume
    deleted, kept = volume.file("deleted", SIZE), volume.file("kept", SIZE)
    with (
        mounted(volume.mount, volume.mount.with_name("bound"), "--bind") as bound,
        watched.part() as ioh,
        opened(deleted, os.O_RDONLY) as one,
        opened(bound / "kept", os.O_RDONLY) as other,
    ):
        deleted.unlink()
        os.read(one, 100)
        os.read(other, 300)
    files = ioh.table("syscall", "file", "path")
    assert files.keys() == {(str(deleted),), (str(kept),)}
    assert files[str(kept),]["read_bytes"] == 300
    assert ioh.table("syscall", "mount", "mount").keys() == {(str(volume.mount),)}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDONLY | os.O_DIRECT])
def test_reads_of_the_device_node_are_named(watched: WatchedVolume, flags: int) -> None:
    device = watched.volume.device
    with watched.part() as ioh, opened(device, flags) as fd, aligned(4096) as buffer:
        os.preadv(fd, [buffer], 0)
    assert ioh.total("syscall", "read") == 1
    assert ioh.total("syscall", "read", "bytes") == 4096
    ((shown,),) = ioh.table("syscall", "file", "path").keys()
    assert shown == device


def test_files_of_btrfs_subvolumes_are_told_apart(own: Ioh, loop: Loop, tmp_path: Path) -> None:
    """A snapshot's files have the inode numbers and the device number of their originals."""
    run("mkfs.btrfs", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt") as mount:
        run("btrfs", "subvolume", "create", mount / "live")
        (mount / "live" / "data").write_bytes(bytes(SIZE))
        run("btrfs", "subvolume", "snapshot", "-r", mount / "live", mount / "snap")
        paths = [mount / "live" / "data", mount / "snap" / "data"]
        assert len({path.stat().st_ino for path in paths}) == 1
        with part_of(own) as ioh:
            for path, times in zip(paths, (23, 19), strict=True):
                with opened(path, os.O_RDONLY) as fd:
                    for _ in range(times):
                        os.pread(fd, 1000, 0)
    rows = {key[0]: row["reads"] for key, row in ioh.table("syscall", "file", "path").items()}
    assert rows == {str(paths[0]): 23, str(paths[1]): 19}
