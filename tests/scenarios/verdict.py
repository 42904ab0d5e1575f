"""What the rules find in a recording of a scenario, and whether that is right."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ioh.findings.engine import Engine
from ioh.model.finding import Finding
from ioh.model.snapshot import Snapshot
from ioh.pipeline import snapshots
from ioh.session.reader import Session
from ioh.session.stream import Tick
from tests.scenarios.catalogue import Scenario
from tests.scenarios.evidence import WITHIN_S, Sign
from tests.scenarios.stage import BEGINS

NFS_RECORDING = Path(__file__).parents[1] / "data" / "nfs-session.ioh"
# About the CPUs of the machine that plays it, not about the scenario.
_OF_MACHINE = {"observer", "cpu_wait"}
RECORDINGS = Path(__file__).parents[1] / "data" / "scenarios"


@dataclass(frozen=True)
class Outcome:
    """When each rule first fired, and its worst finding, the last of equals.

    Units:
        Seconds from the sign, from the mark if no sign was asked for, or from the first sample
        if there is no mark.
    """

    after_s: dict[str, float]
    last: dict[str, Finding]

    def __str__(self) -> str:
        fired = [f"{rule} after {after_s:.1f} s" for rule, after_s in self.after_s.items()]
        return ", ".join(fired) or "silent"


def judged_recording(path: Path) -> tuple[Iterator[Snapshot], dict[str, float]]:
    """Every interval of a recording, judged by all rules, and the time of each mark."""
    with Session(str(path)) as session:
        samples = [item.sample for item in session.items(0) if isinstance(item, Tick)]
        marks = {mark.text: mark.time_unix_s for mark in session.marks()}
    assert samples, f"{path} holds no samples"
    return snapshots(samples, Engine), marks


def judge_phases(path: Path, sign: Sign) -> dict[str, dict[str, tuple[float, Finding]]]:
    """For a recording with a mark at the start of each phase: each rule's first finding in it.

    Returns:
        By mark and rule: seconds after the first sign in that phase, and the finding.

    Raises:
        AssertionError: A rule fired in a phase before any sign.
    """
    intervals, marks = judged_recording(path)
    found: dict[str, dict[str, tuple[float, Finding]]] = {}
    shown_s: dict[str, float] = {}
    since: dict[str, list[Snapshot]] = {}
    for snapshot in intervals:
        begun = [name for name, time_s in marks.items() if time_s <= snapshot.time_unix_s]
        if not begun:
            continue
        phase = begun[-1]
        since.setdefault(phase, []).append(snapshot)
        if phase not in shown_s and sign.is_shown(since[phase]):
            shown_s[phase] = snapshot.time_unix_s
        for finding in snapshot.findings:
            assert phase in shown_s, f"{finding.rule} without a sign: {finding.cause}"
            after_s = snapshot.time_unix_s - shown_s[phase]
            found.setdefault(phase, {}).setdefault(finding.rule, (after_s, finding))
    return found


def judge(path: Path, sign: Sign | None = None) -> Outcome:
    """Run all rules over a recording.

    Raises:
        AssertionError: The recording never shows the sign.
    """
    intervals, marks = judged_recording(path)
    first_s: dict[str, float] = {}
    last: dict[str, Finding] = {}
    since: list[Snapshot] = []
    begun_s, shown_s = marks.get(BEGINS), None
    for snapshot in intervals:
        if begun_s is None:
            begun_s = snapshot.time_unix_s - snapshot.interval_s
        if snapshot.time_unix_s >= begun_s:
            since.append(snapshot)
            if shown_s is None and (sign is None or sign.is_shown(since)):
                shown_s = begun_s if sign is None else snapshot.time_unix_s
        for finding in snapshot.findings:
            first_s.setdefault(finding.rule, snapshot.time_unix_s)
            before = last.get(finding.rule)
            if before is None or before.severity == "info" or finding.severity != "info":
                last[finding.rule] = finding
    assert shown_s is not None, f"{path} does not show {sign}"
    return Outcome({rule: time_s - shown_s for rule, time_s in first_s.items()}, last)


@cache
def judge_recorded(name: str, sign: Sign | None = None) -> Outcome:
    """judge() of the kept recording of this scenario."""
    return judge(RECORDINGS / f"{name}.ioh", sign)


def absent_paths(outcome: Outcome) -> list[str]:
    """Paths in the commands of findings that do not exist on this machine, which was recorded."""
    return [
        word
        for finding in outcome.last.values()
        for word in shlex.split(finding.command, comments=True)
        if word.startswith("/") and not list(Path("/").glob(word.rstrip(";").lstrip("/")))
    ]


def complaint(scenario: Scenario, outcome: Outcome) -> str:
    """What is wrong; "" if nothing is."""
    known = {scenario.rule, *scenario.also, *scenario.says, *_OF_MACHINE}
    wrong = sorted(
        rule
        for rule, finding in outcome.last.items()
        if rule not in known or (not scenario.rule and finding.severity != "info")
    )
    if wrong:
        said = "; ".join(f"{rule}: {outcome.last[rule].cause}" for rule in wrong)
        return f"FALSE ALARM {said}"
    if missed := sorted({*scenario.says, scenario.rule} - {"", *outcome.after_s}):
        return f"MISSED {', '.join(missed)}"
    after_s = outcome.after_s.get(scenario.rule, 0.0)
    if after_s < 0:
        return f"TOO EARLY {after_s:.1f} s: {outcome.last[scenario.rule].cause}"
    if after_s > WITHIN_S:
        return f"LATE by {after_s - WITHIN_S:.1f} s"
    return ""
