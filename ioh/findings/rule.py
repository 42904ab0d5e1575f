"""The contract of a rule, its verdicts, and the registry of all rules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from ioh.findings.window import Recall, RecentIntervals
from ioh.model.finding import Confidence, Evidence, Severity
from ioh.model.io_path import KINDS

_WAYS = {
    **{way: (way,) for way in KINDS},
    **dict.fromkeys(("fsync", "flush"), ("sync",)),
    "commit": ("write", "sync"),  # NFS: of fsyncs, and of buffered writes before a close
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule's verdict on the newest interval; the engine makes it a Finding once it lasts.

    Shape:
        As Finding; ``title`` and ``ways``, if set, replace the rule's.
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
    ways: tuple[str, ...] = ()


Limits = Mapping[str, float]
Verdicts = Iterator[Verdict]


def ways_of(op: str) -> tuple[str, ...]:
    """The ``ways`` of a verdict about one op, such as ``write_direct``; () for others."""
    return _WAYS.get(op.partition("_")[0], ())


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a pure function of the newest intervals, with its description.

    ``@Rule(...)`` turns the function below it into a rule of the same name.

    Shape:
        ``judge(recent, limits)`` gets the intervals of the last ``recent_s``; it is not called
        with fewer unless they ``may_be_short``.  ``thresholds``: name -> (default, reason);
        ``limits`` has the configured values.  ``needs`` are layers that must be measured,
        ``probed`` those that must be measured by BPF.  ``watches``, ``sources``, ``blind`` and
        ``false_alarm`` are sentences for ``ioh explain``.  ``yields_to`` are rules with a
        stronger cause: if one of them has a verdict, this rule is silent.  ``compares``: with
        RecentIntervals.usual.  ``ways``: as in Finding, those of verdicts that have none.
        ``wrong_if`` would prove the rule wrong, and the command ``check`` shows it.

    Units:
        ``hold_s``: how long a verdict must last to become a Finding; ``release_s``: how long it
        must be gone to end the Finding; ``span_s``: how far back the rule looks.  ``recalls`` lists
        what it uses from further back than window.DETAIL_S.
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
    compares: bool = False
    ways: tuple[str, ...] = ()
    name: str = ""
    judge: Callable[[RecentIntervals, Limits], Iterable[Verdict]] = lambda *_: ()

    def __call__(self, judge: Callable[[RecentIntervals, Limits], Iterable[Verdict]]) -> Rule:
        """Return the rule with this function as ``judge``."""
        return replace(self, name=judge.__name__, judge=judge)

    @property
    def defaults(self) -> dict[str, float]:
        """The default thresholds."""
        return {name: value for name, (value, _) in self.thresholds.items()}


@cache
def all_rules() -> dict[str, Rule]:
    """All rules of the modules in ``ioh/findings/rules``, by name."""
    package = importlib.import_module("ioh.findings.rules")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    rules = [x for module in modules for x in vars(module).values() if isinstance(x, Rule)]
    return {rule.name: rule for rule in sorted(rules, key=lambda rule: rule.name)}
