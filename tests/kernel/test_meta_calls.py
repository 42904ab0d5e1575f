"""Calls on names and attributes, locks and close: exact counts by op, process and mount."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.meta_calls import COMM
from tests.kernel.part import part_of
from tests.kernel.rig import METADATA, Ioh, Volume, recording
from tests.kernel.talker import Talker


class Caller(Talker):
    """The program in tests/kernel/meta_calls.py, and ioh, which watches only it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sys.executable, "-m", "tests.kernel.meta_calls", folder)
        assert self.line() == "ready"

    def run(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        told = json.loads(self.ask(name))
        return told["done"], told["failed"]


@pytest.fixture(scope="module")
def named() -> Iterator[Ioh]:
    with recording("--comm", COMM, "--layers", "syscall") as ioh:
        yield ioh


def answers(ioh: Ioh) -> dict[str, int]:
    """Calls answered with an errno, such as ENOENT, by op; none of them is an error."""
    assert not any(ioh.errors("syscall", op) for op in METADATA - {"meta"})
    rows = ioh.table("syscall", "error", "op")
    return {op: row["errors"] for (op,), row in rows.items() if row["errors"]}


@pytest.mark.parametrize("name", ["opens", "stats", "changes", "others", "requests"])
def test_each_call_counts_once_in_its_op(named: Ioh, volume: Volume, name: str) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, answered = caller.run(name)
        pid = str(caller.pid)
    assert answers(ioh) == answered
    done = Counter(done) + Counter(answered)
    assert ioh.metadata() == done
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.get((pid, COMM), {}).get("metas", 0) == sum(done.values())
    mounts = ioh.table("syscall", "mount", "mount")
    assert sum(row["metas"] for row in mounts.values()) == sum(done.values())
    assert {key[0] for key, row in mounts.items() if row["metas"]} <= {
        str(volume.mount),
        "(absolute path)",
    }
    assert ioh.lost("syscall") == {}


def test_a_call_that_a_limit_refuses_is_an_error(named: Ioh, volume: Volume) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, failed = caller.run("failures")
    assert (done, failed) == ({}, {"open": 7})
    assert ioh.errors("syscall", "open") == 7
    assert "open" not in ioh.metadata()


def test_a_lock_counts_if_it_waits_and_has_its_time(named: Ioh, volume: Volume) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, _ = caller.run("locks")
    assert ioh.metadata().get("lock") == done["lock"] == 2
    mounts = ioh.table("syscall", "mount", "mount")
    row = mounts[(str(volume.mount),)]
    assert row["locks"] == 2
    assert row["lock_ns"] == pytest.approx(done["lock_ns"], rel=0.01)
