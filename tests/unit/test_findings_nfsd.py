"""Rules over made-up Snapshots of an NFS server and of calls that it does not answer."""

from __future__ import annotations

import pytest

from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot
from tests.unit.snapshot_maker import found, layer, op


def server(**metrics: Value) -> LayerSnapshot:
    """500 READs a second."""
    return layer("nfs_server", {"read": op(500, 8192, 900)}, metrics=metrics)


@pytest.mark.parametrize(("again", "fires"), [(0.5, True), (0.2, False), (None, False)])
def test_calls_sent_again(again: float | None, fires: bool) -> None:
    row: dict[str, Value] = {"retransmits_per_s": again, "timeouts_per_s": again}
    told = found({"nfs_client": layer("nfs_client", tables={"server": [(("nas1",), row)]})})
    assert ("nfs_retransmits" in told) is fires
    if fires:
        cause = "Calls to nas1 were sent 5 times more than once within 10 s, 5 of them after"
        assert told["nfs_retransmits"].cause.startswith(cause)


@pytest.mark.parametrize(("busy", "fires"), [(8, True), (7, False), (5, False)])
def test_busy_threads_of_nfsd(busy: int, fires: bool) -> None:
    """Where the server does not count who waits."""
    told = server(threads=8, busy_threads=busy, queued_per_s=None, woken_per_s=None)
    assert ("nfsd_threads" in found({"nfs_server": told})) is fires


@pytest.mark.parametrize(
    ("busy", "queued", "woken", "fires"),
    [
        (2, 900.0, 90.0, True),
        (8, 900.0, 899.0, False),
        (2, 5.0, 0.0, False),
        (8, 5.0, 0.0, True),  # all of them wait for a dead disk
        (8, 0.0, 0.0, True),
    ],
)
def test_requests_that_find_no_idle_thread(
    busy: int, queued: float, woken: float, fires: bool
) -> None:
    told = server(threads=8, busy_threads=busy, queued_per_s=queued, woken_per_s=woken)
    assert ("nfsd_threads" in found({"nfs_server": told})) is fires


@pytest.mark.parametrize(("share", "fires"), [(0.9, True), (0.5, False)])
def test_reads_from_the_servers_memory(share: float, fires: bool) -> None:
    ops = {
        "read_cached": op(5000 * share, 8192, 60),
        "read_disk": op(5000 * (1 - share), 8192, 4e3),
    }
    assert ("server_cache" in found({"nfs_server": layer("nfs_server", ops)})) is fires
