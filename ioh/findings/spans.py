"""Findings of a whole recording: each with the time from its begin to its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ioh.model.finding import Finding
from ioh.model.snapshot import Snapshot

_WORST_FIRST = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class FindingSpan:
    """A finding as of the end of one span, and that span.

    Units:
        ``begin_unix_s`` of the first interval of it, ``end_unix_s`` of the last.
    """

    finding: Finding
    begin_unix_s: float
    end_unix_s: float


def finding_spans(snapshots: Iterable[Snapshot]) -> list[FindingSpan]:
    """Every span of every finding in judged Snapshots, worst first, then as they began."""
    spans: dict[tuple[str, str, float], FindingSpan] = {}
    for snapshot in snapshots:
        for finding in snapshot.findings:
            key = finding.rule, finding.subject, finding.since_unix_s
            spans[key] = FindingSpan(finding, finding.since_unix_s, snapshot.time_unix_s)
    return sorted(spans.values(), key=lambda s: (_WORST_FIRST[s.finding.severity], s.begin_unix_s))
