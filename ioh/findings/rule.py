"""The contract of a rule, what it may say, and the registry that finds every rule."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from ioh.findings.window import Recall, Stretch
from ioh.model.finding import Confidence, Evidence, Severity


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


Limits = Mapping[str, float]
Verdicts = Iterator[Verdict]


def _silent(recent: Stretch, limits: Limits) -> Iterable[Verdict]:
    """What a rule says until it decorates the function that judges."""
    del recent, limits
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a pure function of the newest intervals, and all there is to say about it.

    ``@Rule(...)`` makes a rule of the function below it, by its name.

    Shape:
        ``judge(recent, limits)`` gets the intervals of the last ``recent_s``, and, unless they
        ``may_be_short``, only where there are so many.  ``thresholds`` by name: the number to
        compare with, and why it is that one; ``limits`` has them as configured.  ``needs`` are
        layers that must be measured, ``probed`` those that must be measured by BPF.  ``watches``,
        ``sources``, ``blind`` and ``false_alarm`` are sentences for ``ioh explain``.
        ``yields_to`` are rules that name a stronger cause: where one of them says something, this
        one says nothing.  ``wrong_if`` is what would prove it wrong, and ``check`` the command
        that shows it.

    Units:
        ``hold_s``: how long a verdict must last before it becomes a Finding; ``release_s``:
        how long it must be gone before the Finding goes; ``span_s``: how far back the rule
        looks.  What it looks at further back than window.DETAIL_S is in ``recalls``.
    """

    title: str
    layer: str
    watches: str
    sources: str
    blind: str
    false_alarm: str
    wrong_if: str
    check: str
    thresholds: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    recent_s: float = 5.0
    may_be_short: bool = False
    hold_s: float = 3.0
    release_s: float = 5.0
    span_s: float = 10.0
    recalls: tuple[Recall, ...] = ()
    yields_to: tuple[str, ...] = ()
    name: str = ""
    judge: Callable[[Stretch, Limits], Iterable[Verdict]] = _silent

    def __call__(self, judge: Callable[[Stretch, Limits], Iterable[Verdict]]) -> Rule:
        """The rule that judges by this function."""
        return replace(self, name=judge.__name__, judge=judge)

    @property
    def defaults(self) -> dict[str, float]:
        """Its thresholds as they are when nobody has changed them."""
        return {name: value for name, (value, _) in self.thresholds.items()}


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule of the modules in ``ioh/findings/rules``, by name."""
    package = importlib.import_module("ioh.findings.rules")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    rules = [x for module in modules for x in vars(module).values() if isinstance(x, Rule)]
    return {rule.name: rule for rule in sorted(rules, key=lambda rule: rule.name)}
