"""The screen of all findings, with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ioh.model.finding import Finding, worst_first
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import clock, safe_name
from ioh.sinks.findings import SIGNS
from ioh.terminal.line import Line, Span, wrapped
from ioh.tui.render.text_screens import Page, chosen_in
from ioh.tui.state import ViewState

SEVERITY_STYLES = {"critical": "crit", "warning": "warn", "info": "dim"}
_MISSING = "not evaluated"
_DAY_S = 43_200


def reasons(findings: Iterable[Finding], layer: str, way: str = "") -> list[Span]:
    """`` ! Slow disk ``: a layer's findings, the worst first.

    ``way`` of io_path.KINDS leaves out those that are about others only.
    """
    spans = [
        (f" {SIGNS[each.severity].strip()} {finding_title(each)} ", SEVERITY_STYLES[each.severity])
        for each in sorted(findings, key=worst_first)
        if each.layer == layer and (not way or not each.ways or way in each.ways)
    ]
    return list(dict.fromkeys(spans))  # several devices may have the same one


def key_of(finding: Finding) -> str:
    """Identifies a finding from interval to interval."""
    return f"{finding.since_unix_s}/{finding.rule}/{finding.subject}/{finding.host}"


def finding_title(finding: Finding) -> str:
    """The title, with the host if there are several."""
    host = f"{safe_name(finding.host)}: " if finding.host else ""
    return host + safe_name(finding.title)


def render_findings(  # noqa: PLR0913
    state: ViewState,
    snapshot: Snapshot,
    known: Sequence[Finding],
    width: int,
    *,
    utc: bool,
    begun_unix_s: float | None = None,
) -> Page:
    """All findings of the session, newest first, then rules that were not evaluated, and why.

    The chosen finding is unfolded: its evidence and advice.  Findings of the snapshot are active;
    ``begun_unix_s`` is the begin of a problem that no rule reports yet.
    """
    now = {key_of(finding): finding for finding in snapshot.findings}
    by_key = {**{key_of(finding): finding for finding in known}, **now}
    shown = sorted(by_key.values(), key=lambda f: (-f.since_unix_s, worst_first(f)))
    keys = [*(key_of(finding) for finding in shown), _MISSING]
    chosen, page = chosen_in(keys, state), Page()
    lines = page.frame.lines
    if not now and begun_unix_s is not None:
        text = f"Something began at {clock(begun_unix_s, utc=utc)}. "
        text += "A rule reports it once it lasts some seconds: "
        text += "press the right arrow or Space to continue."
        lines += wrapped(text, width, "accent")
    elif not now:
        lines.append(Line(" No findings in this interval.", "good"))
    for at, (finding, key) in enumerate(zip(shown, keys, strict=False)):
        is_old = abs(snapshot.time_unix_s - finding.since_unix_s) > _DAY_S
        since = clock(finding.since_unix_s, utc=utc, with_date=is_old)
        title = f" {since} {SIGNS[finding.severity]} {finding_title(finding)}"
        line = _line(finding, title, is_now=key in now, is_open=at == chosen)
        page.add(line, width, key, "visit", f"{finding.since_unix_s}@{finding.host}")
        lines += _unfolded(finding, width) if at == chosen else []
    missing = snapshot.not_evaluated
    if missing:
        is_open = chosen >= len(shown)
        text = f" {len(missing)} rule{'s' if len(missing) > 1 else ''} not evaluated"
        line = Line(text + ("" if is_open else ": select this line for the reasons"), "head")
        is_marked = is_open and shown
        page.add(line.fitted(width).styled("sel") if is_marked else line, width, _MISSING)
        for rule in missing if is_open else ():
            text = f"{safe_name(rule.title)}: {safe_name(rule.reason)}"
            lines += wrapped(text, width, "dim", 3)
    return page


def _line(finding: Finding, title: str, *, is_now: bool, is_open: bool) -> Line:
    """A finding's line; a click goes to the finding's begin."""
    if is_open:
        on = "active, " if is_now else ""
        line = Line(title, "sel").add("   ").add("go there", "key")
        return line.add(f"   {on}{finding.severity}, confidence {finding.confidence}", "dim")
    line = Line(title, SEVERITY_STYLES[finding.severity] if is_now else "dim")
    return line.add(f"   {safe_name(finding.cause)}", "" if is_now else "dim")


def _unfolded(finding: Finding, width: int) -> list[Line]:
    """A finding's evidence and advice."""
    parts = [(safe_name(finding.cause), "strong", 3)]
    for evidence in finding.evidence:
        source = f"   [{safe_name(evidence.source)}]" if evidence.source else ""
        parts.append((f"- {safe_name(evidence.text)}{source}", "", 5))
    if finding.advice:
        parts.append((f"Advice: {safe_name(finding.advice)}", "", 3))
    if finding.command:
        parts.append((safe_name(finding.command), "key", 5))
    if finding.false_alarm:
        parts.append((f"May be a false alarm: {safe_name(finding.false_alarm)}", "dim", 3))
    parts.append((f"Wrong if: {safe_name(finding.wrong_if)}:", "dim", 3))
    parts.append((safe_name(finding.check), "dim", 5))
    lines = [line for text, style, indent in parts for line in wrapped(text, width, style, indent)]
    return [*lines, Line()]
