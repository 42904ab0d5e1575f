"""What is wrong, in words: the strip of the overview, and the screen with all the evidence."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from ioh.model.finding import Finding, NotEvaluated
from ioh.sinks.cells import safe_name
from ioh.tui.render.header import clock
from ioh.tui.render.line import Frame, Line

SEVERITY_STYLES = {"critical": "crit", "warning": "warn", "info": "accent"}
_SIGNS = {"critical": "!!", "warning": "! ", "info": "i "}


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then the oldest."""
    order = list(SEVERITY_STYLES)
    return sorted(findings, key=lambda f: (order.index(f.severity), f.since_unix_s))


def render_strip(findings: Sequence[Finding], width: int, height: int) -> Frame:
    """At most ``height`` lines, the worst findings; a click opens the findings screen."""
    frame = Frame()
    shown = ranked(findings)
    for at, finding in enumerate(shown[:height]):
        more = len(shown) - height if at == height - 1 else 0
        line = Line(f" {_SIGNS[finding.severity]}", SEVERITY_STYLES[finding.severity])
        line.add(f"{safe_name(finding.title)}: ", SEVERITY_STYLES[finding.severity])
        line.add(safe_name(finding.cause))
        if finding.advice:
            line.add(f" {safe_name(finding.advice)}", "dim")
        if more > 0:
            line = line.fitted(width - 10).add(f" +{more} (f)", "dim")
        frame.add(line.fitted(width), (0, width, "findings", ""))
    return frame


def render_findings(
    findings: Sequence[Finding],
    missing: Sequence[NotEvaluated],
    width: int,
    *,
    utc: bool,
    begun_unix_s: float | None = None,
) -> Frame:
    """Every finding with its evidence and advice, then what could not be judged and why.

    Args:
        findings: Those of the interval.
        missing: What could not be judged in it.
        width: Columns there are.
        utc: Whether clock times are UTC.
        begun_unix_s: When something began a moment before, of which the rules tell later.
    """
    frame = Frame()
    if not findings and begun_unix_s is not None:
        text = f"Something began at {clock(begun_unix_s, utc=utc)}: the rules tell of it once it "
        text += "has lasted for some seconds. Go on with the right arrow or Space."
        _wrap(frame, text, width, "accent", 1)
    elif not findings:
        frame.add(Line(" Nothing found wrong in this interval.", "good"))
    for finding in ranked(findings):
        _add_finding(frame, finding, width, utc=utc)
    if missing:
        frame.add(Line())
        frame.add(Line(" Not evaluated", "head"))
        for rule in missing:
            _wrap(frame, f"{safe_name(rule.title)}: {safe_name(rule.reason)}", width, "dim", 3)
    return frame


def _add_finding(frame: Frame, finding: Finding, width: int, *, utc: bool) -> None:
    style = SEVERITY_STYLES[finding.severity]
    since = clock(finding.since_unix_s, utc=utc)
    line = Line(f" {_SIGNS[finding.severity]}{safe_name(finding.title)}", style)
    line.add(f"   {finding.severity}, confidence {finding.confidence}, since {since}   ", "dim")
    line.add("go there", "key")
    frame.add(line.fitted(width), (0, width, "visit", finding.since_unix_s))
    _wrap(frame, safe_name(finding.cause), width, "strong", 3)
    for evidence in finding.evidence:
        source = f"   [{safe_name(evidence.source)}]" if evidence.source else ""
        _wrap(frame, f"- {safe_name(evidence.text)}{source}", width, "", 5)
    if finding.advice:
        _wrap(frame, f"Advice: {safe_name(finding.advice)}", width, "", 3)
    if finding.command:
        _wrap(frame, safe_name(finding.command), width, "key", 5)
    if finding.false_alarm:
        _wrap(frame, f"A false alarm if: {safe_name(finding.false_alarm)}", width, "dim", 3)
    frame.add(Line())


def _wrap(frame: Frame, text: str, width: int, style: str, indent: int) -> None:
    for part in textwrap.wrap(text, max(20, width - indent - 1)):
        frame.add(Line(" " * indent).add(part, style).fitted(width))
