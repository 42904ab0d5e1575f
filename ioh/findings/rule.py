"""The contract of a rule, what it may say, and the registry that finds every rule."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ioh.findings.window import Recall, Window
from ioh.model.finding import Confidence, Evidence, Severity


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule compares with, and why it is that number."""

    name: str
    value: float
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of the newest interval; the engine makes a Finding of it once it lasts.

    Shape:
        As Finding; ``title`` in place of the rule's own where it says more than that.
    """

    cause: str
    evidence: tuple[Evidence, ...]
    advice: str
    command: str = ""
    layer: str = ""
    subject: str = ""
    severity: Severity = "warning"
    confidence: Confidence = "medium"
    title: str = ""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """What the rule needs is not in these Snapshots."""

    reason: str


Limits = Mapping[str, float]
Outcome = Iterable[Verdict] | CannotTell


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a pure function of a window of Snapshots, and all there is to say about it.

    Shape:
        ``judge(window, limits)`` looks at the newest interval and at those before it;
        ``limits`` holds the thresholds by name as they are configured.  ``needs`` are layers
        that must be measured, ``probed`` those that must be measured by BPF.  ``watches``,
        ``sources``, ``blind`` and ``false_alarm`` are sentences for ``ioh explain``.
        ``yields_to`` are rules that name a stronger cause: where one of them says something,
        this one says nothing.  ``wrong_if`` is what would prove it
        wrong, and ``check`` the command that shows it.

    Units:
        ``hold_s``: how long a verdict must last before it becomes a Finding; ``release_s``:
        how long it must be gone before the Finding goes; ``span_s``: how far back the rule
        looks.  What it looks at further back than window.DETAIL_S is in ``recalls``.
    """

    name: str
    title: str
    layer: str
    judge: Callable[[Window, Limits], Outcome]
    watches: str
    sources: str
    blind: str
    false_alarm: str
    wrong_if: str
    check: str
    thresholds: tuple[Threshold, ...] = ()
    needs: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    hold_s: float = 3.0
    release_s: float = 5.0
    span_s: float = 10.0
    recalls: tuple[Recall, ...] = ()
    yields_to: tuple[str, ...] = ()

    @property
    def defaults(self) -> dict[str, float]:
        """Its thresholds as they are when nobody has changed them."""
        return {threshold.name: threshold.value for threshold in self.thresholds}


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by name; each module of ``ioh/findings/rules`` has one, called RULE."""
    found: dict[str, Rule] = {}
    package = importlib.import_module("ioh.findings.rules")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        rule: Rule = importlib.import_module(f"{package.__name__}.{module.name}").RULE
        found[rule.name] = rule
    return found
