"""The feed of a live view reports, keeps, shows again and records what a source yields."""

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

from ioh.feeds.stream_feed import StreamFeed
from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.feed import TimelineEvent
from ioh.model.sample import Sample
from ioh.recorder import marks
from ioh.recorder.rotation import Recorder
from ioh.session import output
from ioh.session.reader import Session
from tests import fakes
from tests.feeds import SAMPLES, Listener
from tests.sessions import samples_of


class Source:
    """Yields what the test gives, when it gives it; None ends it."""

    def __init__(self) -> None:
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

    def __iter__(self) -> Iterator[Sample]:
        while (sample := self.given.get()) is not None:
            if isinstance(sample, BaseException):
                raise sample
            yield sample


def make(source: Source, **options: Any) -> StreamFeed:
    return StreamFeed(
        source, source.stop, mode="live", cycle_s=1.0, hostname="../db\x1b01", **options
    )


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def feed(source: Source) -> Iterator[StreamFeed]:
    with make(source) as made:
        yield made


def test_the_oldest_samples_are_dropped_and_numbers_stay(source: Source) -> None:
    samples = fakes.first(60)
    with make(source, history_bytes=30_000) as feed, Listener(feed) as listener:
        feed.note(TimelineEvent(samples[0].time_unix_s, "early"))
        feed.note(TimelineEvent(samples[58].time_unix_s, "late"))
        source.give(*samples)
        listener.wait_for_tick(59)
        extent = feed.extent
        assert extent.first > 10
        assert extent.last == 59
        assert extent.start_unix_s == samples[extent.first - 1].time_unix_s
        for tick in (extent.first, 59):
            assert feed.visit(tick) == derive(samples[tick - 1], samples[tick])
        assert feed.visit(extent.first - 1) is None
        assert feed.tick_at(samples[0].time_unix_s) == extent.first
        assert feed.tick_at(samples[50].time_unix_s) == 50
        assert [tick for tick, _ in feed.walk(0, 99)] == list(range(extent.first, 60))
        assert [moment.text for moment in feed.moments()] == ["late"]


def test_layers_that_are_awaited_are_reported(source: Source) -> None:
    waiting = ["syscall", "block"]
    with make(source, awaited=lambda: tuple(waiting)) as feed, Listener(feed) as listener:
        listener.wait_for(lambda: len(listener.news) == 1)
        del waiting[1]
        source.play(listener, 1)
        del waiting[0]
        source.play(listener, 2)
    said = "compiling the probes: syscall"
    assert [news.status for news in listener.news[:4]] == [said + ", block", said, said, ""]


def test_an_error_is_reported_unchanged(feed: StreamFeed, source: Source) -> None:
    failure = IohError("the sky fell", "Duck")
    source.give(SAMPLES[0])
    source.given.put(failure)
    with Listener(feed) as listener:
        last = listener.wait_for_end()
    assert last.error is failure
    assert not feed.extent.is_growing


def test_samples_reported_while_recording_are_recorded(
    feed: StreamFeed, source: Source, here: Path
) -> None:
    with Listener(feed) as listener:
        source.play(listener, 2)
        said = feed.toggle_recording()
        (path,) = here.iterdir()
        assert said == f"recording into {path}"
        assert path.name.startswith("ioh-_db_01-")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        source.play(listener, 5)
        state = feed.recording
        assert (state.path, state.failure) == (str(path), "")
        assert state.size_bytes == path.stat().st_size > 0
        said = feed.toggle_recording()
        assert said == f"recorded {path.stat().st_size:,} bytes into {path}"
        assert feed.recording.path == ""
        assert feed.toggle_recording().startswith("recording into ")  # in the same second
        assert feed.toggle_recording().startswith("recorded ")
        assert feed.toggle_recording().startswith("recording into ")
        last = Path(feed.recording.path)
        source.play(listener, 7)
    assert feed.recording.path == "", "the view's end has ended it"
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
    with make(source) as feed:
        said = feed.toggle_recording()
        assert said.startswith("not recording: cannot create ")
        assert said.isprintable()
        assert feed.recording.path == ""
        elsewhere.mkdir()
        said = feed.toggle_recording()
        assert said.startswith("recording into ")
        assert said.endswith(", because the current directory is not writable")
        assert len(list(elsewhere.iterdir())) == 1
    assert feed.recording.path == "", "closing ends it"


def test_a_full_disk_is_reported_once_and_the_view_goes_on(
    feed: StreamFeed, source: Source, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = output.FileOutput.write
    full: list[OSError] = []

    def maybe(self: output.FileOutput, data: bytes) -> None:
        if full:
            raise full[0]
        write(self, data)

    monkeypatch.setattr(output.FileOutput, "write", maybe)
    with Listener(feed) as listener:
        source.play(listener, 1)
        feed.toggle_recording()
        full.append(OSError(errno.ENOSPC, "No space left on device"))
        source.play(listener, 3)
        state = feed.recording
        assert (bool(state.path), state.failure) == (True, "No space left on device")
        full.clear()
        source.play(listener, 4)
        assert feed.recording.failure == ""
        full.append(OSError(errno.EIO, "Input/output error"))
        source.play(listener, 6)
        assert feed.recording.path == ""
        assert feed.recording.failure == "Input/output error"
        full.clear()
        assert feed.toggle_recording().startswith("recording into ")
        assert feed.recording.failure == ""
    assert listener.ticks == [1, 2, 3, 4, 5, 6]
    assert listener.statuses == [
        "recording is paused: No space left on device; it resumes as soon as there is space",
        "recording again; see the gap",
        "recording ended: Input/output error",
    ]


def test_ioh_mark_reaches_the_recording_and_the_time_line(
    feed: StreamFeed, source: Source, here: Path
) -> None:
    with Listener(feed) as listener:
        source.play(listener, 1)
        feed.toggle_recording()
        (path,) = here.iterdir()
        (running,) = [r for r in marks.running_recordings() if r.pid == os.getpid()]
        assert running.file == str(path)
        assert marks.send_mark(running, "run 3\x1b[31m") == ("", "")
        feed.toggle_recording()
        assert not [r for r in marks.running_recordings() if r.pid == os.getpid()]
    assert [moment.text for moment in feed.moments()] == ["run 3\\x1b[31m"]
    with Session(str(path)) as session:
        assert [mark.text for mark in session.marks()] == ["run 3\x1b[31m"]


def test_m_marks_the_time_line_and_a_running_recording(
    feed: StreamFeed, source: Source, here: Path
) -> None:
    with Listener(feed) as listener:
        source.play(listener, 2)
        assert feed.set_mark("before", None) == "marked"
        feed.toggle_recording()
        (path,) = here.iterdir()
        source.play(listener, 3)
        began_s = time.time()
        assert feed.set_mark("run 3\x1b", None) == f"marked, also in {path}"
        ended_s = time.time()
        past_s = SAMPLES[1].time_unix_s
        assert feed.set_mark("then", past_s) == "marked"
        source.play(listener, 4)
        feed.toggle_recording()
        assert feed.set_mark("after", None) == "marked"
    with Session(str(path)) as session:
        (mark,) = session.marks()
        assert mark.text == "run 3\x1b"
        assert began_s <= mark.time_unix_s <= ended_s
    texts = {moment.text: moment.time_unix_s for moment in feed.moments()}
    assert texts.keys() == {"before", "run 3\\x1b", "then", "after"}
    assert texts["then"] == past_s


def test_m_says_so_if_the_mark_cannot_be_recorded(
    feed: StreamFeed, source: Source, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output\x1b error")

    with Listener(feed) as listener:
        source.play(listener, 1)
        feed.toggle_recording()
        assert list(here.iterdir())
        monkeypatch.setattr(Recorder, "mark", fail)
        said = feed.set_mark("run 3", None)
        assert said.startswith("marked on the screen only: ")
        assert said.isprintable()
        assert [moment.text for moment in feed.moments()] == ["run 3"]


def test_keys_of_replay_do_nothing_live(feed: StreamFeed, source: Source) -> None:
    with Listener(feed) as listener:
        source.play(listener, 1)
        feed.set_speed(10)
        feed.hold()
        feed.play_from(1)
        source.play(listener, 2)
    assert listener.ticks == [1, 2]


STOPS = """
import signal, time
from ioh.feeds.stream_feed import StreamFeed
feed = StreamFeed((), lambda: None, mode="live", cycle_s=1.0, hostname="db01")
signal.signal(signal.SIGALRM, lambda *_: feed.stop())
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
until = time.monotonic() + 1.0
while time.monotonic() < until:
    feed.stop()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_signal_handler_may_stop_the_feed_in_the_middle_of_stop() -> None:
    words = [sys.executable, "-c", STOPS]
    ended = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert ended.returncode == 0
