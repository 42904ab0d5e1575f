"""Judges Snapshots one after another: what the rules say becomes findings once it lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ioh.findings.config import Config
from ioh.findings.rule import CannotTell, Rule, Verdict, all_rules
from ioh.findings.window import Window, layer_title
from ioh.model.finding import Evidence, Finding, NotEvaluated
from ioh.model.printable import printable
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, Snapshot

MAX_TEXT = 600
# Of one rule at a time: a machine with a thousand sick disks has one problem.
MAX_SUBJECTS = 8
# A tick comes late by less than this, or something is missing in between.
GAP_S = 2.0
_WORST_FIRST = {"critical": 0, "warning": 1, "info": 2}


@dataclass(slots=True)
class _State:
    """One rule's verdict on one subject over time."""

    since_unix_s: float
    seen_unix_s: float
    verdict: Verdict
    is_on: bool = False


class Look(NamedTuple):
    """What the rules say of one interval; what becomes of it depends on those before.

    Shape:
        ``begins_anew``: it does not follow the interval before.  ``verdicts`` by rule, of those
        that say something.
    """

    time_unix_s: float
    interval_s: float
    begins_anew: bool
    verdicts: Mapping[str, tuple[Verdict, ...]]
    not_evaluated: tuple[NotEvaluated, ...]


class Engine:
    """Keeps the window, the thresholds and the hysteresis; one for each stream of Snapshots.

    Args:
        rules: Which rules; None for all there are.
        config: Rules switched off and thresholds changed.
    """

    def __init__(self, rules: Iterable[Rule] | None = None, config: Config | None = None) -> None:
        chosen = all_rules().values() if rules is None else rules
        config = config or Config()
        self._rules = [rule for rule in chosen if rule.name not in config.off]
        self._limits = {rule.name: config.limits_of(rule) for rule in self._rules}
        self._states: dict[str, dict[str, _State]] = {}
        self._sources: tuple[tuple[str, str], ...] | None = None  # of which _lacking was told
        self._lacking: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        self._window = Window(
            max((rule.span_s for rule in self._rules), default=1.0),
            chain.from_iterable(rule.recalls for rule in self._rules),
        )
        self._states = {rule.name: {} for rule in self._rules}

    def anew(self) -> Engine:
        """One with the same rules and thresholds that has seen nothing yet."""
        made = copy(self)
        made._begin()  # noqa: SLF001 (of its own kind)
        return made

    @property
    def look_back_s(self) -> float:
        """So much time before a Snapshot decides, with it, what is found in it."""
        return max((r.span_s + r.hold_s + r.release_s for r in self._rules), default=0.0)

    @property
    def span_s(self) -> float:
        """So far back the rules look; what they say of a Snapshot depends on nothing before."""
        return max((rule.span_s for rule in self._rules), default=0.0)

    @property
    def has_span(self) -> bool:
        """Whether the rules see all that they would if there were more before."""
        return self._window.is_full

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """The same Snapshot with its findings, worst first."""
        findings, not_evaluated = self.conclude(self.look(snapshot))
        return replace(snapshot, findings=findings, not_evaluated=not_evaluated)

    def remember(self, snapshot: Snapshot) -> bool:
        """Take an interval into the window, and let no rule look; whether it began anew."""
        begins_anew = len(self._window) > 0 and not _follows(self._window.newest, snapshot)
        if begins_anew:
            self._window.clear()
        self._window.add(snapshot)
        return begins_anew

    def look(self, snapshot: Snapshot) -> Look:
        """What the rules say of the next interval, whatever they said before."""
        begins_anew = self.remember(snapshot)
        verdicts: dict[str, tuple[Verdict, ...]] = {}
        not_evaluated: list[NotEvaluated] = []
        missing = self._missing(snapshot)
        for rule in self._rules:
            lacking = missing.get(rule.name)
            outcome = (
                rule.judge(self._window, self._limits[rule.name])
                if lacking is None
                else _why_not(lacking, snapshot)
            )
            if isinstance(outcome, CannotTell):
                reason = printable(outcome.reason, MAX_TEXT)
                not_evaluated.append(NotEvaluated(rule.name, rule.title, reason))
            elif said := tuple(outcome):
                verdicts[rule.name] = said
        return Look(
            snapshot.time_unix_s, snapshot.interval_s, begins_anew, verdicts, tuple(not_evaluated)
        )

    def conclude(self, look: Look) -> tuple[tuple[Finding, ...], tuple[NotEvaluated, ...]]:
        """What has lasted of what the rules said, worst first; and the rules that cannot tell."""
        if look.begins_anew:
            self._states = {rule.name: {} for rule in self._rules}
        findings: list[Finding] = []
        for rule in self._rules:
            verdicts = look.verdicts.get(rule.name, ())
            if verdicts or self._states[rule.name]:
                findings += self._update(rule, verdicts, look)
        findings.sort(key=lambda f: (_WORST_FIRST[f.severity], f.since_unix_s))
        return tuple(findings), look.not_evaluated

    def _missing(self, snapshot: Snapshot) -> Mapping[str, str]:
        """By rule, the first layer that it needs and this Snapshot lacks."""
        sources = tuple(
            (name, layer.source)
            for name, layer in snapshot.layers.items()
            if isinstance(layer, LayerSnapshot)
        )
        if sources != self._sources:
            known = dict(sources)
            self._lacking = {}
            for rule in self._rules:
                for name in (*rule.needs, *rule.probed):
                    source = known.get(name)
                    if source is None or (source == "proc" and name in rule.probed):
                        self._lacking[rule.name] = name
                        break
            self._sources = sources
        return self._lacking

    def _update(self, rule: Rule, verdicts: tuple[Verdict, ...], look: Look) -> list[Finding]:
        """Enter what a rule says now; the findings that it has on."""
        states = self._states[rule.name]
        now, begun = look.time_unix_s, look.time_unix_s - look.interval_s
        for verdict in verdicts[:MAX_SUBJECTS]:
            state = states.get(verdict.subject)
            if state is None:
                states[verdict.subject] = state = _State(begun, now, verdict)
            state.verdict, state.seen_unix_s = verdict, now
            state.is_on = state.is_on or now - state.since_unix_s >= rule.hold_s * 0.95
        said = {verdict.subject for verdict in verdicts}
        for subject, state in list(states.items()):
            is_gone = not state.is_on or now - state.seen_unix_s >= rule.release_s * 0.95
            if subject not in said and is_gone:
                del states[subject]
        return [_finding(rule, state) for state in states.values() if state.is_on]


def _follows(before: Snapshot, after: Snapshot) -> bool:
    """Whether ``after`` is the interval right after ``before``, of the same machine."""
    gap_s = after.time_unix_s - after.interval_s - before.time_unix_s
    allowed_s = max(GAP_S, after.interval_s / 2)
    same = (before.hostname, before.kernel) == (after.hostname, after.kernel)
    return same and -allowed_s / 2 <= gap_s <= allowed_s and after.time_unix_s > before.time_unix_s


def _why_not(name: str, snapshot: Snapshot) -> CannotTell:
    """Why a layer cannot be judged."""
    layer, title = snapshot.layers.get(name), layer_title(snapshot, name)
    if layer is None:
        return CannotTell(f"layer {title} is not measured")
    if isinstance(layer, Unavailable):
        return CannotTell(f"layer {title}: {layer.reason}")
    return CannotTell(f"layer {title} is counted by /proc, not by BPF")


def _finding(rule: Rule, state: _State) -> Finding:
    verdict = state.verdict
    return Finding(
        rule=rule.name,
        title=printable(verdict.title or rule.title, MAX_TEXT),
        layer=verdict.layer or rule.layer,
        severity=verdict.severity,
        confidence=verdict.confidence,
        cause=printable(verdict.cause, MAX_TEXT),
        evidence=tuple(map(_evidence, verdict.evidence)),
        advice=printable(verdict.advice, MAX_TEXT),
        command=_command(verdict.command),
        false_alarm=rule.false_alarm,
        since_unix_s=state.since_unix_s,
        subject=printable(verdict.subject, MAX_TEXT),
    )


def _command(text: str) -> str:
    """The command as it can be printed; "" where it is too long: half of it is another one."""
    whole = printable(text, MAX_TEXT + 1)
    return whole if len(whole) <= MAX_TEXT else ""


def _evidence(said: Evidence) -> Evidence:
    return replace(
        said, text=printable(said.text, MAX_TEXT), source=printable(said.source, MAX_TEXT)
    )
