"""Both NFS layers against mountstats and /proc/net/rpc/nfsd, operation by operation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.part import Part, part_of
from tests.kernel.rig import MIB, Ioh, about, aligned, fio, opened
from tests.vm.nfs import (
    EXPORT,
    ClientCounts,
    Server,
    ServerCounts,
    assert_each_once,
    check_that_one_superblock_counts_once,
    client_counts,
    mounted,
    server_counts,
)

VERSIONS = ("3", "4.0", "4.2")
KINDS_OF_WRITE = ("write_unstable", "write_data_sync", "write_file_sync")


def assert_client_agrees(ioh: Ioh, told: ClientCounts) -> None:
    """Every operation and every byte is as in mountstats, times within 1 %."""
    layer = "nfs_client"
    assert_each_once(ioh, told, layer)
    for op, stats in told.ops.items():
        assert ioh.metric(layer, f"rpc_{op}s") == stats.calls, (op, stats)
        for name, total_ms in (("rtt", stats.rtt_ms), ("execute", stats.execute_ms)):
            measured_ms = ioh.metric(layer, f"rpc_{op}_{name}_ns") / 1e6
            # mountstats has both readings in whole milliseconds.
            assert measured_ms == pytest.approx(total_ms, rel=0.01, abs=2), (op, name)
    assert ioh.total(layer, "read", "bytes") == told.read_bytes
    assert ioh.total(layer, "write", "bytes") == told.write_bytes
    sent_again = {
        name: row["retransmits"]
        for (_, name), row in ioh.table(layer, "procedure", "version", "procedure").items()
        if row["retransmits"]
    }
    assert sent_again == told.sent_again


def assert_server_agrees(ioh: Ioh, told: ClientCounts, served: ServerCounts) -> None:
    """The server served what the clients counted, each kind of WRITE as it was requested."""
    assert_each_once(ioh, told, "nfs_server")
    for op in KINDS_OF_WRITE:
        assert ioh.total("nfs_server", op) == ioh.total("nfs_client", op), op
    assert ioh.total("nfs_server", "read", "bytes") == served.read_bytes
    assert ioh.total("nfs_server", "write", "bytes") == served.write_bytes


@pytest.mark.parametrize("size", [32 << 10, 128 << 10, MIB])
@pytest.mark.parametrize("version", VERSIONS)
def test_both_ends_equal_the_kernels_counts(both_ends: Ioh, version: str, size: int) -> None:
    with mounted(version, f"rsize={size}", f"wsize={size}") as place, part_of(both_ends) as ioh:
        before, served_before = client_counts(place), server_counts()
        fio(place, rw="write", bs="1m", size="8m", end_fsync=1, filename="buffered")
        fio(place, rw="randrw", bs="64k", size="8m", direct=1, filename="direct")
        fio(place, rw="write", bs="16k", size="1m", sync=1, filename="sync")
        Server.drop_caches()
        fio(place, rw="read", bs="128k", size="8m", filename="buffered")
        told, served = client_counts(place) - before, server_counts() - served_before
    # The direct reads, and those of the buffered file, at least one each rsize.
    assert told.read.calls > 8 * MIB // max(size, 128 << 10)
    assert told.write.calls > 64
    assert told.commit.calls
    assert (served.read_bytes, served.write_bytes) == (told.read_bytes, told.write_bytes)
    assert_client_agrees(ioh, told)
    assert_server_agrees(ioh, told, served)
    assert ioh.total("nfs_client", "write_file_sync") >= 64
    assert ioh.total("nfs_client", "write_unstable")
    granted = [ioh.metric("nfs_client", f"granted_{kind[6:]}") for kind in KINDS_OF_WRITE]
    assert sum(granted) == ioh.total("nfs_client", "write")
    # The server's time is a part of the client's.
    for op in ("read", "write", "commit"):
        assert ioh.latency_us("nfs_server", op) < ioh.latency_us("nfs_client", op), op


def test_each_direct_read_counts_once(both_ends: Ioh) -> None:
    with mounted("4.2") as place:
        path = place / "prime"
        path.write_bytes(os.urandom(23 * 8192 + 5))
        Server.drop_caches()
        with (
            part_of(both_ends) as ioh,
            opened(path, os.O_RDONLY | os.O_DIRECT) as fd,
            aligned(8192) as buffer,
        ):
            for i in range(24):
                os.preadv(fd, [buffer], i * 8192)
    assert ioh.total("nfs_client", "read") == 24
    assert ioh.total("nfs_client", "read", "bytes") == 23 * 8192 + 5
    assert ioh.sizes("nfs_client", "read")[8192] == 23
    assert ioh.metric("nfs_client", "eof_reads") == 1
    assert ioh.metric("nfs_client", "short_reads") == 0
    files = ioh.table("nfs_client", "file", "path")
    assert files[str(path),]["reads"] == 24
    comm = Path("/proc/self/comm").read_text().strip()
    processes = ioh.table("nfs_client", "process", "pid", "comm")
    assert processes[str(os.getpid()), comm]["reads"] == 24


def test_reads_of_the_clients_cache_are_counted_apart(both_ends: Ioh) -> None:
    with mounted("4.2") as place:
        path = place / "twice"
        path.write_bytes(os.urandom(MIB))
        Server.drop_caches()
        with part_of(both_ends) as ioh, path.open("rb", buffering=0) as stream:
            for _ in range(3):
                stream.seek(0)
                assert len(stream.read(2 * MIB)) == MIB
    assert ioh.total("nfs_client", "read", "bytes") == MIB
    assert ioh.total("nfs_client", "read_cached", "bytes") == 2 * MIB
    assert ioh.metric("nfs_client", "app_read_bytes") == about(3 * MIB)


def test_the_server_tells_cached_reads_from_those_of_the_disk(both_ends: Ioh, version: str) -> None:
    with mounted(version) as place:
        path = place / "cached"
        path.write_bytes(os.urandom(2 * MIB))
        Server.drop_caches()
        with part_of(both_ends) as ioh:
            for _ in range(3):
                read_directly(path, 31, 65536)
    assert ioh.total("nfs_server", "read") == 3 * 31
    # The first pass reads the disk, in part by read-ahead; the two others find all in memory.
    assert 1 <= ioh.total("nfs_server", "read_disk") <= 31
    assert ioh.total("nfs_server", "read_cached") >= 2 * 31


def test_mounts_of_one_superblock_count_once(both_ends: Ioh, version: str) -> None:
    for name in ("shared-one", "shared-two"):
        (EXPORT / name).mkdir(exist_ok=True)
    with mounted(version, place="/mnt/one", folder="shared-one") as one:
        check_that_one_superblock_counts_once(both_ends, one)


def test_each_client_and_file_is_named(both_ends: Ioh, version: str) -> None:
    with mounted(version) as one, mounted(version, client=2) as two:
        folder = EXPORT / version
        folder.mkdir(exist_ok=True)
        paths = {"first": one / version / "first", "second": two / version / "second"}
        for path in paths.values():
            path.write_bytes(os.urandom(MIB))
        Server.drop_caches()
        with part_of(both_ends) as ioh:
            for name, reads, writes in (("first", 23, 11), ("second", 7, 5)):
                read_directly(paths[name], reads, 8192)
                write_directly(paths[name], writes, 8192)
    found = {
        (path, client.rpartition(":")[0]): (row["reads"], row["read_bytes"], row["writes"])
        for (path, client), row in ioh.table("nfs_server", "file", "path", "client").items()
    }
    assert found == {
        (str(folder / "first"), "10.99.1.2"): (23, 23 * 8192, 11),
        (str(folder / "second"), "10.99.2.2"): (7, 7 * 8192, 5),
    }
    clients = ioh.table("nfs_server", "client", "client")
    assert {client.rpartition(":")[0] for (client,) in clients} == {"10.99.1.2", "10.99.2.2"}


def test_an_idle_server_has_no_busy_threads(ioh: Part) -> None:
    threads = Path("/proc/fs/nfsd/threads").read_text().strip()
    ioh.close()
    last = ioh.intervals[-1]["layers"]["nfs_server"]["metrics"]
    assert last["threads"] == int(threads) == 8
    assert last["busy_threads"] == 0
