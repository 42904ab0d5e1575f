"""Problems between machines: two network namespaces joined by a veth pair.

Every ``time.sleep`` of a scenario is part of its length, except the one that lets the sink listen.
"""

from __future__ import annotations

import time

from tests.kernel.netns import Namespace, drop_two_percent
from tests.scenarios.stage import Stage

TCP = ("--layers", "tcp")
# Accepts connections and reads all they send, without end.  Arguments: address, bytes a second
# (0: no limit).
_SINK = """
import socket, sys, threading, time
rate = float(sys.argv[2])
listener = socket.create_server((sys.argv[1], 3260), backlog=64)
def take(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536) if rate else None
    while data := sock.recv(65536): time.sleep(len(data) / rate if rate else 0)
while True: threading.Thread(target=take, args=(listener.accept()[0],), daemon=True).start()
"""
# Sends without end.  Arguments: address, bytes a second (0: no limit).
_SOURCE = """
import socket, sys, time
rate = float(sys.argv[2]); sock = socket.create_connection((sys.argv[1], 3260)); data = bytes(65536)
while True:
    sock.sendall(data); time.sleep(len(data) / rate if rate else 0)
"""
# Listens and never accepts, while clients try to connect.  Argument: address.
_DEAF = """
import socket, sys, time
listener = socket.socket(); listener.bind((sys.argv[1], 3260)); listener.listen(1); knocks = []
while True:
    knock = socket.socket(); knock.setblocking(False); knock.connect_ex((sys.argv[1], 3260))
    knocks.append(knock); time.sleep(0.1)
    if len(knocks) > 40: knocks.pop(0).close()
"""


def _cable(stage: Stage) -> tuple[Namespace, Namespace]:
    ends = stage.namespace("a"), stage.namespace("b")
    one, other = ends
    one.run("ip", "link", "add", "ioh0", "type", "veth", "peer", "name", "ioh0", "netns",
            str(other.holder.pid))  # fmt: skip
    for number, end in enumerate(ends, 1):
        end.run("ip", "address", "add", f"10.99.0.{number}/24", "dev", "ioh0")
        end.run("ip", "link", "set", "ioh0", "up")
    return ends


def _traffic(
    stage: Stage,
    *,
    drops: bool = False,
    read_rate: int = 0,
    send_rate: int = 20_000_000,
    shaped: str = "",
) -> None:
    one, other = _cable(stage)
    if shaped:
        one.run("tc", "qdisc", "add", "dev", "ioh0", "root", "tbf", "rate", shaped, "burst",
                "32k", "latency", "50ms")  # fmt: skip
    stage.load(*other.command("python3", "-c", _SINK, "10.99.0.2", str(read_rate)))
    time.sleep(1)
    if drops:
        drop_two_percent(other)
    stage.record(*TCP, prefix=one.command())
    stage.load(*one.command("python3", "-c", _SOURCE, "10.99.0.2", str(send_rate)))
    stage.begins_for(11)


def lossy_link(stage: Stage) -> None:
    _traffic(stage, drops=True)


def clean_link(stage: Stage) -> None:
    _traffic(stage)


def shaped_link(stage: Stage) -> None:
    _traffic(stage, send_rate=0, shaped="80mbit")


def half_used_link(stage: Stage) -> None:
    _traffic(stage, send_rate=5_000_000, shaped="80mbit")


def slow_receiver(stage: Stage) -> None:
    _traffic(stage, read_rate=5_000_000, send_rate=0)


def full_backlog(stage: Stage) -> None:
    one = stage.namespace("a")
    stage.record(*TCP, prefix=one.command())
    stage.load(*one.command("python3", "-c", _DEAF, "127.0.0.1"))
    stage.begins_for(11)


def dark_peer(stage: Stage) -> None:
    """The other machine is gone: nothing that is sent to it arrives."""
    one, other = _cable(stage)
    stage.load(*other.command("python3", "-c", _SINK, "10.99.0.2", "0"))
    time.sleep(1)
    stage.record(*TCP, prefix=one.command())
    stage.load(*one.command("python3", "-c", _SOURCE, "10.99.0.2", "5000000"))
    time.sleep(6)
    other.run("nft", "add table inet ioh; add chain inet ioh in "
              "{ type filter hook input priority 0; policy drop; };")  # fmt: skip
    stage.begins_for(15)
