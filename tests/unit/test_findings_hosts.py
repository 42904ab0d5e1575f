"""What is said of a client and of the host that serves it, when both are measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.findings.engine import Engine
from ioh.model.finding import Finding
from ioh.model.snapshot import OpStats, Pair, PairOp, Snapshot
from tests.unit.snapshot_maker import disk, layer, op, ticks

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
    """A client's seconds, with what its server did meanwhile."""
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


def test_the_network_adds_the_time() -> None:
    given = seconds({"read": calls()}, tcp_rtt_us=4_900.0, tcp_retrans_segs_per_s=2.0)
    found = told(given)["network_adds"]
    assert found.subject == "db01 from nfs01"
    assert found.cause == (
        "Network and RPC take 4.8 ms of each READ's 5 ms (96 %) between db01 and nfs01; "
        "the server takes 200 us."
    )
    assert found.confidence == "high"
    found_near = told(seconds({"read": calls()}, tcp_rtt_us=100.0))["network_adds"]
    assert found_near.confidence == "medium"
    assert [each.text for each in found.evidence] == [
        "READ: round trip 5 ms; server 200 us, network and RPC 4.8 ms (96 %)",
        "500 calls, counted by both ends",
        "TCP's smoothed round trip is 4.9 ms",
        "2 segments a second retransmitted",
        "nfs01: link eth0 is 93 % used",
    ]


def test_the_servers_disk_adds_the_time() -> None:
    given = seconds({"read": calls(9_000, 8_500)}, disks={"read": op(100, 4096, 8_000)})
    found = told(given)
    assert found.keys() & WHO == {"disk_adds"}
    assert found["disk_adds"].cause == (
        "The disks of nfs01 take 8 ms per request while it serves db01: the server takes 8.5 ms "
        "of each READ's 9 ms (94.4 %)."
    )


@pytest.mark.parametrize(
    "disks",
    [
        {},  # none at all
        {"read": op(100, 4096, 4_000)},  # short ones
        {"read": op(49, 4096, 8_000)},  # for less than half of the calls
        {"write": op(100, 4096, 8_000)},  # of the other direction
    ],
)
def test_the_server_adds_the_time(disks: dict[str, OpStats]) -> None:
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
def test_nothing_is_said_without_reason(ops: dict[str, PairOp]) -> None:
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
    assert texts[0].startswith("READ: round trip 5 ms; server 600 us")
    assert texts[1] == "500 calls, counted by both ends"


def test_what_one_end_guesses_is_replaced() -> None:
    guess = told([replace(each, pairs=()) for each in seconds({"read": calls()})])
    assert guess["nfs_latency"].subject == "read server"
    assert "nfs_latency" not in told(seconds({"read": calls(300, 200)}))
