"""Feeds of recordings from a file and from a pipe, and how far back their rules look."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioh.findings.engine import Engine
from ioh.history.file import PlayOptions
from ioh.history.findings_cache import Rejudge
from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.player import Player, TimelineEvent
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.playback import replay
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span, parse_when
from ioh.player import file
from ioh.player.file import FilePlayer
from ioh.player.pipe import pipe_player
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.records import Gap
from ioh.session.writer import SessionWriter
from tests.support.players import SAMPLES, SNAPSHOTS, Counting, Listener, told
from tests.support.screens import minute
from tests.support.sessions import recorded, small

FAST = 1e6


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "run\x1b.ioh"
    made.write_bytes(recorded(SAMPLES))
    return str(made)


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "MIN_REPORT_S", 0.0)


def make(path: str, begin: str = "", end: str = "", **options: Any) -> FilePlayer:
    span = Span(parse_when(begin) if begin else None, parse_when(end) if end else None)
    return FilePlayer(path, PlayOptions(span, **{"speed": FAST, **options}))


def test_it_is_a_player(path: str) -> None:
    with make(path) as made:
        port: Player = made
        (past,) = port.histories
        assert (port.mode, past.cycle_s) == ("replay", 1.0)
        assert past.title == path.replace("\x1b", "\\x1b")
        assert port.recording.path == ""
        assert "already a recording" in port.toggle_recording()


def test_it_plays_at_its_speed_and_at_a_new_one(path: str) -> None:
    with make(path, speed=20.0) as player:
        started = time.monotonic()
        with Listener(player) as listener:
            listener.wait_for_tick(5)
            assert time.monotonic() - started >= 4 / 20
            player.set_speed(1e-6)
            told = len(listener.ticks)
            time.sleep(0.2)
            assert len(listener.ticks) <= told + 1
            player.set_speed(FAST)
            listener.wait_for_end()
    assert listener.ticks == list(SNAPSHOTS)


def test_it_holds_and_plays_on_from_any_interval(path: str) -> None:
    with make(path, speed=1e-6) as player, Listener(player) as listener:
        listener.wait_for_tick(1)
        player.hold()
        player.set_speed(FAST)
        time.sleep(0.1)
        assert listener.ticks == [1]
        player.play_from(9)
        listener.wait_for_end()
        assert listener.ticks == [1, 9, 10, 11]
        player.play_from(10)
        listener.wait_for(lambda: listener.ticks[4:] == [10, 11])
        player.play_from(-5)
        listener.wait_for(lambda: listener.ticks[6:] == list(SNAPSHOTS))


def test_played_intervals_are_judged_and_others_on_demand(path: str) -> None:
    with make(path, speed=1e-6, make_judge=Counting) as player, Listener(player) as listener:
        past = player.histories[0]
        listener.wait_for_tick(1)
        assert told(listener.snapshots[1]) == told(past.visit(1)) == "1"
        assert told(past.visit(6)) == ""
        assert past.judge(6, lambda _: False) is None
        assert told(past.visit(6)) == ""
        # Judged after the intervals before it, by a separate judge.
        assert told(past.judge(6, lambda _: True)) == "6"
        assert told(past.visit(6)) == "6"
        assert told(past.visit(5)) == ""
        player.play_from(9)
        player.set_speed(FAST)
        listener.wait_for_tick(11)
        # After a jump, intervals are judged as live: with those before them.
        assert told(listener.snapshots[9]) == told(past.visit(9)) == "9"
        assert told(listener.snapshots[11]) == told(past.visit(11)) == "11"
        assert listener.ticks == [1, 9, 10, 11]
        assert told(past.visit(8)) == ""


def test_fast_play_shows_few_intervals_but_judges_the_whole_time(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "MIN_REPORT_S", 60.0)
    seen: list[float] = []

    class Watching(Counting):
        def judge(self, snapshot: Snapshot) -> Snapshot:
            seen.append(snapshot.interval_s)
            return super().judge(snapshot)

    with make(path, make_judge=Watching) as player, Listener(player) as listener:
        listener.wait_for_end()
    assert listener.ticks == [1, 11]
    assert seen == [1.0, 10.0]
    assert listener.snapshots[11].interval_s == 1.0


def test_only_the_chosen_part_is_played(path: str) -> None:
    with make(path, begin="3", end="8") as player, Listener(player) as listener:
        past = player.histories[0]
        listener.wait_for_end()
        assert listener.ticks == [4, 5, 6, 7, 8]
        extent = past.extent
        assert (extent.first, extent.last, extent.start_unix_s) == (4, 8, SAMPLES[3].time_unix_s)
        assert past.visit(3) is past.visit(9) is None
        assert [past.tick_at(at) for at in (0, SAMPLES[-1].time_unix_s)] == [4, 8]
        assert [tick for tick, _ in past.walk(0, 99)] == [4, 5, 6, 7, 8]
        player.play_from(1)
        listener.wait_for(lambda: listener.ticks[5:] == [4, 5, 6, 7, 8])


def test_an_empty_part_or_an_unknown_mark_is_refused(path: str) -> None:
    with pytest.raises(IohError, match="no interval in that part"):
        make(path, begin="11")
    with pytest.raises(IohError, match="no mark"):
        make(path, begin="never")


def test_a_refusal_leaves_no_file_open(path: str) -> None:
    def refuse(sample: Sample) -> None:
        raise IohError(sample.hostname)

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(IohError):
        make(path, choose=refuse)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_growing_file_is_followed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "POLL_S", 0.01)
    monkeypatch.setattr(replay, "GROWTH_S", 0.01)
    writer = SessionWriter(FileOutput(str(tmp_path / "growing.ioh")))
    for sample in SAMPLES[:3]:
        writer.write(sample)
    with make(writer.output.name) as player, Listener(player) as listener:
        past = player.histories[0]
        listener.wait_for_tick(2)
        before = past.extent
        assert before.is_growing
        for tick in (3, 4):
            writer.write(SAMPLES[tick])
            listener.wait_for_tick(tick)
            assert past.extent.last == tick
            assert past.visit(tick) == SNAPSHOTS[tick]
        player.hold()
        writer.write(SAMPLES[5])
        deadline = time.monotonic() + 5
        while past.extent.last != 5:  # it grows while it is held
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert 5 not in listener.ticks
        player.play_from(5)
        writer.close()
        listener.wait_for_end()
        assert not past.extent.is_growing
    assert listener.snapshots == {tick: SNAPSHOTS[tick] for tick in (1, 2, 3, 4, 5)}


def test_marks_and_gaps_are_moments(tmp_path: Path) -> None:
    writer = SessionWriter(FileOutput(str(tmp_path / "m.ioh")))
    at = [sample.time_unix_s for sample in SAMPLES]
    for tick, sample in enumerate(SAMPLES):
        if tick == 6:
            writer.gap(Gap(at[5], at[6], b"No space\x1b left"))
        writer.write(sample)
        if tick in {2, 4}:
            writer.mark(f"run {tick}\x1b", at[tick])
        if tick == 8:
            writer.mark("never", float("nan"))
    writer.close()
    marks = [TimelineEvent(at[tick], f"run {tick}\\x1b") for tick in (2, 4)]
    with make(writer.output.name) as player:
        past = player.histories[0]
        assert past.moments() == (
            *marks,
            TimelineEvent(at[5], "No space\\x1b left", at[6]),
        )
    with make(writer.output.name, begin="3", end="4.5") as player:
        past = player.histories[0]
        assert past.moments() == (marks[1],)


def test_play_does_not_wait_through_a_gap(tmp_path: Path) -> None:
    writer = SessionWriter(FileOutput(str(tmp_path / "g.ioh")))
    first, later = SAMPLES[:2]
    late_s = later.time_unix_s + 10_000
    writer.write(first)
    writer.gap(Gap(first.time_unix_s, late_s, b"full"))
    writer.write(replace(later, mono_ns=later.mono_ns + 10**13, time_unix_s=late_s))
    writer.close()
    with make(writer.output.name, speed=1.0) as player, Listener(player) as listener:
        listener.wait_for_tick(1)
        assert listener.snapshots[1].interval_s == pytest.approx(10_001)


def through_pipe(data: bytes, use: Callable[[Player, Listener], None], pieces: int = 1) -> None:
    """Run a player of a pipe that a thread writes to."""
    reader, writer = os.pipe()
    step = len(data) // pieces + 1

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as stream:
            for at in range(0, len(data), step):
                stream.write(data[at : at + step])

    thread = threading.Thread(target=write)
    thread.start()
    with (
        ReplaySource("-", speed=FAST, stdin_fd=reader) as source,
        pipe_player(source, lambda _: None) as player,
        Listener(player) as listener,
    ):
        listener.wait_for_end()
        use(player, listener)
    thread.join()
    os.close(reader)


def test_a_pipe_shows_the_same_as_a_file() -> None:
    def use(player: Player, listener: Listener) -> None:
        past = player.histories[0]
        assert (player.mode, past.cycle_s) == ("replay", 5.0)
        assert listener.snapshots == SNAPSHOTS
        assert [moment.text for moment in past.moments()] == ["by \\x1bme"]

    through_pipe(recorded(SAMPLES, cycle_s=5.0, note="by \x1bme"), use, pieces=7)


def test_a_pipe_that_is_no_recording_ends_with_an_error() -> None:
    def use(player: Player, listener: Listener) -> None:
        assert isinstance(listener.news[-1].error, IohError)

    through_pipe(b"nothing of the kind", use)


def test_samples_lost_in_a_pipe_are_a_moment() -> None:
    data = bytearray(recorded(small(400)))
    data[len(data) // 3 : len(data) // 2] = b"?" * (len(data) // 2 - len(data) // 3)

    def use(player: Player, listener: Listener) -> None:
        (moment,) = player.histories[0].moments()
        assert "samples are lost" in moment.text
        assert len(listener.ticks) < 399

    through_pipe(bytes(data), use)


def test_visiting_an_interval_finds_what_was_found_live() -> None:
    path = str(Path(__file__).resolve().parents[1] / "data/scenarios/faster_tier.ioh")
    engine, wanted = Engine(), {}
    with Session(path) as session:
        samples = [item.sample for item in session.ticks(0)]
    for tick, (older, newer) in enumerate(itertools.pairwise(samples), 1):
        wanted[tick] = engine.judge(derive(older, newer)).findings
    said = [tick for tick, found in wanted.items() if "tiering" in {f.rule for f in found}]
    for tick in (said[0] - 1, said[0], said[-1]):
        with FilePlayer(path, PlayOptions(make_judge=Engine)) as visited:
            judged = visited.histories[0].judge(tick, lambda _: True)
        assert judged is not None
        assert judged.findings == wanted[tick]


INTERVALS = minute()


def look_back(visits: list[int], lost: int = -1) -> Rejudge:
    def visit(tick: int) -> Snapshot | None:
        visits.append(tick)
        return None if tick == lost else INTERVALS[tick - 1]

    return Rejudge(visit, Counting, 1.0)


def test_a_step_forward_reads_only_what_is_new_a_step_back_reads_again() -> None:
    visits: list[int] = []
    judge = look_back(visits)
    assert told(judge.judge(30, 1, lambda _: True)) == "16"
    assert visits == list(range(15, 31))
    visits.clear()
    assert told(judge.judge(32, 1, lambda _: True)) == "18"
    assert visits == [31, 32]
    visits.clear()
    assert told(judge.judge(29, 1, lambda _: True)) == "16"
    assert visits == list(range(14, 30))
    visits.clear()
    assert told(judge.judge(59, 1, lambda _: True)) == "16"
    assert visits == list(range(44, 60))


def test_judging_starts_at_the_first_interval_and_a_lost_one_is_none() -> None:
    assert told(look_back([]).judge(5, 1, lambda _: True)) == "5"
    assert told(look_back([]).judge(30, 28, lambda _: True)) == "3"
    assert look_back([], lost=30).judge(30, 1, lambda _: True) is None
    assert Rejudge(INTERVALS.__getitem__, lambda: None, 1.0).judge(5, 1, lambda _: True) is None
