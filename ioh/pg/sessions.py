"""The server's processes that are not idle, as pg_stat_activity shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ioh.model.sample import Value
from ioh.pg.connection import Rows
from ioh.pg.texts import as_sent, name_of

_RUNNING = "CPU"  # active, and waiting for nothing that PostgreSQL knows of
_NOT_WAITING = ("Activity", "Client", "Extension", "Timeout")  # background processes at rest


@dataclass(frozen=True, slots=True)
class Session:
    """One process: a session, or in the background.

    Shape:
        ``state`` is "" of a background process; ``wait`` is ``Type:Event``, "" where it does not
        wait; ``statement`` as it was sent, not to be shown; everything else is printable.

    Units:
        ``state_us`` since its state changed; ``transaction_us`` since its transaction began.
    """

    pid: int
    user: str
    database: str
    state: str
    wait: str
    state_us: int
    transaction_us: int | None
    statement: str

    @property
    def spends_on(self) -> str:
        """What its time is booked to; "" where it has nothing to do."""
        if self.state == "active":
            return self.wait or _RUNNING
        return "" if self.state or self.wait.startswith(_NOT_WAITING) else self.wait


def sessions_of(rows: Rows) -> list[Session]:
    """Those of queries.ACTIVITY."""
    return [
        Session(
            pid,
            name_of(user),
            name_of(database),
            name_of(state),
            f"{name_of(kind)}:{name_of(event)}" if kind else "",
            round(max(0.0, state_s or 0.0) * 1e6),
            None if transaction_s is None else round(transaction_s * 1e6),
            as_sent(query),
        )
        for pid, user, database, state, kind, event, state_s, transaction_s, query in rows
    ]


def session_metrics(sessions: Sequence[Session]) -> dict[str, Value]:
    """How many there are of each kind."""
    states = Counter(each.state for each in sessions)
    ages = [each.transaction_us for each in sessions if each.state and each.transaction_us]
    return {
        "active_sessions": states["active"],
        "idle_in_transaction": sum(n for s, n in states.items() if s.startswith("idle in")),
        "waiting_for_locks": sum(each.wait.startswith("Lock:") for each in sessions),
        "oldest_transaction_us": max(ages, default=None),
    }
