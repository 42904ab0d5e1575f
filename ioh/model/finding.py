"""What is wrong, in words: a rule's verdict on what was measured, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a finding rests on.

    Shape:
        ``text`` says it with its number; ``metric`` names the number as a Snapshot does;
        ``value`` is what was measured and ``limit`` what it is held against, None where there
        is none; ``source`` is where it was read (``/sys/block/sda/queue/max_sectors_kb``).

    Units:
        As the suffix of ``metric`` says.
    """

    text: str
    metric: str = ""
    value: float | None = None
    limit: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found, as of the newest interval in which it held.

    Shape:
        Every string is printable and one line.  ``rule`` names the rule (``ioh explain RULE``);
        ``cause`` is one sentence with the numbers; ``advice`` what to do, ``command`` the exact
        command or ``""``; ``false_alarm`` what else may look like it, ``wrong_if`` what would prove
        it wrong, and ``check`` the command that shows that; ``subject`` the device, mount,
        connection … it is about, ``""`` for the machine: rule and subject together
        are the finding's identity over time.  ``host``, where there are several, as the user
        calls it.

    Units:
        ``since_unix_s``: the begin of the first interval in which it held without a pause.
    """

    rule: str
    title: str
    layer: str
    severity: Severity
    confidence: Confidence
    cause: str
    evidence: tuple[Evidence, ...]
    advice: str
    command: str
    false_alarm: str
    wrong_if: str
    check: str
    since_unix_s: float
    subject: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that could not look: what it needs was not measured.  Not the same as silent."""

    rule: str
    title: str
    reason: str


_WORST_FIRST: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


def worst_first(finding: Finding) -> tuple[int, float]:
    """What findings are sorted by: the worst ones first, then as they began."""
    return _WORST_FIRST[finding.severity], finding.since_unix_s
