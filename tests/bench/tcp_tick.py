"""What one tick of the tcp layer costs with thousands of open connections.

Both ends are on this host, in a network namespace of their own, so each connection is two sockets.
Ticks are timed with all of them idle, and with half of them busy.
"""

from __future__ import annotations

import contextlib

from tests.kernel.netns import Agent, Namespace, Script

TICKS = 10
# Two processes, because one process may be allowed fewer descriptors than the benchmark needs.
SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 2049), backlog=4096)
print("ready", flush=True)
held = [listener.accept()[0] for _ in range(int(sys.argv[1]))]
print("open", flush=True)
sys.stdin.read()
"""
CLIENT = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", 2049)) for _ in range(int(sys.argv[1]))]
print("open", flush=True)
for line in sys.stdin:
    for sock in held[: int(line)]:
        sock.send(bytes(100))
    print("sent", flush=True)
"""


def measure(connections: int) -> float:
    """CPU time in ms of the worst tick with this many connections, of two sockets each."""
    with (
        contextlib.closing(Namespace("bench")) as namespace,
        Script(namespace, "-c", SERVER, str(connections)) as server,
    ):
        server.line()
        with Script(namespace, "-c", CLIENT, str(connections)) as client:
            client.line()
            server.line()
            with Agent(namespace) as agent:
                open_ = agent.baseline["metrics"]["connections"]
                assert open_ == 2 * connections, open_
                ticks = [agent.read() for _ in range(TICKS)]
                for _ in range(TICKS):
                    client.ask(str(connections // 2))
                    ticks.append(agent.read())
                    assert ticks[-1]["metrics"]["active_connections"] == connections
    return float(max(tick["cpu_ms"] for tick in ticks))
