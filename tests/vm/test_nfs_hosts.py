"""A client and its server as two hosts: how long the network took, the server, its disk.

``ssh`` is a program that enters the client's network namespace, or stays in the server's: two
hosts with one kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.kernel.rig import MIB, Reader, aligned, fio, ioh_command, ioh_environment, opened
from tests.vm.nfs import ATTACHED_S, EXPORT, Server, client_counts, mounted

SSH = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
case $2 in
cli) exec nsenter --net=/run/netns/cli1 sh -c "$3" ;;
srv) exec sh -c "$3" ;;
esac
"""
DELAY_MS = 5.0
READS = 400  # a phase


class Hosts:
    """`ioh json` of both, each second, as it runs."""

    def __init__(self, folder: Path) -> None:
        ssh = folder / "ssh"
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        command = " ".join(ioh_command()).replace(" -I ", " ")
        words = ("--host", "cli", "--host", "srv", "--remote-command", command)
        environment = ioh_environment()
        environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ioh_command("json", *words, "--layers", "nfs_client,tcp,nfs_server,block"),
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdout is not None
        self._output = Reader(self.process.stdout.fileno())
        self._output.start()

    def lines(self, first: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._output.lines[first:]]

    def seconds(self, count: int) -> list[dict[str, Any]]:
        """What comes from now on, so many lines of each kind."""
        first = len(self._output.lines)
        self._output.wait_for(first + 3 * count, 60.0 + 10 * count)
        return self.lines(first)

    def wait_for_probes(self) -> None:
        wanted = {("cli", "nfs_client"), ("srv", "nfs_server"), ("srv", "block")}
        deadline = time.monotonic() + ATTACHED_S
        while True:
            assert time.monotonic() < deadline
            told = {
                (line["host"]["name"], name)
                for line in self.seconds(2)
                if line["host"]
                for name, layer in line["layers"].items()
                if layer.get("source") == "bpf"
            }
            if wanted <= told:
                return

    def end(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(60) == 0
        finally:
            self._output.join(10)
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture(scope="module")
def hosts(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with mounted("4.2", client=2, place="/mnt/idle"):  # keeps the client's module in use
        made = Hosts(tmp_path_factory.mktemp("hosts"))
        try:
            made.wait_for_probes()
            yield made
        finally:
            made.end()


def reads_of(lines: list[dict[str, Any]]) -> dict[str, float]:
    """All READs of a phase: counts at both ends, means of what each part took."""
    found = [
        pair["ops"]["read"]
        for line in lines
        if not line["host"]
        for pair in line["pairs"]
        if (pair["client"], pair["server"]) == ("cli", "srv") and "read" in pair["ops"]
    ]
    tcp = [
        pair["tcp_rtt_us"]
        for line in lines
        if not line["host"]
        for pair in line["pairs"]
        if pair["ops"] and pair["tcp_rtt_us"]
    ]
    client = sum(op["client_calls"] or 0 for op in found)
    served = sum(op["server_calls"] or 0 for op in found)
    rtt_us = sum((op["client_calls"] or 0) * (op["rtt_us"] or 0.0) for op in found)
    server_us = sum((op["server_calls"] or 0) * (op["server_us"] or 0.0) for op in found)
    return {
        "client": client,
        "served": served,
        "rtt_us": rtt_us / max(1, client),
        "network_us": rtt_us / max(1, client) - server_us / max(1, served),
        "tcp_us": fmean(tcp) if tcp else 0.0,
    }


def rules_of(lines: list[dict[str, Any]]) -> set[str]:
    names = {"network_adds", "server_adds", "disk_adds"}
    return {
        finding["rule"]
        for line in lines
        if line["host"] and line["host"]["name"] == "cli"
        for finding in line["findings"]
    } & names


def read_one_by_one(path: Path, count: int) -> None:
    """Direct reads of 4 KiB, one at a time."""
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
        for number in range(count):
            os.preadv(fd, [buffer], number % 256 * 4096)


def phase(hosts: Hosts, path: Path, count: int = READS) -> list[dict[str, Any]]:
    first = len(hosts.lines())
    read_one_by_one(path, count)
    hosts.seconds(3)
    return hosts.lines(first)


@pytest.mark.parametrize("version", ["3", "4.0", "4.2"])
def test_the_networks_time_is_exact(server: Server, hosts: Hosts, version: str) -> None:
    with mounted(version) as place:
        (place / "one").write_bytes(os.urandom(MIB))
        read_one_by_one(place / "one", 256)  # into the server's cache
        hosts.seconds(3)
        before = client_counts(place)
        plain = reads_of(phase(hosts, place / "one"))
        with server.netem("srv1", "delay", f"{DELAY_MS}ms"):
            lines = phase(hosts, place / "one", 5 * READS)
        late = reads_of(lines)
        told = client_counts(place) - before
    print(version, plain, late)
    assert plain["client"] + late["client"] == told.read.calls == 6 * READS
    assert (plain["served"], late["served"]) == (plain["client"], late["client"])
    # An emulated machine's timers are late: how long the delay was, its TCP has measured, too.
    assert late["tcp_us"] >= DELAY_MS * 1e3
    assert late["network_us"] == pytest.approx(late["tcp_us"], abs=200)
    assert rules_of(lines) == {"network_adds"}


@contextlib.contextmanager
def busy_disk() -> Iterator[None]:
    """Somebody at the server keeps many requests in its disk's queue."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            fio(
                EXPORT, rw="randread", bs="64k", size="64m", direct=1, filename="other",
                ioengine="libaio", iodepth=64, time_based=1, runtime=5, numjobs=2,
            )  # fmt: skip

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def test_the_servers_disk_is_told_from_the_network(server: Server, hosts: Hosts) -> None:
    with mounted("4.2") as place:
        (place / "cold").write_bytes(os.urandom(16 * MIB))
        server.drop_caches()
        with busy_disk():
            time.sleep(3)
            first = len(hosts.lines())
            until = time.monotonic() + 15
            while time.monotonic() < until:
                server.drop_caches()
                read_one_by_one(place / "cold", 32)
            hosts.seconds(2)
            lines = hosts.lines(first)
    print(reads_of(lines), rules_of(lines))
    assert "network_adds" not in rules_of(lines)
    assert rules_of(lines) & {"disk_adds", "server_adds"}
