"""The screen with several hosts: their feeds, the key that switches hosts, and their pairs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ioh.model.intervals import interval
from ioh.model.pairs import HostInterval, HostState, Round
from ioh.model.player import IsWanted, Means, News, RoundSource, TimelineEvent
from ioh.model.sample import Sample
from ioh.model.snapshot import Pair, PairOp, Snapshot
from ioh.player.live import LivePlayer
from ioh.tui.render.header import render_hosts, render_path
from tests.support import fake_ssh, fakes
from tests.support.pty_screen import ROOT, PtyScreen
from tests.support.screen_player import FakePlayer, Stage, stage
from tests.support.screens import FINDINGS, minute
from tests.unit.test_pairs import OURS, client, host, server

HERE = HostState("db01", is_here=True, offset_s=0.0, error_s=0.001)
LOST = HostState("nfs01", False, 12.4, "nfs01: Broken\x1b pipe", 0.0, 0.001)
PAIR = Pair("db01", "nfs01", {"read": PairOp(10, 9, 5000, 1000)})


class Scripted(RoundSource):
    """Rounds made up by a test."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self._rounds, self.over = rounds, threading.Event()
        self.states = (HERE, LOST)

    def stop(self) -> None:
        self.over.set()

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)


def part(name: str, older: Sample, newer: Sample) -> HostInterval:
    found = interval(older, newer)
    assert found is not None
    return HostInterval(name, (), found, (older, newer))


def read(rounds: Sequence[Sequence[HostInterval]]) -> tuple[LivePlayer, list[News]]:
    made = [Round(parts[0].snapshot.time_unix_s, tuple(parts), (HERE, LOST)) for parts in rounds]
    player = LivePlayer(Scripted(made), hosts=("db01", "nfs01"), make_judge=Finds)
    news: list[News] = []

    def take(each: News) -> None:
        news.append(each)
        if each.is_over:
            player.stop()

    player.run(take)
    return player, news


class Finds:
    """A judge that always finds the same."""

    look_back_s = 1.0

    def judge(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, findings=FINDINGS[:1])


def test_a_lost_host_has_a_gap_and_the_other_continues() -> None:
    samples = fakes.first(12)
    here = [part("db01", *pair) for pair in pairwise(samples)]
    away = [part("nfs01", *samples[at : at + 2]) for at in (0, 1, 6, 7)]
    player, news = read([[here[0], away[0]], [here[1], away[1]], [here[2]], [here[6], away[2]]])
    own, other = player.histories
    assert [own.extent.last, other.extent.last] == [5, 4]
    assert [tick for tick, _ in other.walk(1, 9)] == [1, 2, 4]
    assert [each.host for each in news if each.status.startswith("no data from")] == [0, 1]
    assert other.visit(3) is None
    assert other.visit(4) is not None
    (gap,) = other.moments()
    assert (gap.time_unix_s, gap.until_unix_s) == (samples[2].time_unix_s, samples[6].time_unix_s)
    assert [(each.host, each.tick) for each in news if each.tick] == [
        *((0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (0, 5), (1, 4)),
    ]
    player.close()


def test_every_host_knows_the_findings_of_all() -> None:
    samples = fakes.first(3)
    parts = [part(name, samples[0], samples[1]) for name in ("db01", "nfs01")]
    player, news = read([parts])
    told = [each.snapshot for each in news if each.snapshot is not None]
    visited = [each.visit(1) for each in player.histories]
    for snapshot in (*told, *visited):
        assert snapshot is not None
        assert {found.host for found in snapshot.findings} == {"db01", "nfs01"}
    assert {found.host for found in player.overview(0).findings} == {"db01", "nfs01"}
    assert len(player.overview(0).begins) == 1
    player.close()


def test_calls_served_after_the_clients_last_interval_are_still_paired() -> None:
    samples = fakes.first(3)
    busy, idle = client(("nfs01", "10.0.0.9")), host("db01", OURS, nfs_client={})
    served = server(("10.0.0.7:713", 9, 900.0))

    def at(tick: int, *parts: HostInterval) -> list[HostInterval]:
        times = samples[tick], samples[tick + 1]
        shown = interval(*times)
        assert shown is not None
        time_s = shown.time_unix_s
        return [
            replace(each, snapshot=replace(each.snapshot, time_unix_s=time_s), samples=times)
            for each in parts
        ]

    player, news = read([at(0, busy, served), at(1, idle, served)])
    told = [each.snapshot.pairs for each in news if each.snapshot is not None and not each.host]
    assert [pair.ops["read"].server_calls for (pair,) in told] == [9, 9]
    assert [pair.ops["read"].client_calls for (pair,) in told] == [100, 0]
    player.close()


class FakeHosts(FakePlayer):
    """A made-up player of two hosts."""

    def __init__(self, *states: HostState) -> None:
        super().__init__(minute())
        self.states = states or (HERE, replace(HERE, name="nfs01"))
        self.names = tuple(state.name for state in self.states)
        self.second = FakePlayer([replace(s, pairs=(PAIR,)) for s in minute()])
        self.histories = (self, self.second)

    def push(self, count: int = 1, *, status: str = "") -> None:
        for _ in range(count):
            self.second.told += 1
            there = self.second.intervals[self.second.told - 1]
            self.say(News(self.second.told, there, status, host=1))
            super().push(status=status)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_key_switches_the_host_and_keeps_the_time(size: tuple[int, int]) -> None:
    hosts = FakeHosts()

    async def flow(on: Stage) -> None:
        await on.push(20)
        assert on.lines[0].startswith(" ioh  db01 1/2  ")
        assert on.lines[1].startswith("  db01  nfs01")
        assert "H host" in on.lines[-1]
        assert "nfs, means" not in on.text
        await on.press("H")
        await on.shows("nfs01 2/2", "R |db01 from nfs01:|      10|       9|   5.000")
        await on.press("left", "left")
        await on.until(lambda: on.app.view.shown is hosts.second.intervals[17])
        await on.press("H")
        await on.until(lambda: on.app.view.shown is hosts.intervals[17])
        await on.shows("db01 1/2", "PAUSED")
        await on.click("nfs01", into=1)
        await on.shows("nfs01 2/2", "PAUSED")
        await on.press("end", "1", "H", "question_mark")
        await on.shows("next host, if there are several")
        assert len(on.lines) == size[1]

    stage(flow, hosts, size=size)


def test_a_mark_is_compared_on_its_own_host_only() -> None:
    hosts, may_answer = FakeHosts(), threading.Event()
    first = hosts
    first.marks = (TimelineEvent(minute()[9].time_unix_s + 0.5, "fio run 3"),)
    means = first.means

    def answer_late(begin: int, last: int, is_wanted: IsWanted) -> Means:
        assert may_answer.wait(20)
        return means(begin, last, is_wanted)

    first.means = answer_late  # type: ignore[method-assign]

    async def flow(on: Stage) -> None:
        await on.push(20)
        await on.press("A")
        await on.shows("fio run 3: reading 20 intervals")
        await on.press("H")
        await on.shows("nfs01 2/2")
        may_answer.set()
        assert "fio run 3" not in on.text
        await on.press("H")
        await on.shows("db01 1/2", "fio run 3 to")

    stage(flow, hosts)


def test_a_lost_host_says_since_when_and_its_numbers_are_grey() -> None:
    hosts = FakeHosts(HERE, LOST)

    async def flow(on: Stage) -> None:
        await on.push(3)
        assert on.lines[1] == "  db01  nfs01 lost 12 s"
        await on.press("H")
        await on.shows("LOST 12 s", "nfs01: Broken\\x1b pipe")
        body = on.app.frame().lines[4:-2]
        assert {style for line in body for text, style in line.spans if text.strip()} == {"dim"}
        await on.press("space")
        await on.shows("PAUSED")
        assert len({style for line in on.app.frame().lines for _, style in line.spans}) > 4

    stage(flow, hosts)


def test_enter_on_a_finding_of_another_host_shows_that_host() -> None:
    hosts = FakeHosts()
    found = replace(FINDINGS[0], host="nfs01", since_unix_s=minute()[9].time_unix_s)
    hosts.intervals[:] = [replace(s, findings=(found,)) for s in minute()]

    async def flow(on: Stage) -> None:
        await on.push(20)
        await on.shows(f"nfs01: {found.title}")
        await on.press("f", "enter")
        await on.until(lambda: on.app.view.travel.tick == 10)
        await on.shows("nfs01 2/2", "PAUSED")

    stage(flow, hosts)


def test_hosts_that_do_not_fit_give_way_to_the_one_shown() -> None:
    states = [replace(HERE, name=f"server-{at}", error_s=0.08) for at in range(8)]
    line = render_hosts(states, 7, 80).lines[0]
    assert line.width == 80
    assert "server-7 clock +0 ms, error 80 ms" in line.text
    assert line.text.startswith("<")
    unknown = replace(HERE, offset_s=None, error_s=None)
    assert "db01 clock unknown" in render_hosts([unknown], 0, 80).lines[0].text


@pytest.mark.parametrize(("height", "lines"), [(1, 0), (2, 2), (9, 3)])
def test_the_path_takes_no_more_lines_than_there_are(height: int, lines: int) -> None:
    assert len(render_path([PAIR], 80, height).lines) == lines


def test_two_hosts_on_a_terminal(tmp_path: Path) -> None:
    fake_ssh.install(tmp_path)
    words = [sys.executable, "-m", "ioh", "--host", "db01", "--host", "nfs01", "-c", "0.3"]
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with PtyScreen(words, ROOT, 80, 24, env=path) as shown:
        shown.wait_for("db01 1/2", "nfs, means", "db01 from nfs01")
        shown.press("H")
        shown.wait_for("nfs01 2/2", "nfs server")
        shown.press("q")
        assert shown.wait() == 0


def test_a_host_that_cannot_be_read_ends_the_screen_with_the_reason(tmp_path: Path) -> None:
    fake_ssh.install(tmp_path)
    words = [sys.executable, "-m", "ioh", "--host", "refused"]
    with PtyScreen(words, ROOT, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}) as shown:
        assert shown.wait() == 1
        assert "Permission denied (publickey). Try: ssh -o" in shown.text


def test_the_screen_ends_after_its_run_time() -> None:
    samples = fakes.first(6)
    rounds = [
        Round(newer.time_unix_s, (part("db01", older, newer),), (HERE,))
        for older, newer in pairwise(samples)
    ]
    script = Scripted(rounds)
    player = LivePlayer(script, hosts=("db01",), run_s=3.0)
    news: list[News] = []
    player.run(news.append)
    assert script.over.is_set()
    assert news[-1].error is not None
    player.close()
