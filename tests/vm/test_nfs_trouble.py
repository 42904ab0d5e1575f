"""NFS in trouble: packet loss, a server that restarts or is silent, many requests of one place."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.kernel.part import part_of
from tests.kernel.rig import MIB, Ioh, aligned, fio, opened, run
from tests.kernel.talker import wait_until
from tests.vm.disks import Disks
from tests.vm.nfs import (
    Server,
    assert_each_once,
    client_counts,
    minus,
    mount_of,
    mounted,
    wait_for_source,
)
from tests.vm.stage import FILE, FILE_BYTES, SERVED, export_slow_disk


def test_many_direct_requests_of_one_place_count_once_each(both_ends: Ioh, version: str) -> None:
    """Device, file and offset are the same for all of them: only the request tells them apart."""
    with mounted(version, "nconnect=4") as place:
        (place / "one").write_bytes(os.urandom(65536))
        with part_of(both_ends) as ioh:
            before = client_counts(place)
            fio(
                place, rw="randrw", bs="64k", size="64k", direct=1, filename="one", numjobs=4,
                iodepth=4, ioengine="libaio", loops=64, overwrite=1,
            )  # fmt: skip
            told = client_counts(place) - before
    ended = [stats.calls - (stats.errors or 0) for stats in (told.read, told.write)]
    assert sum(ended) == 4 * 64
    assert_each_once(ioh, told, "nfs_client", "nfs_server")
    # If one request were taken for another, its mean would be too short.
    for op, stats in (("read", told.read), ("write", told.write)):
        waited_us = ioh.latency_us("nfs_client", op)
        assert waited_us >= 0.99 * 1e3 * stats.execute_ms / stats.calls, op


def retransmitted() -> int:
    names, values = [
        line.split()
        for line in Path("/proc/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    ]
    return int(values[names.index("RetransSegs")])


def settled_retransmits() -> int:
    """Wait until TCP has retransmitted what it had to; return the count."""
    seen, now = -1, retransmitted()
    while seen != now:
        time.sleep(1)
        seen, now = now, retransmitted()
    return now


def test_lost_packets_are_retransmitted_by_tcp(both_ends: Ioh) -> None:
    with mounted("4.2") as place:
        fio(place, rw="write", bs="1m", size="32m", end_fsync=1, filename="lossy")
        Server.drop_caches()
        with Server.netem("srv1", "loss", "2%"), part_of(both_ends) as ioh:
            before, segments = client_counts(place), retransmitted()
            fio(place, rw="read", bs="1m", size="32m", filename="lossy")
            segments = settled_retransmits() - segments
            told = client_counts(place) - before
    assert segments > 0
    assert ioh.metric("tcp", "retrans_segs") == segments
    assert ioh.total("nfs_client", "read") == told.read.calls - (told.read.errors or 0)
    assert ioh.total("nfs_client", "read", "bytes") == told.read_bytes == 32 * MIB
    assert ioh.metric("nfs_client", "rpc_retransmits") == sum(told.sent_again.values())


def test_rpc_retransmissions_are_counted(both_ends: Ioh) -> None:
    """The network is down for longer than the client waits, so that RPC itself retransmits."""
    with mounted("3", "timeo=10", "retrans=5") as place:
        (place / "again").write_bytes(os.urandom(MIB))
        Server.drop_caches()
        with part_of(both_ends) as ioh:
            before = client_counts(place)
            reader = threading.Thread(target=read_all, args=(place / "again",))
            with Server.netem("srv1", "loss", "100%"):
                reader.start()
                time.sleep(5)
            reader.join(60)
            told = client_counts(place) - before
    assert told.sent_again
    assert ioh.metric("nfs_client", "rpc_retransmits") == sum(told.sent_again.values())
    assert ioh.total("nfs_client", "read") == told.read.calls == 16
    assert ioh.total("nfs_client", "read", "bytes") == told.read_bytes == MIB


def read_all(path: Path, times: int = 1) -> None:
    """Read a file of 1 MiB by 16 calls, so many times; it stays open meanwhile."""
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(65536) as buffer:
        for i in range(16 * times):
            os.preadv(fd, [buffer], i % 16 * 65536)


def test_a_server_restart_loses_no_read(both_ends: Ioh, version: str) -> None:
    with mounted(version, "timeo=10") as place:
        (place / "restart").write_bytes(os.urandom(MIB))
        Server.drop_caches()
        with part_of(both_ends) as ioh:
            before = client_counts(place)
            Server.stop()
            wait_for_source(both_ends, None, "nfs_server")
            reader = threading.Thread(target=read_all, args=(place / "restart",))
            reader.start()
            time.sleep(3)
            Server.start()
            reader.join(120)
            assert not reader.is_alive()
            told = client_counts(place) - before
            wait_for_source(both_ends, "bpf", "nfs_server")
    # Not told.read.calls: it also counts an attempt that met a lost session.
    assert ioh.total("nfs_client", "read") == 16
    assert ioh.metric("nfs_client", "rpc_reads") == told.read.calls >= 16
    assert ioh.total("nfs_client", "read", "bytes") == told.read_bytes == MIB
    assert ioh.lost("nfs_client") == {}
    reasons = {
        interval["unavailable"]["nfs_server"]["reason"]
        for interval in ioh.intervals
        if "nfs_server" in interval["unavailable"]
    }
    assert "no NFS server is running" in reasons


@pytest.mark.parametrize("direct", [0, 1], ids=["buffered", "direct"])
def test_writes_count_once_when_their_session_is_lost(both_ends: Ioh, direct: int) -> None:
    """Another client of the same name ends the session; what was in flight is sent again."""
    with mounted("4.2", "wsize=32768") as place, part_of(both_ends) as ioh:
        before = client_counts(place)
        # So that WRITEs are under way at any time.
        with Server.netem("srv1", "delay", "200ms"), writing(place, direct):
            deadline = time.monotonic() + 120
            while not (client_counts(place) - before).write.errors:
                assert time.monotonic() < deadline
                with mounted("4.2", client=3, place="/mnt/twin", host_name="client1"):
                    time.sleep(1)
        told = client_counts(place) - before
    assert_each_once(ioh, told, "nfs_client", "nfs_server")
    for op, stats in told.ops.items():
        assert ioh.metric("nfs_client", f"rpc_{op}s") == stats.calls, (op, stats)
    assert ioh.total("nfs_client", "write", "bytes") == told.write_bytes


@contextlib.contextmanager
def writing(place: Path, direct: int) -> Iterator[None]:
    """Write a file again and again meanwhile."""
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            fio(
                place, rw="write", bs="256k", size="4m", direct=direct, filename="lost", fsync=8,
                ioengine="libaio", iodepth=8, overwrite=1,
            )  # fmt: skip

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


@contextlib.contextmanager
def delegated(path: Path) -> Iterator[None]:
    """Open a file until the server grants its client a delegation.

    It grants one once it can call the client back, but not for a file that looks like one whose
    delegation it recently recalled.  Not with O_DIRECT: then the client does not ask for one.
    """
    deadline = time.monotonic() + 120
    inode = f':{path.stat().st_ino}"'
    while True:
        with opened(path, os.O_RDONLY):
            states = [each.read_text() for each in Path("/proc/fs/nfsd/clients").glob("*/states")]
            lines = [line for state in states for line in state.splitlines()]
            if any("type: deleg" in line and inode in line for line in lines):
                yield
                return
        assert time.monotonic() < deadline, lines
        time.sleep(0.5)


def test_reads_count_once_when_their_delegation_is_recalled(both_ends: Ioh) -> None:
    """Another client writes: READs go on under another state id; refused ones are sent again."""
    with mounted("4.2") as one, mounted("4.2", client=3) as other:
        path = one / "recalled"
        path.write_bytes(os.urandom(MIB))
        Server.drop_caches()
        with delegated(path), part_of(both_ends) as ioh:
            before = client_counts(one)
            readers = [threading.Thread(target=read_all, args=(path, 4)) for _ in range(4)]
            for reader in readers:
                reader.start()
            while not (client_counts(one) - before).read.calls:
                time.sleep(0.01)
            with opened(other / "recalled", os.O_WRONLY):
                pass
            for reader in readers:
                reader.join()
            told = client_counts(one) - before
            assert mount_of(one).stats_of("DELEGRETURN").calls
    assert ioh.lost("nfs_client") == ioh.lost("nfs_server") == {}
    assert ioh.metric("nfs_client", "rpc_reads") == told.read.calls
    assert told.read.calls - (told.read.errors or 0) == 4 * 4 * 16
    for layer in ("nfs_client", "nfs_server"):
        assert ioh.total(layer, "read") == 4 * 4 * 16
        assert ioh.total(layer, "read", "bytes") == told.read_bytes == 4 * 4 * MIB


def test_a_dead_server_does_not_hang_ioh(both_ends: Ioh) -> None:
    with (
        mounted("3", "timeo=10", "soft", "retrans=2") as place,
        Server.netem("srv1", "loss", "100%"),
    ):
        stat = subprocess.Popen(["stat", place / "nothing"], stderr=subprocess.DEVNULL)
        with part_of(both_ends) as ioh:
            time.sleep(3)
        stat.wait(60)
    assert len(ioh.intervals) >= 5
    assert max(interval["interval_s"] for interval in ioh.intervals) < 2


@contextlib.contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Writes to a file system wait meanwhile."""
    run("fsfreeze", "--freeze", folder)
    try:
        yield
    finally:
        run("fsfreeze", "--unfreeze", folder)


def test_a_write_that_the_servers_file_system_holds_back_is_in_progress_there(
    both_ends: Ioh, version: str
) -> None:
    export_slow_disk(Disks())

    def waiting() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = both_ends.intervals[-1]["layers"]["nfs_server"]["top"][
            "in_progress"
        ]
        return rows

    with mounted(version, folder=SERVED.name) as place:
        direct = os.O_WRONLY | os.O_CREAT | os.O_DIRECT
        with opened(place / "held", direct) as fd, aligned(4096) as buffer:
            os.pwritev(fd, [buffer], 0)
            writer = threading.Thread(target=os.pwritev, args=(fd, [buffer], 0))
            with frozen(SERVED):
                writer.start()
                wait_until(lambda: any(row["age_us"] > 2e6 for row in waiting()), why=waiting)
                (row,) = waiting()
                comm = Path("/proc", row["thread"], "comm").read_text()
                in_flight = both_ends.intervals[-1]["layers"]["nfs_server"]["ops"]["write"]
            writer.join()
        both_ends.settle()
        assert waiting() == []
    assert row["client"].startswith("10.99.1.2:")
    assert row["op"].startswith("write_")
    assert (row["count"], comm) == (1, "nfsd\n")
    assert in_flight["inflight"] == 1


def test_calls_wait_in_the_servers_sockets_for_its_only_thread(
    server: Server, both_ends: Ioh
) -> None:
    """The unread bytes say how long; mountstats and nfsd's own time are the truth."""
    export_slow_disk(Disks())
    Disks.answer_after(10_000)
    Server.drop_caches()
    with server.threads(1), mounted("4.2", folder=SERVED.name) as place, part_of(both_ends) as ioh:
        before = client_counts(place).read
        fio(
            place, filename=FILE, size=FILE_BYTES, rw="randread", bs="8k", direct=1,
            ioengine="libaio", iodepth=16, time_based=1, runtime=12,
        )  # fmt: skip
        told = minus(client_counts(place).read, before)
    Disks.answer_after(0)
    waited_us = 1e3 * told.rtt_ms / told.calls - ioh.latency_us("nfs_server", "read")
    ports = [
        row
        for interval in ioh.intervals_of("tcp")
        for row in interval["layers"]["tcp"]["top"]["port"]
        if row["port"] == "2049" and row["unread_bytes"] and row["in_bytes_per_s"] > 1000
    ]
    unread_us = fmean(1e6 * row["unread_bytes"] / row["in_bytes_per_s"] for row in ports)
    causes = {f["cause"] for each in ioh.intervals for f in each["findings"]}
    print(waited_us, unread_us, len(ports), *causes, sep="\n")
    assert unread_us == pytest.approx(waited_us, rel=0.4)
    assert any("calls wait for" in cause and "for a thread" in cause for cause in causes)
    assert any("READs wait" in cause and "server's 1 threads" in cause for cause in causes)
