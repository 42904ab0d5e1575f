"""A fake PostgreSQL server: its answer depends on what a query asks for."""

from __future__ import annotations

import threading
from typing import Any

from ioh.pg import queries
from ioh.pg.connection import Answer, Connection, PgError
from ioh.pg.login import Login

BLOCK = 8192


def session(pid: int, **given: Any) -> tuple[Any, ...]:
    told = {
        "user": b"app",
        "database": b"shop",
        "state": b"active",
        "type": None,
        "wait": None,
        "state_s": 0.5,
        "transaction_s": 1.5,
        "query": b"select 1",
        "blockers": None,
    } | given
    return (pid, *told.values())


class FakeServer(Connection):
    """Answers with its attributes, which a test may change between two queries."""

    def __init__(self, version: int = 150004) -> None:
        self._version = version
        self.schema: str | None = "public"
        self.sees_others = True
        self.databases: list[tuple[Any, ...]] = [
            (5, b"shop", 3, 100, 1, 10, 90, 4.0, 1000, 0),
            (0, b"", 0, 7, 0, 2, 3, 0.0, 0, 0),
        ]
        self.wal: tuple[Any, ...] = (5000, 3, 40, 20, 1.0, 8.0)
        self.sessions: list[tuple[Any, ...]] = []
        self.statements = b""
        self.texts: dict[int, bytes] = {}
        self.fails: dict[str, PgError] = {}
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_held = False
        self.is_closed = False

    @property
    def version(self) -> int:
        return self._version

    def open(self, login: Login) -> FakeServer:
        if "connect" in self.fails:
            raise self.fails["connect"]
        self.is_closed = False
        return self

    def close(self) -> None:
        self.is_closed = True

    def query(self, sql: str) -> Answer:
        self.asked.append(sql)
        self.is_held = not self.gate.is_set()
        self.gate.wait(20)
        for part, error in self.fails.items():
            if part in sql:
                raise error
        known: dict[str, Answer] = {
            queries.SERVER: [(BLOCK, True, True, self.sees_others, 4711, None)],
            queries.STATEMENTS_SCHEMA: [(self.schema.encode(),)] if self.schema else [],
            queries.DATABASES: self.databases,
            queries.ACTIVITY: self.sessions,
            queries.wal(self._version): [self.wal],
            queries.statements(self._version, self.schema or ""): [(self.statements or None,)],
        }
        texts = [(query, text) for query, text in self.texts.items() if str(query) in sql]
        return known.get(sql, texts)
