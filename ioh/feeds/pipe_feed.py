"""A screen's feed from a recording that comes through a pipe, perhaps while it is being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ioh.feeds.file_feed import is_time
from ioh.feeds.findings_cache import MakeJudge, no_judge
from ioh.feeds.stream_feed import StreamFeed
from ioh.model.feed import TimelineEvent
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import sane_cycle_s
from ioh.session.records import Gap, Header, Mark, to_text
from ioh.session.stream import LostTicks, Tick


def pipe_feed(
    source: ReplaySource,
    choose: Callable[[Sample], frozenset[str] | None],
    run_s: float | None = None,
    make_judge: MakeJudge = no_judge,
) -> StreamFeed:
    """The feed of what an open source of a pipe yields; marks and gaps become moments."""

    def samples() -> Iterator[Sample]:
        lost = 0
        for item in source:
            if isinstance(item, Header):
                feed.cycle_s, feed.hostname = sane_cycle_s(item.cycle_s), to_text(item.hostname)
            elif isinstance(item, Mark) and is_time(item.time_unix_s):
                feed.note(TimelineEvent(item.time_unix_s, printable(to_text(item.text))))
            elif isinstance(item, Gap) and is_time(item.from_unix_s, item.to_unix_s):
                reason = printable(to_text(item.reason))
                feed.note(TimelineEvent(item.from_unix_s, reason, item.to_unix_s))
            elif isinstance(item, LostTicks):
                lost += item.count
            elif isinstance(item, Tick):
                if lost:
                    feed.note(TimelineEvent(item.sample.time_unix_s, f"{lost} samples are lost"))
                    lost = 0
                yield item.sample

    feed = StreamFeed(
        samples(),
        source.stop,
        mode="replay",
        cycle_s=1.0,
        hostname="host",
        title="stdin",
        choose=choose,
        set_speed=source.set_speed,
        run_s=run_s,
        make_judge=make_judge,
    )
    return feed
