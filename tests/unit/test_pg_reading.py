"""What is read from a server's views: totals, sessions, waits, statements, by server version."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.pg.connection import PgError
from ioh.pg.login import Login, hide_passwords
from ioh.pg.reading import Reading, Views
from ioh.pg.texts import hide_constants
from tests.unit.pg_server import FakeServer, session


class Looks:
    """Views of a fake server, a second between two looks."""

    def __init__(self, server: FakeServer, *, with_parameters: bool = False) -> None:
        self.now_s = 100.0
        self.server = server
        self.views = Views(with_parameters=with_parameters, clock=lambda: self.now_s)
        self.views.meet(server)

    def look(self, passed_s: float = 1.0) -> Reading:
        self.now_s += passed_s
        return self.views.read(self.server)


def test_totals_are_summed_over_all_databases() -> None:
    reading = Looks(FakeServer()).look()
    assert reading.ops["commit"].count_total == 107
    read = reading.ops["data_read"]
    assert (read.count_total, read.bytes_total, read.latency_ns_total) == (12, 12 * 8192, 4_000_000)
    log = reading.ops["log_write"]
    assert (log.count_total, log.bytes_total, log.latency_ns_total) == (40, 5000, 1_000_000)
    sync = reading.ops["log_sync"]
    assert (sync.count_total, sync.latency_ns_total) == (20, 8_000_000)
    assert reading.metrics["wanted_blocks_total"] == 105
    assert reading.metrics["rollbacks_total"] == 1
    assert reading.databases.keys() == {"shop", "(shared)"}
    assert reading.databases["shop"]["commit"].count_total == 100


def test_an_old_server_without_pg_stat_wal_has_no_log_numbers() -> None:
    server = FakeServer(120010)
    reading = Looks(server).look()
    assert reading.ops["log_sync"].count_total is None
    assert reading.metrics["full_pages_total"] is None
    assert not any("pg_stat_wal" in sql for sql in server.asked)


def test_too_old_a_server_is_refused() -> None:
    with pytest.raises(PgError, match="PostgreSQL 11 is too old"):
        Looks(FakeServer(110022))


@pytest.mark.parametrize("version", [150004, 180006])
def test_only_statistics_views_are_queried(version: int) -> None:
    """A locked table does not block a view of the server's own memory."""
    server = FakeServer(version)
    looks = Looks(server)
    for _ in range(2):
        looks.look()
        server.statements, server.texts = b"5 42 3 1.5 3 0", {42: b"select 1"}
    sources = {name for sql in server.asked for name in re.findall(r"(?:from|join) ([\w.]+)", sql)}
    since_18 = {"pg_catalog.pg_stat_io"} if version >= 180000 else set()
    names = ("extension", "namespace", "stat_activity", "stat_database", "stat_wal")
    views = {f"pg_catalog.pg_{name}" for name in names} | {"public.pg_stat_statements"}
    assert sources - {"clock_timestamp"} == since_18 | views


def test_statements_count_from_when_they_are_first_seen() -> None:
    server = FakeServer()
    looks = Looks(server)
    server.texts = {42: b"SELECT  $1", -9: b"create role x password 'secret'"}
    server.statements = b"5 42 1000 500.5 10 3"
    assert looks.look().tables["statement"] == {}
    server.statements = b"5 42 1010 501.5 15 4,5 -9 1 2.0 0 0"
    rows = looks.look().tables["statement"]
    assert rows == {
        ("shop", "SELECT $1"): (10, 1_000_000, 5, 1, 42),
        ("shop", "create role x password ?"): (1, 2_000_000, 0, 0, -9),
    }
    assert looks.look().tables["statement"] == rows
    server.statements = b"5 42 2 1.0 2 0"  # reset, and the other one dropped
    rows = looks.look().tables["statement"]
    assert rows["shop", "SELECT $1"] == (12, 2_000_000, 7, 1, 42)
    server.texts = {n: b"select " + b"a" * 300 + b"%d" % n for n in (1, 2)}  # cut where they differ
    server.statements = b"5 1 1 1 0 0,5 2 1 1 0 0"
    alike = [key[1] for key in looks.look().tables["statement"] if "aaa" in key[1]]
    assert len(alike) == 2
    assert any(text.endswith("#2") for text in alike)


def test_statements_of_ioh_itself_are_left_out() -> None:
    """pg_stat_statements keeps the comment in what ioh sends."""
    server = FakeServer()
    looks = Looks(server)
    looks.look()
    server.texts = {42: b"select /* ioh */ count($1)", 43: b"select count($1) /* ioh */"}
    server.statements = b"5 42 10 501.5 15 4,5 43 1 1 1 1"
    assert [key[1] for key in looks.look().tables["statement"]] == ["select count($1)"]
    asked = len(server.asked)
    server.statements = b"5 42 20 501.5 15 4,5 43 1 1 1 1"
    assert [key[1] for key in looks.look().tables["statement"]] == ["select count($1)"]
    assert not any("in (42)" in sql for sql in server.asked[asked:])  # its text is known


def test_a_failed_query_of_statements_loses_only_statements() -> None:
    server = FakeServer()
    looks = Looks(server)
    server.fails["string_agg"] = PgError("canceling statement", is_lost=False)
    reading = looks.look()
    assert "pg_stat_statements: canceling statement." in reading.notes
    assert reading.ops["commit"].count_total == 107
    server.fails["string_agg"] = PgError("it must be loaded", is_lost=False)
    assert any("it must be loaded" in note for note in looks.look().notes)
    server.sessions = [session(7)]
    assert looks.look().tables["statement"].keys() == {("shop", "select ?")}
    looks.views.meet(server)
    server.fails["string_agg"] = PgError("gone")
    with pytest.raises(PgError, match="gone"):
        looks.look()


def test_without_the_extension_statements_are_sampled() -> None:
    server = FakeServer()
    server.schema = None
    looks = Looks(server)
    server.sessions = [
        session(7, query=b"select * from t where a = 'secret'"),
        session(8, query=b"select * from t where a = 'other'"),
        session(9, state=b"idle in transaction"),
    ]
    looks.look()
    reading = looks.look()
    assert reading.tables["statement"] == {
        ("shop", "select * from t where a = ?"): (None, 4_000_000_000, None, None, None)
    }
    assert any("statements are sampled" in note for note in reading.notes)
    looks.look(60.0)  # a look after a pause does not stand for all of it
    assert looks.views.read(server).tables["wait"]["CPU",] == (8_000_000_000,)


def test_sessions_and_waits() -> None:
    server = FakeServer()
    lock = {"type": b"Lock", "wait": b"relation"}
    server.sessions = [
        session(7, **lock, query=b"update t set a = 17", blockers=[77, 12, 77]),
        session(8, **lock),
        session(9, state=b"idle in transaction", type=b"Client", wait=b"ClientRead"),
        session(10, state=None, type=b"IO", wait=b"WALSync", query=b""),
        session(11, state=None, type=b"Activity", wait=b"Main", query=b""),
    ]
    reading = Looks(server).look()
    keys = list(reading.tables["session"])
    assert keys[0] == (
        "7",
        "app",
        "shop",
        "active",
        "Lock:relation",
        "12, 77",
        "update t set a = ?",
    )
    assert [key[0] for key in keys] == ["7", "8", "9"]
    assert reading.tables["wait"] == {
        ("Lock:relation",): (2_000_000_000,),
        ("IO:WALSync",): (1_000_000_000,),
    }
    assert reading.metrics["active_sessions"] == 2
    assert reading.metrics["waiting_for_locks"] == 2
    assert reading.metrics["idle_in_transaction"] == 1
    assert reading.metrics["oldest_transaction_us"] == 1_500_000


def test_hostile_texts_are_printable_and_short() -> None:
    server = FakeServer()
    server.schema = None
    bad = b"\x1b]0;x\x07\xff\xe2\x80\xae[red]" + b"a" * 500
    server.databases = [(5, bad, 3, 100, 1, 10, 90, 4.0, 1000, 0)]
    server.sessions = [session(7, user=bad, database=bad, state=bad, wait=bad, type=bad, query=bad)]
    reading = Looks(server).look()
    texts = [part for table in reading.tables.values() for key in table for part in key]
    assert texts
    for text in (*texts, *reading.databases):
        assert text.isprintable()
        assert len(text) <= 201


def test_a_role_that_sees_only_its_own_sessions_gets_a_note() -> None:
    server = FakeServer()
    server.sees_others = False
    assert any("pg_monitor" in note for note in Looks(server).look().notes)


SHOWN = {
    "select * from t1 where a = 'x' and b=-7": "select * from t1 where a = ? and b=?",
    "select  1,\n 2.5e-3, .5, 0xFF": "select ?, …",
    "a in (1, 2,3) and b in ('x')": "a in (?, …) and b in (?)",
    "select a-1, a - 1 from b2": "select a-?, a - ? from b2",
    "values ('it''s', 'C:\\temp')": "values (?, …)",
    r"select E'it\'s', e'\\', 5": "select ?, …",
    "select $1, $2::int": "select $1, $2::int",
    "select $$secret$$, $q$sec$$ret$q$ from a$b$c": "select ?, … from a$b$c",
    'select "it\'s 5" from "T 1"': 'select "it\'s 5" from "T 1"',
    "select 1 -- secret 'x\n, a /* secret */ from t": "select ? , a from t",
    "alter role x password 'secret'": "alter role x password ?",
    "U&'d\\0061t' b'101' x'ff' n'secret'": "? ? ? ?",
    "select größe from straße where x=5": "select größe from straße where x=?",
}
HIDDEN = {
    "where a = 'secr": "where a = ?",
    r"where a = 'x\' , 'secret'": "where a = ?",
    "/* a /* b */ secret */ select 1": "?",
    "select /* secret": "select ?",
    "select $q$secr": "select ?",
    r"select E'secret\\\' more": "select ?",
}


def test_parameters_are_shown_on_request() -> None:
    server = FakeServer()
    server.sessions = [session(7, query=b"select  17")]
    shown = Looks(server, with_parameters=True).look()
    assert [key[-1] for key in shown.tables["session"]] == ["select 17"]


@pytest.mark.parametrize("statement", SHOWN)
def test_constants_become_question_marks(statement: str) -> None:
    assert hide_constants(statement) == SHOWN[statement]
    assert "secret" not in hide_constants(statement)


@pytest.mark.parametrize("statement", HIDDEN)
def test_a_constant_without_a_certain_end_hides_the_rest(statement: str) -> None:
    assert hide_constants(statement) == HIDDEN[statement]


@settings(max_examples=25)
@given(st.text(alphabet="abz_ $\\\n;()=,", max_size=20), st.text(max_size=20))
def test_no_string_constant_is_left_wherever_the_statement_is_cut(before: str, value: str) -> None:
    begun = f"select {before.replace('$', '')} 'q{value.replace(chr(39), chr(39) * 2)}q' , x"
    whole = hide_constants(begun)
    assert "'" not in whole
    for end in range(len(begun)):
        assert "'" not in hide_constants(begun[:end])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unrecognized arguments: --pg postgres://u:pw@h/d x", "--pg postgres://***@h/d x"),
        ("no such file password=pw", "no such file password=***"),
        ("host=h password = 'p w\\' x' user=u", "host=h password = *** user=u"),
        ("postgresql://h/d?password=pw&user=u", "postgresql://h/d?password=***&user=u"),
    ],
)
def test_errors_contain_no_password(text: str, shown: str) -> None:
    assert hide_passwords(text).endswith(shown)


def test_the_repr_of_a_login_hides_its_password() -> None:
    assert "pw" not in repr(Login("password=pw"))
