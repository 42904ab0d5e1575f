"""A finding: a rule's verdict in words, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ioh.model.printable import printable

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that supports a finding.

    Shape:
        ``text``: the fact with its number.  ``metric``: the number's name in a Snapshot.  ``value``
        was measured and compared with ``limit``; None if there is none.  ``source``: where it was
        read (``/sys/block/sda/queue/max_sectors_kb``).

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
    """One finding of a rule, as of the newest interval in which it held.

    Shape:
        Every string is printable and one line.  ``rule``: the rule's name (``ioh explain RULE``).
        ``cause``: one sentence with the numbers.  ``advice``: what to do.  ``command``: the exact
        command or ``""``.  ``false_alarm``: what else can look like it.  ``wrong_if``: what would
        disprove it.  ``check``: the command that shows that.  ``subject``: its device, mount,
        connection …, ``""`` for the machine; rule and subject identify the finding over time.
        ``ways``: the kinds of calls (io_path.KINDS) that it is about, ``()`` for all.
        ``host``: the user's name for the host, if there are several.

    Units:
        ``since_unix_s``: start of the first interval from which it has held without a break.
        ``recent_s``: the time that its numbers are of, mostly several intervals; 0 if unknown.
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
    ways: tuple[str, ...] = ()
    host: str = ""
    recent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that was not evaluated because its inputs were not measured."""

    rule: str
    title: str
    reason: str


class Failed(NotEvaluated):
    """A rule, or the path of one kind of call, that raised an exception: a defect of ioh."""

    __slots__ = ()

    @classmethod
    def by(cls, error: Exception, rule: str, title: str) -> Failed:
        """What failed, and how."""
        what = printable(f"{type(error).__name__}: {error}", _MAX_ERROR)
        return cls(rule, title, f"failed: {what}; please report this")


_MAX_ERROR = 200
_WORST_FIRST: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}
_BESIDE = {"observer", "lock_wait"}  # what ioh itself costs, and waits for other programs


def worst_first(finding: Finding) -> tuple[int, bool, float]:
    """Sort key of findings: severity, those that are not about the I/O last, then start."""
    return _WORST_FIRST[finding.severity], finding.rule in _BESIDE, finding.since_unix_s
