"""The demo tells a story in which the layers agree with each other."""

from __future__ import annotations

import pytest

from ioh.model.hist import SizeLatencyHist, size_index
from ioh.model.snapshot import OpStats
from ioh.sources.demo.story import PHASES, STORY_S, load_at
from tests.demo_samples import LAYERS, intervals, known, mean, phase_intervals, shown


@pytest.mark.parametrize("name", ["syscall", "nfs_client", "nfs_server", "block"])
def test_littles_law(name: str) -> None:
    """What is in flight is the rate times the latency, on average over a phase."""
    for phase in PHASES:
        those = phase_intervals(phase.name)
        for op in shown(those[0], name).ops:
            stats = [shown(s, name).ops[op] for s in those]
            wanted = [known(x.ops_per_s) * (x.latency_us or 0) / 1e6 for x in stats if x.count]
            found = [x.inflight for x in stats if x.count and x.inflight is not None]
            if not found:
                continue
            for x, expected in zip((x for x in stats if x.count), wanted, strict=True):
                assert known(x.avg_inflight) == pytest.approx(expected)
            # Each is rounded up or down, a part at a time: a few standard errors of the mean.
            assert sum(found) / len(found) == pytest.approx(
                sum(wanted) / len(wanted), abs=4 * 0.5 * 2 / len(found) ** 0.5
            )


def read_bytes(layer_ops: dict[str, OpStats]) -> int:
    return layer_ops["read"].bytes or 0


def test_layers_agree_on_bytes_and_counts() -> None:
    for snapshot in intervals():
        app, client, tcp, server, block = (shown(snapshot, n) for n in LAYERS)
        direct = app.ops["read_direct"]
        assert (direct.bytes or 0) <= read_bytes(dict(client.ops)) <= read_bytes(dict(server.ops))
        assert client.ops["write"].bytes == server.ops["write"].bytes
        assert client.ops["write"].count == server.ops["write"].count
        assert client.ops["commit"].count == server.ops["commit"].count
        assert (tcp.ops["in"].bytes or 0) >= read_bytes(dict(client.ops))
        assert (tcp.ops["out"].bytes or 0) >= (client.ops["write"].bytes or 0)
        assert (server.ops["read_disk"].bytes or 0) <= read_bytes(dict(block.ops))
        assert (block.ops["write"].bytes or 0) >= (server.ops["write"].bytes or 0)
        cached = known(client.metrics["cached_read_bytes_per_s"])
        asked = known(client.metrics["app_read_bytes_per_s"])
        assert cached == client.ops["read_cached"].bytes_per_s
        assert asked - cached == client.ops["read"].bytes_per_s
        assert client.metrics["rpc_reads_per_s"] == client.ops["read"].ops_per_s
        assert client.metrics["rpc_read_execute_us"] == client.ops["read"].latency_us
        parts = [known(client.metrics[f"rpc_read_{x}_us"]) for x in ("queue", "rtt")]
        assert sum(parts) == pytest.approx(known(client.ops["read"].latency_us))


def test_a_scan_of_1_mb_becomes_eight_reads_of_rsize() -> None:
    for snapshot in phase_intervals("scans"):
        app, client = shown(snapshot, "syscall"), shown(snapshot, "nfs_client")
        of_1_mb = sum(known_hist(app.ops["read_direct"]).row(size_index(1 << 20)))
        of_rsize = sum(known_hist(client.ops["read"]).row(size_index(128 << 10)))
        assert of_1_mb > 500
        extra = shown(snapshot, "syscall").ops["read_buffered"].count or 0
        assert 8 * of_1_mb <= of_rsize <= 8 * of_1_mb + extra
        assert app.ops["read_direct"].max_bytes == 1 << 20


def known_hist(stats: OpStats) -> SizeLatencyHist:
    assert stats.size_lat is not None
    return stats.size_lat


def test_a_layer_takes_longer_than_the_one_below() -> None:
    for phase in ("random reads", "writes", "network trouble"):
        for snapshot in phase_intervals(phase):
            means = [
                known(shown(snapshot, name).ops[op].latency_us)
                for name, op in (
                    ("nfs_server", "read_disk"),
                    ("nfs_client", "read"),
                    ("syscall", "read_direct"),
                )
            ]
            assert means == sorted(means), phase
            assert known(shown(snapshot, "syscall").ops["read_direct"].max_us) >= known(
                shown(snapshot, "nfs_client").ops["read"].max_us
            )


def test_the_phases_are_what_they_are_called() -> None:
    def rate(phase: str, name: str, op: str) -> float:
        return mean([shown(s, name).ops[op].bytes_per_s for s in phase_intervals(phase)])

    def metric(phase: str, name: str, metric: str) -> float:
        return mean([shown(s, name).metrics[metric] for s in phase_intervals(phase)])

    assert rate("random reads", "syscall", "read_direct") > 100e6
    assert rate("scans", "syscall", "read_direct") > 500e6
    assert rate("writes", "nfs_client", "write_unstable") > 100e6
    assert rate("quiet", "syscall", "read") < 10e6
    assert metric("cached reads", "nfs_client", "cached_pct") > 90
    assert metric("random reads", "nfs_client", "cached_pct") < 5
    assert metric("network trouble", "tcp", "retrans_segs_per_s") > 20
    assert metric("random reads", "tcp", "retrans_segs_per_s") == 0
    calm, trouble = (
        mean([shown(s, "nfs_client").ops["read"].latency_us for s in phase_intervals(name)])
        for name in ("random reads", "network trouble")
    )
    assert trouble > 4 * calm


def test_the_story_repeats_and_changes_gently() -> None:
    assert load_at(0.5) == load_at(STORY_S + 0.5)
    assert sum(phase.seconds for phase in PHASES) == STORY_S == 240
    for at in range(int(STORY_S * 10)):
        before, after = load_at(at / 10), load_at(at / 10 + 0.1)
        assert abs(after.wire_us - before.wire_us) < 60


def test_the_host_is_a_possible_machine() -> None:
    for snapshot in intervals():
        host = snapshot.host
        assert 0 <= known(host.cpu_pct) + known(host.iowait_pct) <= 100
        assert 0 <= known(host.psi_io_full_pct) <= known(host.psi_io_some_pct) <= 100
        assert known(host.dirty_bytes) < known(host.dirty_limit_bytes)
        assert known(host.load1) >= 0


def test_devices_and_links_are_not_used_beyond_what_they_can() -> None:
    for snapshot in intervals():
        for row in shown(snapshot, "block").tables["device"]:
            assert 0 <= known(row.values["busy_pct"]) <= 100
        for row in shown(snapshot, "tcp").tables["interface"]:
            assert known(row.values["in_used_pct"]) <= 100
        server = shown(snapshot, "nfs_server")
        assert known(server.metrics["busy_threads"]) <= known(server.metrics["threads"])
