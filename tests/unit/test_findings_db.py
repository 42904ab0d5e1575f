"""Findings about a database: commits that wait for the log, sessions that wait for locks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import HostStats, LayerSnapshot
from tests.unit.snapshot_maker import Layers, found, judged, layer, op

SERVER = "postgres 15/main"
Rows = list[tuple[tuple[str, ...], dict[str, Value]]]


def rows(
    within: str, rate: float, mean_us: float, **waits: tuple[float, float]
) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Statements or commits and what they wait for: rate a second, mean in µs."""
    whole_ns = rate * mean_us * 1e3
    named = {"cpu": (rate, 20.0), **waits}
    return [
        (
            (within, name, SERVER),
            {
                "waits_per_s": each,
                "wait_ns_per_s": each * us * 1e3,
                "whole_ns_per_s": whole_ns,
                "share_pct": each * us * 1e5 / whole_ns,
            },
        )
        for name, (each, us) in named.items()
    ]


def db(*tables: list[Any]) -> LayerSnapshot:
    return layer("db", tables={"wait": [row for table in tables for row in table]})


def commits(sync_us: float = 8_000, rate: float = 100, share: float = 0.8) -> LayerSnapshot:
    return db(rows("commit", rate, sync_us / share, log_sync=(rate, sync_us)))


def locked(lock_us: float = 30_000, rate: float = 100, share: float = 0.9) -> LayerSnapshot:
    io = {"data_read": (rate, 100.0)}
    return db(rows("statement", rate, lock_us / share, lock_wait=(rate, lock_us), **io))


def test_commits_that_wait_for_the_log_are_reported() -> None:
    finding = found({"db": commits()})["commit_bound"]
    assert (finding.severity, finding.subject) == ("info", SERVER)
    assert finding.cause == (
        "postgres 15/main: 100 commits a second take 10.0 ms each; 80 % of that is the log "
        "sync, 8.00 ms each."
    )


def test_the_sync_time_is_attributed_to_the_disk_or_the_nfs_server() -> None:
    block = layer("block", {"flush": op(100, 0, 7_000)})
    client = layer("nfs_client", {"commit": op(100, 0, 30_000)})
    slow = commits(sync_us=40_000)
    disk = found({"db": commits(), "block": block})["commit_bound"]
    assert disk.cause.endswith("8.00 ms each; a disk flush takes 7.00 ms.")
    server = found({"db": slow, "nfs_client": client, "block": block})["commit_bound"]
    assert server.severity == "warning"
    assert server.cause.endswith("40.0 ms each; the NFS server's COMMIT takes 30.0 ms.")
    unknown = found({"db": slow, "block": layer("block")})["commit_bound"]
    assert unknown.cause.endswith("40.0 ms each.")
    assert "Give the log a device" in unknown.advice


def on_a_busy_cpu(sync_us: float = 8_000, device_us: float = 400, for_cpu: float = 0.6) -> Layers:
    """A write and a flush of that time each, and log syncs that wait for a CPU meanwhile."""
    queued_us = for_cpu * sync_us - 20
    syncs = rows("log_sync", 100, sync_us, cpu_wait=(100, queued_us))
    below = {"write": op(100, 8192, device_us), "flush": op(100, 0, device_us)}
    waits = rows("commit", 100, sync_us / 0.8, log_sync=(100, sync_us))
    return {"db": db(waits, syncs), "block": layer("block", below)}


def test_no_device_is_advised_if_the_disk_has_less_than_half_of_the_syncs_time() -> None:
    busy = HostStats(cpu_pct=97.0)
    finding = found(on_a_busy_cpu(), host=busy)["commit_bound"]
    assert finding.cause.endswith(
        "8.00 ms each; the disk takes 800 µs of it, 60 % is CPU time and waiting for a CPU, the "
        "CPUs are 97 % busy."
    )
    assert (finding.title, finding.severity) == ("Log syncs are slow, not the disk", "info")
    assert "faster disk will not help" in finding.advice
    assert "device" not in finding.advice
    slow = found(on_a_busy_cpu(device_us=2_100))["commit_bound"]
    assert slow.title == "Commits wait for the log"
    assert "Give the log a device" in slow.advice


def stuck(op_name: str, number: int, age_s: float, within: str, **waits: Any) -> LayerSnapshot:
    """So many sessions in that operation for so long; none has ended."""
    at_a_time: Rows = [((within, wait, SERVER), {"waits_per_s": 0.0, "wait_ns_per_s": share * 1e9,
                  "whole_ns_per_s": number * 1e9}) for wait, share in waits.items()]  # fmt: skip
    rest: dict[str, Value] = {"age_us": age_s * 1e6, "count": 1}
    stats = replace(op(0, 0, 0), inflight=number)
    return layer(
        "db",
        tables={
            "wait": at_a_time,
            "in_progress": [
                (("4711", "app", name, "", SERVER), rest) for name in (within, op_name)
            ],
        },
        parts={SERVER: {op_name: stats, within: stats}},
    )


def test_commits_that_do_not_end_are_critical_while_they_last() -> None:
    """Eight a second of 360 ms each, and then none."""
    slow = db(rows("commit", 8, 450_000, log_sync=(8, 360_000)))
    assert found({"db": slow})["commit_bound"].severity == "critical"
    hung = stuck("log_sync", 1, 9, "commit", log_sync=1.0)
    finding = found({"db": hung})["commit_bound"]
    assert finding.severity == "critical"
    assert finding.cause.endswith("each. 1 in progress, the oldest for 9 s.")


def test_sessions_that_are_stuck_behind_a_lock_are_reported_while_they_wait() -> None:
    held = stuck("lock_wait", 5, 6, "statement", lock_wait=5.0)
    finding = found({"db": held})["lock_bound"]
    assert finding.severity == "warning"
    assert finding.cause == (
        "postgres 15/main: 5 sessions wait for a lock held by another session, the longest for 6 "
        "s; that is 100 % of the statements' time. Faster storage will not help."
    )
    longer = stuck("lock_wait", 1, 12, "statement", lock_wait=1.0, rest=9.0)
    assert found({"db": longer})["lock_bound"].severity == "critical"


def test_a_lock_that_is_soon_released_is_not_reported() -> None:
    assert "lock_bound" not in found({"db": stuck("lock_wait", 1, 2, "statement", lock_wait=0.4)})


def test_a_standby_that_does_not_answer_is_reported() -> None:
    silent = stuck("standby_wait", 4, 5, "commit", standby_wait=4.0)
    finding = found({"db": silent})["standby_no_answer"]
    assert finding.severity == "critical"
    assert finding.cause == (
        "postgres 15/main: 4 commits wait for a synchronous standby, the longest for 5 s. They are "
        "durable here; their clients wait."
    )
    for healthy in (
        stuck("standby_wait", 4, 0.5, "commit", standby_wait=4.0),  # far away
        stuck("log_sync", 4, 5, "commit", log_sync=4.0),
        db(rows("commit", 200, 5_000, standby_wait=(200, 4_000))),
    ):
        assert "standby_no_answer" not in found({"db": healthy})


def shared_syncs(rate: float = 120, sync_us: float = 16_000, syncs: float = 2.0) -> LayerSnapshot:
    """Two commits wait for each sync, which one of them does; a commit takes ``syncs`` syncs."""
    mean_us = syncs * sync_us
    waits = {"log_sync": (rate / 2, sync_us), "rest": (rate, mean_us - sync_us / 2 - 20)}
    return db(rows("commit", rate, mean_us, **waits))


def test_commits_that_wait_for_another_sessions_sync_are_reported() -> None:
    finding = found({"db": shared_syncs()})["commit_bound"]
    assert finding.cause == (
        "postgres 15/main: 120 commits a second take 32.0 ms each; 99.9 % of that is the log "
        "sync, 16.0 ms each, mostly another session's."
    )


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(shared_syncs(rate=40), id="the log is synced a third of the time"),
        pytest.param(shared_syncs(syncs=4), id="a replica takes longer than the syncs"),
        pytest.param(commits(sync_us=400), id="a protected cache"),
        pytest.param(commits(rate=5), id="few commits"),
        pytest.param(commits(share=0.3), id="most is something else"),
        pytest.param(
            db(rows("statement", 100, 9_000, log_sync=(100, 8_000))), id="no commit is measured"
        ),
    ],
)
def test_healthy_commits_are_not_reported(healthy: LayerSnapshot) -> None:
    assert "commit_bound" not in found({"db": healthy})


def test_sessions_that_wait_for_locks_are_reported() -> None:
    finding = found({"db": locked()})["lock_bound"]
    assert finding.cause == (
        "postgres 15/main: statements spend 90 % of their time waiting for locks held by "
        "other sessions, 30.0 ms each; reads, writes and syncs take 0.3 %. Faster storage will not "
        "help."
    )
    assert [round(e.value or 0.0, 1) for e in finding.evidence] == [3.0, 90.0]


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(locked(rate=10), id="one in four waits, a third of a session"),
        pytest.param(locked(share=0.3), id="most is something else"),
        pytest.param(db(rows("statement", 9_000, 500, data_read=(9_000, 400))), id="reads"),
    ],
)
def test_sessions_that_hardly_wait_for_locks_are_not_reported(healthy: LayerSnapshot) -> None:
    assert "lock_bound" not in found({"db": healthy})


def sessions(**pages_per_s: float) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """How many pages a second each session writes."""
    return [
        ((str(n), name, SERVER), {"data_writes_per_s": rate})
        for n, (name, rate) in enumerate(pages_per_s.items())
    ]


def work(
    statement_us: float = 2_000, rate: float = 500, writes: float = 0.0, **waits: Any
) -> LayerSnapshot:
    tables = {"wait": rows("statement", rate, statement_us, **waits)}
    return layer("db", tables={**tables, "session": sessions(checkpointer=writes)})


def last(*spans: tuple[int, Layers]) -> dict[str, Finding]:
    """Findings at the end of these spans of equal seconds."""
    return judged([layers for seconds, layers in spans for _ in range(seconds)])[-1]


def test_a_checkpoint_that_slows_statements_is_reported() -> None:
    finding = last((15, {"db": work()}), (6, {"db": work(9_000, writes=2_000)}))["checkpoint_burst"]
    assert finding.cause == (
        "postgres 15/main: statements take 9.00 ms while a checkpoint writes 2,000 pages a second, "
        "and 2.00 ms without it."
    )
    assert finding.confidence == "high"


def test_a_checkpoint_that_syncs_what_it_wrote_is_still_reported() -> None:
    """It wrote 9,000 pages in three seconds, and then none for six; nothing else ends."""
    wrote = work(9_000, writes=3_000)
    none_ends: dict[str, Any] = {"waits_per_s": 0.0, "wait_ns_per_s": 4e9, "whole_ns_per_s": 4e9}
    waits: Rows = [(("statement", "rest", SERVER), none_ends)]
    age: dict[str, Value] = {"age_us": 9e6, "count": 1}
    running: Rows = [(("77", "checkpointer", "checkpoint", "", SERVER), age)]
    tables = {"wait": waits, "in_progress": running, "session": sessions(checkpointer=0)}
    stats = {"statement": replace(op(0, 0, 0), inflight=4)}
    syncs = layer("db", tables=tables, parts={SERVER: stats})
    told = last((15, {"db": work()}), (3, {"db": wrote}), (6, {"db": syncs}))["checkpoint_burst"]
    assert told.severity == "critical"
    assert "while a checkpoint writes 1,000 pages a second for 9 s now" in told.cause


@pytest.mark.parametrize(
    ("before", "during"),
    [
        pytest.param(work(), work(2_500, writes=2_000), id="a checkpoint that nobody feels"),
        pytest.param(work(), work(9_000), id="slow without a checkpoint"),
        pytest.param(work(), work(9_000, writes=20), id="a spread one"),
        pytest.param(work(100), work(300, writes=2_000), id="slower by nothing"),
        pytest.param(work(rate=5), work(9_000, rate=5, writes=2_000), id="few statements"),
    ],
)
def test_a_checkpoint_that_slows_nothing_is_not_reported(
    before: LayerSnapshot, during: LayerSnapshot
) -> None:
    assert "checkpoint_burst" not in last((15, {"db": before}), (6, {"db": during}))


def reading(pages: float, read_us: float = 300, rate: float = 500) -> LayerSnapshot:
    return work(200 + pages * read_us, rate, data_read=(rate * pages, read_us))


def test_a_sudden_rise_of_cache_misses_is_reported() -> None:
    finding = last((20, {"db": reading(0.1)}), (7, {"db": reading(4)}))["cache_miss_storm"]
    assert finding.cause == (
        "postgres 15/main: a statement reads 4 pages that are not in the server's cache, 0.1 "
        "before: 2,000 reads a second, 300 µs each, 85.7 % of the statements' time."
    )
    assert finding.severity == "warning"
    cached = last((20, {"db": reading(0.1, 30)}), (7, {"db": reading(9, 30)}))["cache_miss_storm"]
    assert cached.severity == "info"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(reading(4), reading(4), id="it always reads as much"),
        pytest.param(reading(3), reading(6), id="twice as much"),
        pytest.param(reading(0.01), reading(0.3), id="still few"),
        pytest.param(reading(0.1, rate=5), reading(4, rate=5), id="few statements"),
    ],
)
def test_cache_misses_without_a_sudden_rise_are_not_reported(
    before: LayerSnapshot, after: LayerSnapshot
) -> None:
    assert "cache_miss_storm" not in last((20, {"db": before}), (7, {"db": after}))


def writing(mb_per_s: float, other_mb_per_s: float = 0.0, write_us: float = 6_000) -> LayerSnapshot:
    devices = {"sda": mb_per_s, "sdb": other_mb_per_s, "dm-0": mb_per_s}
    found: Rows = [
        ((name, ""), {"write_bytes_per_s": mb * 1e6, "stacked": int(name == "dm-0")})
        for name, mb in devices.items()
    ]
    parts = {name: {"write": op(mb, 1e6, write_us)} for name, mb in devices.items()}
    total = {"write": op(mb_per_s + other_mb_per_s, 1e6, write_us)}
    return layer("block", total, tables={"device": found}, parts=parts)


def test_a_log_that_shares_a_device_with_its_data_is_reported() -> None:
    calm = {"db": commits(2_000), "block": writing(1)}
    finding = last((15, calm), (6, {"db": commits(9_000), "block": writing(80)}))[
        "log_on_data_disk"
    ]
    assert finding.cause == (
        "postgres 15/main: a log sync takes 9.00 ms while 80 MB/s is written to sda, and 2.00 ms "
        "while little is written: log and data share that device."
    )


def test_few_syncs_are_enough_if_they_are_slow() -> None:
    slow = commits(400_000, rate=3)
    calm = {"db": commits(2_000), "block": writing(1)}
    finding = last((15, calm), (6, {"db": slow, "block": writing(80, write_us=300_000)}))[
        "log_on_data_disk"
    ]
    assert finding.severity == "critical"


@pytest.mark.parametrize(
    ("calm", "busy"),
    [
        pytest.param({}, {"db": commits(2_500)}, id="syncs as before"),
        pytest.param({}, {"block": writing(80, 20)}, id="which of the disks is not known"),
        pytest.param({}, {"block": writing(2)}, id="little is written"),
        pytest.param({}, {"block": writing(80, write_us=900)}, id="the disk is as fast as before"),
        pytest.param({"block": writing(40)}, {}, id="as much is written always"),
        pytest.param({"db": commits(200)}, {"db": commits(900)}, id="slower by nothing"),
        pytest.param({"db": commits(2_000, rate=1)}, {}, id="few syncs before"),
    ],
)
def test_log_syncs_that_data_writes_do_not_slow_are_not_reported(
    calm: Layers, busy: Layers
) -> None:
    quiet: Layers = {"db": commits(2_000), "block": writing(1), **calm}
    loaded: Layers = {"db": commits(9_000), "block": writing(80), **busy}
    assert "log_on_data_disk" not in last((15, quiet), (6, loaded))


SLOW_LOG: Layers = {"db": commits(9_000), "block": writing(80)}
STUCK_LOG: Layers = {
    "db": commits(400_000, rate=3),
    "block": writing(80, write_us=300_000),
}


@pytest.mark.parametrize(
    ("rule", "calm", "bad"),
    [
        ("log_on_data_disk", {"db": commits(2_000), "block": writing(1)}, SLOW_LOG),
        ("checkpoint_burst", {"db": work()}, {"db": work(9_000, writes=2_000)}),
        ("cache_miss_storm", {"db": reading(0.1)}, {"db": reading(4)}),
    ],
)
def test_what_is_compared_with_the_time_before_is_reported_as_long_as_it_lasts(
    rule: str, calm: Layers, bad: Layers
) -> None:
    """Minutes after the last calm second has left the window, with the same numbers."""
    seconds = judged([*[calm] * 15, *[bad] * 200, *[calm] * 10])
    first = next(at for at, each in enumerate(seconds) if rule in each)
    found = [each.get(rule) for each in seconds[15:215]]
    assert first <= 15 + 8
    assert {each and each.since_unix_s for each in found[first - 15 :]} == {
        seconds[first][rule].since_unix_s
    }
    assert found[-1] is not None
    assert found[-1].cause == seconds[first + 10][rule].cause
    assert rule not in seconds[-1]


def test_it_grows_graver_as_it_gets_worse_and_is_forgotten_when_over() -> None:
    calm: Layers = {"db": commits(2_000), "block": writing(1)}
    seconds = judged([*[calm] * 15, *[SLOW_LOG] * 120, *[STUCK_LOG] * 20])
    assert seconds[130]["log_on_data_disk"].severity == "warning"
    assert seconds[-1]["log_on_data_disk"].severity == "critical"
    always = [{"db": commits(2_500), "block": writing(60)}] * 160
    over = judged([*[calm] * 15, *[SLOW_LOG] * 20, *always, *[SLOW_LOG] * 10])
    assert not any("log_on_data_disk" in each for each in over[-15:])


def pg_session(
    pid: str, state: str, s: float, blocked_by: str = "", statement: str = "select ?"
) -> tuple[tuple[str, ...], dict[str, Value]]:
    key = (pid, "alice", "shop", state, "Lock:tuple" if blocked_by else "", blocked_by, statement)
    numbers: dict[str, Value] = {"state_us": s * 1e6, "transaction_us": s * 1e6}
    return key, numbers


def blocked(seconds: int, started_s: float = 0.0) -> list[Layers]:
    """Three sessions that wait for each other in a row, and for one that is idle."""
    return [
        {
            "pg": layer(
                "pg",
                tables={
                    "session": [
                        pg_session("4", "idle in transaction", 40 + s, "", "update small set t=?"),
                        pg_session("5", "active", started_s + s, "4", "delete from small"),
                        pg_session("6", "active", s, "5"),
                        pg_session("7", "active", s, "4, 5"),
                        pg_session("8", "active", 500 + s),
                    ]
                },
            )
        }
        for s in range(1, seconds + 1)
    ]


def test_the_session_that_blocks_others_is_named_with_its_statement() -> None:
    finding = judged(blocked(6))[-1]["blocking_session"]
    assert (finding.severity, finding.subject) == ("warning", "4")
    assert finding.cause == (
        "3 sessions wait for a lock of session 4 (alice in shop, idle in transaction for 46 s; "
        'its last statement: "update small set t=?"); the longest for 6 s: "delete from small".'
    )
    assert judged(blocked(13))[-1]["blocking_session"].severity == "critical"


def test_a_short_wait_of_a_long_statement_is_not_reported() -> None:
    assert "blocking_session" not in judged(blocked(3, started_s=3600.0))[-1]
    again = [*blocked(3), {"pg": layer("pg")}, *blocked(3, started_s=3600.0)]
    assert not any("blocking_session" in found_then for found_then in judged(again))
