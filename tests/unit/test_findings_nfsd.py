"""Rules of NFS: made-up seconds of servers and mounts, and the recording of a real server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot
from tests.scenarios.evidence import ANSWERED, WITHIN_S
from tests.scenarios.verdict import NFS_RECORDING, judge_phases
from tests.unit.snapshot_maker import found, judged, layer, op


def server(**metrics: Value) -> LayerSnapshot:
    """500 READs a second."""
    return layer("nfs_server", {"read": op(500, 8192, 900)}, metrics=metrics)


@pytest.mark.parametrize(("again", "fires"), [(0.5, True), (0.2, False), (None, False)])
def test_calls_sent_again(again: float | None, fires: bool) -> None:
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
        (8, None, None, True),  # the server does not count who waits
        (7, None, None, False),
    ],
)
def test_requests_that_find_no_idle_thread(
    busy: int, queued: float | None, woken: float | None, fires: bool
) -> None:
    told = server(threads=8, busy_threads=busy, queued_per_s=queued, woken_per_s=woken)
    assert ("nfsd_threads" in found({"nfs_server": told})) is fires


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
    """What the rule says in which second."""
    said = enumerate(judged({"nfs_client": client} for client in seconds), 1)
    return {second: each["nfs_no_answer"] for second, each in said if "nfs_no_answer" in each}


BUSY, SILENT, IDLE = (500, 4), (0, 4), (0, 0)


@pytest.mark.parametrize("op_name", ["read", "commit"])
@pytest.mark.parametrize("unanswered", [4, 9, None])
def test_a_server_that_is_gone_is_told_of_until_it_answers(
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
        [mount(look, unanswered=0) for look in [BUSY] * 5 + [SILENT] * 20],  # one that was missed
        [mount(look, lost=1) for look in [BUSY] * 5 + [SILENT] * 20],
        [mount(IDLE, unanswered=3, silent_s=0.0)] * 30,  # given up long ago
    ],
)
def test_other_servers_answer(seconds: list[LayerSnapshot]) -> None:
    assert not no_answer(seconds)


def test_a_soft_mount_that_gives_up_has_its_answer() -> None:
    failed = mount(SILENT, unanswered=4)
    part = failed.parts["nas1:/e on /mnt/n"]
    given_up = replace(
        failed, parts={"nas1:/e on /mnt/n": {"read": replace(part["read"], errors_per_s=1.0)}}
    )
    assert not no_answer([mount(BUSY), *[failed, failed, failed, given_up] * 5])


def test_requests_of_any_kind_wait() -> None:
    waiting = [mount(IDLE, unanswered=1, silent_s=float(at)) for at in range(10)]
    told = no_answer(waiting)
    assert list(told) == list(range(6, 11))
    assert "for /mnt/n have waited for at least 9 s (sent since the last reply)" in told[10].cause
    assert told[10].confidence == "medium"


BAD_LINK = "v4.2: reads, 20 ms and 1 % loss on the way"


def test_only_the_bad_link_is_told_of_and_the_network_is_blamed_with_its_losses() -> None:
    phases = judge_phases(NFS_RECORDING, ANSWERED)
    assert set(phases) == {BAD_LINK}
    assert set(phases[BAD_LINK]) == {"nfs_latency", "tcp_retransmits"}
    after_s, finding = phases[BAD_LINK]["nfs_latency"]
    assert finding.cause.startswith("The network takes ")
    assert finding.confidence == "medium"
    # A round trip of 20 ms, and several of them for 64 KB; the server took 1 ms.
    assert 40e3 < (finding.evidence[0].value or 0.0) < 120e3
    assert after_s <= WITHIN_S

    _, finding = phases[BAD_LINK]["tcp_retransmits"]
    assert 0.5 < (finding.evidence[0].value or 0.0) < 5
