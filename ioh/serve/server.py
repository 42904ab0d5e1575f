"""HTTP for scrapers: one request per connection, few threads, a limit for every wait."""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING

from ioh import __version__
from ioh.serve.web_config import FOR_EVERYBODY, WebConfig

if TYPE_CHECKING:
    from ioh.serve.page import Page

# A working scraper needs milliseconds; Prometheus itself waits 10 s.
DEADLINE_S = 5.0
MAX_CONNECTIONS = 16
_POLL_S = 0.5
_LANDING = b"<!doctype html><title>ioh</title><a href=/metrics>Metrics</a>\n"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = DEADLINE_S
    server_version, sys_version = f"ioh/{__version__}", ""

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        if not self.server.config.allows(self.headers.get("Authorization", "")):
            self._answer(
                HTTPStatus.UNAUTHORIZED, b"Unauthorized\n", "text/plain; charset=utf-8",
                ("WWW-Authenticate", 'Basic realm="ioh", charset="UTF-8"'),
            )  # fmt: skip
            return
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(HTTPStatus.OK, _LANDING, "text/html; charset=utf-8")
        elif path != "/metrics":
            self._answer(HTTPStatus.NOT_FOUND, b"See /metrics\n", "text/plain; charset=utf-8")
        else:
            zips = "gzip" in self.headers.get("Accept-Encoding", "")
            body, kind = self.server.page.encoded(self.headers.get("Accept", ""), zipped=zips)
            self._answer(
                HTTPStatus.OK, body, kind, *[("Content-Encoding", "gzip")] * zips,
                ("Vary", "Accept, Accept-Encoding"),
            )  # fmt: skip

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        length = ("Content-Length", str(len(body)))
        for name, value in (("Content-Type", kind), length, *more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: there are many scrapes."""


class Server(ThreadingMixIn, TCPServer):
    """Answers scrapers in its own threads; closing it closes the port."""

    daemon_threads, block_on_close = True, False

    def __init__(
        self, listening: socket.socket, page: Page, config: WebConfig = FOR_EVERYBODY
    ) -> None:
        # Not TCPServer's, which creates a socket: ioh has given up that right.
        BaseServer.__init__(self, listening.getsockname(), _Handler)
        self.socket, self.page, self.config = listening, page, config
        self._lock = threading.Lock()
        self._due: dict[socket.socket, float] = {}  # inf: shut down, its thread is ending
        threading.Thread(
            target=self.serve_forever, args=(_POLL_S,), name="serve", daemon=True
        ).start()

    def server_close(self) -> None:
        """Stop answering."""
        self.shutdown()
        super().server_close()

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection."""
        request, address = super().get_request()
        request.settimeout(DEADLINE_S)
        if self.config.tls is not None:
            # The handshake waits for the peer, so it runs in the connection's own thread.
            request = self.config.tls.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
        return request, address

    def process_request(self, request: socket.socket, address: object) -> None:  # type: ignore[override]
        """Start to answer, if there is room."""
        with self._lock:
            waiting = {each: due for each, due in self._due.items() if due != math.inf}
            if len(waiting) >= MAX_CONNECTIONS:  # close the oldest connection
                self._cut(min(waiting, key=waiting.__getitem__))
            has_room = len(self._due) < 2 * MAX_CONNECTIONS
            if has_room:
                self._due[request] = time.monotonic() + DEADLINE_S
        if has_room:
            super().process_request(request, address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Forget a connection and close it."""
        with self._lock:
            self._due.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close overdue connections: the timeout of one read does not stop a slow sender."""
        with self._lock:
            for request, due in self._due.items():
                if due < time.monotonic():
                    self._cut(request)

    def handle_error(self, request: object, address: object) -> None:
        """Ignore scrapers that have gone; report anything else, which is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, address)  # type: ignore[arg-type]

    def _cut(self, request: socket.socket) -> None:
        self._due[request] = math.inf
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown(), which would turn off encryption in the middle of a write.
            socket.socket.shutdown(request, socket.SHUT_RDWR)
