"""What the feeds of a file, of a live source and of a pipe have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ioh.feeds import file_feed
from ioh.feeds.file_feed import FileFeed, Played, pipe_feed
from ioh.feeds.stream_feed import StreamFeed
from ioh.model.feed import Feed, FeedEnded
from ioh.playback.replay import ReplaySource
from tests.feeds import SAMPLES, SNAPSHOTS, Counting, Listener, told
from tests.sessions import recorded

Make = Callable[..., Feed]


@pytest.fixture(params=["file", "live", "pipe"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Makes a feed of SAMPLES that is closed after the test."""
    monkeypatch.setattr(file_feed, "MIN_REPORT_S", 0.0)
    kind, data = request.param, recorded(SAMPLES)
    with ExitStack() as stack:

        def made(choose: Any = lambda _: None, **options: Any) -> Feed:
            if kind == "file":
                path = tmp_path / "a.ioh"
                path.write_bytes(data)
                played = Played(speed=1e6, choose=choose, **options)
                return stack.enter_context(FileFeed(str(path), played))
            if kind == "live":
                options = {"cycle_s": 1.0, "hostname": "db01", "choose": choose} | options
                live = StreamFeed(iter(SAMPLES), lambda: None, mode="live", **options)
                return stack.enter_context(live)
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            assert os.write(writer, data) == len(data)  # it fits into the pipe
            os.close(writer)
            source = stack.enter_context(ReplaySource("-", speed=1e6, stdin_fd=reader))
            return stack.enter_context(pipe_feed(source, choose, **options))

        yield made


def test_every_interval_is_reported_once_and_can_be_visited(make: Make) -> None:
    feed = make()
    with Listener(feed) as listener:
        last = listener.wait_for_end()
        assert last.status.startswith("the end")
        assert (last.tick, last.error) == (None, None)
        assert listener.ticks == list(SNAPSHOTS)
        assert listener.snapshots == SNAPSHOTS
        for tick in (11, 1, 5, 6, 4, 11):
            assert feed.visit(tick) == SNAPSHOTS[tick]
        for tick in (-1, 0, 12):
            assert feed.visit(tick) is None
        extent = feed.extent
        assert (extent.first, extent.last, extent.is_growing) == (1, 11, False)
        assert (extent.start_unix_s, extent.end_unix_s) == (
            SAMPLES[0].time_unix_s,
            SAMPLES[-1].time_unix_s,
        )
        at = [feed.tick_at(SAMPLES[0].time_unix_s + after) for after in (-9, 0, 1, 2.5, 11, 99)]
        assert at == [1, 1, 1, 2, 11, 11]


def test_walk_yields_the_same_numbers_without_tables(make: Make) -> None:
    feed = make()
    with Listener(feed) as listener:
        listener.wait_for_end()
        walked = dict(feed.walk(-3, 99))
        assert list(feed.walk(3, 2)) == []
        assert [tick for tick, _ in feed.walk(3, 5)] == [3, 4, 5]
    assert list(walked) == list(SNAPSHOTS)
    for tick, snapshot in walked.items():
        for name, layer in snapshot.layers.items():
            found: Any = layer
            whole: Any = SNAPSHOTS[tick].layers[name]
            assert (found.ops, found.tables, found.parts) == (whole.ops, {}, {})


def test_snapshots_have_only_the_chosen_layers(make: Make) -> None:
    feed = make(lambda _: frozenset({"wire"}))
    with Listener(feed) as listener:
        listener.wait_for_end()
        walked = [snapshot for _, snapshot in feed.walk(1, 3)]
        for snapshot in (listener.snapshots[3], feed.visit(3), *walked):
            assert snapshot is not None
            assert list(snapshot.layers) == list(snapshot.specs) == ["wire"]


def test_findings_are_the_same_when_an_interval_is_visited(make: Make) -> None:
    feed = make(make_judge=Counting)
    with Listener(feed) as listener:
        listener.wait_for_end()
        assert [told(listener.snapshots[tick]) for tick in (1, 4, 11)] == ["1", "4", "11"]
        for tick in (11, 2):
            assert told(feed.visit(tick)) == told(feed.judge(tick, lambda _: True)) == str(tick)
        for _, snapshot in feed.walk(1, 3):
            assert snapshot.not_evaluated == ()


def test_it_ends_the_screen_after_its_run_time(make: Make) -> None:
    with Listener(make(run_s=3.0)) as listener:
        assert isinstance(listener.wait_for_end().error, FeedEnded)
        listener.join()
    assert listener.ticks == [1, 2, 3]


@pytest.mark.parametrize("has_begun", [False, True])
def test_it_ends_the_screen_on_request(make: Make, *, has_begun: bool) -> None:
    feed = make()
    if not has_begun:
        feed.end()  # type: ignore[attr-defined]
    with Listener(feed) as listener:
        if has_begun:
            listener.wait_for_end()
            feed.end()  # type: ignore[attr-defined]
        listener.join()
    assert isinstance(listener.news[-1].error, FeedEnded)
    assert listener.ticks == (list(SNAPSHOTS) if has_begun else [])
