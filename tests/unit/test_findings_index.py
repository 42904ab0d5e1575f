"""Findings of a whole recording: searched for by another process, shown on the time line."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from ioh.findings.engine import Engine
from ioh.findings.spans import MAX_SPANS, finding_spans
from ioh.history.findings_cache import BLOCK_TICKS, FindingsCache
from ioh.history.findings_index import FindingsIndex
from ioh.model.finding import NotEvaluated
from ioh.model.player import Extent, FindingBegin, Overview
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.pipeline import snapshots
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span, parse_when
from ioh.session.output import FileOutput
from ioh.session.stream import Tick
from ioh.session.writer import SessionWriter
from ioh.tui.time_navigation import FindingTimes
from tests.support.demo_samples import START_S
from tests.support.screen_player import FakePlayer
from tests.support.screens import FINDINGS, minute

ROOT = Path(__file__).resolve().parents[2]
RECORDED = str(ROOT / "tests/data/scenarios/joined_reads.ioh")
IN_A_PROCESS = """
import os, sys, time
from ioh.findings.engine import Engine
from ioh.playback.time_range import Span, parse_when
from ioh.history.findings_index import FindingsIndex
path, until, begin, layers = sys.argv[1:]
span = Span(parse_when(begin) if begin else None)
chosen = frozenset(layers.split(",")) if layers else None
index = FindingsIndex(path, span, choose=lambda _: chosen, make_judge=Engine)
index.start()
end_s = time.monotonic() + 60
while index.overview().is_under_way and time.monotonic() < end_s:
    if index.overview().until_unix_s >= float(until):
        break
    time.sleep(0.02)
found = index.overview()
index.close()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print(found.until_unix_s, found.is_under_way, *(each.since_unix_s for each in found.begins))
"""


def samples_from(begin: str = "") -> list[Sample]:
    at = parse_when(begin) if begin else None
    with ReplaySource(RECORDED, Span(at), speed=None) as source:
        return [item.sample for item in source if isinstance(item, Tick)]


def spans(begin: str = "") -> list[float]:
    """When each finding begins, as ``ioh report`` shows it."""
    found = finding_spans(snapshots(samples_from(begin), Engine))
    return sorted(span.begin_unix_s for span in found)


def test_only_the_first_findings_are_kept_if_there_are_too_many() -> None:
    shown = minute()[-1]
    many = (
        replace(shown, findings=(replace(FINDINGS[0], since_unix_s=float(at)),))
        for at in range(MAX_SPANS + 50)
    )
    found = finding_spans(many)
    assert [span.begin_unix_s for span in found] == [float(at) for at in range(MAX_SPANS)]


def scanned(
    path: str, until_unix_s: float = inf, begin: str = "", layers: str = ""
) -> tuple[float, bool, list[float]]:
    """Run an index in a process of its own, up to a time of the recording; return its overview."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, path, str(until_unix_s), begin, layers],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    until, under_way, *begins = done.stdout.split()
    assert done.stderr == ""
    return float(until), under_way == "True", sorted(map(float, begins))


@pytest.mark.parametrize(("begin", "layers"), [("6", ""), ("", "tcp")])
def test_each_finding_is_listed_once_unless_its_layer_is_left_out(begin: str, layers: str) -> None:
    expected = spans(begin)
    assert expected
    told = scanned(RECORDED, begin=begin, layers=layers)
    assert told == (samples_from()[-1].time_unix_s, False, [] if layers else expected)


def test_a_recording_that_is_gone_ends_the_search(tmp_path: Path) -> None:
    assert scanned(str(tmp_path / "gone.ioh")) == (0.0, False, [])


def test_a_growing_recording_is_followed(tmp_path: Path) -> None:
    writer = SessionWriter(FileOutput(str(tmp_path / "a.ioh")))
    samples = samples_from()
    for sample in samples[:5]:
        writer.write(sample)
    # Up to the last sample, although no other follows it.
    until, under_way, _ = scanned(str(tmp_path / "a.ioh"), samples[4].time_unix_s)
    assert under_way
    assert until == samples[4].time_unix_s
    writer.close()


KILLED = """
import os, signal, sys
from ioh.findings.engine import Engine
from ioh.playback.time_range import Span
from ioh.history.findings_index import FindingsIndex
index = FindingsIndex(sys.argv[1], Span(), choose=lambda _: None, make_judge=Engine)
index.start()
while not index.overview().until_unix_s:
    pass
print("began", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_search_ends_with_a_screen_that_is_killed(tmp_path: Path) -> None:
    """Even of a recording that does not grow, so that there is nothing to report."""
    path = str(tmp_path / "a.ioh")
    writer = SessionWriter(FileOutput(path))
    for sample in samples_from():
        writer.write(sample)
    # The search has the pipe, too: run() returns when both processes have ended.
    command, pipe = [sys.executable, "-c", KILLED, path], subprocess.PIPE
    done = subprocess.run(command, check=False, stdout=pipe, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "began\n")
    writer.close()


def test_the_index_knows_when_a_current_finding_began() -> None:
    script = "from tests.unit import test_findings_index as own; own.assert_dated()"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=120)


def assert_dated() -> None:
    """Runs in a process of its own."""
    index = FindingsIndex(RECORDED, Span(), choose=lambda _: None, make_judge=Engine)
    index.start()
    while index.overview().is_under_way:
        time.sleep(0.02)
    last = list(snapshots(samples_from(), Engine))[-1]
    assert last.findings
    glanced = tuple(replace(f, since_unix_s=last.time_unix_s - 1) for f in last.findings)
    assert index.dated(replace(last, findings=glanced)) == last
    # A finding that is unknown, or later than the search has got, keeps its own begin.
    others = replace(last, findings=tuple(replace(f, subject="another one") for f in glanced))
    assert index.dated(others) == others
    later = replace(last, findings=glanced, time_unix_s=last.time_unix_s + 9)
    assert index.dated(later) == later


def test_the_time_line_adds_findings_seen_beyond_the_index() -> None:
    player = FakePlayer(minute(), mode="replay")
    times = FindingTimes(player.overview)
    early, late = (replace(FINDINGS[0], since_unix_s=START_S + s) for s in (11.5, 40.0))
    times.take(replace(minute()[45], findings=(early, late)))
    told_s = minute()[45].time_unix_s
    assert times.within(player.extent) == [
        FindingBegin(START_S + at, FINDINGS[0].severity, told_s) for at in (11.5, 40)
    ]
    assert times.looked_until_unix_s() is None
    begins = tuple(FindingBegin(START_S + at, "info", START_S + at + 4) for at in (10, -99))
    player.scanned = Overview(begins, START_S + 30, is_under_way=True)
    assert times.look()
    assert not times.look()
    # The begin seen in a look at the last seconds is replaced by what the index knows.
    assert [each.since_unix_s - START_S for each in times.within(player.extent)] == [10, 40]
    assert times.looked_until_unix_s() == START_S + 30
    player.scanned = replace(player.scanned, until_unix_s=START_S + 60, is_under_way=False)
    assert times.look()
    assert times.looked_until_unix_s() is None
    assert times.within(player.extent) == [begins[0]]
    assert times.within(Extent(1, 60, START_S + 20, START_S + 60)) == []


def judged_as(text: str) -> Snapshot:
    """An interval with a finding of this text, if any, and a rule that was not evaluated."""
    missing = (NotEvaluated("nfs_latency", "NFS latency", f"layer {'nfs'} is not measured"),)
    found = (replace(FINDINGS[0], cause=text), FINDINGS[-1]) if text else ()
    return replace(minute()[0], findings=found, not_evaluated=missing)


def bytes_per_interval(cache: FindingsCache, text: Callable[[int], str]) -> float:
    """What the cache grows by with each further interval, after some."""
    count = 16 * BLOCK_TICKS
    tracemalloc.start()
    try:
        for tick in range(count):
            cache.keep(tick, judged_as(text(tick)))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for tick in range(count, 2 * count):
            cache.keep(tick, judged_as(text(tick)))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / count


def test_hours_of_findings_cost_little_whether_their_text_changes_or_not() -> None:
    assert bytes_per_interval(FindingsCache(), lambda _: "") < 8
    cache = FindingsCache()

    def text(tick: int) -> str:
        return f"sda does not answer: 4 requests in flight, none completed for {tick} s" * 4

    assert bytes_per_interval(cache, text) < 40
    plain = replace(minute()[0], findings=(), not_evaluated=())
    for tick in (0, 7, BLOCK_TICKS, 5 * BLOCK_TICKS - 1, 32 * BLOCK_TICKS - 1):
        assert tick in cache
        assert cache.onto(tick, plain) == judged_as(text(tick))
    assert 32 * BLOCK_TICKS not in cache


def test_findings_kept_in_any_order_are_found_until_they_are_forgotten() -> None:
    cache, plain = FindingsCache(), replace(minute()[0], findings=(), not_evaluated=())
    ticks = [5, 3 * BLOCK_TICKS, 4, 5 * BLOCK_TICKS + 1, 6]
    for tick in ticks:
        cache.keep(tick, judged_as(f"in interval {tick}"))
    assert [cache.onto(tick, plain) for tick in ticks] == [
        judged_as(f"in interval {tick}") for tick in ticks
    ]
    assert 7 not in cache
    assert cache.onto(7, plain) is plain
    cache.forget_before(3 * BLOCK_TICKS)
    assert [tick in cache for tick in ticks] == [False, True, False, True, False]


def test_the_oldest_findings_are_dropped_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ioh.history.findings_cache.MAX_BLOCKS", 2)
    cache = FindingsCache()
    for tick in range(4 * BLOCK_TICKS):
        cache.keep(tick, judged_as(str(tick)))
    assert [tick * BLOCK_TICKS in cache for tick in range(4)] == [False, True, True, True]
