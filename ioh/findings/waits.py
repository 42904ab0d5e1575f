"""Waits of a database's statements and commits over several intervals, by server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ioh.findings.rule import Rule
from ioh.findings.window import number, op_of, seconds_of
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.snapshot import Snapshot

RECENT_S = 4.0
CALM_S = 8.0 * 0.95  # least time before, to compare with
PROBE = "probe of the database"
SHOW = "ioh text --layers db -d top"
of_database = partial(Rule, layer="db", check=SHOW, probed=("db",))
_EACH = "cpu"  # each statement or commit has this wait once


@dataclass(frozen=True, slots=True)
class InProgress:
    """Operations of a server that have not ended; ``oldest_us`` is 0 if it is not known."""

    number: int = 0
    oldest_us: float = 0.0


@dataclass(slots=True)
class Wait:
    """One kind of wait; ``count`` of those that ended, ``pending`` of those that did not."""

    count: float = 0.0
    spent_ns: float = 0.0
    pending: int = 0

    @property
    def mean_us(self) -> float:
        """Mean time per wait; of those in progress, the time so far."""
        count = self.count + self.pending
        return self.spent_ns / count / 1e3 if count else 0.0


@dataclass(slots=True)
class Waits:
    """The waits of one server's statements or commits.

    Units:
        ``whole_ns`` is the time of all statements or commits, ``seconds`` that of the intervals;
        ``pending`` of them are in progress.
    """

    whole_ns: float = 0.0
    seconds: float = 0.0
    pending: int = 0
    by_wait: dict[str, Wait] = field(default_factory=dict)

    def of(self, *waits: str) -> Wait:
        """The sum of these kinds of waits."""
        parts = [self.by_wait[name] for name in waits if name in self.by_wait]
        count, spent_ns = sum(x.count for x in parts), sum(x.spent_ns for x in parts)
        return Wait(count, spent_ns, sum(x.pending for x in parts))

    @property
    def per_s(self) -> float:
        """Statements or commits per second."""
        return self.of(_EACH).count / self.seconds if self.seconds else 0.0

    @property
    def mean_us(self) -> float:
        """Mean time per statement or commit; of those in progress, the time so far."""
        return Wait(self.of(_EACH).count, self.whole_ns, self.pending).mean_us

    @property
    def at_a_time(self) -> float:
        """Mean number of statements or commits in progress."""
        return self.whole_ns / self.seconds / 1e9 if self.seconds else 0.0


def in_progress(snapshot: Snapshot, server: str, op: str) -> InProgress:
    """A server's operations in progress at the end of an interval."""
    stats = op_of(snapshot, "db", op, server)
    rows = [row for row in snapshot.rows("db", IN_PROGRESS) if row.key[-1] == server]
    oldest_us = max([number(row, "age_us") for row in rows if row.key[2] == op], default=0.0)
    return InProgress((stats and stats.inflight) or 0, oldest_us)


def waits_by_server(snapshots: Sequence[Snapshot], within: str) -> dict[str, Waits]:
    """Waits within ``statement`` or ``commit``, by each server that had any."""
    by_server: dict[str, Waits] = {}
    for snapshot in snapshots:
        seconds = seconds_of(snapshot, "db")
        whole: dict[str, float] = {}
        for row in snapshot.rows("db", "wait"):
            outer, name, server = row.key
            if outer != within:
                continue
            one = by_server.setdefault(server, Waits()).by_wait.setdefault(name, Wait())
            one.count += number(row, "waits_per_s") * seconds
            one.spent_ns += number(row, "wait_ns_per_s") * seconds
            whole[server] = number(row, "whole_ns_per_s") * seconds
        for server, spent_ns in whole.items():
            by_server[server].whole_ns += spent_ns
        for waits in by_server.values():
            waits.seconds += seconds
    for server, waits in by_server.items():
        waits.pending = in_progress(snapshots[-1], server, within).number
        for name, wait in waits.by_wait.items():
            wait.pending = in_progress(snapshots[-1], server, name).number
    return {server: waits for server, waits in by_server.items() if waits.whole_ns}
