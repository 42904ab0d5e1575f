"""Which moment a clock time means: of which day, and on days when clocks change."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ioh.model.errors import IohError
from ioh.playback.time_range import Span, excerpt_of, parse_when, unmarked_unix_s
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.sessions import recorded

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc).timestamp()


def berlin(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("text", "start", "end", "found"),
    [
        # The minute in which the recording begins: of the same day.
        ("14:31", "2026-11-21T14:31:38", "2026-11-21T14:32:49", "2026-11-21T14:31:00"),
        ("13:00", "2026-11-21T14:31:38", "2026-11-21T14:32:49", "2026-11-21T13:00:00"),
        # Past at the start, and the recording lasts until that time on the next day, or nearly.
        ("00:30", "2026-11-21T23:50:00", "2026-11-22T01:00:00", "2026-11-22T00:30:00"),
        ("00:30", "2026-11-21T23:50:00", "2026-11-22T00:20:00", "2026-11-22T00:30:00"),
        ("14:31", "2026-11-21T14:31:38", "2026-11-22T16:00:00", "2026-11-22T14:31:00"),
        ("2026-11-21 14:31", "2026-11-21T14:31:38", "2026-11-24T00:00:00", "2026-11-21T14:31:00"),
    ],
)
def test_a_clock_time_is_on_a_day_of_the_recording(
    text: str, start: str, end: str, found: str
) -> None:
    when, end_unix_s = parse_when(text), utc(end)
    assert unmarked_unix_s(when, utc(start), end_unix_s=end_unix_s, utc=True) == utc(found)


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize("day", ["2026-10-25", "2026-03-29", "2026-11-21"])
def test_a_clock_time_is_right_on_days_when_clocks_change(day: str) -> None:
    start, end = berlin(f"{day}T00:10"), berlin(f"{day}T23:00")
    for clock in ("00:30", "14:00", "14:00:07"):
        for text in (clock, f"{day} {clock}"):
            found = unmarked_unix_s(parse_when(text), start, end_unix_s=end)
            assert found == berlin(f"{day}T{clock}")


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("start", "end"),
    [("2026-10-24T23:00", "2026-10-25T12:00"), ("2026-03-28T23:00", "2026-03-29T12:00")],
)
def test_the_next_day_may_have_23_or_25_hours(start: str, end: str) -> None:
    found = unmarked_unix_s(parse_when("11:00:00.5"), berlin(start), end_unix_s=berlin(end))
    assert found == berlin(end[:11] + "11:00") + 0.5


def test_the_end_of_a_part_is_the_next_such_time_after_its_start(tmp_path: Path) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12)))  # 15:44:47 to 15:44:58
    minute = utc("2012-04-24T15:44:00")
    with Session(str(path)) as session:

        def span(begin: str, end: str) -> tuple[float, float]:
            excerpt = excerpt_of(Span(parse_when(begin), parse_when(end), utc=True), session)
            return excerpt.begin_unix_s, excerpt.end_unix_s

        assert span("15:44", "15:45") == (minute, minute + 60)
        assert span("15:44:50", "00:10") == (minute + 50, utc("2012-04-25T00:10:00"))
        assert span("2012-04-23 10:00", "15:45")[1] == minute + 60
        with pytest.raises(IohError, match='"15:44" is not after "15:44:50"'):
            span("15:44:50", "15:44")
