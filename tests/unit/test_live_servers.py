"""Servers' files: asked for once each, kept while somebody runs them, let go a minute later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ioh.layers.db import Db
from ioh.live import servers
from ioh.live.servers import ServerProbes
from ioh.model.filters import Filters

FILE, OTHER_FILE = [8, 1], [8, 2]


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Running:
    """The processes that run, and the layer's probes at them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pids: set[int] = set()
        self.clock = Clock()
        monkeypatch.setattr(servers, "time", self.clock)
        self.layer = Db(Filters())
        monkeypatch.setattr(self.layer, "server_pids", lambda: frozenset(self.pids))
        self.probes = ServerProbes(self.layer)

    def attach(
        self, pid: int, file: list[int], op: str = "commit", *, is_taken: bool = False, **more: Any
    ) -> int | None:
        """A link's descriptor, where the loader has made one."""
        fd = None if is_taken else os.open("/dev/null", os.O_RDONLY)
        answer = {"pid": pid, "files": [file], "missing": [], **more}
        answer["link_ops"] = [] if fd is None else [op]
        self.probes.take(answer, [] if fd is None else [fd])
        return fd


def is_open(fd: int | None) -> bool:
    assert fd is not None
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    made = Running(monkeypatch)
    yield made
    made.probes.close()


def test_each_is_asked_for_once_and_a_few_at_a_time(running: Running) -> None:
    running.pids = set(range(1, 7))
    assert running.probes.due() == [1, 2, 3, 4]
    assert running.probes.due() == [5, 6]
    assert running.probes.due() == []
    running.pids = {1}
    assert running.probes.due() == []
    running.pids = {1, 2}  # the number again, another process
    assert running.probes.due() == [2]


def test_a_file_is_kept_while_somebody_runs_it(running: Running) -> None:
    running.pids = {1, 2}
    running.probes.due()
    fd = running.attach(1, FILE)
    other = running.attach(2, OTHER_FILE)
    running.pids = {3}  # started again at once; the other one is not
    running.probes.due()
    running.attach(3, FILE, is_taken=True)
    running.clock.now_s += 59
    running.probes.due()
    assert is_open(fd)
    assert is_open(other)
    running.clock.now_s += 2
    running.probes.due()
    assert is_open(fd)
    assert not is_open(other)
    running.pids = set()
    running.probes.due()
    running.clock.now_s += 61
    running.probes.due()
    assert not is_open(fd)


def test_why_a_server_is_not_counted_is_said_while_it_runs(running: Running) -> None:
    running.pids = {1, 2}
    running.probes.due()
    running.probes.take({"pid": 1, "reason": "no symbols"}, [])
    running.probes.take({"pid": 2, "reason": "no symbols"}, [])
    assert running.probes.notes == ("a server is not counted: no symbols",)
    running.pids = set()
    running.probes.due()
    assert list(running.probes.notes) == []
    running.pids = {3, 4}
    running.probes.due()
    for pid, file in ((3, FILE), (4, OTHER_FILE)):  # attached but for one probe
        running.attach(pid, file, missing=["no sort"])
    assert running.probes.notes == ("no sort",)


def test_an_op_that_is_dropped_is_dropped_wherever_it_comes(running: Running) -> None:
    running.pids = {1, 2, 3}
    running.probes.due()
    kept = running.attach(1, FILE)
    dropped = running.attach(2, OTHER_FILE, "data_read")
    running.probes.drop("data_read", "too many")
    assert is_open(kept)
    assert not is_open(dropped)
    assert not is_open(running.attach(3, [8, 3], "data_read"))
    assert running.probes.notes == ("too many",)
