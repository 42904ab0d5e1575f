"""The tcp layer on the real kernel: bytes and segments equal what programs and kernel counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 60
Reading = dict[str, Any]


def run(*command: str) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout


class Namespace:
    """A network namespace with loopback up."""

    def __init__(self, name: str) -> None:
        self.name = f"ioh-{os.getpid()}-{name}"
        self.processes: list[subprocess.Popen[str]] = []
        # A process holds it: `ip netns` needs / to be a mount point, which it is not in a chroot.
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 600"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *command: str) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *command)

    def run(self, *command: str) -> str:
        return run(*self.command(*command))

    def snmp(self, name: str) -> int:
        names, values = [
            line.split()
            for line in self.run("cat", "/proc/net/snmp").splitlines()
            if line.startswith("Tcp:")
        ]
        return int(values[names.index(name)])

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A process that talks by lines and ends with the namespace at the latest."""
        process = subprocess.Popen(
            self.command(sys.executable, *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self.holder.kill()
        self.holder.communicate()


class Script:
    """A Python script of this directory that runs in a namespace and talks by lines."""

    def __init__(self, namespace: Namespace, name: str, **options: object) -> None:
        self.process = namespace.start(str(HERE / name), json.dumps(options))

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate(timeout=TIMEOUT_S)


class Agent(Script):
    """ioh's layer; the first reading is the baseline."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, "tcp_agent.py", **options)
        self.baseline = self.read()

    def read(self) -> Reading:
        self.ask()
        reading: Reading = json.loads(self.line())
        return reading

    def read_until_quiet(self) -> Reading:
        """Read until the last connection has ended: a lost FIN is sent again for a while."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            reading = self.read()
            if reading["metrics"]["connections"] == 0:
                return self.read()
            assert time.monotonic() < deadline, reading
            time.sleep(0.05)


class Load(Script):
    """Known traffic."""

    def __init__(self, namespace: Namespace, **options: object) -> None:
        super().__init__(namespace, "tcp_load.py", **options)
        assert self.line() == "ready\n"

    def finish(self) -> dict[str, int]:
        sums: dict[str, int] = json.loads(self.line())
        self.close()
        return sums


@contextmanager
def closing(*things: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for thing in things:
            thing.close()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace("a")
    yield made
    made.close()


@pytest.fixture
def pair(namespace: Namespace) -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces and a veth cable between them: 10.99.0.1, 10.99.0.2, fd99::1, fd99::2."""
    other = Namespace("b")
    run("ip", "link", "add", "ioh0", "netns", str(namespace.holder.pid), "type", "veth",
        "peer", "name", "ioh0", "netns", str(other.holder.pid))  # fmt: skip
    for number, end in enumerate((namespace, other), 1):
        end.run("ip", "address", "add", f"10.99.0.{number}/24", "dev", "ioh0")
        end.run("ip", "address", "add", f"fd99::{number}/64", "dev", "ioh0", "nodad")
        end.run("ip", "link", "set", "ioh0", "up")
    yield namespace, other
    other.close()


def drop_two_percent(namespace: Namespace) -> None:
    namespace.run(
        "nft",
        "add table inet ioh; add chain inet ioh in { type filter hook input priority 0; };"
        "add rule inet ioh in meta l4proto tcp numgen random mod 100 < 2 drop",
    )


def port_sum(reading: Reading, column: int) -> int:
    """Over the rows of table ``port``; 2 in, 3 out, 4 and 5 repeated bytes and segments."""
    return sum(row[column] for row in reading["tables"]["port"])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_equal_what_programs_moved(namespace: Namespace, host: str) -> None:
    """Thousands of short connections, ended in four ways, race ticks that never pause."""
    agent = Agent(namespace)
    load = Load(namespace, host=host, port=2049, short=4001, bulk_bytes=30_000_001)
    with closing(agent):
        load.ask()
        readings = []
        while namespace_is_busy(load):
            readings.append(agent.read())
        sums = load.finish()
        last = agent.read_until_quiet()
    assert len(readings) > 20
    assert sums["sent"] == sums["received"] > 0
    assert last["in_bytes"] == sums["received"]
    assert last["out_bytes"] == sums["sent"]
    assert last["lost"] == {"map_full": 0, "no_close": 0, "recursion": 0}
    totals = [(r["in_bytes"], r["out_bytes"]) for r in readings]
    assert totals == sorted(totals)
    assert len(set(totals)) > 10, "nothing was seen while it happened"
    assert sum(r["rtt"] for r in readings) > 0


def namespace_is_busy(load: Load) -> bool:
    """Whether the load has not yet printed its result."""
    import select

    assert load.process.stdout is not None
    return not select.select([load.process.stdout], [], [], 0)[0]


@pytest.mark.parametrize("host", ["10.99.0.2", "fd99::2"])
def test_retransmits_equal_the_kernels(pair: tuple[Namespace, Namespace], host: str) -> None:
    here, there = pair
    for end in pair:
        drop_two_percent(end)
    agents = [Agent(end) for end in pair]
    before = [end.snmp("RetransSegs") for end in pair]
    options = {"host": host, "port": 3260, "short": 101, "bulk_bytes": 5_000_011}
    server, client = Load(there, role="server", **options), Load(here, role="client", **options)
    with closing(*agents):
        server.ask()
        client.ask()
        while namespace_is_busy(client) or namespace_is_busy(server):
            for agent in agents:
                agent.read()
            time.sleep(0.05)
        sums = [client.finish(), server.finish()]
        last = [agent.read_until_quiet() for agent in agents]
    for i, end in enumerate(pair):
        kernel = end.snmp("RetransSegs") - before[i]
        assert kernel > 5, "the drop rule did not work"
        assert last[i]["socket_retrans_segs"] == kernel
        assert port_sum(last[i], 5) == kernel
        rise = (last[i]["metrics"]["retrans_segs_total"]
                - agents[i].baseline["metrics"]["retrans_segs_total"])  # fmt: skip
        assert rise == kernel
        assert last[i]["metrics"]["retrans_bytes_total"] > 0
        assert last[i]["out_bytes"] == sums[i]["sent"]
        assert last[i]["in_bytes"] == sums[i]["received"]
        assert last[i]["lost"] == {"map_full": 0, "no_close": 0, "recursion": 0}


def test_a_connection_shows_what_ss_shows(pair: tuple[Namespace, Namespace]) -> None:
    here, there = pair
    drop_two_percent(there)
    agent = Agent(here)
    options = {"host": "10.99.0.2", "port": 5432, "bulk_bytes": 3_000_017, "hold": True}
    server, client = Load(there, role="server", **options), Load(here, role="client", **options)
    with closing(agent):
        server.ask()
        client.ask()
        assert client.line() == "held\n"
        for _ in range(400):  # until all is acknowledged and nothing moves between two looks of ss
            shown = here.run("ss", "-tinHO")
            reading = agent.read()
            waits = "notsent:" in shown or "unacked:" in shown
            if not waits and counters_of(shown) == counters_of(here.run("ss", "-tinHO")):
                break
            time.sleep(0.05)
        rows = {(row[0], row[1]): row[2:] for row in reading["tables"]["connection"]}
        lines = shown.splitlines()
        assert len(lines) == 4
        for line in lines:
            words = line.split()
            fields = dict(w.split(":", 1) for w in words if ":" in w)
            row = rows[words[3], words[4]]
            sent, again = int(fields["bytes_sent"]), int(fields.get("bytes_retrans", 0))
            assert row[0] == int(fields["bytes_received"]) == 1_000_005
            assert row[1:3] == [sent - again, again]
            assert sent - again == 3_000_017 + 9
            assert row[3] == int(fields.get("retrans", "0/0").split("/")[1])
            assert row[4] == pytest.approx(float(fields["rtt"].split("/")[0]) * 1000, abs=1)
            assert row[5] == pytest.approx(float(fields["minrtt"]) * 1000, abs=1)
            assert row[6] == int(fields["cwnd"])
        assert sum(row[3] for row in rows.values()) > 0, "nothing was dropped"
        client.ask()
        client.finish()
        server.finish()


def counters_of(text: str) -> list[str]:
    """What ss tells of connections, without what only time changes (lastsnd, lastrcv …)."""
    return sorted(
        word
        for word in text.split()
        if word.split(":")[0] in {"bytes_sent", "bytes_received", "bytes_retrans", "cwnd", "rtt"}
    )


def test_what_was_before_does_not_count(namespace: Namespace) -> None:
    """Old connections' history, and sockets that are closed but not yet given back."""
    script = (
        "import socket,sys,time\n"
        "l=socket.create_server(('127.0.0.1',2049))\n"
        "c=socket.create_connection(('127.0.0.1',2049)); s,_=l.accept()\n"
        "def move(c,s,n):\n"
        "    c.sendall(bytes(n))\n"
        "    while n: n-=len(s.recv(n))\n"
        "move(c,s,100003)\n"
        "a=socket.create_connection(('127.0.0.1',2049)); b,_=l.accept(); move(a,b,1009)\n"
        "a.shutdown(1); b.recv(1); b.close(); a.recv(1); time.sleep(.1)\n"
        "print('ready',flush=True); sys.stdin.readline()\n"
        "a.close(); move(c,s,23); print('done',flush=True); sys.stdin.readline()\n"
    )
    process = namespace.start("-c", script)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    agent = Agent(namespace)
    with closing(agent):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        reading = agent.read()
        assert (reading["in_bytes"], reading["out_bytes"]) == (23, 23)
        process.communicate("\n")
        last = agent.read_until_quiet()
        assert (last["in_bytes"], last["out_bytes"]) == (23, 23)


def test_a_socket_that_connects_anew_counts_each_time(namespace: Namespace) -> None:
    agent = Agent(namespace)
    load = Load(namespace, host="127.0.0.1", port=2049, anew=37)
    with closing(agent):
        load.ask()
        while namespace_is_busy(load):
            agent.read()
        sums = load.finish()
        last = agent.read_until_quiet()
    assert last["out_bytes"] == last["in_bytes"] == sums["sent"]
    assert last["lost"]["no_close"] == 0


def test_the_port_filter_and_the_namespace_keep_others_out(
    pair: tuple[Namespace, Namespace],
) -> None:
    here, there = pair
    agent = Agent(here, port=2049)
    loads = [
        Load(here, host="127.0.0.1", port=2049, short=101, bulk_bytes=100_003),
        Load(here, host="127.0.0.1", port=2050, short=101, bulk_bytes=100_003),
        Load(there, host="127.0.0.1", port=2049, short=101, bulk_bytes=100_003),
    ]
    with closing(agent):
        for load in loads:
            load.ask()
        time.sleep(0.1)
        agent.read()
        wanted, *_ = [load.finish() for load in loads]
        last = agent.read_until_quiet()
    assert (last["in_bytes"], last["out_bytes"]) == (wanted["received"], wanted["sent"])
    assert [row[:2] for row in last["tables"]["port"]] == [["2049", "nfs"]]
    assert any("whole host" in note for note in last["notes"])


def test_a_full_map_is_a_loss_that_is_told(namespace: Namespace) -> None:
    agent = Agent(namespace, max_closed=64)
    load = Load(namespace, host="127.0.0.1", port=2049, short=101)
    with closing(agent):
        load.ask()
        load.finish()
        time.sleep(0.3)
        lost = agent.read()["lost"]["map_full"]
        assert lost >= 2 * 100 - 64  # the first of them carries a header only, but it counts


def test_without_a_probe_the_same_from_proc(namespace: Namespace) -> None:
    agent = Agent(namespace, proc=True)
    script = (
        "import socket,sys\n"
        "l=socket.create_server(('127.0.0.1',2049))\n"
        "c=socket.create_connection(('127.0.0.1',2049)); s,_=l.accept()\n"
        "c.sendall(bytes(1009)); s.recv(2000)\n"
        "print('done',flush=True); sys.stdin.readline()\n"
    )
    process = namespace.start("-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    with closing(agent):
        reading = agent.read()
        process.communicate("\n")
    assert reading["source"] == "proc"
    assert (reading["in_bytes"], reading["out_bytes"]) == (1009, 1009)
    assert "ended_total" not in reading["metrics"]
    assert any("missed" in note for note in reading["notes"])
