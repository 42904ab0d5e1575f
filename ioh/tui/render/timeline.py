"""The time line: all intervals, with marks, gaps, findings and the position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ioh.model.finding import Severity
from ioh.model.player import Extent, FindingBegin, TimelineEvent
from ioh.sinks.cells import clock, cut_to, display_width
from ioh.terminal.line import Hit, Line, ScreenFrame, Span

_SIGNS: dict[Severity, Span] = {
    "info": ("i", "dim"),
    "warning": ("!", "warn"),
    "critical": ("!", "crit"),
}


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The data of the time line.

    Shape:
        ``at_unix_s`` is the end of the interval shown; ``findings`` the begin of each one; ``text``
        of a mark in the interval shown; the search for findings is at ``looked_until_unix_s``,
        None if it is done.
    """

    extent: Extent
    at_unix_s: float
    moments: Sequence[TimelineEvent]
    findings: Sequence[FindingBegin]
    utc: bool = False
    text: str = ""
    looked_until_unix_s: float | None = None


def render_timeline(view: TimelineView, width: int) -> ScreenFrame:
    """One line; a click on the track goes to that time."""
    extent = view.extent
    begin, end = extent.start_unix_s, extent.end_unix_s
    spans_days = end - begin > 86_400
    left = " " + clock(begin, utc=view.utc, with_date=spans_days) + " "
    right = " " + clock(end, utc=view.utc, with_date=spans_days) + " "
    track = max(1, width - len(left) - len(right))
    line = Line(left, "dim")
    for style, cells in groupby(_cells(view, track), key=itemgetter(1)):
        line.add("".join(text for text, _ in cells), style)
    line.add(right, "dim")
    step_s = (end - begin) / track
    # A click goes to the middle of its column's time.
    hit = Hit(0, len(left), len(left) + track, "seek", begin + step_s / 2, step_s)
    return ScreenFrame([line.fitted(width)], [hit])


def _cells(view: TimelineView, track: int) -> list[tuple[str, str]]:
    """The track; later entries cover earlier ones."""
    begin, end = view.extent.start_unix_s, view.extent.end_unix_s
    length = end - begin

    def place(time_unix_s: float) -> int:
        share = (time_unix_s - begin) / length if length > 0 else 1.0
        return min(track - 1, max(0, int(share * track)))

    looked = track if view.looked_until_unix_s is None else place(view.looked_until_unix_s)
    found = [("─" if at < looked else "·", "rule") for at in range(track)]
    for severity, sign in _SIGNS.items():  # the gravest last
        for finding in view.findings:
            if finding.severity == severity:
                found[place(finding.since_unix_s)] = sign
    for moment in view.moments:
        if moment.until_unix_s is None:
            found[place(moment.time_unix_s)] = ("▼", "mark")
            continue
        for at in range(place(moment.time_unix_s), place(moment.until_unix_s) + 1):
            found[at] = ("╳", "crit")
    at = place(view.at_unix_s)
    found[at] = ("█", "strong")
    _label(found, at, view.text)
    return found


def _label(cells: list[tuple[str, str]], at: int, text: str) -> None:
    """Put a text next to the position, on the side with more room; the length stays."""
    after = len(cells) - at - 1
    is_after = display_width(text) + 2 <= after or after >= at
    room = (after if is_after else at) - 2
    if not text or room < 1:
        return
    shown = f" {cut_to(text, room)} "
    taken = display_width(shown)
    begin = at + 1 if is_after else at - taken
    cells[begin : begin + taken] = [(shown, "mark")]


def passed_moment(moments: Sequence[TimelineEvent], begin_s: float, end_s: float) -> str:
    """The mark in an interval, or the gap before it; else ""."""
    for moment in reversed(moments):
        if moment.until_unix_s is not None and begin_s < moment.until_unix_s <= end_s + 1e-6:
            lost_s = moment.until_unix_s - moment.time_unix_s
            return f"GAP of {lost_s:.0f} s: {moment.text}"
        if moment.until_unix_s is None and begin_s < moment.time_unix_s <= end_s:
            return f"mark: {moment.text}"
    return ""
