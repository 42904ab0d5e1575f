"""The thread that reads the server's views, so that no tick waits for them."""

from __future__ import annotations

import math
import os
import pwd
import threading
import time
from collections.abc import Callable

from ioh.model.closing import Closing
from ioh.model.sample import SOON, Unavailable
from ioh.pg.connection import Connection, PgError, connect
from ioh.pg.login import Login
from ioh.pg.reading import Reading, Views

MAX_PERIOD_S = 1.0  # between two readings, even if the interval is longer
_MIN_PERIOD_S = 0.1
_FIRST_RETRY_S, _MAX_RETRY_S = 1.0, 30.0
_LATE_S = 0.3  # the longest time between the first and the last answer of a reading
SILENT_S = 3.0  # the maximum age of a reading that is shown
CONNECTING = Unavailable("connecting to PostgreSQL", SOON)
SILENT = Unavailable(
    "PostgreSQL does not answer", "Check whether it is stopped or overloaded; ioh tries again"
)


class Reader(Closing):
    """Reads the server's views shortly before each tick, in its own thread.

    The thread calls ``begin`` first, to give up rights that it does not need.
    """

    def __init__(
        self,
        login: Login,
        begin: Callable[[], None],
        open_connection: Callable[[Login], Connection] = connect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._login, self._begin, self._open, self._clock = login, begin, open_connection, clock
        self._views = Views(with_parameters=login.with_parameters, clock=clock)
        self._state: Reading | Unavailable = CONNECTING
        self._refusal: Unavailable | None = None  # of a view, while the connection lasts
        self._asked_s = self._began_s = clock()
        self._period_s = MAX_PERIOD_S
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgresql", daemon=True)

    def start(self) -> None:
        """Start the thread; only after root was given up, which the thread would keep."""
        use_own_home()
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for a server that does not answer."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(0.2)

    @property
    def own_session(self) -> tuple[int, int]:
        """As Views.own_session; 0 before the first connection."""
        return self._views.own_session

    def latest(self) -> Reading | Unavailable:
        """Return the last reading without waiting; calls are expected once per interval."""
        now = self._clock()
        passed_s = now - self._asked_s
        if passed_s >= _MIN_PERIOD_S:
            self._period_s = passed_s / math.ceil(passed_s / MAX_PERIOD_S - 0.05)
        self._asked_s = now
        state = self._state
        began_s = state.read_s if isinstance(state, Reading) else self._began_s
        if (isinstance(state, Reading) or state is CONNECTING) and now - began_s > SILENT_S:
            return self._refusal or SILENT
        return state

    def _run(self) -> None:
        self._begin()
        retry_s = _FIRST_RETRY_S
        while not self._is_over.is_set():
            try:
                with self._open(self._login) as connection:
                    self._views.meet(connection)
                    retry_s = _FIRST_RETRY_S
                    self._read(connection)
            except PgError as error:
                self._state = Unavailable(error.cause, error.hint)
            except Exception as error:  # noqa: BLE001 (the thread's last guard; its text may hold anything)
                cause = f"reading PostgreSQL failed: {type(error).__name__}"
                self._state = Unavailable(cause, "please report this")
            self._is_over.wait(retry_s)
            retry_s = min(2 * retry_s, _MAX_RETRY_S)

    def _read(self, connection: Connection) -> None:
        """Read until close(), or until the connection is lost; ignore single failures."""
        while not self._is_over.is_set():
            began_s = self._clock()
            try:
                reading = self._views.read(connection)
                if self._clock() - reading.read_s > _LATE_S:  # its views are not of one instant
                    reading = self._views.read(connection)
                self._state, self._refusal = reading, None
            except PgError as error:
                if error.is_lost:
                    raise
                self._refusal = Unavailable(error.cause, error.hint)
                if not isinstance(self._state, Reading):
                    self._state = self._refusal
            self._is_over.wait(self._pause_s(self._clock() - began_s))

    def _pause_s(self, took_s: float) -> float:
        """Seconds until shortly before the next tick, so that it shows its own interval."""
        period_s, now = self._period_s, self._clock()
        lead_s = min(0.01 + 2 * took_s, period_s / 2)
        ahead = math.ceil((now + lead_s - self._asked_s) / period_s)
        due_s = self._asked_s + max(1, ahead) * period_s - lead_s
        return due_s - now if due_s - now > period_s / 4 else due_s - now + period_s


def use_own_home() -> None:
    """Let libpq find ~/.pgpass of the present user: with sudo, HOME may be root's."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container's user without a passwd entry
        return
    os.environ["HOME"] = home
