"""Database operations in progress, and which ops of a server are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioh.layers.db_known import KnownOps
from ioh.layers.db_open import OpenOp, Progress
from ioh.layers.db_ops import WAITS
from ioh.model.sample import OpTotals

MS = 10**6
NOTHING = (0,) * len(WAITS)
KNOWN = {7: {"statement": True, "lock_wait": False}}


def begun(op: str, start_ms: int, tid: int = 9, **more: int) -> OpenOp:
    waited = tuple(more.get(wait, 0) for wait in WAITS)
    return OpenOp(tid, op, 7, start_ms * MS, 5 * MS, 6 * MS, is_wait=False, waited_ns=waited)


def ended(op: str, *ms: int, failed_ms: int = 0) -> dict[int, dict[str, OpTotals]]:
    spent_ns = (sum(ms) + failed_ms) * MS
    return {7: {op: OpTotals(len(ms), 0, 0, sum(ms) * MS, weighted_ns_total=spent_ns)}}


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    folder = tmp_path / "proc" / "9"
    folder.mkdir(parents=True)
    (folder / "schedstat").write_text(f"{305 * MS} {46 * MS} 7\n")
    return Progress(tmp_path)


def test_time_is_booked_as_it_passes_and_once(progress: Progress) -> None:
    booked = []
    for now_ms, done, found in (
        (1000, ended("statement"), [begun("statement", 400)]),
        (2000, ended("statement"), [begun("statement", 400)]),
        (3000, ended("statement"), []),  # it ended between the two readings
        (4000, ended("statement", 2700), []),
        (5000, ended("statement", 2700, failed_ms=800), []),
    ):
        op = progress.book(done, found, KNOWN, now_ms * MS)[7]["statement"]
        booked.append(((op.weighted_ns_total or 0) // MS, op.inflight))
    assert booked == [(600, 1), (1600, 1), (1600, 0), (2700, 0), (3500, 0)]


def test_an_op_is_unknown_without_a_probe_and_so_are_errors_that_none_tells(
    progress: Progress,
) -> None:
    totals = {7: {**ended("lock_wait", 5)[7], **ended("sort", 5)[7]}}
    found = progress.book(totals, [begun("statement", 0)], KNOWN, MS)[7]
    assert found["sort"] == OpTotals()
    assert (found["lock_wait"].count_total, found["lock_wait"].errors_total) == (1, None)
    assert (found["statement"].count_total, found["statement"].errors_total) == (0, 0)


def test_waits_so_far_are_those_that_ended_and_the_one_in_progress(progress: Progress) -> None:
    """A wait's own time in the queue for a CPU is a part of it, not another wait."""
    statement = begun("statement", 1000, log_sync=20 * MS, cpu_wait=-15 * MS)
    lock = begun("lock_wait", 1400)
    waits = progress.waits([statement, lock], 2000 * MS)[7, "statement"]
    spent = {wait: ns // MS for wait, ns in zip(WAITS, waits, strict=True) if ns}
    # 40 ms in the queue since both began: all of it while it waited for the lock.
    assert spent == {"log_sync": 20, "lock_wait": 600, "cpu": 300}
    alone = progress.waits([statement], 2000 * MS)[7, "statement"]
    assert alone[WAITS.index("cpu_wait")] == (40 - 15) * MS
    assert not progress.waits([begun("statement", 1950)], 2000 * MS)


def answer(pid: int, *ops: str, number: int = 0, failing: tuple[str, ...] = ()) -> dict[str, Any]:
    file = (8, 1, number)
    sites = [(*file, at) for at, _ in enumerate(ops)]
    told = {"pid": pid, "files": [file], "link_ops": ops, "link_sites": sites}
    return {**told, "failing": [(file, op) for op in failing]}


def test_ops_are_known_by_the_program_that_a_server_runs() -> None:
    known = KnownOps()
    known.learn(answer(7, "statement", "statement", "log_sync", failing=("statement",)))
    known.learn(answer(8))  # another server that runs the same file
    known.learn(answer(9, "statement", number=1))
    assert known.of(7, {}) == known.of(8, {}) == {"statement": True, "log_sync": False}
    assert known.of(9, {}) == {"statement": False}
    assert known.of(5, {}) == {}
    known.drop("log_sync")
    assert known.of(7, {"log_sync": OpTotals(5)}) == {"statement": True}
    known.learn(answer(7, "log_sync"))
    assert known.of(7, {}).keys() == {"statement", "log_sync"}


def test_an_op_is_unknown_while_it_happens_unseen() -> None:
    known = KnownOps()
    known.learn(answer(7, "log_sync"))
    seen = []
    for started, count in ((0, 0), (4, 4), (6, 4), (6, 4), (9, 7), (9, 7)):
        totals = {"log_sync": OpTotals(count, errors_total=0, started_total=started)}
        seen.append("log_sync" in known.of(7, totals))
        assert known.unseen_ops() == (set() if seen[-1] else {(7, "log_sync")})
    assert seen == [True, True, False, False, True, True]
