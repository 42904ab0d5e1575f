"""Probes at the files that servers run: requested, kept, detached; an op with too many events."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf.totals import COUNT, LATENCY_NS, STARTED
from ioh.layers import db
from ioh.layers.db import Db
from ioh.layers.db_tables import SESSION_OPS, WAITS
from ioh.layers.event_rate import MOST_EVENTS_PER_S, PAUSE_S, EventRate
from ioh.layers.part_totals import PART_OP
from ioh.live import servers
from ioh.live.attached import AttachedLayer
from ioh.live.servers import ServerProbes
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from tests.unit import fake_kernel
from tests.unit.probe_text import text_of

FILE, OTHER_FILE = [8, 1, 0], [8, 2, 0]


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)


class Running:
    """The running processes, and the layer's probes at them."""

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
        """Return the descriptor of the link that the loader has made, if it has made one."""
        fd = None if is_taken else os.open("/dev/null", os.O_RDONLY)
        answer = {"pid": pid, "files": [file], "missing": [], "failing": [], **more}
        answer["link_ops"] = [] if fd is None else [op]
        answer["link_sites"] = [] if fd is None else [[*file, 1]]
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


def test_each_server_is_requested_once_and_a_few_at_a_time(running: Running) -> None:
    running.pids = set(range(1, 7))
    assert running.probes.due() == [1, 2, 3, 4]
    assert running.probes.due() == [5, 6]
    assert running.probes.due() == []
    running.pids = {1}
    assert running.probes.due() == []
    running.pids = {1, 2}  # pid 2 again, but another process
    assert running.probes.due() == [2]


def test_probes_at_a_file_are_kept_while_a_process_runs_it(running: Running) -> None:
    running.pids = {1, 2}
    running.probes.due()
    fd = running.attach(1, FILE)
    other = running.attach(2, OTHER_FILE)
    running.pids = {3}  # the first server started again at once, the other one did not
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


def test_why_a_server_is_not_counted_is_reported_while_it_runs(running: Running) -> None:
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
    for pid, file in ((3, FILE), (4, OTHER_FILE)):  # attached except for one probe
        running.attach(pid, file, missing=["no sort"])
    assert running.probes.notes == ("no sort",)


def test_a_dropped_op_is_dropped_at_every_server(running: Running) -> None:
    running.pids = {1, 2, 3}
    running.probes.due()
    kept = running.attach(1, FILE)
    dropped = running.attach(2, OTHER_FILE, "data_read")
    running.probes.drop("data_read", "too many")
    assert is_open(kept)
    assert not is_open(dropped)
    assert not is_open(running.attach(3, [8, 3, 0], "data_read"))
    assert running.probes.notes == ("too many",)


SERVER, FILE = 7, [8, 1, 0]
STATEMENT, COMMIT, DATA_READ = map(SESSION_OPS.index, ("statement", "commit", "data_read"))
PAIR = struct.Struct("=II")
TOO_MANY = MOST_EVENTS_PER_S // 2 + 1  # operations a second, of two events each
OPS = ("statement", "statement", "commit", "data_read")  # of each link


class Watched:
    """A server whose program has its probes, and what they have counted."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.clock = Clock()
        for module in (servers, db):
            patch.setattr(module, "time", self.clock)
        layer = Db(Filters(), root)
        patch.setattr(layer, "server_pids", lambda: frozenset({SERVER}))
        maps, self.held, _ = fake_kernel.install(patch, text_of(Db).maps())
        self.attached = AttachedLayer(layer)
        self.attached.maps = maps
        self.probes = self.attached.servers
        self.done = {STATEMENT: 0, COMMIT: 0, DATA_READ: 0}
        assert self.probes.due() == [SERVER]
        self.links = self.attach(*OPS)
        waits = struct.pack(f"={2 * len(WAITS)}Q", *[1] * 2 * len(WAITS))
        others = bytes(len(waits) * (fake_kernel.CPUS - 1))
        self.held["waits"].entries[PAIR.pack(SERVER, STATEMENT)] = waits + others
        row = struct.pack(f"={2 * len(SESSION_OPS)}Q", *[1] * 2 * len(SESSION_OPS))
        self.held["sessions"].entries[PAIR.pack(SERVER, 9)] = row

    def attach(self, *ops: str) -> list[int]:
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in ops]
        sites, failing = [[*FILE, 1]] * len(ops), [[FILE, "statement"]]
        answer = {"pid": SERVER, "files": [FILE], "missing": [], "failing": failing}
        answer |= {"link_ops": list(ops), "link_sites": sites}
        self.probes.take(answer, fds)
        return fds

    def second(self, statements: int, reads: int = 0) -> LayerSample:
        """The sample after one more second with these statements and reads, and 3 commits."""
        self.clock.now_s += 1
        for op, count in ((STATEMENT, statements), (COMMIT, 3), (DATA_READ, reads)):
            self.done[op] += count
            done = self.done[op]
            value = fake_kernel.counted({STARTED: done, COUNT: done, LATENCY_NS: 1000 * done})
            self.held["totals"].entries[PART_OP.pack(SERVER, op)] = value
        found = self.attached.read()
        assert isinstance(found, LayerSample), found
        return found

    def begin(self, tid: int, op: int) -> bytes:
        """Start an operation in a thread."""
        key = PAIR.pack(tid, op)
        self.held["open_ops"].entries[key] = bytes(self.held["open_ops"].value_size)
        return key


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Watched]:
    for tid in (SERVER, 9):
        (tmp_path / "proc" / str(tid)).mkdir(parents=True)
    made = Watched(monkeypatch, tmp_path)
    yield made
    made.probes.close()


def stepped_down(watched: Watched) -> LayerSample:
    """The reading after the one that found too many statements for the third time."""
    for _ in range(4):
        watched.second(TOO_MANY)
    return watched.second(0)


def test_only_the_op_with_most_events_is_dropped(watched: Watched) -> None:
    found = stepped_down(watched)
    assert [is_open(fd) for fd in watched.links] == [False, False, True, True]
    assert found.ops["statement"].count_total is None
    assert found.ops["commit"].count_total == watched.done[COMMIT]
    assert found.metrics["running_statements"] is None
    (note,) = found.notes
    assert note == "statement is not counted for 10 minutes: 200,008 events/s slow down the servers"


def test_the_wait_of_a_dropped_op_is_unknown(watched: Watched) -> None:
    for _ in range(4):
        watched.second(1, TOO_MANY)
    rows = watched.second(1).tables["wait"]
    known = {wait: row[0] is not None for (within, wait, _), row in rows.items()}
    assert (known["cpu"], known["rest"], known["data_read"]) == (True, True, False)


def test_operations_in_flight_at_the_drop_do_not_end_later(watched: Watched) -> None:
    """Otherwise, the first statement to end after the pause would seem to take ten minutes."""
    for _ in range(4):
        watched.second(TOO_MANY)
    statement, commit = watched.begin(9, STATEMENT), watched.begin(9, COMMIT)
    watched.second(0)
    assert statement not in watched.held["open_ops"].entries
    assert commit in watched.held["open_ops"].entries
    later = watched.begin(9, STATEMENT)
    watched.second(0)
    assert later in watched.held["open_ops"].entries


def test_a_dropped_op_is_tried_again_and_its_totals_continue(watched: Watched) -> None:
    stepped_down(watched)
    watched.clock.now_s += PAUSE_S - 3
    assert watched.probes.due() == []
    watched.clock.now_s += 2
    assert watched.probes.due() == [SERVER]
    links = watched.attach("statement", "statement")
    found = watched.second(5)
    assert found.ops["statement"].count_total == watched.done[STATEMENT]
    assert not found.notes
    assert all(map(is_open, [*links, *watched.links[2:]]))
    assert len(stepped_down(watched).notes) == 1
    assert not any(map(is_open, links))
    watched.probes.close()
    assert not any(map(is_open, [*links, *watched.links]))


MOST_OPS = MOST_EVENTS_PER_S // 2


def played(*seconds: dict[str, int], every_s: float = 1.0) -> list[str]:
    """The op named after each interval, given the operations in it."""
    rate, totals, named = EventRate(), dict.fromkeys({**seconds[0]}, 0), []
    rate.busiest(totals, 0.0)
    for n, counts in enumerate(seconds, 1):
        totals = {op: totals[op] + count for op, count in counts.items()}
        named.append(rate.busiest(totals, n * every_s)[0])
    return named


def test_an_op_is_named_after_three_busy_intervals_in_a_row() -> None:
    busy, calm = {"read": MOST_OPS + 1, "commit": 5}, {"read": MOST_OPS - 5, "commit": 5}
    assert played(busy, busy, busy) == ["", "", "read"]
    assert played(*[calm] * 9) == [""] * 9
    assert played(busy, busy, calm, busy, busy) == [""] * 5


def test_the_limit_is_per_second() -> None:
    busy = {"read": MOST_OPS // 4 + 1}
    assert played(*[busy] * 3, every_s=0.25)[-1] == "read"
    assert played(*[busy] * 3)[-1] == ""


def test_all_ops_together_count_and_the_busiest_is_named() -> None:
    many = {"read": MOST_OPS // 2, "sort": MOST_OPS // 3, "wait": MOST_OPS // 3}
    assert played(many, many, many)[-1] == "read"


def test_the_rate_of_events_is_returned() -> None:
    rate = EventRate()
    for n in range(4):
        found = rate.busiest({"read": n * MOST_OPS * 2}, float(n))
    assert found == ("read", MOST_EVENTS_PER_S * 2)


def test_nothing_is_named_without_an_earlier_reading() -> None:
    rate = EventRate()
    assert rate.busiest({}, 1.0) == ("", 0.0)
    assert rate.busiest({"read": 10**9}, 1.0) == ("", 0.0)
    assert rate.busiest({"read": 10**10}, 1.0) == ("", 0.0)  # no time has passed
