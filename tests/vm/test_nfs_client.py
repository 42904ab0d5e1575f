"""A client that sees no server of its own: ioh runs in the client's network namespace.

It has no layer nfs_server there, and its connections are at one end only, as on two machines.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.part import Part, part_of
from tests.kernel.rig import Ioh
from tests.kernel.talker import wait_until
from tests.vm.disks import Disks
from tests.vm.nfs import Server, client_counts, mounted, watching
from tests.vm.stage import FILE, FILE_BYTES, SERVED, export_slow_disk

SECONDS, OUTAGE_S = 14, 14
DELAY_MS, SLOW_DISK_US, DISK_US = 60, 40_000, 4_000
CLIENT = ("nsenter", "--net=/run/netns/cli1")
RULES = {"nfs_latency", "nfs_no_answer", "nfs_retransmits"}


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Ioh]:
    """One ioh for all tests.  The mount keeps the client's module in use."""
    export_slow_disk(Disks())
    with (
        mounted("4.2", client=2, place="/mnt/idle"),
        watching("syscall", "nfs_client", "tcp", cycle_s=1.0, within=CLIENT) as ioh,
    ):
        yield ioh


@contextlib.contextmanager
def read_at_random(*options: str, version: str = "4.2", depth: int = 4) -> Iterator[None]:
    """Read the slow disk's file meanwhile, from no cache; fio takes seconds to start."""
    Server.drop_caches()
    with mounted(version, *options, folder=SERVED.name) as place:
        before = client_counts(place).read.calls
        words = ["--rw=randread", "--bs=8k", "--direct=1", "--ioengine=libaio", "--time_based"]
        words += [f"--filename={FILE}", f"--size={FILE_BYTES}", f"--iodepth={depth}"]
        with subprocess.Popen(
            ["fio", "--name=r", f"--directory={place}", *words, "--runtime=600"],
            stdout=subprocess.DEVNULL,
        ) as reader:
            try:
                wait_until(lambda: client_counts(place).read.calls > before)
                yield
            finally:
                reader.terminate()


def reading(client: Ioh, *options: str, version: str = "4.2", depth: int = 4) -> Part:
    """What ioh says while it is read for SECONDS."""
    with read_at_random(*options, version=version, depth=depth), part_of(client) as part:
        time.sleep(SECONDS)
    print(steps(part), *{(f["rule"], f["subject"], f["cause"]) for f in findings(part)}, sep="\n")
    return part


def rows(part: Part) -> list[dict[str, Any]]:
    """The mount's connections in each interval."""
    return [
        row
        for interval in part.intervals_of("tcp")
        for row in interval["layers"]["tcp"]["top"]["connection"]
        if row["remote"].endswith(":2049")
    ]


def findings(part: Part) -> list[dict[str, Any]]:
    found = [f for interval in part.intervals for f in interval["findings"]]
    return [finding for finding in found if finding["rule"] in RULES]


def path_of(interval: dict[str, Any]) -> dict[str, float]:
    """The path's steps, in us of all READs together."""
    found = interval["path"].get("read", {"segments": ()})
    return {each["name"]: (each["us"] or 0.0) * found["ops_per_s"] for each in found["segments"]}


def steps(part: Part) -> Counter[str]:
    """The same of all intervals, longest first in most_common()."""
    return sum((Counter(path_of(interval)) for interval in part.intervals), Counter())


def longest(part: Part) -> str:
    return steps(part).most_common(1)[0][0]


def said(part: Part) -> set[tuple[str, str]]:
    return {(finding["rule"], finding["subject"]) for finding in findings(part)}


@pytest.fixture
def quiet(client: Ioh) -> Ioh:
    """No finding of the test before is left."""
    Disks.answer_after(0)
    while any(finding["rule"] in RULES for x in client.intervals[-1:] for finding in x["findings"]):
        client.settle()
    return client


@pytest.mark.parametrize(("version", "options"), [("4.2", ("nconnect=2",)), ("4.0", ())])
def test_a_long_way_is_the_networks_time(
    server: Server, quiet: Ioh, version: str, options: tuple[str, ...]
) -> None:
    with server.netem("srv1", "delay", f"{DELAY_MS}ms"):
        part = reading(quiet, *options, version=version)
    assert said(part) == {("nfs_latency", "read network")}
    assert longest(part) == "network"
    assert {row["local"].split(":")[0] for row in rows(part)} == {"10.99.1.2"}
    assert max(row["srtt_us"] for row in rows(part)) >= DELAY_MS * 1e3


def test_a_slow_disk_is_the_servers_time(quiet: Ioh) -> None:
    Disks.answer_after(SLOW_DISK_US)
    part = reading(quiet)
    assert said(part) == {("nfs_latency", "read server")}
    assert longest(part) == "nfs_server"


def test_one_thread_for_many_readers_is_the_servers_time(quiet: Ioh) -> None:
    Disks.answer_after(DISK_US)
    with Server.threads(1):
        part = reading(quiet, depth=16)
    assert said(part) == {("nfs_latency", "read server")}
    assert longest(part) == "nfs_server"


def test_lost_replies_are_not_the_servers_time(server: Server, quiet: Ioh) -> None:
    with server.netem("srv1", "loss", "10%"):
        part = reading(quiet)
    assert said(part) == {("nfs_latency", "read loss")}
    assert longest(part) == "network_server"
    assert sum(row["reordered_segs_per_s"] or 0 for row in rows(part)) > 0


def test_a_healthy_server_is_not_reported(quiet: Ioh) -> None:
    Disks.answer_after(DISK_US)
    assert said(reading(quiet, depth=1)) == set()


def test_an_outage_is_not_the_servers_time(server: Server, quiet: Ioh) -> None:
    """The server's disk is slow before it, which is then no longer said."""
    Disks.answer_after(SLOW_DISK_US)
    with read_at_random(), part_of(quiet) as part:
        time.sleep(SECONDS)
        with server.netem("srv1", "loss", "100%"):
            begin_s = time.time()
            time.sleep(OUTAGE_S)
        time.sleep(SECONDS)
    said_at = [
        (interval["time_unix_s"] - begin_s, {(f["rule"], f["subject"]) for f in found})
        for interval in part.intervals
        if (found := [f for f in interval["findings"] if f["rule"] in RULES])
    ]
    print(*said_at, sep="\n")
    waits = [
        row
        for interval in part.intervals
        for row in interval["layers"]["nfs_client"]["top"]["in_progress"]
    ]
    oldest = max(waits, key=lambda row: float(row["age_us"]))
    assert oldest["op"] == "read"
    assert oldest["age_us"] >= (OUTAGE_S - 3) * 1e6
    assert oldest["mount"].startswith("10.99.1.1:/")
    # The calls' time passed in the outage, and not at its end.
    in_flight = [stats["avg_inflight"] or 0 for stats in part.ops("nfs_client", "read")]
    assert max(in_flight) < 2 * max(stats["inflight"] for stats in part.ops("nfs_client", "read"))
    assert "disk_no_answer" not in {f["rule"] for x in part.intervals for f in x["findings"]}
    slow, silent = ("nfs_latency", "read server"), ("nfs_no_answer", "10.99.1.1")
    assert any(slow in found for _, found in said_at)
    assert any(silent in found for _, found in said_at)
    assert not [at for at, found in said_at if silent in found and slow in found]
    assert max(at for at, found in said_at if slow in found and at < OUTAGE_S) < 8
    served_us = [
        path_of(interval).get("nfs_server", 0.0) / found["ops_per_s"]
        for interval in part.intervals
        if (found := interval["path"].get("read")) and interval["time_unix_s"] > begin_s + 1
    ]
    assert max(served_us) < OUTAGE_S * 1e6 / 4, "the calls that waited for its end"
