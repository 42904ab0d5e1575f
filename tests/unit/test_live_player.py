"""A live player reports, keeps, shows again and records what a source yields."""

from __future__ import annotations

import errno
import os
import queue
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.pairs import Round
from ioh.model.player import RoundSource, TimelineEvent
from ioh.model.sample import Sample
from ioh.pipeline import alone
from ioh.player.live import LivePlayer
from ioh.recorder import marks
from ioh.recorder.rotation import Recorder
from ioh.session import output
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.players import SAMPLES, Listener
from tests.support.sessions import samples_of


class Source(RoundSource):
    """Yields what the test gives, when it gives it; None ends it."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.given: queue.Queue[Sample | BaseException | None] = queue.Queue()
        self._next = 0

    def play(self, listener: Listener, until: int) -> None:
        """Give SAMPLES up to this one, and wait until it is reported."""
        self.give(*SAMPLES[self._next : until + 1])
        self._next = until + 1
        listener.wait_for_tick(until)

    def give(self, *samples: Sample) -> None:
        for sample in samples:
            self.given.put(sample)

    def stop(self) -> None:
        self.given.put(None)

    def status(self) -> str:
        return ", ".join(self.waiting)

    def __iter__(self) -> Iterator[Round]:
        return alone(self._samples())

    def _samples(self) -> Iterator[Sample]:
        while (sample := self.given.get()) is not None:
            if isinstance(sample, BaseException):
                raise sample
            yield sample


def make(source: Source, **options: Any) -> LivePlayer:
    made = LivePlayer(source, **options)
    made.recorder.hostname = "../db\x1b01"
    return made


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def player(source: Source) -> Iterator[LivePlayer]:
    with make(source) as made:
        yield made


def test_the_oldest_samples_are_dropped_and_numbers_stay(source: Source) -> None:
    samples = fakes.first(60)
    with make(source, history_bytes=30_000) as player, Listener(player) as listener:
        past = player.histories[0]
        player.note(TimelineEvent(samples[0].time_unix_s, "early"))
        player.note(TimelineEvent(samples[58].time_unix_s, "late"))
        source.give(*samples)
        listener.wait_for_tick(59)
        extent = past.extent
        assert extent.first > 10
        assert extent.last == 59
        assert extent.start_unix_s == samples[extent.first - 1].time_unix_s
        for tick in (extent.first, 59):
            assert past.visit(tick) == derive(samples[tick - 1], samples[tick])
        assert past.visit(extent.first - 1) is None
        assert past.tick_at(samples[0].time_unix_s) == extent.first
        assert past.tick_at(samples[50].time_unix_s) == 50
        assert [tick for tick, _ in past.walk(0, 99)] == list(range(extent.first, 60))
        assert [moment.text for moment in past.moments()] == ["late"]


def test_layers_that_are_awaited_are_reported(source: Source) -> None:
    source.waiting = ["syscall", "block"]
    with make(source) as player, Listener(player) as listener:
        listener.wait_for(lambda: len(listener.news) == 1)
        del source.waiting[1]
        source.play(listener, 1)
        del source.waiting[0]
        source.play(listener, 2)
    assert [news.status for news in listener.news[:3]] == ["syscall, block", "syscall", ""]


def test_an_error_is_reported_unchanged(player: LivePlayer, source: Source) -> None:
    failure = IohError("the sky fell", "Duck")
    source.give(SAMPLES[0])
    source.given.put(failure)
    with Listener(player) as listener:
        last = listener.wait_for_end()
    assert last.error is failure
    assert not player.histories[0].extent.is_growing


def test_samples_reported_while_recording_are_recorded(
    player: LivePlayer, source: Source, here: Path
) -> None:
    with Listener(player) as listener:
        source.play(listener, 2)
        said = player.toggle_recording()
        (path,) = here.iterdir()
        assert said == f"recording into {path}"
        assert path.name.startswith("ioh-_db_01-")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        source.play(listener, 5)
        state = player.recording
        assert (state.path, state.failure) == (str(path), "")
        assert state.size_bytes == path.stat().st_size > 0
        said = player.toggle_recording()
        assert said == f"recorded {path.stat().st_size:,} bytes into {path}"
        assert player.recording.path == ""
        assert player.toggle_recording().startswith("recording into ")  # in the same second
        assert player.toggle_recording().startswith("recorded ")
        assert player.toggle_recording().startswith("recording into ")
        last = Path(player.recording.path)
        source.play(listener, 7)
    assert player.recording.path == "", "the view's end has ended it"
    assert len(list(here.iterdir())) == 3
    assert samples_of(last.read_bytes()) == SAMPLES[5:8]
    with Session(str(path)) as session:
        assert session.is_ended
        assert [session.sample_at(tick) for tick in range(len(session))] == SAMPLES[2:6]


def test_in_an_unwritable_directory_it_records_elsewhere_or_says_why_not(
    source: Source, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = here / "tmp\x1b"
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with make(source) as player:
        said = player.toggle_recording()
        assert said.startswith("not recording: cannot create ")
        assert said.isprintable()
        assert player.recording.path == ""
        elsewhere.mkdir()
        said = player.toggle_recording()
        assert said.startswith("recording into ")
        assert said.endswith(", because the current directory is not writable")
        assert len(list(elsewhere.iterdir())) == 1
    assert player.recording.path == "", "closing ends it"


def test_a_full_disk_is_reported_once_and_the_view_goes_on(
    player: LivePlayer, source: Source, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = output.FileOutput.write
    full: list[OSError] = []

    def maybe(self: output.FileOutput, data: bytes) -> None:
        if full:
            raise full[0]
        write(self, data)

    monkeypatch.setattr(output.FileOutput, "write", maybe)
    with Listener(player) as listener:
        source.play(listener, 1)
        player.toggle_recording()
        full.append(OSError(errno.ENOSPC, "No space left on device"))
        source.play(listener, 3)
        state = player.recording
        assert (bool(state.path), state.failure) == (True, "No space left on device")
        full.clear()
        source.play(listener, 4)
        assert player.recording.failure == ""
        full.append(OSError(errno.EIO, "Input/output error"))
        source.play(listener, 6)
        assert player.recording.path == ""
        assert player.recording.failure == "Input/output error"
        full.clear()
        assert player.toggle_recording().startswith("recording into ")
        assert player.recording.failure == ""
    assert listener.ticks == [1, 2, 3, 4, 5, 6]
    assert listener.statuses == [
        "recording is paused: No space left on device; it resumes as soon as there is space",
        "recording again; see the gap",
        "recording ended: Input/output error",
    ]


def test_ioh_mark_reaches_the_recording_and_the_time_line(
    player: LivePlayer, source: Source, here: Path
) -> None:
    with Listener(player) as listener:
        source.play(listener, 1)
        player.toggle_recording()
        (path,) = here.iterdir()
        (running,) = [r for r in marks.running_recordings() if r.pid == os.getpid()]
        assert running.file == str(path)
        assert marks.send_mark(running, "run 3\x1b[31m") == ("", "")
        player.toggle_recording()
        assert not [r for r in marks.running_recordings() if r.pid == os.getpid()]
    assert [moment.text for moment in player.histories[0].moments()] == ["run 3\\x1b[31m"]
    with Session(str(path)) as session:
        assert [mark.text for mark in session.marks()] == ["run 3\x1b[31m"]


def test_m_marks_the_time_line_and_a_running_recording(
    player: LivePlayer, source: Source, here: Path
) -> None:
    with Listener(player) as listener:
        source.play(listener, 2)
        assert player.set_mark("before", None) == "marked"
        player.toggle_recording()
        (path,) = here.iterdir()
        source.play(listener, 3)
        began_s = time.time()
        assert player.set_mark("run 3\x1b", None) == f"marked, also in {path}"
        ended_s = time.time()
        past_s = SAMPLES[1].time_unix_s
        assert player.set_mark("then", past_s) == "marked"
        source.play(listener, 4)
        player.toggle_recording()
        assert player.set_mark("after", None) == "marked"
    with Session(str(path)) as session:
        (mark,) = session.marks()
        assert mark.text == "run 3\x1b"
        assert began_s <= mark.time_unix_s <= ended_s
    texts = {moment.text: moment.time_unix_s for moment in player.histories[0].moments()}
    assert texts.keys() == {"before", "run 3\\x1b", "then", "after"}
    assert texts["then"] == past_s


def test_m_says_so_if_the_mark_cannot_be_recorded(
    player: LivePlayer, source: Source, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output\x1b error")

    with Listener(player) as listener:
        source.play(listener, 1)
        player.toggle_recording()
        assert list(here.iterdir())
        monkeypatch.setattr(Recorder, "mark", fail)
        said = player.set_mark("run 3", None)
        assert said.startswith("marked on the screen only: ")
        assert said.isprintable()
        assert [moment.text for moment in player.histories[0].moments()] == ["run 3"]


def test_keys_of_replay_do_nothing_live(player: LivePlayer, source: Source) -> None:
    with Listener(player) as listener:
        source.play(listener, 1)
        player.set_speed(10)
        player.hold()
        player.play_from(1)
        source.play(listener, 2)
    assert listener.ticks == [1, 2]


STOPS = """
import signal, time
from ioh.model.player import RoundSource
from ioh.player.live import LivePlayer
source = RoundSource()
source.stop = lambda: None
player = LivePlayer(source)
signal.signal(signal.SIGALRM, lambda *_: player.stop())
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
until = time.monotonic() + 1.0
while time.monotonic() < until:
    player.stop()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_signal_handler_may_stop_the_feed_in_the_middle_of_stop() -> None:
    words = [sys.executable, "-c", STOPS]
    ended = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert ended.returncode == 0
