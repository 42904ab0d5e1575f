"""The verdict: the gravest finding and the command that mends it, in the first lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ioh.model.finding import Finding, worst_first
from ioh.sinks.cells import cut_to, display_width, safe_name
from ioh.sinks.findings import SIGNS
from ioh.terminal.line import Line, ScreenFrame
from ioh.tui.render.findings import SEVERITY_STYLES, finding_title

_COPY = "c copy"
_INDENT = 3


def render_verdict(findings: Sequence[Finding], width: int, height: int) -> ScreenFrame:
    """At most ``height`` lines: the gravest finding, its command, then others if there is room.

    A click on a finding opens all, one on the command copies it.
    """
    frame = ScreenFrame()
    if not findings or height < 1:
        return frame
    worst, *others = sorted(findings, key=worst_first)
    more = _over(worst) + (f"  +{len(others)} (f)" if others else "")
    tail, left = _command(worst, width, more) if height > 1 else (None, more)
    for line in _told(worst, left, width, height - (tail is not None)):
        frame.add(line, (0, width, "findings", ""))
    if tail is not None:
        frame.add(tail, (0, width, "key", "c") if worst.command else (0, width, "findings", ""))
    for other in others[: height - len(frame.lines)]:
        frame.add(_told(other, _over(other), width, 1)[0], (0, width, "findings", ""))
    return frame


def _over(finding: Finding) -> str:
    """The time that its numbers are of."""
    return f"  over {finding.recent_s:.0f} s" if finding.recent_s else ""


def worst_command(findings: Sequence[Finding]) -> str:
    """The command of the gravest finding, printable; "" if there is none."""
    worst = min(findings, key=worst_first, default=None)
    return safe_name(worst.command) if worst is not None else ""


def _told(finding: Finding, more: str, width: int, height: int) -> list[Line]:
    """The title and the cause, cut at the last line, which ends in ``more``."""
    head = f"{SIGNS[finding.severity].strip()} {finding_title(finding)}:"
    parts = textwrap.wrap(f"{head} {safe_name(finding.cause)}", max(20, width - 2))
    last, room = " ".join(parts[height - 1 :]), width - 1 - len(more)
    if display_width(last) > room:  # whole sentences, if the first one fits
        last = last[: last.rfind(". ", 0, room) + 1] or last
    parts = [*parts[: height - 1], last]
    lines, coloured = [], len(head)
    for part in filter(None, parts):
        line = Line(" ").add(part[:coloured], SEVERITY_STYLES[finding.severity])
        lines.append(line.add(part[coloured:]))
        coloured = max(0, coloured - len(part) - 1)
    lines[-1] = lines[-1].fitted(width - len(more)).add(more, "dim")
    return [line.fitted(width) for line in lines]


def _command(finding: Finding, width: int, more: str) -> tuple[Line | None, str]:
    """The command and the key that copies it, or the advice; and what has no room of ``more``."""
    line = Line(" " * _INDENT)
    if not finding.command:
        advice = safe_name(finding.advice)
        return line.add(advice, "dim").fitted(width) if advice else None, more
    command, copy = safe_name(finding.command), f"  {_COPY} "
    room = width - _INDENT - display_width(more + copy)
    if display_width(command) > room:  # what comes after it is a remark
        command = command.partition("  #")[0].rstrip()
    told = more if display_width(command) <= room else ""
    line.add(cut_to(command, width - _INDENT - display_width(told + copy)), "key")
    line.to(width - display_width(told + copy)).add(told + copy, "dim")
    return line.fitted(width), "" if told else more
