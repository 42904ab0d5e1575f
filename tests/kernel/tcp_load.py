"""Known TCP traffic in this process' network namespace; prints what its own calls moved.

Options (JSON): role "both", "server" or "client"; host; port; short, the number of short
connections; bulk_bytes, what each of four long connections carries one way (a third comes
back); hold, whether these stay open, idle, until a second line comes; anew, how many connections
one socket makes in turn.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

RESET = struct.pack("ii", 1, 0)
AF_UNSPEC_ADDRESS = bytes(16)
LONG = 4
MOST_BYTES = 1009  # of a short connection, less than this each way
LIMIT_S = 300  # only guards against hanging: an emulated machine takes minutes


class Sums:
    """Bytes that send() accepted and recv() returned, over all threads."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self._lock = threading.Lock()

    def add(self, sent: int, received: int) -> None:
        with self._lock:
            self.sent += sent
            self.received += received


def read_to_end(sock: socket.socket) -> int:
    total = 0
    while data := sock.recv(1 << 16):
        total += len(data)
    return total


def read_exactly(sock: socket.socket, size: int) -> int:
    left = size
    while left:
        data = sock.recv(min(left, 1 << 16))
        assert data
        left -= len(data)
    return size


def handle(sock: socket.socket, sums: Sums) -> None:
    with sock:
        header = b""
        while len(header) < 9:
            data = sock.recv(9 - len(header))
            if not data:
                return
            header += data
        to_come, to_answer, how = struct.unpack("!IIB", header)
        sender = threading.Thread(target=sock.sendall, args=(bytes(to_answer),))
        if to_answer:  # send() of nothing fails once the client has reset the connection
            sender.start()
        read_exactly(sock, to_come)
        if to_answer:
            sender.join()
        sums.add(to_answer, 9 + to_come)
        if how == 2:
            read_to_end_or_reset(sock)
        elif how != 1:  # else we close first
            assert read_to_end(sock) == 0


def read_to_end_or_reset(sock: socket.socket) -> None:
    """Read to the end, for 2 s at most: a lost reset is never sent again.  A lost FIN is."""
    sock.settimeout(2)
    with contextlib.suppress(ConnectionResetError, TimeoutError):
        assert read_to_end(sock) == 0


def serve(listener: socket.socket, connections: int, sums: Sums) -> None:
    threads = []
    for _ in range(connections):
        sock, _ = listener.accept()
        thread = threading.Thread(target=handle, args=(sock, sums))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def nothing() -> None:
    """The default ``wait`` of a connection before it closes: none."""


def call(
    address: Any,
    family: int,
    to_send: int,
    to_get: int,
    how: int,
    sums: Sums,
    wait: Callable[[], object] = nothing,
) -> None:
    """One connection; ``how`` it ends: 0 we close, 1 the server does, 2 by RST, 3 half-closed."""
    with socket.socket(family) as sock:
        sock.connect(address)
        sender = threading.Thread(
            target=sock.sendall, args=(struct.pack("!IIB", to_send, to_get, how) + bytes(to_send),)
        )
        if to_send > 1 << 14:
            sender.start()
        else:
            sender.run()
        read_exactly(sock, to_get)
        if to_send > 1 << 14:
            sender.join()
        sums.add(9 + to_send, to_get)
        wait()
        if how == 1:
            assert read_to_end(sock) == 0
        elif how == 2:
            wait_until_acknowledged(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        elif how == 3:
            sock.shutdown(socket.SHUT_WR)
            assert read_to_end(sock) == 0


def wait_until_acknowledged(sock: socket.socket) -> None:
    """Wait until all is acknowledged: a reset discards what the other side has not received."""
    queued = ctypes.c_int(1)
    libc = ctypes.CDLL(None)
    while True:
        libc.ioctl(sock.fileno(), 0x5411, ctypes.byref(queued))  # SIOCOUTQ
        if queued.value == 0:
            return
        time.sleep(0.0005)


def connect_anew(address: Any, family: int, times: int, sums: Sums) -> None:
    """One socket, one cookie, several connections: connect(AF_UNSPEC) in between."""
    libc = ctypes.CDLL(None)
    with socket.socket(family) as sock:
        for i in range(times):
            sock.connect(address)
            size = 101 + 7 * i
            sock.sendall(struct.pack("!IIB", size, 3, 0) + bytes(size))
            read_exactly(sock, 3)
            sums.add(9 + size, 3)
            wait_until_acknowledged(sock)
            time.sleep(0.01)
            assert libc.connect(sock.fileno(), AF_UNSPEC_ADDRESS, len(AF_UNSPEC_ADDRESS)) == 0


def run_client(options: dict[str, Any], address: Any, family: int, sums: Sums) -> None:
    hold = options.get("hold", False)
    bulk_bytes = options.get("bulk_bytes", 0)
    moved = threading.Barrier(LONG + 1)

    def wait() -> None:
        if hold:
            moved.wait()  # all have moved their bytes
            moved.wait()  # somebody has looked at them

    threads = [
        threading.Thread(
            target=call, args=(address, family, bulk_bytes, bulk_bytes // 3, 0, sums, wait)
        )
        for _ in range(LONG if bulk_bytes else 0)
    ]
    for thread in threads:
        thread.start()
    for i in range(options.get("short", 0)):
        call(address, family, i % MOST_BYTES, i * 7 % 997, i % 4, sums)
    if hold:
        moved.wait()
        print("held", flush=True)
        sys.stdin.readline()
        moved.wait()
    connect_anew(address, family, options.get("anew", 0), sums)
    for thread in threads:
        thread.join()


def main() -> None:
    signal.alarm(LIMIT_S)
    options = json.loads(sys.argv[1])
    host, port, role = options["host"], options["port"], options.get("role", "both")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connections = options.get("short", 0) + options.get("anew", 0)
    connections += LONG if options.get("bulk_bytes") else 0
    sums = Sums()
    server: threading.Thread | None = None
    if role != "client":
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        server = threading.Thread(target=serve, args=(listener, connections, sums))
        server.start()
    print("ready", flush=True)
    sys.stdin.readline()
    if role != "server":
        run_client(options, (host, port), family, sums)
    if server is not None:
        server.join()
    print(json.dumps({"sent": sums.sent, "received": sums.received}), flush=True)


if __name__ == "__main__":
    main()
