"""The tcp layer on the real kernel: bytes and segments equal what programs and kernel counted."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing

import pytest

from ioh.bpf.compiled import CACHE_DIR
from tests.kernel.netns import Agent, Load, Namespace, Reading, Script, drop_two_percent, script_of
from tests.kernel.witness import nothing_hidden

MSS_MOST = 1460  # of the link's 1,500 bytes


def port_sum(reading: Reading, column: int) -> int:
    """Sum over table ``port``; column 2 is in, 3 out, 4 and 5 retransmitted bytes and segments."""
    return sum(row[column] for row in reading["tables"]["port"])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_equal_what_programs_moved(namespace: Namespace, host: str) -> None:
    """Thousands of short connections, ended in four ways, race ticks that never pause."""

    def run() -> tuple[list[Reading], dict[str, int], Reading]:
        agent = Agent(namespace)
        load = Load(namespace, host=host, port=2049, short=2003, bulk_bytes=30_000_001)
        with agent:
            load.tell()
            readings = []
            while load.is_busy():
                readings.append(agent.read())
            return readings, load.finish(), agent.read_until_quiet()

    readings, sums, last = nothing_hidden(run)
    assert len(readings) > 20
    assert sums["sent"] == sums["received"] > 0
    assert last["in_bytes"] == sums["received"]
    assert last["out_bytes"] == sums["sent"]
    assert last["lost"] == {"map_full": 0, "no_close": 0, "recursion": 0}
    totals = [(r["in_bytes"], r["out_bytes"]) for r in readings]
    assert totals == sorted(totals)
    assert len(set(totals)) > 10, "nothing was seen while it happened"
    assert sum(r["rtt"] for r in readings) > 0


@pytest.mark.parametrize("host", ["10.99.0.2", "fd99::2"])
def test_retransmits_equal_the_kernels(pair: tuple[Namespace, Namespace], host: str) -> None:
    here, there = pair
    for end in pair:
        drop_two_percent(end)
    options = {"host": host, "port": 3260, "short": 101, "bulk_bytes": 5_000_011}

    def run() -> tuple[list[dict[str, int]], list[Reading], list[Reading], list[int]]:
        agents = [Agent(end) for end in pair]
        before = [end.snmp("RetransSegs") for end in pair]
        server, client = Load(there, role="server", **options), Load(here, role="client", **options)
        with agents[0], agents[1]:
            server.tell()
            client.tell()
            while client.is_busy(0.05) or server.is_busy(0.05):
                for agent in agents:
                    agent.read()
            sums = [client.finish(), server.finish()]
            last = [agent.read_until_quiet() for agent in agents]
        again = [end.snmp("RetransSegs") - before[i] for i, end in enumerate(pair)]
        return sums, [agent.baseline for agent in agents], last, again

    sums, first, last, again = nothing_hidden(run)
    for i, kernel in enumerate(again):
        assert last[i]["lost"] == {"map_full": 0, "no_close": 0, "recursion": 0}
        assert kernel > 5, "the drop rule did not work"
        assert last[i]["socket_retrans_segs"] == kernel
        assert port_sum(last[i], 5) == kernel
        rise = (last[i]["metrics"]["retrans_segs_total"]
                - first[i]["metrics"]["retrans_segs_total"])  # fmt: skip
        assert rise == kernel
        assert last[i]["metrics"]["retrans_bytes_total"] <= kernel * MSS_MOST
        assert last[i]["out_bytes"] == sums[i]["sent"]
        assert last[i]["in_bytes"] == sums[i]["received"]
    # At one end all may be of SYNs and FINs, which carry no data.
    assert sum(reading["metrics"]["retrans_bytes_total"] for reading in last) > 0


def test_a_connection_shows_what_ss_shows(pair: tuple[Namespace, Namespace]) -> None:
    here, there = pair
    drop_two_percent(there)
    agent = Agent(here)
    options = {"host": "10.99.0.2", "port": 5432, "bulk_bytes": 3_000_017, "hold": True}
    server, client = Load(there, role="server", **options), Load(here, role="client", **options)
    with agent:
        server.tell()
        client.tell()
        assert client.line() == "held"
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
        client.tell()
        client.finish()
        server.finish()


def counters_of(text: str) -> list[str]:
    """What ss shows of connections, without what only time changes (lastsnd, lastrcv …)."""
    return sorted(
        word
        for word in text.split()
        if word.split(":")[0] in {"bytes_sent", "bytes_received", "bytes_retrans", "cwnd", "rtt"}
    )


def test_bytes_from_before_the_start_do_not_count(namespace: Namespace) -> None:
    """Bytes of old connections, and of a socket that is open although its connection has ended."""
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
    process = Script(namespace, "-c", script)
    assert process.line() == "ready"
    with Agent(namespace) as agent:
        assert process.ask() == "done"
        reading = agent.read()
        assert (reading["in_bytes"], reading["out_bytes"]) == (23, 23)
        process.close()
        last = agent.read_until_quiet()
        assert (last["in_bytes"], last["out_bytes"]) == (23, 23)


def test_each_connection_of_a_socket_that_reconnects_counts(namespace: Namespace) -> None:
    agent = Agent(namespace)
    load = Load(namespace, host="127.0.0.1", port=2049, anew=37)
    with agent:
        load.tell()
        while load.is_busy():
            agent.read()
        sums = load.finish()
        last = agent.read_until_quiet()
    assert last["out_bytes"] == last["in_bytes"] == sums["sent"]
    assert last["lost"]["no_close"] == 0


def test_other_ports_and_namespaces_are_left_out(
    pair: tuple[Namespace, Namespace],
) -> None:
    here, there = pair
    agent = Agent(here, port=2049)
    loads = [
        Load(here, host="127.0.0.1", port=2049, short=101, bulk_bytes=100_003),
        Load(here, host="127.0.0.1", port=2050, short=101, bulk_bytes=100_003),
        Load(there, host="127.0.0.1", port=2049, short=101, bulk_bytes=100_003),
    ]
    with agent:
        for load in loads:
            load.tell()
        time.sleep(0.1)
        agent.read()
        wanted, *_ = [load.finish() for load in loads]
        last = agent.read_until_quiet()
    assert (last["in_bytes"], last["out_bytes"]) == (wanted["received"], wanted["sent"])
    assert [row[:2] for row in last["tables"]["port"]] == [["2049", "nfs"]]
    assert any("whole host" in note for note in last["notes"])


@pytest.mark.parametrize("port", [None, 2049])
def test_connections_without_data_count_as_opened_and_ended(
    namespace: Namespace, port: int | None
) -> None:
    """Both ends of each connection count; with --port, those of that port only."""
    agent = Agent(namespace, **({} if port is None else {"port": port}))
    script = (
        "import socket\n"
        "for port in 2049, 2050:\n"
        "    l = socket.create_server(('127.0.0.1', port))\n"
        "    for _ in range(211):\n"
        "        c = socket.create_connection(('127.0.0.1', port)); s, _ = l.accept()\n"
        "        c.close(); s.close()\n"
    )
    with agent:
        before = agent.read()["metrics"]
        Script(namespace, "-c", script).close()
        after = agent.read_until_quiet()["metrics"]
    ends = 2 * 211 * (2 if port is None else 1)
    for name in ("opened_total", "ended_total"):
        assert after[name] - before[name] == ends


def test_another_port_starts_no_compiler(namespace: Namespace) -> None:
    """Nor does another network namespace."""
    with Agent(namespace, port=2050):
        before = {path.name: path.stat().st_mtime_ns for path in CACHE_DIR.iterdir()}
    with closing(Namespace("c")) as other:
        agent = Agent(other, port=2049)
        loads = [Load(other, host="127.0.0.1", port=p, short=101) for p in (2049, 2050)]
        with agent:
            for load in loads:
                load.tell()
            wanted, _ = [load.finish() for load in loads]
            last = agent.read_until_quiet()
    assert {path.name: path.stat().st_mtime_ns for path in CACHE_DIR.iterdir()} == before
    assert (last["in_bytes"], last["out_bytes"]) == (wanted["received"], wanted["sent"])


def test_a_full_map_is_reported_as_lost(namespace: Namespace) -> None:
    agent = Agent(namespace, max_closed=64)
    load = Load(namespace, host="127.0.0.1", port=2049, short=101)
    with agent:
        load.tell()
        load.finish()
        time.sleep(0.3)
        lost = agent.read()["lost"]["map_full"]
        assert lost >= 2 * 100 - 64  # the first one carries a header only, but it counts


def test_without_a_probe_proc_gives_the_same_bytes(namespace: Namespace) -> None:
    agent = Agent(namespace, proc=True)
    script = (
        "import socket,sys\n"
        "l=socket.create_server(('127.0.0.1',2049))\n"
        "c=socket.create_connection(('127.0.0.1',2049)); s,_=l.accept()\n"
        "c.sendall(bytes(1009)); s.recv(2000)\n"
        "print('done',flush=True); sys.stdin.readline()\n"
    )
    process = Script(namespace, "-c", script)
    assert process.line() == "done"
    with agent:
        reading = agent.read()
        process.close()
    assert reading["source"] == "proc"
    assert (reading["in_bytes"], reading["out_bytes"]) == (1009, 1009)
    assert "ended_total" not in reading["metrics"]
    assert any("missed" in note for note in reading["notes"])


CONNECTIONS = 97
STRANGER, STRANGERS_MAC = "10.99.0.77", "02:00:00:00:00:77"
SERVER = """
import socket
listener = socket.create_server(("10.99.0.2", 3260), backlog=1024)
print("ready", flush=True)
total = 0
for _ in range(%d):
    sock, _ = listener.accept()
    with sock:
        total += len(sock.recv(10))
print(total, flush=True)
"""


def mac(namespace: Namespace) -> str:
    (link,) = json.loads(namespace.run("ip", "-json", "link", "show", "dev", "ioh0"))
    return str(link["address"])


def test_a_child_that_loses_the_race_is_not_a_connection(
    pair: tuple[Namespace, Namespace],
) -> None:
    """Two CPUs each make a socket of one half-open connection; one of them is dropped at once.

    Both inherit the count of retransmitted SYN-ACKs, which the kernel has counted once.
    """
    assert len(os.sched_getaffinity(0)) > 1, "one CPU cannot race itself"
    here, there = pair
    there.run(
        "ip", "neigh", "add", STRANGER, "lladdr", STRANGERS_MAC, "dev", "ioh0", "nud", "permanent"
    )
    with Agent(there) as agent:
        before = there.snmp("RetransSegs")
        server = Script(there, "-c", SERVER % CONNECTIONS)
        assert server.line() == "ready"
        options = {
            "interface": "ioh0",
            "source_address": STRANGER,
            "source_mac": STRANGERS_MAC,
            "destination_address": "10.99.0.2",
            "destination_mac": mac(there),
            "port": 3260,
            "connections": CONNECTIONS,
        }
        assert Script(here, *script_of("tcp_race.py", options)).line() == "done"
        assert server.line() == f"{CONNECTIONS}"
        last = agent.read_until_quiet()
    again = there.snmp("RetransSegs") - before
    assert again >= CONNECTIONS
    assert last["socket_retrans_segs"] == again
    assert last["in_bytes"] == CONNECTIONS
