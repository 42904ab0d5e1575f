"""Probes at the files that servers run: requested, kept, detached; ops with dear traps."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf.totals import COUNT, LATENCY_NS, STARTED
from ioh.layers import db
from ioh.layers.db import Db
from ioh.layers.db_ops import SESSION_OPS, WAITS
from ioh.layers.part_totals import PART_OP
from ioh.layers.trap_budget import CHECK_S, MOST_CPU, MOST_EXCESS_S, PAUSE_S, TrapBudget
from ioh.live import servers
from ioh.live.attached import AttachedLayer
from ioh.live.servers import ServerProbes
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample
from tests.unit import fake_kernel
from tests.unit.probe_text import text_of

FILE, OTHER_FILE = [8, 1, 0], [8, 2, 0]
TRAP_NS = 1000


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
        answer["trap_ns"] = dict.fromkeys(answer["link_ops"], TRAP_NS - 400)
        answer["counted_ns"] = 400
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
TOO_MANY = 250_000  # operations a second, of two traps each: half of a CPU
OPS = ("statement", "statement", "commit", "data_read")  # of each link


class Watched:
    """A server whose program has its probes, and what they have counted."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.clock = Clock()
        for module in (servers, db):
            patch.setattr(module, "time", self.clock)
        layer = Db(Filters(), root)
        patch.setattr(layer, "server_pids", lambda: frozenset({SERVER}))
        maps, self.held, _ = fake_kernel.install(patch, text_of("db").maps())
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
        answer["trap_ns"] = dict.fromkeys(ops, TRAP_NS - 400)
        answer["counted_ns"] = 400
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
            trapped = struct.pack("=Q", 2 * done) + bytes(8 * (fake_kernel.CPUS - 1))
            self.held["traps"].entries[op.to_bytes(4, sys.byteorder)] = trapped
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
    """The reading after the one that found too many statements."""
    for _ in range(2):
        watched.second(TOO_MANY)
    return watched.second(0)


def test_only_the_op_with_most_events_is_dropped(watched: Watched) -> None:
    found = stepped_down(watched)
    assert [is_open(fd) for fd in watched.links] == [False, False, True, True]
    assert found.ops["statement"].count_total is None
    assert found.ops["commit"].count_total == watched.done[COMMIT]
    assert found.metrics["running_statements"] is None
    (note,) = found.notes
    assert note == "statement is not counted for 10 minutes: that takes 50% of a CPU"


def test_the_wait_of_a_dropped_op_is_unknown(watched: Watched) -> None:
    for _ in range(2):
        watched.second(1, TOO_MANY)
    rows = watched.second(1).tables["wait"]
    known = {wait: row[0] is not None for (within, wait, _), row in rows.items()}
    assert (known["cpu"], known["rest"], known["data_read"]) == (True, True, False)


def test_operations_in_flight_at_the_drop_do_not_end_later(watched: Watched) -> None:
    """Otherwise, the first statement to end after the pause would seem to take ten minutes."""
    for _ in range(2):
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


def played(*shares: dict[str, float], every_s: float = 0.25) -> list[list[str]]:
    """The ops named after each check, given the shares of a CPU that their traps took."""
    budget, spent, named = TrapBudget(MOST_CPU), dict.fromkeys(shares[0], 0.0), []
    budget.overload({op: int(ns) for op, ns in spent.items()}, 0.0)
    for n, each in enumerate(shares, 1):
        spent = {op: spent[op] + share * every_s * 1e9 for op, share in each.items()}
        totals = {op: int(ns) for op, ns in spent.items()}
        named.append(list(budget.overload(totals, n * every_s)))
    return named


@pytest.mark.parametrize("share", [0.21, 0.3, 0.5, 1.0, 4.0])
def test_the_dearer_an_op_the_sooner_it_is_named(share: float) -> None:
    found = played(*[{"read": share, "commit": 0.001}] * 100)
    checks = found.index(["read"]) + 1
    lasted_s = MOST_EXCESS_S / (share - MOST_CPU)
    assert lasted_s * 0.9 < checks * CHECK_S <= lasted_s + CHECK_S


def test_what_is_bearable_on_average_is_kept() -> None:
    assert not any(played(*[{"read": 0.1, "commit": 0.09}] * 400))
    busy, calm = {"read": 0.38}, {"read": 0.0}
    assert not any(played(*[busy, busy, calm, calm] * 100))


def test_the_check_does_not_depend_on_its_period() -> None:
    assert played({"read": 1.0}, every_s=10.0) == [["read"]]
    often = played(*[{"read": 1.0}] * 30, every_s=0.01)
    assert often.index(["read"]) in {18, 19}


def test_ops_are_named_until_the_rest_is_bearable() -> None:
    """Both halves of malloc and free; not those that cost little."""
    found = played({"free": 0.5, "sort": 0.05, "malloc": 0.9, "wait": 0.1})
    assert found == [["malloc", "free"]]
    found = played(*[{"read": 0.09, "sort": 0.08, "wait": 0.07}] * 40)
    assert next(filter(None, found)) == ["read"]


def test_nothing_is_named_without_an_earlier_check_or_passed_time() -> None:
    budget = TrapBudget(MOST_CPU)
    assert budget.overload({"read": 10**12}, 1.0) == {}
    assert budget.overload({"read": 10**13}, 1.0) == {}
    assert budget.overload({}, 2.0) == {}
