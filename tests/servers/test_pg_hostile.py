"""``--pg`` with a server that sends for ever: bounded in time and memory, and named."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ioh.pg.connection import PgError, connect
from ioh.pg.login import Login


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (4 + len(body)).to_bytes(4, "big") + body


ROW = message(b"D", b"\0\1" + (8).to_bytes(4, "big") + b"12345678")
COLUMN = b"\0\1x\0" + bytes(6) + (17).to_bytes(4, "big") + b"\xff\xff" + bytes(6)
HEAD = message(b"T", COLUMN)
NOTICE = message(b"N", b"SNOTICE\0C00000\0Mhello\0\0")
READY = message(b"R", bytes(4)) + message(b"S", b"server_version\x0015.4\0")
READY += message(b"Z", b"I")
DONE = message(b"C", b"SELECT 1\0") + message(b"Z", b"I")
SCRIPTS = {
    "rows": (READY, HEAD, ROW * 4096),
    "notices": (READY, HEAD, NOTICE * 4096),
    "notices at login": (message(b"R", bytes(4)), b"", NOTICE * 4096),
    "a large value": (READY, HEAD, b"D" + (1 << 30).to_bytes(4, "big") + b"\0\1" + b"\0" * 4096),
}


@contextmanager
def server(login: bytes, head: bytes, endless: bytes) -> Iterator[str]:
    """Answers the login with ``login``, a query with ``head``, and then sends without end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError), listening.accept()[0] as client:
                client.recv(8192)
                client.sendall(login)
                if head:
                    client.recv(8192)
                    client.sendall(head)
                while endless:
                    client.sendall(endless)
                client.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"host=127.0.0.1 port={listening.getsockname()[1]} sslmode=disable gssencmode=disable"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_answer_without_end_is_cut_off(script: str) -> None:
    before_kb, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with (
        server(*SCRIPTS[script]) as address,
        pytest.raises(PgError) as told,
        connect(Login(address, with_parameters=False)) as connection,
    ):
        connection.query("select 1")
    assert told.value.cause == "the server's answer does not end"
    assert told.value.is_lost
    assert time.monotonic() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 300_000


def test_an_answer_is_cut_off_by_a_client_that_is_slow_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy host much arrives between a look at the socket and its reading."""
    import psycopg

    read = psycopg.pq.PGconn.consume_input

    def late(self: Any) -> None:
        time.sleep(0.01)  # the fault itself: what a busy host adds; nothing waits for this time
        read(self)

    monkeypatch.setattr(psycopg.pq.PGconn, "consume_input", late)
    test_an_answer_without_end_is_cut_off("a large value")


def test_an_ordinary_answer_is_whole() -> None:
    """Large, but not without end."""
    body = HEAD + ROW * 30_000 + DONE
    with (
        server(READY, body, b"") as address,
        connect(Login(address, with_parameters=False)) as connection,
    ):
        rows = connection.query("select 1")
        assert (len(rows), rows[0]) == (30_000, (b"12345678",))
