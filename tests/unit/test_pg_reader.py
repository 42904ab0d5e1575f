"""The thread that reads a server, and the layer: never an exception, never a wait."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest.mock import Mock

import pytest

from ioh.layers import pg as layer_module
from ioh.layers.pg import Postgres
from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample, Unavailable
from ioh.model.snapshot import LayerSnapshot
from ioh.pg import connection, reader
from ioh.pg.connection import PgError
from ioh.pg.login import Login
from ioh.pg.reader import SILENT, Reader
from ioh.pg.reading import Reading
from ioh.sinks.text import TextOptions, TextSink
from tests.support.sessions import Shown
from tests.unit.pg_server import FakeServer, session
from tests.unit.test_layer_read import check_shape, in_a_sample

LOGIN = Login("host=db password=hunter2")


def until(what: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.005)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    monkeypatch.setattr(reader, "_FIRST_RETRY_S", 0.02)
    monkeypatch.setattr(reader, "_MAX_RETRY_S", 0.05)
    monkeypatch.setattr(reader, "MAX_PERIOD_S", 0.05)
    monkeypatch.setattr(reader, "use_own_home", lambda: None)
    monkeypatch.setattr(layer_module, "forget_capabilities", lambda: None)
    return FakeServer()


@pytest.fixture
def layer(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    def make(login: Login, begin: Callable[[], None]) -> Reader:
        return Reader(login, begin, server.open)

    monkeypatch.setattr(layer_module, "Reader", make)
    made = Postgres(Filters())
    made.log_in(LOGIN)
    yield made
    server.gate.set()
    made.close()
    until(lambda: server.is_closed)


def reason(layer: Postgres) -> str:
    found = layer.read_proc()
    return found.reason if isinstance(found, Unavailable) else ""


def next_reading(layer: Postgres) -> LayerSample:
    """The layer's sample at the first tick after a look at the server."""
    found: list[LayerSample] = []

    def has_come() -> bool:
        read = layer.read_proc()
        if isinstance(read, LayerSample) and read.metrics["sessions"] is not None:
            found.append(read)
        return bool(found)

    until(has_come)
    return found[0]


def test_an_interval_is_shown(layer: Postgres, server: FakeServer) -> None:
    server.sessions = [session(7)]
    older = next_reading(layer)
    assert older.source == "pg"
    check_shape(layer, older)
    server.databases = [(5, b"shop", 3, 600, 1, 10, 190, 4.0, 1000, 0)]
    until(lambda: next_reading(layer).ops["commit"].count_total == 600)
    newer = next_reading(layer)
    snapshot = derive(in_a_sample(0, layer, older), in_a_sample(1, layer, newer))
    text = TextSink(TextOptions(frozenset({"all"}))).render(snapshot)
    assert "postgresql commit" in text
    assert "cached%" in text


def a_second_later(found: LayerSample) -> LayerSample:
    """The same answer at the next tick."""
    return replace(found, read_after_us=found.read_after_us - 1_000_000)


def test_before_a_login_there_is_nothing_to_close() -> None:
    layer = Postgres(Filters())
    assert layer.read_proc() == reader.CONNECTING
    layer.close()


def test_a_tick_without_a_new_look_is_unknown_not_idle(layer: Postgres, server: FakeServer) -> None:
    """Nor does a tick wait for a server that answers slowly."""
    first = next_reading(layer)
    server.gate.clear()
    until(lambda: server.is_held)
    asked = len(server.asked)
    again = [layer.read_proc() for _ in range(20)][-1]
    assert len(server.asked) == asked, "it is still waited for"
    assert isinstance(again, LayerSample)
    shown = derive(in_a_sample(0, layer, first), in_a_sample(1, layer, a_second_later(first)))
    found = shown.layers["pg"]
    assert isinstance(found, LayerSnapshot)
    assert {op.count for op in found.ops.values()} == {None}
    assert set(found.metrics.values()) == {None}
    assert found.interval_s == 1.0


def test_a_silent_server_is_reported(server: FakeServer) -> None:
    """And why, if it refused a view before."""
    now_s, refusal = [100.0], PgError("lock timeout", "Ask", is_lost=False)
    with Reader(LOGIN, lambda: None, server.open, clock=lambda: now_s[0]) as quiet:
        quiet.start()
        until(lambda: isinstance(quiet.latest(), Reading))
        server.gate.clear()
        until(lambda: server.is_held)
        now_s[0] = 102.9
        assert isinstance(quiet.latest(), Reading)
        now_s[0] = 103.1
        assert quiet.latest() is SILENT
        server.fails = {"pg_stat_database": refusal}
        server.gate.set()
        until(lambda: quiet.latest() == Unavailable(refusal.cause, refusal.hint))


def test_a_server_that_never_answered_is_reported() -> None:
    now_s = [100.0]
    quiet = Reader(LOGIN, lambda: None, clock=lambda: now_s[0])
    now_s[0] = 102.9
    assert quiet.latest() is reader.CONNECTING
    now_s[0] = 103.1
    assert quiet.latest() is SILENT


def test_the_reader_reconnects_after_a_refusal(layer: Postgres, server: FakeServer) -> None:
    next_reading(layer)
    server.fails = {"connect": PgError("no pg_hba.conf entry", "Ask"), "pg_stat": PgError("gone")}
    until(lambda: reason(layer) == "no pg_hba.conf entry")
    assert server.is_closed
    server.fails = {}
    next_reading(layer)


def test_an_internal_error_does_not_end_the_thread(layer: Postgres, server: FakeServer) -> None:
    next_reading(layer)
    server.databases = [(5, b"x", None, None, 1, 10, 190, 4.0, 1000, 0)]
    until(lambda: "TypeError" in reason(layer))
    server.databases = [(5, b"x", 1, 1, 1, 10, 190, 4.0, 1000, 0)]
    next_reading(layer)


def test_a_refused_view_does_not_close_the_connection(server: FakeServer) -> None:
    server.fails = {"pg_stat_database": PgError("permission denied", "Ask", is_lost=False)}
    with Reader(LOGIN, lambda: None, server.open) as refused:
        refused.start()
        until(lambda: refused.latest() == Unavailable("permission denied", "Ask"))
        assert not server.is_closed


@pytest.mark.parametrize("period_s", [0.2, 5.0])
@pytest.mark.parametrize("took_s", [0.001, 0.3])
def test_each_look_ends_shortly_before_a_tick(period_s: float, took_s: float) -> None:
    now_s = [100.0]
    made = Reader(LOGIN, lambda: None, clock=lambda: now_s[0])
    for _ in range(3):
        now_s[0] += period_s
        made.latest()
    tick_s, looks = now_s[0], []
    for _ in range(12):
        now_s[0] += made._pause_s(took_s)
        looks.append(now_s[0])
        now_s[0] += took_s
        while now_s[0] >= tick_s + period_s:
            tick_s += period_s
            behind, now_s[0] = now_s[0], tick_s
            made.latest()
            now_s[0] = behind
    assert all(later - earlier < 1.1 for earlier, later in itertools.pairwise(looks))
    if took_s < period_s / 4:
        ages = [min(abs(look - tick_s + n * period_s) for n in range(70)) for look in looks]
        assert min(ages) <= 0.012 + 2 * took_s


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["text", "--layers", "pg"], "pg with --pg"),
        (["text", "--pg-parameters"], "Give --pg DSN too"),
        (["text", "sample", "--pg", "password=hunter2"], "--pg works only when measuring"),
        (["doctor", "--pg", "postgres://u:hunter2@h/d"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments_print_one_line_without_the_password(
    refused: Shown, arguments: list[str], said: str
) -> None:
    told = refused(*arguments)
    assert said in told
    assert "hunter2" not in told


def test_a_missing_library_is_named_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(IohError, match=r"psycopg 3\. Install it: apt-get install python3-psycopg"):
        connection.require_driver(LOGIN)
    monkeypatch.setattr(ctypes, "CDLL", Mock(side_effect=OSError("libpq.so.5")))
    with pytest.raises(IohError, match="apt-get install libpq5"):
        connection.require_driver(LOGIN)


class RefusalError(Exception):
    sqlstate: str | None = None


TCP = 'connection to server at "db" (10.0.0.1), port 5432 failed: FATAL:  '
SOCKET = 'connection to server on socket "/x/.s.PGSQL.5432" failed: '


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [
        (f"{TCP}password authentication failed\nx", "password authentication", "pg_hba.conf"),
        (f"{SOCKET}No such file or directory\n\tIs", "No such file", "Check that it is running"),
        ('FATAL:  database "x" does not exist', 'database "x" does not exist', "dbname="),
        ("FATAL:  sorry, too many clients already", "sorry, too many", "tries again"),
        ("FATAL: unsupported startup parameter: options", "unsupported startup", "pooler"),
        ("bad \x1b[31m password=hunter2", "bad \\x1b[31m password=***", ""),
    ],
)
def test_errors_are_one_line_with_a_next_step(text: str, cause: str, hint: str) -> None:
    told = connection._pg_error(RefusalError(text), is_lost=True)
    assert told.cause.startswith(cause)
    assert hint in told.hint
    assert told.cause.isprintable()


def test_home_is_that_of_the_effective_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reader.use_own_home()
    assert os.environ["HOME"] == "/root"
