"""The connection to the server; the only module that imports psycopg."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
import time
from collections.abc import Generator, Sequence
from fcntl import ioctl
from termios import FIONREAD
from typing import Any

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.pg.login import Login, hide_passwords
from ioh.pg.queries import OWN

APPLICATION_NAME = "ioh"
# Read-only, and never waiting long for a lock or a slow view.
_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "1000",
    "lock_timeout": "100",
    "idle_in_transaction_session_timeout": "10000",
}
_PARAMETERS = {
    "application_name": APPLICATION_NAME,
    # No conversion of text: one session's statement in another encoding would fail the whole view.
    "client_encoding": "SQL_ASCII",
    "connect_timeout": 3,
    "tcp_user_timeout": 5000,  # ms: for a host that has disappeared
}
_MAX_CAUSE = 200
# Of one answer; a hostile server sends rows or notices for ever.
_MAX_ANSWER_S, _MAX_BYTES, _MAX_ROWS = 3.0, 32 << 20, 100_000
_TCP_INFO_BYTES = 136  # up to tcpi_bytes_received of struct tcp_info
_TOO_MUCH = "the server's answer does not end"
_INSTALL = (
    "Install it: apt-get install python3-psycopg (Debian, Ubuntu),"
    " dnf install python3-psycopg3 (Fedora), or psycopg and libpq for ioh's Python"
)
_HINTS = {
    "28": "Check role and password (a service file or ~/.pgpass) and the server's pg_hba.conf",
    "3D": "Give the database: dbname=… in --pg",
    "53": "All connections of the server are in use; ioh tries again",
    "57": "The server is starting, stopping or was restarted; ioh tries again",
    "42": "ioh supports PostgreSQL 12 to 18; see docs/postgresql.md",
}
_STRANGE = "Check that it is a PostgreSQL, and host and port in --pg; ioh tries again"
_UNREACHED = "Check that it is running, and host and port in --pg; ioh tries again"

Answer = Sequence[tuple[Any, ...]]


class PgError(Exception):
    """A failed statement or connection.

    ``cause`` and ``hint`` are for the user, printable and without passwords; ``is_lost``: the
    connection is lost.
    """

    def __init__(self, cause: str, hint: str = "", *, is_lost: bool = True) -> None:
        super().__init__(cause)
        self.cause, self.hint, self.is_lost = cause, hint, is_lost


class Connection(Closing):
    """An open connection by psycopg's ``driver``; a context manager."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (psycopg need not be there)
        self._driver = driver

    @property
    def version(self) -> int:
        """``server_version_num``: 150004 is 15.4."""
        return int(self._driver.info.server_version)

    def query(self, sql: str) -> Answer:
        """Return the rows of one statement; texts are bytes.

        PgError: it failed, took longer than a second, or was too much.
        """
        import psycopg  # noqa: PLC0415 (only with --pg)

        try:
            marked = sql.replace("select", f"select {OWN}", 1)
            rows: Answer = self._driver.execute(marked).fetchmany(_MAX_ROWS)
        except psycopg.Error as error:
            raise _pg_error(error, is_lost=bool(self._driver.closed)) from None
        except _TooMuchError:
            self.close()
            raise PgError(_TOO_MUCH, _STRANGE) from None
        if len(rows) == _MAX_ROWS:
            raise PgError(_TOO_MUCH, _STRANGE)
        return rows

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):  # it may be broken in any way
            self._driver.close()


def require_driver(login: Login) -> None:
    """Load psycopg and libpq while programs (ldconfig) can still be run, and check the DSN.

    IohError: one of them is missing, or the DSN is invalid.
    """
    try:
        ctypes.CDLL("libpq.so.5")
    except OSError:
        cause = "--pg needs libpq.so.5, PostgreSQL's client library"
        hint = "Install it: apt-get install libpq5, dnf install libpq, zypper install libpq5"
        raise IohError(cause, hint, ExitCode.UNAVAILABLE) from None
    if sys.modules.get("ssl", ctypes) is None:  # the screen blocks its import, to start sooner
        del sys.modules["ssl"]
    try:
        import psycopg.conninfo  # noqa: PLC0415
    except ImportError:
        cause = "--pg needs the Python library psycopg 3"
        raise IohError(cause, _INSTALL, ExitCode.UNAVAILABLE) from None
    try:
        psycopg.conninfo.conninfo_to_dict(login.dsn)
    except psycopg.Error:  # its text may hold a password
        cause = "--pg is not a connection string of PostgreSQL"
        hint = 'Examples: --pg service=shop, --pg "host=/run/postgresql user=ioh dbname=shop"'
        raise IohError(cause, hint, ExitCode.USAGE) from None


def connect(login: Login) -> Connection:
    """Log in, read-only and with a limit for every wait.

    PgError: the server cannot be reached, or refuses.
    """
    import psycopg  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        fields = conninfo_to_dict(login.dsn)
        # As startup parameters, not by SET: a pooler would keep those for other clients.
        settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        options = f"{fields.pop('options', None) or ''} {settings}".strip()
        parameters: dict[str, Any] = {**fields, **_PARAMETERS, "options": options}
        driver = _limited_driver().connect(autocommit=True, **parameters)
    except psycopg.Error as error:
        raise _pg_error(error, is_lost=True) from None
    except _TooMuchError:
        raise PgError(_TOO_MUCH, _STRANGE) from None
    driver.prepare_threshold = None
    return Connection(driver)


class _TooMuchError(Exception):
    """A server's answer is longer than any that ioh asks for."""


def _limited_driver() -> Any:  # noqa: ANN401
    """psycopg's connection, with limits for each answer: libpq and psycopg have none."""
    import psycopg  # noqa: PLC0415

    class Limited(psycopg.Connection[Any]):  # type: ignore[misc, unused-ignore]  # not installed
        def wait(self, gen: Any, *args: Any, **more: Any) -> Any:  # noqa: ANN401
            return super().wait(_limited(gen, self.pgconn.socket), *args, **more)

        @classmethod
        def _connect_gen(cls, *args: Any, **more: Any) -> Any:  # noqa: ANN401
            return _limited(super()._connect_gen(*args, **more))

    return Limited


def _limited(steps: Any, fd: int | None = None) -> Generator[Any, Any, Any]:  # noqa: ANN401
    """psycopg's generator, which takes a step each time that there is something to read."""
    until_s, received = time.monotonic() + _MAX_ANSWER_S, _Received()
    try:
        waits_for = next(steps)
        while True:
            ready = yield waits_for
            # While it connects, the steps say what they wait for with the descriptor.
            received.look(waits_for[0] if fd is None else fd)
            if received.count_bytes > _MAX_BYTES or time.monotonic() > until_s:
                steps.close()  # and with it a connection that is still being made
                raise _TooMuchError
            waits_for = steps.send(ready)
    except StopIteration as end:
        return end.value


class _Received:
    """What a socket has received since the first look at it.

    libpq reads a socket until it is empty: more than what is there when it begins.
    """

    def __init__(self) -> None:
        self.count_bytes = 0
        self._first_bytes: int | None = None

    def look(self, fd: int) -> None:
        """Look at the socket before libpq reads it."""
        with socket.socket(fileno=os.dup(fd)) as looked:
            if looked.family == socket.AF_UNIX:  # what comes meanwhile is at most its buffer
                waiting = ioctl(fd, FIONREAD, bytes(4))
                self.count_bytes += int.from_bytes(waiting, sys.byteorder)
                return
            info = looked.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        (all_bytes,) = struct.unpack_from("=Q", info, _TCP_INFO_BYTES - 8)
        if self._first_bytes is None:
            self._first_bytes = all_bytes
        self.count_bytes = all_bytes - self._first_bytes


def _pg_error(error: Any, *, is_lost: bool) -> PgError:  # noqa: ANN401
    """Make one line of an exception of psycopg, without the address."""
    text = str(error).strip()
    # "connection to server at …, port … failed: FATAL:  …", one for each address that was tried.
    text = text.rpartition(" failed: ")[2].split("\n")[0].removeprefix("FATAL:").strip()
    cause = printable(hide_passwords(text), _MAX_CAUSE) or type(error).__name__
    state = getattr(error, "sqlstate", None) or _guessed_state(text)
    if "unsupported startup parameter" in text:
        hint = "This is a connection pooler: connect to the server itself"
    else:
        hint = _HINTS.get(state[:2], _UNREACHED if is_lost else "")
    return PgError(cause, hint, is_lost=is_lost)


def _guessed_state(text: str) -> str:
    """Guess the SQLSTATE class of a connection error, which libpq does not report."""
    words = {"authentication": "28", "pg_hba": "28", "role ": "28", "password": "28"}
    words |= {"database ": "3D", "too many": "53", "remaining connection": "53"}
    words |= {"starting up": "57", "shutting down": "57"}
    return next((state for word, state in words.items() if word in text), "")
