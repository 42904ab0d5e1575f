"""An NVMe disk with two paths, over TCP: each is a device and has a name and its other end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.part import part_of
from tests.kernel.rig import MIB, Ioh, opened, run
from tests.kernel.talker import wait_until
from tests.kernel.witness import DiskStats, diskstats
from tests.vm.nfs import watching

CONFIG = Path("/sys/kernel/config")
SUBSYSTEM = CONFIG / "nvmet/subsystems/ways"
PORTS = (4421, 4422)
FILE = Path("/tmp/nvme-ways")
KIB = 1024
READS, WRITES = 46, 14
DELAY_MS = 20  # of each packet


@pytest.fixture(scope="module")
def disk() -> Iterator[str]:
    """The kernel's own NVMe target exports a file; this machine connects to it twice."""
    run("modprobe", "-a", "nvmet", "nvmet-tcp", "nvme-tcp")
    if not CONFIG.is_mount():
        run("mount", "-t", "configfs", "configfs", CONFIG)
    run("ip", "link", "set", "lo", "up")
    FILE.write_bytes(bytes(64 * MIB))
    space = SUBSYSTEM / "namespaces/1"
    SUBSYSTEM.mkdir()
    (SUBSYSTEM / "attr_allow_any_host").write_text("1")
    space.mkdir()
    (space / "device_path").write_text(str(FILE))
    (space / "enable").write_text("1")
    for port in PORTS:
        folder = CONFIG / "nvmet/ports" / str(port)
        folder.mkdir()
        for name, value in {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1"}.items():
            (folder / f"addr_{name}").write_text(value)
        (folder / "addr_trsvcid").write_text(str(port))
        (folder / "subsystems/ways").symlink_to(SUBSYSTEM)
    with contextlib.ExitStack() as connections:
        for port in PORTS:
            connections.enter_context(connected(port))
        yield reached_by(len(PORTS))


@contextlib.contextmanager
def connected(port: int) -> Iterator[None]:
    """One more path to the disk."""
    host = "3f1b3b52-0a3c-4c64-9d0e-5c9d1cf00001"
    # A keep-alive request to the controller belongs to no disk.
    options = f"transport=tcp,traddr=127.0.0.1,trsvcid={port},nqn=ways,keep_alive_tmo=1"
    with opened("/dev/nvme-fabrics", os.O_RDWR) as fd:
        os.write(
            fd, f"{options},hostnqn=nqn.2014-08.org.nvmexpress:uuid:{host},hostid={host}".encode()
        )
        said = os.read(fd, 100).decode()
    number = dict(word.split("=") for word in said.split(",") if "=" in word)["instance"].strip()
    try:
        yield
    finally:
        Path(f"/sys/class/nvme/nvme{number}/delete_controller").write_text("1")


def reached_by(count: int) -> str:
    """Wait for so many paths to the disk, use all in turn, and return the disk's name."""
    wait_until(lambda: len(ways()) >= count, why=lambda: [*Path("/sys/block").iterdir()])
    (policy,) = Path("/sys/class/nvme-subsystem").glob("nvme-subsys*/iopolicy")
    policy.write_text("round-robin")
    (name,) = {f"{way.split('c')[0]}n{way.split('n')[-1]}" for way in ways()}
    return name


def ways() -> list[str]:
    return sorted(path.name for path in Path("/sys/block").glob("nvme*c*n*"))


def load(name: str) -> None:
    read_directly(f"/dev/{name}", READS, 4 * KIB, MIB)
    write_directly(f"/dev/{name}", WRITES, 8 * KIB, MIB)


def loaded(name: str) -> dict[str, DiskStats]:
    """Run the load; return the kernel's counts for each path."""
    before = {way: diskstats(way, 0) for way in ways()}
    load(name)
    done = {way: diskstats(way, 0) - older for way, older in before.items()}
    assert sum(way.reads for way in done.values()) == READS
    assert sum(way.writes for way in done.values()) == WRITES
    assert all(way.reads for way in done.values())
    return done


def counted(ioh: Ioh) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for interval in ioh.intervals_of("block"):
        for part, ops in interval["layers"]["block"]["parts"]["device"].items():
            for op, numbers in ops.items():
                sums[part, op] += numbers["count"]
    return sums


def test_each_path_is_a_device_with_its_requests(disk: str) -> None:
    with watching("block") as ioh:
        with part_of(ioh) as part:
            done = loaded(disk)
            time.sleep(3)
        counts = counted(part)
        rows = part.table("block", "device", "device")
    for way, stats in done.items():
        assert counts[way, "read"] == stats.reads
        assert counts[way, "write"] == stats.writes
    assert not [name for name, _ in counts if ":" in name], "a device by its number"
    assert not [name for name, _ in counts if name == disk], "it has no requests of its own"
    assert {name for (name,) in rows} >= set(done)


def test_the_disk_is_the_sum_of_its_paths(disk: str) -> None:
    with watching("block", options=("--device", disk)) as ioh:
        with part_of(ioh) as part:
            done = loaded(disk)
        counts = counted(part)
    ops = [interval["layers"]["block"]["ops"] for interval in part.intervals_of("block")]
    assert part.intervals[-1]["layers"]["block"]["source"] == "bpf"
    assert sum(each["read"]["count"] for each in ops) == READS
    assert sum(each["write"]["count"] for each in ops) == WRITES
    assert {(way, "read"): stats.reads for way, stats in done.items()} == {
        key: count for key, count in counts.items() if key[1] == "read" and count
    }
    assert part.sizes("block", "read") == {4 * KIB: READS}
    assert part.lost("block") == {}
    processes = part.table("block", "process", "pid")
    assert processes[str(os.getpid()),]["reads"] == READS


def read_until(disk: str, end_s: float) -> None:
    while time.monotonic() < end_s:
        read_directly(f"/dev/{disk}", READS, 4 * KIB, MIB)


def test_a_long_way_to_the_disk_is_the_networks_time(disk: str) -> None:
    run("modprobe", "sch_netem")
    run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", f"{DELAY_MS}ms")
    try:
        with watching("block", "tcp", cycle_s=1.0) as ioh, part_of(ioh) as part:
            until = time.monotonic() + 15
            readers = [threading.Thread(target=read_until, args=(disk, until)) for _ in range(4)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
    finally:
        run("tc", "qdisc", "del", "dev", "lo", "root")
    found = [each for interval in part.intervals for each in interval["findings"]]
    slow = {each["subject"]: each for each in found if each["rule"] == "slow_disk"}
    print(*slow.items(), sep="\n")
    assert slow
    for each in slow.values():
        assert "it is a remote disk (nvme/tcp 127.0.0.1:442" in each["cause"]
        assert ", and the network's round trip is " in each["cause"]
        assert each["command"].startswith("ss -tin dst 127.0.0.1:442")
    blocks = [interval["layers"]["block"] for interval in part.intervals_of("block")]
    devices = [row for block in blocks for row in block["top"]["device"]]  # the last may be idle
    ends = {row["on"].partition(" on ")[2] for row in devices if row["device"] in ways()}
    assert ends == {f"nvme/tcp 127.0.0.1:{port}" for port in PORTS}
