"""Recordings in which the clock was set, by hand, by NTP or after a sleep: nothing gets lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.commands.sample import sample_path
from ioh.model.errors import ExitCode
from ioh.session.reader import Session
from ioh.session.writer import SessionWriter
from ioh.sources.file_feed import FileFeed
from ioh.sources.moments import parse_when, part_of
from ioh.sources.period import read_period
from ioh.sources.replay import Span
from tests import fakes
from tests.sessions import Memory, recorded

SET_AT = 50
SAMPLES = fakes.first(100)
STEPS = pytest.mark.parametrize("step_s", [-3600, 3600])
Shown = Callable[..., str]


@pytest.fixture
def session_file(tmp_path: Path, step_s: int) -> Path:
    memory = Memory()
    writer = SessionWriter(memory)
    for tick, sample in enumerate(SAMPLES):
        set_s = step_s if tick >= SET_AT else 0
        writer.write(replace(sample, time_unix_s=sample.time_unix_s + set_s))
        if tick in {20, 80}:
            writer.mark(f"run {tick}", sample.time_unix_s + set_s + 0.1)
    writer.close()
    path = tmp_path / "s.ioh"
    path.write_bytes(bytes(memory.data))
    return path


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Shown:
    def run(*args: str | Path) -> str:
        assert main([str(arg) for arg in args]) == ExitCode.OK
        out, err = capfd.readouterr()
        assert err == ""
        return out

    return run


@STEPS
@pytest.mark.parametrize("begin", [[], ["--from", "0"]])
def test_all_of_it_is_shown(session_file: Path, begin: list[str], shown: Shown) -> None:
    told = shown("json", session_file, "--top", "0", "--no-findings", *begin)
    assert len(told.splitlines()) == len(SAMPLES) - 1


@STEPS
def test_the_screen_has_all_of_it(session_file: Path) -> None:
    feed = FileFeed(str(session_file), Span(), speed=1e6, choose=lambda _: None)
    with feed:
        assert (feed.extent.first, feed.extent.last) == (1, len(SAMPLES) - 1)
        assert feed.extent.start_unix_s <= feed.extent.end_unix_s
        assert feed.visit(len(SAMPLES) - 1) is not None


@STEPS
def test_a_report_is_of_all_of_it(session_file: Path, step_s: int, shown: Shown) -> None:
    with Session(str(session_file)) as session:
        period = read_period(session)
    assert period.ticks == len(SAMPLES) - 1
    assert period.begin_unix_s == SAMPLES[0].time_unix_s
    assert period.snapshot.interval_s == pytest.approx(len(SAMPLES) - 1)
    told = shown("report", session_file, "--utc")
    assert "from 2012-04-24 15:44:47 to " in told
    assert "  run 20\n" in told
    assert "  run 80\n" in told
    assert f"! the clock jumped by {step_s:+,} s" in told


@STEPS
def test_findings_of_a_report_are_of_all_of_it(tmp_path: Path, step_s: int, shown: Shown) -> None:
    path = tmp_path / "s.ioh"
    with Session(str(sample_path())) as session:
        samples = [tick.sample for tick in session.ticks(0)]
    path.write_bytes(
        recorded(
            replace(sample, time_unix_s=sample.time_unix_s + (step_s if tick >= 36 else 0))
            for tick, sample in enumerate(samples)
        )
    )
    found, meant = (
        [line for line in shown("report", of).splitlines() if line.startswith("!  ")]
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
def test_marks_and_seconds_lead_to_where_they_are(
    session_file: Path, begin: str | None, end: str | None, ticks: tuple[int, int]
) -> None:
    since, until = (None if text is None else parse_when(text) for text in (begin, end))
    with Session(str(session_file)) as session:
        period = read_period(session, since, until)
        part = part_of(since, until, session)
        last = part.last_tick(session)
    assert (period.first_tick, period.last_tick) == ticks
    assert (part.begin_tick, last) == ticks


@STEPS
def test_a_mark_before_another_is_no_end(
    session_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = main(["report", str(session_file), "--from", "run 80", "--to", "run 20"])
    assert done == ExitCode.USAGE
    assert '"run 20" is not after "run 80"' in capfd.readouterr().err
