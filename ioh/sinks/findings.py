"""Findings as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from ioh.model.finding import Finding, NotEvaluated
from ioh.sinks.cells import clock, safe_name

SIGNS = {"critical": "!!", "warning": "! ", "info": "i "}
_INDENT = "   "


def render_headline(finding: Finding, width: int) -> Iterator[str]:
    """Sign, title and cause, wrapped."""
    text = f"{safe_name(finding.title)}: {safe_name(finding.cause)}"
    yield from _wrapped(f"{SIGNS[finding.severity]} ", text, width)


def render_advice(finding: Finding, width: int) -> Iterator[str]:
    """Advice and command."""
    yield from _wrapped(_INDENT, safe_name(finding.advice), width)
    if finding.command:
        yield f"{_INDENT}  {safe_name(finding.command)}"


def render_evidence(
    finding: Finding, layer_titles: Mapping[str, str], width: int, *, utc: bool
) -> Iterator[str]:
    """Evidence, confidence, false alarm and check; ``layer_titles`` by layer name."""
    for item in finding.evidence:
        source = f" [{safe_name(item.source)}]" if item.source else ""
        yield from _wrapped(f"{_INDENT}- ", safe_name(item.text) + source, width)
    since = clock(finding.since_unix_s, utc=utc)
    title = safe_name(layer_titles.get(finding.layer, finding.layer))
    where = f"layer {title}, " if title else ""
    yield f"{_INDENT}{where}confidence {finding.confidence}, since {since}"
    yield from _wrapped(f"{_INDENT}may be a false alarm: ", safe_name(finding.false_alarm), width)
    yield from _wrapped(f"{_INDENT}wrong if: ", f"{safe_name(finding.wrong_if)}:", width)
    yield f"{_INDENT}  {safe_name(finding.check)}"


def render_not_evaluated(rules: Iterable[NotEvaluated], width: int) -> Iterator[str]:
    """The rules that could not be evaluated, by reason."""
    reasons: dict[str, list[str]] = {}
    for rule in rules:
        reasons.setdefault(rule.reason, []).append(rule.rule)
    for reason, names in reasons.items():
        yield from _wrapped(
            "-  ", f"not evaluated ({safe_name(reason)}): {', '.join(names)}", width
        )


def render_times(begin_unix_s: float, end_unix_s: float, *, utc: bool) -> str:
    """Begin, end and duration of a finding."""
    span = f"{clock(begin_unix_s, utc=utc)} to {clock(end_unix_s, utc=utc)}"
    return f"{_INDENT}from {span}, {end_unix_s - begin_unix_s:.0f} s"


def _wrapped(lead: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
