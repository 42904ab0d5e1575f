"""A connection that two packets open at once: what the kernel throws away does not count."""

from __future__ import annotations

import json
import os

from tests.kernel.netns import Agent, Namespace, Script, script_of

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


def test_a_child_that_loses_the_race_is_no_connection(pair: tuple[Namespace, Namespace]) -> None:
    """Two CPUs make a socket each of one half-open connection; one of the two goes at once.

    Both inherit the count of repeated SYN-ACKs, which the kernel has counted once.
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
