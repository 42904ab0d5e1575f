"""Both NFS layers without BPF: the same counts from /proc, and why there is no more."""

from __future__ import annotations

import pytest

from tests.kernel.part import remarks
from tests.kernel.rig import fio, recording
from tests.vm.nfs import (
    EXPORT,
    Server,
    check_that_one_superblock_counts_once,
    client_counts,
    mounted,
    server_counts,
)


def test_proc_gives_the_kernels_own_counts(server: Server, version: str) -> None:
    with (
        mounted(version, "rsize=65536", "wsize=65536") as place,
        recording("--proc", "--layers", "nfs_client,nfs_server", cycle_s=0.5) as ioh,
    ):
        ioh.settle()
        before, served = client_counts(place), server_counts()
        fio(place, rw="randrw", bs="64k", size="4m", direct=1, filename="proc")
        fio(place, rw="write", bs="64k", size="4m", end_fsync=1, filename="proc")
        told, served = client_counts(place) - before, server_counts() - served
        ioh.settle()
    assert {i["layers"]["nfs_client"]["source"] for i in ioh.intervals[1:]} == {"proc"}
    for op, stats in told.ops.items():
        # An attempt whose session is refused never becomes an operation.
        refused = stats.errors or 0
        assert ioh.total("nfs_client", op) == stats.calls - refused, op
        assert stats.calls - refused <= ioh.total("nfs_server", op) <= stats.calls, (op, refused)
    for layer in ("nfs_client", "nfs_server"):
        assert ioh.total(layer, "read", "bytes") == served.read_bytes == told.read_bytes
        assert ioh.total(layer, "write", "bytes") == served.write_bytes == told.write_bytes
    assert told.read.calls > 20
    count = ioh.total("nfs_client", "write")
    measured_ms = ioh.latency_us("nfs_client", "write") * count / 1e3
    assert measured_ms == pytest.approx(told.write.execute_ms, rel=1e-3)
    # The idle mount of the other tests shows up where its lease is renewed meanwhile.
    mounts = ioh.table("nfs_client", "mount", "mount", "vers")
    written = {mount: row["writes"] for mount, row in mounts.items() if row["writes"]}
    assert written == {(str(place), version): told.write.calls}
    assert any("requested with --proc" in str(remark) for remark in remarks(ioh))


def test_mounts_of_one_superblock_count_once(server: Server, version: str) -> None:
    for name in ("shared-one", "shared-two"):
        (EXPORT / name).mkdir(exist_ok=True)
    with (
        mounted(version, place="/mnt/one", folder="shared-one") as one,
        recording("--proc", "--layers", "nfs_client", cycle_s=0.5) as ioh,
    ):
        check_that_one_superblock_counts_once(ioh, one)
    assert {i["layers"]["nfs_client"]["source"] for i in ioh.intervals[1:]} == {"proc"}
