"""Waits of a database's statements and commits over several intervals, by server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ioh.findings.window import number, rows_of, seconds_of
from ioh.model.snapshot import Snapshot

RECENT_S = 4.0
CALM_S = 8.0 * 0.95  # least time before, to compare with
PROBE = "probe of the database"
SHOW = "ioh text --layers db -d top"
_EACH = "cpu"  # each statement or commit has this wait once


@dataclass(slots=True)
class Wait:
    """One kind of wait."""

    count: float = 0.0
    spent_ns: float = 0.0

    @property
    def mean_us(self) -> float:
        """Mean time per wait."""
        return self.spent_ns / self.count / 1e3 if self.count else 0.0


@dataclass(slots=True)
class Waits:
    """The waits of one server's statements or commits.

    Units:
        ``whole_ns`` is the time of all statements or commits, ``seconds`` that of the intervals.
    """

    whole_ns: float = 0.0
    seconds: float = 0.0
    by_wait: dict[str, Wait] = field(default_factory=dict)

    def of(self, *waits: str) -> Wait:
        """The sum of these kinds of waits."""
        known = [self.by_wait[name] for name in waits if name in self.by_wait]
        return Wait(sum(x.count for x in known), sum(x.spent_ns for x in known))

    @property
    def per_s(self) -> float:
        """Statements or commits per second."""
        return self.of(_EACH).count / self.seconds if self.seconds else 0.0

    @property
    def mean_us(self) -> float:
        """Mean time per statement or commit."""
        return Wait(self.of(_EACH).count, self.whole_ns).mean_us


def waits_by_server(snapshots: Sequence[Snapshot], within: str) -> dict[str, Waits]:
    """Waits within ``statement`` or ``commit``, by each server that had any."""
    found: dict[str, Waits] = {}
    for snapshot in snapshots:
        seconds = seconds_of(snapshot, "db")
        whole: dict[str, float] = {}
        for row in rows_of(snapshot, "db", "wait"):
            outer, name, server = row.key
            if outer != within:
                continue
            one = found.setdefault(server, Waits()).by_wait.setdefault(name, Wait())
            one.count += number(row, "waits_per_s") * seconds
            one.spent_ns += number(row, "wait_ns_per_s") * seconds
            whole[server] = number(row, "whole_ns_per_s") * seconds
        for server, spent_ns in whole.items():
            found[server].whole_ns += spent_ns
        for waits in found.values():
            waits.seconds += seconds
    return {server: waits for server, waits in found.items() if waits.whole_ns}
