"""Open the port for scrapers, before root is given up and libraries are loaded."""

from __future__ import annotations

import errno
import os
import socket

from ioh.model.errors import IohError, refuse_if

_BACKLOG = 64


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, [IPV6]:PORT, or :PORT for all addresses of this machine; else IohError."""
    host, colon, port = text.rpartition(":")
    is_bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    is_port = colon and port.isdecimal() and port.isascii() and int(port) <= 65_535
    cause = f'--listen: "{text}" is not an address with a port'
    refuse_if(is_bare or not is_port, cause, "Give HOST:PORT, [IPV6]:PORT or :PORT")
    return host.strip("[]"), int(port)


def listen(text: str) -> socket.socket:
    """Open the port.  IohError: there is no such address, or the port is in use."""
    host, port = parse_address(text)
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        is_any = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_any else addresses[0][0]
        address = ("", port) if not host else addresses[0][4]
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_any)
    except (OSError, UnicodeError) as error:
        number = None if isinstance(error, socket.gaierror) else getattr(error, "errno", None)
        # Not error.strerror, to which create_server() adds the address.
        why = os.strerror(number) if number else getattr(error, "strerror", None) or str(error)
        hint = "Give another address: --listen HOST:PORT"
        if number == errno.EADDRINUSE:
            hint = f"See what uses it: ss -ltnp 'sport = {port}'; or give --listen HOST:PORT"
        cause = f"cannot listen on {text}: {why}"
        raise IohError(cause, hint) from error


def url_of(listening: socket.socket, *, tls: bool) -> str:
    """The URL to scrape, for the user."""
    host, port = listening.getsockname()[:2]
    in_url = f"[{host}]" if ":" in host else host
    return f"http{'s' * tls}://{in_url}:{port}/metrics"
