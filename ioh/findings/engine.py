"""Judge Snapshots one by one: a rule's verdict becomes a finding once it lasts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice

from ioh.findings.config import Config
from ioh.findings.rule import Rule, Verdict, all_rules
from ioh.findings.window import Window
from ioh.model.finding import Failed, Finding, NotEvaluated, worst_first
from ioh.model.printable import printable
from ioh.model.sample import Unavailable
from ioh.model.snapshot import Snapshot

MAX_TEXT = 600
# Findings per rule: a machine with a thousand slow disks has one problem.
MAX_SUBJECTS = 8
_MAX_VERDICTS = 256  # read per rule, so that a subject may drop out of the first 8 and stay on
# A tick that is later than this means that intervals are missing.
GAP_S = 2.0


@dataclass(slots=True)
class _State:
    """One rule's verdict on one subject over time."""

    since_unix_s: float
    seen_unix_s: float
    verdict: Verdict
    is_on: bool = False


class Engine:
    """Keeps the window, the thresholds and the hysteresis for one stream of Snapshots.

    Args:
        rules: The rules; None for all.
        config: Disabled rules and changed thresholds.
    """

    def __init__(self, rules: Iterable[Rule] | None = None, config: Config | None = None) -> None:
        available = all_rules().values() if rules is None else rules
        config = config or Config()
        self._rules = [rule for rule in available if rule.name not in config.off]
        self._limits = {rule.name: config.limits_of(rule) for rule in self._rules}
        self._begin()

    def _begin(self) -> None:
        """Forget all intervals and their findings."""
        self._states: dict[str, dict[str, _State]] = {rule.name: {} for rule in self._rules}
        self._window = Window(
            max((rule.span_s for rule in self._rules), default=1.0),
            chain.from_iterable(rule.recalls for rule in self._rules),
        )
        # The intervals before the finding of a rule that compares with them began.
        self._bases: dict[str, tuple[Snapshot, ...]] = {}

    @property
    def look_back_s(self) -> float:
        """How far back from a Snapshot its findings can depend on earlier ones."""
        return max((r.span_s + r.hold_s + r.release_s for r in self._rules), default=0.0)

    @property
    def rule_layers(self) -> dict[str, str]:
        """The layer of each enabled rule."""
        return {rule.name: rule.layer for rule in self._rules}

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """Return the Snapshot with its findings, worst first."""
        if len(self._window) > 0 and not _follows(self._window.newest, snapshot):
            self._begin()
        self._window.add(snapshot)
        verdicts_of, not_evaluated = self._judge_each(snapshot)
        findings: list[Finding] = []
        for rule in sorted(self._rules, key=lambda rule: bool(rule.yields_to)):
            is_outdone = any(other in verdicts_of for other in rule.yields_to)
            verdicts = () if is_outdone else verdicts_of.get(rule.name, ())
            if is_outdone and any(map(self._is_on, rule.yields_to)):
                self._states[rule.name] = {}  # do not stand beside it for release_s
            if verdicts or self._states[rule.name]:
                findings += self._update(rule, verdicts, snapshot)
            if rule.compares:
                self._keep_basis(rule)
        findings.sort(key=worst_first)
        return replace(snapshot, findings=tuple(findings), not_evaluated=tuple(not_evaluated))

    def _judge_each(
        self, snapshot: Snapshot
    ) -> tuple[dict[str, tuple[Verdict, ...]], list[NotEvaluated]]:
        """The verdicts by rule, and the rules that have no inputs or a defect."""
        verdicts_of: dict[str, tuple[Verdict, ...]] = {}
        not_evaluated: list[NotEvaluated] = []
        for rule in self._rules:
            if (why := _why_not(rule, snapshot)) is not None:
                reason = printable(why, MAX_TEXT)
                not_evaluated.append(NotEvaluated(rule.name, rule.title, reason))
            elif rule.may_be_short or self._window.covers(rule.recent_s):
                try:
                    verdicts = self._verdicts(rule)
                except Exception as error:  # noqa: BLE001 (last guard: keep the other rules)
                    not_evaluated.append(Failed.by(error, rule.name, rule.title))
                    continue
                if verdicts:
                    verdicts_of[rule.name] = verdicts
        return verdicts_of, not_evaluated

    def _verdicts(self, rule: Rule) -> tuple[Verdict, ...]:
        """A rule's verdicts on the newest intervals."""
        self._window.basis = self._bases.get(rule.name)
        recent = self._window.recent(rule.recent_s)
        return tuple(islice(rule.judge(recent, self._limits[rule.name]), _MAX_VERDICTS))

    def _is_on(self, name: str) -> bool:
        """Whether a rule has a finding."""
        return any(state.is_on for state in self._states.get(name, {}).values())

    def _keep_basis(self, rule: Rule) -> None:
        """Keep the intervals before a rule's first finding for as long as it has one."""
        began_s = [x.since_unix_s for x in self._states[rule.name].values() if x.is_on]
        if not began_s:
            self._bases.pop(rule.name, None)
        elif rule.name not in self._bases:
            # The first verdict was on the mean of the last recent_s.
            self._bases[rule.name] = self._window.until(min(began_s) - rule.recent_s)

    def _update(
        self, rule: Rule, verdicts: tuple[Verdict, ...], snapshot: Snapshot
    ) -> list[Finding]:
        """Update a rule's states with its verdicts; return its current findings."""
        states = self._states[rule.name]
        now = snapshot.time_unix_s
        begun = now - snapshot.interval_s
        for verdict in verdicts[:MAX_SUBJECTS]:
            state = states.get(verdict.subject)
            if state is None:
                states[verdict.subject] = state = _State(begun, now, verdict)
            state.verdict, state.seen_unix_s = verdict, now
            state.is_on = state.is_on or now - state.since_unix_s >= rule.hold_s * 0.95
        subjects = {verdict.subject for verdict in verdicts}
        for subject, state in list(states.items()):
            is_gone = not state.is_on or now - state.seen_unix_s >= rule.release_s * 0.95
            if subject not in subjects and is_gone:
                del states[subject]
        recent_s = self._window.recent(rule.recent_s).seconds
        return [_finding(rule, state, recent_s) for state in states.values() if state.is_on]


def _follows(before: Snapshot, after: Snapshot) -> bool:
    """Whether ``after`` directly follows ``before``, on the same machine."""
    gap_s = after.time_unix_s - after.interval_s - before.time_unix_s
    allowed_s = max(GAP_S, after.interval_s / 2)
    same = (before.hostname, before.kernel) == (after.hostname, after.kernel)
    return same and -allowed_s / 2 <= gap_s <= allowed_s and after.time_unix_s > before.time_unix_s


def _why_not(rule: Rule, snapshot: Snapshot) -> str | None:
    """Why a rule is not evaluated; None if all layers that it needs are measured."""
    for name in (*rule.needs, *rule.probed):
        layer, title = snapshot.layers.get(name), snapshot.title(name)
        if layer is None:
            return f"layer {title} is not measured"
        if isinstance(layer, Unavailable):
            return f"layer {title}: {layer.reason}"
        if name in rule.probed and layer.source == "proc":
            return f"layer {title} is measured from /proc, not by BPF"
    return None


def _finding(rule: Rule, state: _State, recent_s: float) -> Finding:
    verdict = state.verdict
    return Finding(
        rule=rule.name,
        title=printable(verdict.title or rule.title, MAX_TEXT),
        layer=verdict.layer or rule.layer,
        severity=verdict.severity,
        confidence=verdict.confidence,
        cause=printable(verdict.cause, MAX_TEXT),
        evidence=tuple(
            replace(x, text=printable(x.text, MAX_TEXT), source=printable(x.source, MAX_TEXT))
            for x in verdict.evidence
        ),
        advice=printable(verdict.advice, MAX_TEXT),
        command=_command(verdict.command),
        false_alarm=rule.false_alarm,
        wrong_if=rule.wrong_if,
        check=rule.check,
        since_unix_s=state.since_unix_s,
        subject=printable(verdict.subject, MAX_TEXT),
        ways=verdict.ways or rule.ways,
        recent_s=round(recent_s, 1),
    )


def _command(text: str) -> str:
    """The command, printable; "" if it is too long, as part of it would be a different command."""
    whole = printable(text, MAX_TEXT + 1)
    return whole if len(whole) <= MAX_TEXT else ""
