"""Layer ``db`` with SQLite's library, in a program that counts its own calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from ioh.layers.db import Db
from tests.kernel.rig import Ioh, recording
from tests.kernel.talker import wait_until

# Runs each line of its input to the end; finally prints how often it has called each function.
PROGRAM = """
import collections, ctypes, json, sys
lib = ctypes.CDLL("libsqlite3.so.0")
lib.sqlite3_prepare_v2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int] + 2 * [
    ctypes.c_void_p]
lib.sqlite3_step.argtypes = lib.sqlite3_finalize.argtypes = [ctypes.c_void_p]
lib.sqlite3_wal_checkpoint_v2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int] + 2 * [
    ctypes.c_void_p]
db, counts = ctypes.c_void_p(), collections.Counter()
assert lib.sqlite3_open(sys.argv[1].encode(), ctypes.byref(db)) == 0
print(flush=True)
for line in sys.stdin:
    if line == "checkpoint\\n":
        assert lib.sqlite3_wal_checkpoint_v2(db, None, 2, None, None) == 0
        counts["checkpoint"] += 1
        continue
    statement = ctypes.c_void_p()
    got = lib.sqlite3_prepare_v2(db, line.encode(), -1, ctypes.byref(statement), None)
    counts["prepare"] += 1
    while got == 0 or got == 100:
        got = lib.sqlite3_step(statement)
        counts["step"] += 1
    counts["statement"] += got == 101
    lib.sqlite3_finalize(statement)
print(json.dumps(counts))
"""
WORK = [
    "pragma journal_mode = wal", "create table t (id integer primary key, v)",
    *(f"insert into t values ({i % 40}, {i})" for i in range(53)),
    "begin", "update t set v = 1", "commit", "begin", "delete from t", "rollback",
    *("select * from t" for _ in range(7)), "checkpoint", "nonsense", "checkpoint",
]  # fmt: skip


def work(path: Path, lines: list[str]) -> dict[str, int]:
    """Run lines in the program; returns how often it has called each function."""
    program = ["python3", "-c", PROGRAM, str(path)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        said, _ = process.communicate("".join(f"{line}\n" for line in lines), timeout=60)
    counts: dict[str, int] = json.loads(said)
    return counts


def watched(ioh: Ioh) -> None:
    """Wait until the library has its probes."""

    def is_watched() -> bool:
        ops = ioh.intervals[-1]["layers"]["db"]["ops"]
        return ops["prepare"]["count"] is not None

    wait_until(is_watched, why=lambda: ioh.raw[-3000:])


def test_statements_are_those_the_program_ran(tmp_path: Path) -> None:
    with recording("--layers", "db", "--functions", "sqlite", "--db-all") as ioh:
        watched(ioh)
        counts = work(tmp_path / "db", WORK)
    assert counts["step"] > counts["statement"] + 7 * 40
    # SQLite itself runs a statement to read its schema when it first needs it, and to read what it
    # has written to it: see docs/layers/db.md.
    extra = {"prepare": 1, "statement": 1}
    for op in ("prepare", "statement", "checkpoint"):
        assert ioh.total("db", op) == counts[op] + extra.get(op, 0), op
    assert ioh.lost("db") == {}


def test_expensive_operations_are_watched_only_on_request(tmp_path: Path) -> None:
    with recording("--layers", "db", "--functions", "sqlite") as ioh:
        watched(ioh)
        counts = work(tmp_path / "db", WORK)
    assert ioh.intervals[-1]["layers"]["db"]["ops"]["statement"]["count"] is None
    assert ioh.total("db", "prepare") >= counts["prepare"]
    assert ioh.total("db", "checkpoint") == counts["checkpoint"] == 2


def test_libraries_are_not_watched_by_default(tmp_path: Path) -> None:
    assert not any(server.libraries for server in Db.servers())
