"""The offset of a remote clock, which intervals form a round, and hosts that cannot be read."""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from collections import deque
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.hosts import link, ssh
from ioh.hosts.clock import AGAIN_S, FarClock, steady_clock
from ioh.hosts.host import Host, HostQuery
from ioh.hosts.ssh import ssh_command
from ioh.hosts.stack import HostStack
from ioh.model.errors import IohError
from ioh.model.pairs import HostInterval, HostState
from ioh.model.rounds import MOST_READY, round_edge, take_round
from tests.unit.snapshot_maker import START_S, ticks


class Far:
    """A host whose clock is ahead, and round trips to it."""

    def __init__(self, ahead_s: float = 3.0) -> None:
        self.now_s, self.ahead_s = START_S, ahead_s
        self.clock = FarClock(lambda: self.now_s)

    def trip(self, there_s: float, back_s: float) -> None:
        number = self.clock.question().decode().strip()
        self.now_s += there_s
        told = f"ioh-clock {number} {self.now_s + self.ahead_s:.9f}"
        self.now_s += back_s
        assert self.clock.answer(told)

    def sample(self) -> float:
        """Our clock's time of a sample taken now."""
        return self.clock.ours(self.now_s + self.ahead_s, round((self.now_s - START_S) * 1e9))


@given(st.lists(st.tuples(*[st.floats(0, 0.5)] * 2), min_size=5, max_size=5))
def test_the_offset_is_within_its_error(trips: list[tuple[float, float]]) -> None:
    far = Far()
    for there_s, back_s in trips:
        far.trip(there_s, back_s)
    assert far.clock.offset_s is not None
    assert far.clock.error_s is not None
    assert far.clock.error_s == pytest.approx(min(sum(trip) for trip in trips) / 2, abs=1e-6)
    assert abs(far.clock.offset_s - 3) <= far.clock.error_s + 1e-6
    assert far.clock.question() == b""
    far.now_s += AGAIN_S + 0.1
    assert far.clock.question() == b"6\n"
    assert far.clock.question() == b""  # one at a time


def test_setting_the_remote_clock_moves_no_sample() -> None:
    far = Far()
    far.trip(0.001, 0.001)
    assert far.sample() == pytest.approx(far.now_s, abs=0.001)
    far.ahead_s = -7.0
    far.now_s += 1
    assert far.sample() == pytest.approx(far.now_s, abs=0.001)
    assert far.clock.offset_s == pytest.approx(-7.0, abs=0.001)


@pytest.mark.parametrize("told", ["%N", "1700000000.", "nan", "inf", "-1.5", "1e300", "", "1 2"])
def test_an_invalid_time_gives_no_offset(told: str) -> None:
    far = Far()
    assert far.clock.question() == b"1\n"
    assert far.clock.answer(f"ioh-clock 1 {told}")
    assert far.clock.offset_s is None
    assert far.sample() == far.now_s  # when it arrived
    assert not far.clock.answer("sudo: a password is required")


@pytest.mark.parametrize("unix_s", [math.nan, math.inf, -1e300, 0.0])
def test_a_sample_with_an_absurd_time_counts_as_taken_now(unix_s: float) -> None:
    far = Far()
    far.trip(0.001, 0.001)
    assert far.clock.ours(unix_s, 0) == far.now_s


def ended(name: str, *times_s: float) -> deque[HostInterval]:
    made = [ticks(1, {}, start=0)[0] for _ in times_s]
    for snapshot, time_s in zip(made, times_s, strict=True):
        object.__setattr__(snapshot, "time_unix_s", time_s)
    return deque(HostInterval(name, (), snapshot) for snapshot in made)


@given(st.data(), st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_each_interval_is_in_one_round_and_each_host_at_most_once(
    data: st.DataObject, phases: list[float]
) -> None:
    """However far out of step the hosts are: two that never met would have no pair."""
    count, jitter = 6, st.floats(-0.02, 0.02)
    ready = {
        str(at): ended(str(at), *(i + phase + data.draw(jitter) for i in range(count)))
        for at, phase in enumerate(phases)
    }
    rounds, edge_s = [], math.nan
    while any(ready.values()):
        ends_s = [each[0].snapshot.time_unix_s for each in ready.values() if each]
        edge_s = round_edge(ends_s, 1.0, edge_s)
        found = [(part.name, part.snapshot.time_unix_s) for part in take_round(ready, 1.0, edge_s)]
        names = [name for name, _ in found]
        times = [time for _, time in found]
        assert len(set(names)) == len(names)
        assert max(times) - min(times) <= (0.6 if len(phases) == 2 else 1.0)
        rounds.append(names)
    assert sorted(name for names in rounds for name in names) == sorted([*ready] * count)
    if len(phases) <= 4:  # their ends are far enough apart for the jitter
        assert sum(len(names) == len(phases) for names in rounds) >= count - 2


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("db01", "db01"),
        ("me@db01:2222", "ssh://me@db01:2222"),
        ("[2001:db8::9]:22", "ssh://[2001:db8::9]:22"),
        ("2001:db8::9", "2001:db8::9"),
    ],
)
def test_a_host_with_a_port_is_passed_as_an_ssh_url(host: str, target: str) -> None:
    *_, dashes, found, there = ssh_command(host, None, ["record", "--comm", "a'b; c"])
    assert (dashes, found) == ("--", target)
    assert "\n" not in there


def test_a_host_that_is_always_behind_does_not_block_the_others() -> None:
    ready: dict[str, deque[HostInterval]] = {"behind": deque(), "db01": deque()}
    seen = 0
    for now, snapshot in enumerate(ticks(3 * MOST_READY, {})):
        for name, late_s in (("behind", 50), ("db01", 0)):
            shown = replace(snapshot, time_unix_s=START_S + now - late_s)
            ready[name].append(HostInterval(name, (), shown))
        seen += any(part.name == "db01" for part in take_round(ready, 1.0, 0.5))
    assert seen > MOST_READY
    assert all(len(each) <= MOST_READY for each in ready.values())


ASKED = HostQuery((), None, lambda _: None, 1.0)


@pytest.mark.parametrize(
    "where", ["link.os.pipe2", "link.selectors.DefaultSelector", "ssh.subprocess.Popen"]
)
def test_too_few_descriptors_are_reported_as_the_hosts_error(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr(ssh, "subprocess", Mock(Popen=Mock(), PIPE=-1))
    monkeypatch.setattr(f"ioh.hosts.{where}", Mock(side_effect=lack))
    host = Host("db01", ASKED, steady_clock(), threading.Condition())
    monkeypatch.setattr(os, "set_blocking", Mock())
    host.start()
    until = time.monotonic() + 5
    while host.error is None and time.monotonic() < until:
        time.sleep(0.01)
    host.stop()
    host.join()
    assert host.error is not None
    assert host.error.cause.startswith("db01: ")
    assert host.error.cause.endswith("Too many open files")
    assert "Install" not in host.error.hint


def test_a_host_that_sends_bytes_but_no_recording_is_given_up() -> None:
    drip = ["sh", "-c", "for at in $(seq 60); do echo x; sleep 0.05; done"]
    with link.Link(drip, FarClock(steady_clock()), 0.3) as made:
        items = made.items()
        with pytest.raises(IohError, match="no data for"):
            next(items)


def test_the_time_of_a_round_is_the_earliest_end_in_it() -> None:
    stack = HostStack((), ASKED)
    for name, late_s in (("db01", 0.3), ("nfs01", 0.0)):
        shown = replace(ticks(1, {})[0], time_unix_s=START_S + late_s)
        ready = deque([HostInterval(name, (), shown)])
        state = HostState(name, is_here=True)
        host = Mock(ready=ready, error=None, state=state)
        host.name = name
        stack._hosts.append(host)
    each = next(iter(stack))
    assert len(each.intervals) == 2
    assert each.time_unix_s == START_S
