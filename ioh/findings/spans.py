"""Findings of a whole recording, each with its begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ioh.model.finding import Finding, worst_first
from ioh.model.snapshot import Snapshot

MAX_SPANS = 2000


@dataclass(frozen=True, slots=True)
class FindingSpan:
    """A finding with its last text, and the times at which it begins and ends."""

    finding: Finding
    begin_unix_s: float
    end_unix_s: float


def finding_spans(snapshots: Iterable[Snapshot]) -> list[FindingSpan]:
    """The findings of judged Snapshots, worst first, then by begin; at most the first MAX_SPANS."""
    spans: dict[tuple[str, str, float], FindingSpan] = {}
    for snapshot in snapshots:
        for finding in snapshot.findings:
            key = finding.rule, finding.subject, finding.since_unix_s
            if key in spans or len(spans) < MAX_SPANS:
                spans[key] = FindingSpan(finding, finding.since_unix_s, snapshot.time_unix_s)
    return sorted(spans.values(), key=lambda span: worst_first(span.finding))
