"""NFS rules: servers, mounts, a client and its server, and the recording of a real server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ioh.findings.engine import Engine
from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Pair, PairOp, Snapshot
from tests.scenarios.evidence import ANSWERED, WITHIN_S
from tests.scenarios.verdict import NFS_RECORDING, judge_phases
from tests.unit.snapshot_maker import disk, found, judged, layer, op, ticks


def server(**metrics: Value) -> LayerSnapshot:
    """500 READs a second."""
    return layer("nfs_server", {"read": op(500, 8192, 900)}, metrics=metrics)


@pytest.mark.parametrize(("again", "fires"), [(0.5, True), (0.2, False), (None, False)])
def test_retransmitted_calls_are_reported(again: float | None, fires: bool) -> None:
    row: dict[str, Value] = {"retransmits_per_s": again, "timeouts_per_s": again}
    told = found({"nfs_client": layer("nfs_client", tables={"server": [(("nas1",), row)]})})
    assert ("nfs_retransmits" in told) is fires
    if fires:
        cause = "Calls to nas1 were retransmitted 5 times within 10 s, 5 of them after"
        assert told["nfs_retransmits"].cause.startswith(cause)


@pytest.mark.parametrize(
    ("busy", "queued", "woken", "fires"),
    [
        (2, 900.0, 90.0, True),
        (8, 900.0, 899.0, False),
        (2, 5.0, 0.0, False),
        (8, 5.0, 0.0, True),  # all of them wait for a dead disk
        (8, 0.0, 0.0, True),
        (8, None, None, True),  # the server does not count waiting requests
        (7, None, None, False),
    ],
)
def test_requests_that_find_no_idle_thread_are_reported(
    busy: int, queued: float | None, woken: float | None, fires: bool
) -> None:
    told = server(threads=8, busy_threads=busy, queued_per_s=queued, woken_per_s=woken)
    assert ("nfsd_threads" in found({"nfs_server": told})) is fires


def test_the_wait_for_a_thread_is_that_of_unread_calls() -> None:
    busy = server(threads=1, busy_threads=1, queued_per_s=900.0, woken_per_s=0.0)
    port: dict[str, Value] = {"unread_bytes": 2_400, "in_bytes_per_s": 48_000.0}
    links = layer("tcp", tables={"port": [(("2049", "nfs"), port)]})
    cause = found({"nfs_server": busy, "tcp": links})["nfsd_threads"].cause
    assert cause.endswith("found no idle thread, and calls wait for 50.0 ms for a thread.")
    assert "calls wait for a thread." in found({"nfs_server": busy})["nfsd_threads"].cause


def test_threads_that_were_just_added_are_not_all_busy() -> None:
    few = server(threads=1, busy_threads=1, queued_per_s=900.0, woken_per_s=0.0)
    many = server(threads=8, busy_threads=1, queued_per_s=900.0, woken_per_s=890.0)
    given = [*[{"nfs_server": few}] * 12, *[{"nfs_server": many}] * 2]
    causes = [each["nfsd_threads"].cause for each in judged(given) if "nfsd_threads" in each]
    assert causes
    assert not [cause for cause in causes if "All 8" in cause]


Look = tuple[int, int]  # READs that ended, READs under way


def mount(look: Look, op_name: str = "read", lost: int = 0, **row: Value) -> LayerSnapshot:
    """One second of one mount."""
    count, inflight = look
    stats = op(count, 8192, 900, inflight=inflight)
    keys = ("/mnt/n", "nas1:/e", "4.2", "sys", "tcp")
    return layer(
        "nfs_client",
        parts={"nas1:/e on /mnt/n": {op_name: stats}},
        tables={"mount": [(keys, row)]},
        lost={"map_full": lost},
    )


def no_answer(seconds: Sequence[LayerSnapshot]) -> dict[int, Finding]:
    """The findings of the rule, by second."""
    said = enumerate(judged({"nfs_client": client} for client in seconds), 1)
    return {second: each["nfs_no_answer"] for second, each in said if "nfs_no_answer" in each}


BUSY, SILENT, IDLE = (500, 4), (0, 4), (0, 0)


@pytest.mark.parametrize("op_name", ["read", "commit"])
@pytest.mark.parametrize("unanswered", [4, 9, None])
def test_a_server_that_is_gone_is_reported_until_it_answers(
    op_name: str, unanswered: int | None
) -> None:
    looks = [BUSY] * 5 + [SILENT] * 20 + [BUSY] * 5
    told = no_answer([mount(look, op_name, unanswered=unanswered) for look in looks])
    assert list(told) == list(range(10, 27))
    assert told[10].cause.startswith(
        "nas1 does not answer: requests for /mnt/n have waited for at least 5 s (READs, WRITEs and "
        "COMMITs in flight: 4)"
    )
    assert told[10].severity == "critical"


@pytest.mark.parametrize(
    "seconds",
    [
        [mount(IDLE, unanswered=0, silent_s=0.0)] * 30,
        [mount((1, 1) if at % 4 == 0 else (0, 1), unanswered=1) for at in range(30)],  # slow
        [
            mount(look, unanswered=0) for look in [BUSY] * 5 + [SILENT] * 20
        ],  # the probe missed replies
        [mount(look, lost=1) for look in [BUSY] * 5 + [SILENT] * 20],
        [mount(IDLE, unanswered=3, silent_s=0.0)] * 30,  # given up long ago
    ],
)
def test_servers_that_answer_are_not_reported(seconds: list[LayerSnapshot]) -> None:
    assert not no_answer(seconds)


def test_a_soft_mount_that_gives_up_does_not_wait() -> None:
    failed = mount(SILENT, unanswered=4)
    part = failed.parts["nas1:/e on /mnt/n"]
    given_up = replace(
        failed, parts={"nas1:/e on /mnt/n": {"read": replace(part["read"], errors_per_s=1.0)}}
    )
    assert not no_answer([mount(BUSY), *[failed, failed, failed, given_up] * 5])


def test_waiting_requests_of_any_kind_are_reported() -> None:
    waiting = [mount(IDLE, unanswered=1, silent_s=float(at)) for at in range(10)]
    told = no_answer(waiting)
    assert list(told) == list(range(6, 11))
    assert "for /mnt/n have waited for at least 9 s (sent since the last reply)" in told[10].cause
    assert told[10].confidence == "medium"


BAD_LINK = "v4.2: reads, 20 ms and 1 % loss on the way"


def test_only_the_bad_link_is_reported_with_its_latency_and_losses() -> None:
    phases = judge_phases(NFS_RECORDING, ANSWERED)
    assert set(phases) == {BAD_LINK}
    assert set(phases[BAD_LINK]) == {"nfs_latency", "tcp_retransmits"}
    after_s, finding = phases[BAD_LINK]["nfs_latency"]
    assert finding.cause.startswith("The network takes ")
    assert finding.confidence == "medium"
    # A round trip takes 20 ms, and 64 KB take several; the server took 1 ms.
    assert 40e3 < (finding.evidence[0].value or 0.0) < 120e3
    assert after_s <= WITHIN_S

    _, finding = phases[BAD_LINK]["tcp_retransmits"]
    assert 0.5 < (finding.evidence[0].value or 0.0) < 5


WHO = {"network_adds", "server_adds", "disk_adds"}


def calls(rtt_us: float = 5_000, server_us: float | None = 200, **more: Any) -> PairOp:
    return replace(PairOp(100, 100, rtt_us, server_us), **more)


def seconds(
    ops: dict[str, PairOp],
    *,
    disks: dict[str, OpStats] | None = None,
    count: int = 10,
    start: int = 0,
    **pair: Any,
) -> list[Snapshot]:
    """Seconds of a client, with what its server did at the same time."""
    busy: dict[str, Any] = disks or {}
    block = layer("block", **disk("sda", **busy))
    links: dict[str, Any] = {"interface": [(("eth0",), {"in_used_pct": 93.0, "out_used_pct": 1.0})]}
    there = ticks(1, {"block": block, "tcp": layer("tcp", tables=links)})[0]
    found = (Pair("db01", "nfs01", ops, **{"there": there, **pair}),)
    rpc = {
        "rpc_reads_per_s": 100.0,
        "rpc_read_queue_us": 1.0,
        "rpc_read_rtt_us": 50e3,
        "rpc_read_execute_us": 50e3,
    }
    port: dict[str, Any] = {"port": [(("2049", "out"), {"srtt_us": 100.0})]}
    here = {"nfs_client": layer("nfs_client", metrics=rpc), "tcp": layer("tcp", tables=port)}
    return [replace(each, pairs=found) for each in ticks(count, here, start=start)]


def told(snapshots: list[Snapshot]) -> dict[str, Finding]:
    engine = Engine()
    judged = [engine.judge(each) for each in snapshots][-1]
    return {finding.rule: finding for finding in judged.findings}


def who(*args: Any, **more: Any) -> set[str]:
    return WHO & told(seconds(*args, **more)).keys()


def test_time_that_the_network_adds_is_reported() -> None:
    given = seconds({"read": calls()}, tcp_rtt_us=4_900.0, tcp_retrans_segs_per_s=2.0)
    found = told(given)["network_adds"]
    assert found.subject == "db01 from nfs01"
    assert found.cause == (
        "Network and RPC take 4.80 ms of each READ's 5.00 ms (96 %) between db01 and nfs01; "
        "the server takes 200 µs."
    )
    assert found.confidence == "high"
    found_near = told(seconds({"read": calls()}, tcp_rtt_us=100.0))["network_adds"]
    assert found_near.confidence == "medium"
    assert [each.text for each in found.evidence] == [
        "READ: round trip 5.00 ms; server 200 µs, network and RPC 4.80 ms (96 %)",
        "500 calls, counted by both ends",
        "TCP's smoothed round trip is 4.90 ms",
        "2 segments a second retransmitted",
        "nfs01: link eth0 is 93 % used",
    ]


def test_time_that_the_servers_disk_adds_is_reported() -> None:
    given = seconds({"read": calls(9_000, 8_500)}, disks={"read": op(100, 4096, 8_000)})
    found = told(given)
    assert found.keys() & WHO == {"disk_adds"}
    assert found["disk_adds"].cause == (
        "The disks of nfs01 take 8.00 ms per request while it serves db01: the server takes "
        "8.50 ms of each READ's 9.00 ms (94.4 %)."
    )


@pytest.mark.parametrize(
    "disks",
    [
        {},  # no requests
        {"read": op(100, 4096, 4_000)},  # fast requests
        {"read": op(49, 4096, 8_000)},  # requests for less than half of the calls
        {"write": op(100, 4096, 8_000)},  # requests of the other direction
    ],
)
def test_time_that_the_server_itself_adds_is_reported(disks: dict[str, OpStats]) -> None:
    assert who({"read": calls(9_000, 8_500)}, disks=disks) == {"server_adds"}


@pytest.mark.parametrize(
    "ops",
    [
        {"read": calls(1_999)},  # fast
        {"read": calls(server_us=None)},  # one end does not know
        {"read": calls(server_us=5_001)},  # not the same calls
        {"read": calls(client_calls=4, server_calls=4)},  # few
        {},
    ],
)
def test_fast_few_or_unmatched_calls_are_not_reported(ops: dict[str, PairOp]) -> None:
    assert who(ops) == set()


def test_the_kind_of_call_that_takes_most_time_decides() -> None:
    ops = {"read": calls(10_000, 100), "write": calls(9_000, 8_500, client_calls=200)}
    assert who(ops) == {"server_adds"}


def test_counts_that_differ_lower_the_confidence() -> None:
    found = told(seconds({"read": calls(server_calls=80)}))["network_adds"]
    assert found.confidence == "low"
    assert "the client counted 500 calls, the server 400" in [e.text for e in found.evidence]


def test_calls_that_the_ends_count_in_different_intervals_are_all_counted() -> None:
    both = seconds({"read": calls(5_000, 800, server_calls=60)})
    late = seconds({"read": PairOp(0, 40, None, 300.0)}, start=1)
    given = [
        replace(each, pairs=(*each.pairs, *more.pairs))
        for each, more in zip(both, late, strict=True)
    ]
    texts = [each.text for each in told(given)["network_adds"].evidence]
    assert texts[0].startswith("READ: round trip 5.00 ms; server 600 µs")
    assert texts[1] == "500 calls, counted by both ends"


def test_the_guess_of_one_end_is_dropped_if_both_ends_are_known() -> None:
    guess = told([replace(each, pairs=()) for each in seconds({"read": calls()})])
    assert guess["nfs_latency"].subject == "read server"
    assert "nfs_latency" not in told(seconds({"read": calls(300, 200)}))
