"""Header, time line, footer and the screen of findings, as strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.finding import Finding, NotEvaluated
from ioh.model.player import Extent, TimelineEvent
from ioh.model.snapshot import HostStats
from ioh.sinks.cells import clock, display_width
from ioh.tui.render.findings import render_findings
from ioh.tui.render.footer import render_keys
from ioh.tui.render.header import HeaderView, lateness, render_header
from ioh.tui.render.text_screens import FOLLOW, Page
from ioh.tui.render.timeline import TimelineView, passed_moment, render_timeline
from ioh.tui.state import ViewState
from tests.support.demo_samples import START_S
from tests.support.screens import FINDINGS, MISSING, MOMENTS, minute

LIVE = HeaderView("live", "live", utc=True)


def header(width: int = 200, **changes: object) -> str:
    return render_header(minute()[-1], replace(LIVE, **changes), width).text  # type: ignore[arg-type]


def test_the_header_shows_the_mode_and_the_speed() -> None:
    assert "● LIVE 1s" in header()
    assert "● LIVE 0.5s" in header(cycle_s=0.5)
    assert "‖ PAUSED" in header(shown="paused")
    assert "▶ REPLAY  " in header(mode="replay", shown="playing")
    assert "▶ REPLAY 8x" in header(mode="replay", shown="playing", speed=8.0)
    assert "‖ PAUSED 0.5x" in header(mode="replay", shown="paused", speed=0.5)
    assert "● DEMO" in header(mode="demo")
    assert "‖ DEMO" in header(mode="demo", shown="paused")


def test_a_late_tick_is_shown_however_narrow_the_header() -> None:
    assert "LATE" not in header(age_s=1.0)
    assert "LATE 2.5 s" in header(age_s=2.5)
    assert "LATE 2.5 s" in header(60, age_s=2.5)
    assert lateness(LIVE, 1.0) == ""
    assert lateness(LIVE, 3.0) == "interval 3.0 s"
    assert lateness(replace(LIVE, cycle_s=5.0), 5.01) == ""
    assert lateness(replace(LIVE, age_s=7.0), 3.0) == "LATE 7.0 s"


def of_interval(**changes: object) -> str:
    return render_header(replace(minute()[-1], **changes), LIVE, 220).text  # type: ignore[arg-type]


def test_a_share_of_the_host_is_whole_or_a_dash_if_unknown() -> None:
    known = of_interval(host=HostStats(cpu_pct=0.04, iowait_pct=0.91, steal_pct=12.34))
    assert "cpu <1%  iowait <1%  steal 12%  " in known
    unknown = of_interval(host=HostStats(cpu_pct=0.0))
    assert "cpu 0%  iowait -" in unknown
    assert "load -  dirty -" in unknown
    assert "io psi" not in unknown


def test_the_cost_of_ioh_itself_is_not_shown_if_unknown() -> None:
    assert "ioh itself" not in of_interval(self_cpu_pct=None, bpf_cpu_pct=None)
    assert "ioh itself 1.50% of a core" in of_interval(self_cpu_pct=None, bpf_cpu_pct=1.5)


def test_the_cost_of_dear_probes_is_shown_where_it_has_no_room_otherwise() -> None:
    dear = replace(
        minute()[-1], bpf_cpu_pct=15.0, findings=(replace(FINDINGS[0], rule="observer"),)
    )
    usual = replace(dear, findings=())
    lines = [render_header(snapshot, LIVE, 100).text for snapshot in (dear, usual)]
    assert ["ioh itself" in line for line in lines] == [True, False]


def line_at(at_s: float, *, extent_s: float = 60.0, **changes: object) -> TimelineView:
    extent = Extent(1, 60, START_S, START_S + extent_s)
    view = TimelineView(extent, START_S + at_s, (), (), utc=True)
    return replace(view, **changes)  # type: ignore[arg-type]


def timeline(at_s: float, width: int = 60, **changes: object) -> str:
    return render_timeline(line_at(at_s, **changes), width).lines[0].text  # type: ignore[arg-type]


def test_a_click_on_the_track_goes_to_its_moment() -> None:
    (hit,) = render_timeline(line_at(10.0), 60).hits
    assert (hit.left, hit.right) == (10, 50)
    times = [float(hit.at(x).argument) for x in range(10, 50)]
    assert times == sorted(times)
    assert START_S < times[0] < START_S + 1.5
    assert START_S + 58.5 < times[-1] < START_S + 60


@given(st.integers(1, 300), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-9, 60.0, 1e6]))
def test_a_time_line_is_as_wide_as_the_screen(width: int, at_s: float, extent_s: float) -> None:
    view = line_at(at_s, extent_s=extent_s, moments=MOMENTS, text="mark: a long story " * 9)
    frame = render_timeline(view, width)
    assert [line.width for line in frame.lines] == [width]
    assert all(hit.left < hit.right for hit in frame.hits)


@pytest.mark.parametrize("text", ["mark: " + "long " * 30, "mark: 数数数数"])
@pytest.mark.parametrize("width", [30, 60, 200])
def test_text_on_the_time_line_moves_nothing_else(width: int, text: str) -> None:
    for at_s in (0.0, 10.0, 30.0, 45.0, 60.0):
        plain = render_timeline(line_at(at_s), width)
        said = render_timeline(line_at(at_s, text=text), width)
        assert said.hits == plain.hits
        (line, old) = (frame.lines[0] for frame in (said, plain))
        assert line.width == old.width
        assert line.text[:10] == old.text[:10]
        assert line.text[-10:] == old.text[-10:]
        before = display_width(line.text[: line.text.index("█")])
        assert before == old.text.index("█")
        if width >= 60:
            assert text[:10] in line.text


def test_time_not_yet_searched_for_findings_is_dotted() -> None:
    track = timeline(59.0, looked_until_unix_s=START_S + 30)[10:50]
    assert track == "─" * 20 + "·" * 19 + "█"


def test_marks_and_gaps_just_passed_are_shown() -> None:
    def passed(begin_s: float, end_s: float) -> str:
        return passed_moment(MOMENTS, START_S + begin_s, START_S + end_s)

    assert passed(10, 11) == "mark: fio run 3 starts"
    assert passed(11, 12) == ""
    assert passed(33, 34) == "GAP of 4 s: the disk was full"
    assert passed(30, 31) == ""
    assert passed_moment((TimelineEvent(START_S, "zero"),), START_S - 1, START_S) == "mark: zero"
    assert passed_moment((), 0, 1e12) == ""


def keys(width: int, layers: int = 5, *, is_replay: bool = True, is_zoomed: bool = False) -> str:
    """The last line; checks that each of its buttons is whole."""
    frame = render_keys(width, layers, is_replay=is_replay, is_zoomed=is_zoomed)
    (line,) = frame.lines
    assert line.width == width
    assert "~" not in line.text, "a key is there or not, never half"
    for hit in frame.hits:
        assert line.text[hit.left : hit.right].split()
        assert hit.right <= width
        assert hit.action == "key"
    return line.text


def test_the_footer_has_as_many_keys_as_fit_each_a_button() -> None:
    live = keys(300, is_replay=False)
    for said in ("1-5 layer", "Tab focus", "? help", "m mark", "R rec", "S save", "q quit"):
        assert said in live
    assert "+- speed" in keys(300)
    assert "+- speed" not in live
    assert "layer" not in keys(300, 0)
    for width in (80, 300):
        assert keys(width, is_zoomed=True).startswith(" Esc back  ")
    for width in range(1, 300, 7):
        keys(width)


def findings_page(
    state: ViewState = ViewState(),  # noqa: B008 (frozen)
    known: Sequence[Finding] = (),
    findings: tuple[Finding, ...] = FINDINGS,
    missing: tuple[NotEvaluated, ...] = MISSING,
    begun_unix_s: float | None = None,
) -> Page:
    shown = replace(minute()[-1], findings=findings, not_evaluated=missing)
    return render_findings(state, shown, known, 100, utc=True, begun_unix_s=begun_unix_s)


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


def test_an_interval_where_a_finding_begins_is_not_called_healthy() -> None:
    """The time line's signs are where findings begin; the rules report them a little later."""
    begun_unix_s = FINDINGS[0].since_unix_s
    text = findings_page(findings=(), begun_unix_s=begun_unix_s).frame.text()
    assert f"Something began at {clock(FINDINGS[0].since_unix_s, utc=True)}" in text
    assert "No findings" not in text
    assert "Segments lost: no layer tcp" in text
    told = findings_page(missing=(), begun_unix_s=1.0).frame.text()
    assert "Something began" not in told
