"""A client and its server as two hosts: the time of the network, of the server, of its disk.

``ssh`` is a program that enters the client's network namespace, or stays in the server's: two
hosts with one kernel.  The server's clock is 3 s ahead.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import psutil
import pytest

from tests.kernel.direct import read_directly
from tests.kernel.rig import ROOT, aligned, ioh_command, ioh_environment, opened
from tests.kernel.talker import Running, wait_until
from tests.kernel.test_in_flight import frozen
from tests.vm.disks import Disks
from tests.vm.nfs import ATTACHED_S, EXPORT, Server, client_counts, minus, mounted
from tests.vm.stage import FILE, FILE_BYTES, SERVED, export_slow_disk

SSH = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
case $2 in
cli) exec nsenter --net=/run/netns/cli1 sh -c "$3" ;;
srv) PATH={ahead}:$PATH PYTHONPATH={ahead}:{root} exec sh -c "$3" ;;
esac
"""
AHEAD_S = 3
DATE = f"#!/bin/sh\nexec /bin/date -d '+{AHEAD_S} sec' \"$@\"\n"
PYTHON = f"import time\nreal = time.time\ntime.time = lambda: real() + {AHEAD_S}\n"
DELAY_MS, LATE_MS = 5.0, 60.0
READS = 400  # a phase
ANSWER_MS = 20


class Hosts(Running):
    """A running `ioh json` of both hosts, with an interval of one second."""

    def __init__(self, folder: Path) -> None:
        ahead = folder / "ahead"
        ahead.mkdir()
        (ahead / "sitecustomize.py").write_text(PYTHON)
        ssh = SSH.format(ahead=ahead, root=ROOT)
        for path, text in ((folder / "ssh", ssh), (ahead / "date", DATE)):
            path.write_text(text)
            path.chmod(0o755)
        command = " ".join(ioh_command()).replace(" -I ", " ")
        words = ("--host", "cli", "--host", "srv", "--remote-command", command)
        environment = ioh_environment()
        environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        asked = ioh_command("json", *words, "--layers", "nfs_client,tcp,nfs_server,block")
        super().__init__([asked[0], "-X", "faulthandler", *asked[1:]], env=environment)

    def lines(self, first: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.lines[first:]]

    def seconds(self, count: int) -> list[dict[str, Any]]:
        """The lines from now on, until so many are about both hosts together."""
        first = at = len(self.output.lines)
        while count:
            self.output.wait_for(at + 1, 60.0)
            count -= not json.loads(self.output.lines[at])["host"]
            at += 1
        return self.lines(first)

    def wait_for_probes(self) -> None:
        wanted = {("cli", "nfs_client"), ("srv", "nfs_server"), ("srv", "block")}

        def are_measured() -> bool:
            return wanted <= {
                (line["host"]["name"], name)
                for line in self.seconds(2)
                if line["host"]
                for name, layer in line["layers"].items()
                if layer.get("source") == "bpf"
            }

        wait_until(are_measured, ATTACHED_S)

    def cut(self) -> None:
        """Kill the client's connection, and all that runs at its other end."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
                if not Path(f"/proc/{process.pid}/ns/net").samefile("/proc/self/ns/net"):
                    process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with mounted("4.2", client=2, place="/mnt/idle"):  # keeps the client's module in use
        hosts = Hosts(tmp_path_factory.mktemp("hosts"))
        try:
            yield hosts
        finally:
            hosts.end(within_s=60)
            print(*hosts.messages.lines[-9:])
            assert hosts.process.returncode == 0


@pytest.fixture
def hosts(made: Hosts) -> Hosts:
    """Both hosts are measured, and no finding of the test before is left."""
    made.wait_for_probes()
    while rules_of(made.seconds(2)):
        pass
    return made


def pairs_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pairs = [pair for line in lines if not line["host"] for pair in line["pairs"]]
    assert {(pair["client"], pair["server"]) for pair in pairs} <= {("cli", "srv")}
    return pairs


def reads_of(lines: list[dict[str, Any]]) -> dict[str, float]:
    """All READs of a phase: counts at both ends, means of what each part took."""
    pairs = pairs_of(lines)
    found = [pair["ops"]["read"] for pair in pairs if "read" in pair["ops"]]
    client = sum(op["client_calls"] for op in found)
    served = sum(op["server_calls"] for op in found)
    assert all(op["rtt_us"] for op in found if op["client_calls"])
    assert all(op["server_us"] for op in found if op["server_calls"])
    rtt_us = sum(op["client_calls"] * (op["rtt_us"] or 0.0) for op in found)
    server_us = sum(op["server_calls"] * (op["server_us"] or 0.0) for op in found)
    return {
        "client": client,
        "served": served,
        "server_us": server_us / max(1, served),
        "network_us": rtt_us / max(1, client) - server_us / max(1, served),
        "tcp_us": fmean(pair["tcp_rtt_us"] for pair in pairs if pair["tcp_rtt_us"]),
    }


def rules_of(lines: list[dict[str, Any]]) -> set[str]:
    names = {"network_adds", "server_adds", "disk_adds"}
    return {
        finding["rule"]
        for line in lines
        if line["host"] and line["host"]["name"] == "cli"
        for finding in line["findings"]
    } & names


def matched_of(lines: list[dict[str, Any]]) -> dict[float, int]:
    """READs timed at both ends, by the upper edge of what the network took, in us."""
    found: dict[float, int] = {}
    for pair in pairs_of(lines):
        hist = pair["ops"].get("read", {}).get("network_hist") or {}
        edges, counts = hist.get("latency_edges_us", ()), hist.get("counts", ())
        for edge_us, count in zip(edges, counts, strict=True):
            found[edge_us] = found.get(edge_us, 0) + count
    return found


def phase(hosts: Hosts, path: Path, count: int = READS) -> tuple[list[dict[str, Any]], float]:
    """Do so many reads; return what ioh printed and the kernel's own mean round trip, in us."""
    first, before = len(hosts.lines()), client_counts(path.parent).read
    for _ in range(count // READS):
        read_directly(path, READS)
    told = minus(client_counts(path.parent).read, before)
    assert told.calls == count
    hosts.seconds(3)
    return hosts.lines(first), told.rtt_ms * 1e3 / count


@pytest.mark.parametrize("version", ["3", "4.0", "4.2"])
def test_the_networks_time_is_exact(server: Server, hosts: Hosts, version: str) -> None:
    with mounted(version) as place:
        (place / "one").write_bytes(os.urandom(READS * 4096))
        read_directly(place / "one", READS)  # into the server's cache
        hosts.seconds(3)
        lines, plain_us = phase(hosts, place / "one", READS)
        plain = reads_of(lines)
        with server.netem("srv1", "delay", f"{DELAY_MS}ms"):
            lines, late_us = phase(hosts, place / "one", 5 * READS)
        late = reads_of(lines)
    print(version, plain_us, plain, late_us, late)
    assert (plain["client"], late["client"]) == (READS, 5 * READS)
    assert (plain["served"], late["served"]) == (plain["client"], late["client"])
    # An emulated machine's timers are late: the kernel's own count shows how long the delay was.
    assert late["network_us"] >= DELAY_MS * 1e3
    assert late["tcp_us"] >= DELAY_MS * 1e3
    added_us = late["network_us"] - plain["network_us"]
    added_at_server_us = late["server_us"] - plain["server_us"]
    assert added_us + added_at_server_us == pytest.approx(late_us - plain_us, abs=200)
    assert abs(added_at_server_us) < 200
    assert rules_of(lines) == {"network_adds"}


@pytest.mark.parametrize("version", ["3", "4.0", "4.2"])
def test_each_call_that_the_network_delayed_is_found(
    server: Server, hosts: Hosts, version: str
) -> None:
    """Few calls are late: the mean hides it, the 99th percentile does not."""
    times_ms = []
    with mounted(version) as place, aligned(4096) as buffer:
        (place / "one").write_bytes(os.urandom(READS * 4096))
        read_directly(place / "one", READS)  # into the server's cache
        hosts.seconds(3)
        first = len(hosts.lines())
        # 95 % of the packets are sent at once; the others are late.
        late = server.netem("srv1", "delay", f"{LATE_MS}ms", "reorder", "95%")
        with late, opened(place / "one", os.O_RDONLY | os.O_DIRECT) as fd:
            for number in range(READS):
                time.sleep(0.005)  # so few a second that all are sampled
                began = time.monotonic()
                os.preadv(fd, [buffer], number * 4096)
                times_ms.append((time.monotonic() - began) * 1e3)
            hosts.seconds(3)
    lines = hosts.lines(first)
    matched, reads = matched_of(lines), reads_of(lines)
    late_count = sum(ms >= LATE_MS for ms in times_ms)
    print(version, late_count, matched, reads)
    assert (reads["client"], reads["served"]) == (READS, READS)
    assert sum(matched.values()) == READS
    assert sum(count for us, count in matched.items() if us >= LATE_MS * 1e3) == late_count > 0
    assert reads["network_us"] < LATE_MS * 1e3 / 2
    assert fmean(times_ms) < LATE_MS / 2


def test_a_slow_server_disk_is_not_blamed_on_the_network(server: Server, hosts: Hosts) -> None:
    disks = Disks()
    export_slow_disk(disks)
    places = list(range(0, FILE_BYTES, 256 * 1024))
    with mounted("4.2", folder=SERVED.name) as place:
        disks.answer_after(ANSWER_MS * 1000)
        first = len(hosts.lines())
        until = time.monotonic() + 12
        count = 0
        with opened(place / FILE, os.O_RDONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
            while time.monotonic() < until:
                server.drop_caches()
                Random(count).shuffle(places)
                count += len([os.preadv(fd, [buffer], offset) for offset in places])
        hosts.seconds(3)
        lines = hosts.lines(first)
        disks.answer_after(0)
    reads = reads_of(lines)
    print(count, reads, rules_of(lines))
    assert (reads["client"], reads["served"]) == (count, count)
    assert reads["server_us"] >= ANSWER_MS * 1e3
    assert rules_of(lines) == {"disk_adds"}


def test_a_server_that_pauses_is_not_blamed_on_its_disk(hosts: Hosts) -> None:
    with mounted("4.2") as place:
        stop = threading.Event()

        def write(name: str) -> None:
            flags = os.O_CREAT | os.O_RDWR | os.O_DIRECT
            with opened(place / name, flags) as fd, aligned(4096) as buffer:
                while not stop.is_set():
                    os.pwritev(fd, [buffer], 0)

        before = client_counts(place)
        first = len(hosts.lines())
        writers = [threading.Thread(target=write, args=(f"paused{n}",)) for n in range(4)]
        for writer in writers:
            writer.start()
        until = time.monotonic() + 12
        while time.monotonic() < until:
            with frozen(EXPORT):
                time.sleep(0.3)
            time.sleep(0.05)
        stop.set()
        for writer in writers:
            writer.join(60)
        told = client_counts(place) - before
        hosts.seconds(3)
        lines = hosts.lines(first)
    found = [pair["ops"]["write"] for pair in pairs_of(lines) if "write" in pair["ops"]]
    client, served = (sum(op[name] for op in found) for name in ("client_calls", "server_calls"))
    print(found, rules_of(lines))
    assert (client, served) == (told.write.calls, told.write.calls)
    assert rules_of(lines) == {"server_adds"}


def test_a_cut_connection_loses_only_the_gap(server: Server, hosts: Hosts) -> None:
    with mounted("4.2") as place:
        (place / "one").write_bytes(os.urandom(READS * 4096))
        hosts.seconds(3)
        first = len(hosts.lines())
        before = phase(hosts, place / "one")[0]
        hosts.cut()
        while hosts.seconds(1)[-1]["hosts"][0]["is_here"]:
            pass
        hosts.wait_for_probes()
        after = phase(hosts, place / "one")[0]
    for lines in (before, after):
        reads = reads_of(lines)
        assert (reads["client"], reads["served"]) == (READS, READS)
    intervals = [line for line in hosts.lines(first) if line["host"]]
    assert all(line["interval_s"] < 3 for line in intervals)
    times_s = [line["time_unix_s"] for line in intervals if line["host"]["name"] == "srv"]
    assert max(b - a for a, b in pairwise(times_s)) < 3
    assert abs(times_s[-1] - time.time()) < AHEAD_S  # our clock's, not the server's
    for line in hosts.seconds(1):
        for host in line.get("hosts", ()):
            ahead_s = AHEAD_S if host["name"] == "srv" else 0
            error_s = host["clock_error_s"]
            assert abs(host["clock_offset_s"] - ahead_s) <= error_s + 0.001
            assert error_s <= 1
