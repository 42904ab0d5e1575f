"""Hosts that cannot be read, the time of a round, and our clock."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from dataclasses import replace
from unittest.mock import Mock

import pytest

from ioh.hosts import link, ssh
from ioh.hosts.clock import FarClock, steady_clock
from ioh.hosts.host import Asked, Host
from ioh.hosts.stack import HostStack
from ioh.model.errors import IohError
from ioh.model.pairs import HostInterval, HostState
from tests.unit.snapshot_maker import START_S, ticks

ASKED = Asked((), None, lambda _: None, 1.0)


@pytest.mark.parametrize(
    "where", ["link.os.pipe2", "link.selectors.DefaultSelector", "ssh.subprocess.Popen"]
)
def test_a_lack_of_descriptors_is_a_reason_like_any_other(
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


def test_a_host_that_sends_bytes_and_never_a_recording_is_given_up() -> None:
    drip = ["sh", "-c", "for at in $(seq 60); do echo x; sleep 0.05; done"]
    with link.Link(drip, FarClock(steady_clock()), 0.3) as made:
        items = made.items()
        with pytest.raises(IohError, match="no data for"):
            next(items)


def test_the_time_of_a_round_is_that_of_its_first_end() -> None:
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
