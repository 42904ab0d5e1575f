"""Recordings in which the clock was set, by hand, by NTP or after a sleep: nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ioh.commands.sample import SAMPLE, bundled_path
from ioh.playback.aggregate_interval import read_aggregate
from ioh.playback.time_range import Span, excerpt_of, parse_when
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.sessions import Shown, recorded

SET_AT = 50
SAMPLES = fakes.first(100)
STEPS = pytest.mark.parametrize("step_s", [-3600, 3600])


@cache
def recording(step_s: int) -> bytes:
    samples = (
        replace(sample, time_unix_s=sample.time_unix_s + (step_s if tick >= SET_AT else 0))
        for tick, sample in enumerate(SAMPLES)
    )
    return recorded(samples, {20: "run 20", 80: "run 80"})


@pytest.fixture
def session_file(tmp_path: Path, step_s: int) -> Path:
    path = tmp_path / "s.ioh"
    path.write_bytes(recording(step_s))
    return path


@STEPS
@pytest.mark.parametrize("begin", [[], ["--from", "0"]])
def test_json_shows_the_whole_recording(session_file: Path, begin: list[str], shown: Shown) -> None:
    told = shown("json", session_file, "--top", "0", "--no-findings", *begin)
    assert len(told.splitlines()) == len(SAMPLES) - 1


@STEPS
def test_a_report_covers_the_whole_recording(session_file: Path, step_s: int, shown: Shown) -> None:
    with Session(str(session_file)) as session:
        period = read_aggregate(session)
    assert period.ticks == len(SAMPLES) - 1
    assert period.begin_unix_s == SAMPLES[0].time_unix_s
    assert period.snapshot.interval_s == pytest.approx(len(SAMPLES) - 1)
    told = shown("report", session_file, "--utc")
    assert "from 2012-04-24 15:44:47 to " in told
    assert "  run 20\n" in told
    assert "  run 80\n" in told
    assert f"! the clock jumped by {step_s:+,} s" in told


def shifted(path: Path, shift_s: Callable[[int], float]) -> Path:
    """The sample recording, with the clock shifted by ``shift_s`` of each tick."""
    with Session(str(bundled_path(SAMPLE))) as session:
        ticks = list(session.ticks(0))
    path.write_bytes(
        recorded(
            replace(each.sample, time_unix_s=each.sample.time_unix_s + shift_s(each.tick))
            for each in ticks
        )
    )
    return path


@STEPS
def test_findings_of_a_report_cover_the_whole_recording(
    tmp_path: Path, step_s: int, shown: Shown
) -> None:
    path = shifted(tmp_path / "s.ioh", lambda tick: step_s if tick >= 36 else 0)
    found, meant = (
        set(re.findall("(?m)^[!i]{1,2} +([A-Z][^:]*):", shown("report", of)))
        for of in (path, "sample")
    )
    assert meant
    assert found == meant


@STEPS
@pytest.mark.parametrize(
    ("begin", "end", "ticks"),
    [
        ("run 20", "run 80", (20, 80)),
        ("run 80", None, (80, len(SAMPLES) - 1)),
        (None, "run 80", (0, 80)),
        ("10", "40", (10, 40)),
    ],
)
def test_marks_and_seconds_select_the_right_samples(
    session_file: Path, begin: str | None, end: str | None, ticks: tuple[int, int]
) -> None:
    since, until = (None if text is None else parse_when(text) for text in (begin, end))
    with Session(str(session_file)) as session:
        period = read_aggregate(session, Span(since, until))
        excerpt = excerpt_of(Span(since, until), session)
        last = excerpt.last_tick(session)
    assert (period.first_tick, period.last_tick) == ticks
    assert (excerpt.begin_tick, last) == ticks


@STEPS
def test_an_end_mark_before_the_begin_mark_is_refused(session_file: Path, refused: Shown) -> None:
    told = refused("report", session_file, "--from", "run 80", "--to", "run 20")
    assert '"run 20" is not after "run 80"' in told


def test_a_clock_set_back_and_forth_is_not_reported_as_a_jump(tmp_path: Path, shown: Shown) -> None:
    """NTP does this after a start."""
    path = shifted(tmp_path / "s.ioh", lambda tick: (tick >= 40) - 1.2 * (tick >= 36))
    assert "jumped" not in shown("report", path)


def test_each_jump_is_named_and_the_length_is_that_of_the_other_clock(
    tmp_path: Path, shown: Shown
) -> None:
    path = shifted(tmp_path / "s.ioh", lambda tick: -3600 * (tick >= 20) + 10_800 * (tick >= 40))
    whole = shifted(tmp_path / "whole.ioh", lambda _: 0)
    assert "! the clock jumped by -3,600 s, +10,800 s: it was set" in shown("report", path)
    samples = [
        line
        for each in (path, whole)
        for line in shown("verify", each).splitlines()
        if line.startswith("samples")
    ]
    assert samples[0] == samples[1]


def test_a_clock_set_for_an_hour_is_reported(tmp_path: Path, shown: Shown) -> None:
    path = shifted(tmp_path / "s.ioh", lambda tick: 3600 * (20 <= tick < 40))
    assert "! the clock jumped by +3,600 s, -3,600 s: it was set" in shown("report", path)
