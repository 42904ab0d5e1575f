"""The findings screen as strings: all of the session, the one chosen unfolded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ioh.model.finding import Finding, NotEvaluated
from ioh.sinks.cells import clock
from ioh.tui.render.findings import render_findings
from ioh.tui.render.pages import FOLLOW, Page
from ioh.tui.state import ViewState
from tests.screens import FINDINGS, MISSING, minute


def findings_page(
    state: ViewState = ViewState(),  # noqa: B008 (frozen)
    known: Sequence[Finding] = (),
    findings: tuple[Finding, ...] = FINDINGS,
    missing: tuple[NotEvaluated, ...] = MISSING,
    begun_unix_s: float | None = None,
) -> Page:
    shown = replace(minute()[-1], findings=findings, not_evaluated=missing)
    return render_findings(state, shown, known, 100, utc=True, begun_unix_s=begun_unix_s)


def test_all_that_is_known_of_a_finding_is_on_its_screen() -> None:
    page = findings_page()
    text = page.frame.text()
    finding = FINDINGS[2]  # the newest
    for said in (
        finding.title,
        finding.cause,
        "8.0 READs for each read   [/proc/mounts]",
        "rsize is 131,072",
        finding.advice,
        finding.command,
        finding.false_alarm,
        finding.wrong_if,
        finding.check,
        "confidence high",
        "on now, critical, confidence high",
        "1 rule not evaluated",
    ):
        assert said in text
    assert "Segments lost" not in text, "folded"
    assert text.count("Advice: ") == 1
    newest_first = [finding.since_unix_s for finding in (FINDINGS[2], FINDINGS[0], FINDINGS[1])]
    assert [hit.argument for hit in page.frame.hits] == newest_first
    assert [entry.argument for entry in page.entries] == [*newest_first, ""]
    assert "No findings" in findings_page(findings=(), missing=()).frame.text()


def test_findings_of_the_past_stay_and_the_one_chosen_is_followed() -> None:
    older = findings_page(ViewState(line=1), known=FINDINGS[:2], findings=FINDINGS[:1])
    key = older.entries[1].key
    assert "No findings" not in older.frame.text()
    chosen = ViewState(line=1, line_key=key)
    page = findings_page(chosen, known=FINDINGS, findings=())
    assert "No findings in this interval." in page.frame.text()
    assert page.chosen(chosen) == 2, "a newer one has come above it"
    assert "on now" not in page.frame.text()
    last = findings_page(ViewState(line=3), known=FINDINGS)
    assert "Segments lost: no layer tcp" in last.frame.text()
    for height in (1, 5, 20, 100):
        seen = last.seen(last.scrolled(ViewState(line=3, scroll=FOLLOW), height), height)
        assert "rule not evaluated" in seen.text()


def test_where_something_begins_nothing_is_called_healthy() -> None:
    """The time line's signs are where findings begin; the rules tell of them a little later."""
    begun_unix_s = FINDINGS[0].since_unix_s
    text = findings_page(findings=(), begun_unix_s=begun_unix_s).frame.text()
    assert f"Something began at {clock(FINDINGS[0].since_unix_s, utc=True)}" in text
    assert "No findings" not in text
    assert "Segments lost: no layer tcp" in text
    told = findings_page(missing=(), begun_unix_s=1.0).frame.text()
    assert "Something began" not in told
