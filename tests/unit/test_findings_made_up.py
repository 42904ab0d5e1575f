"""Rules on made-up Snapshots: what this project's test machine cannot be made to do.

NFS, sizes that are split and lost events; each beside a healthy case that looks similar.
"""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.sample import Value
from ioh.model.snapshot import HostStats, LayerSnapshot
from tests.unit.snapshot_maker import Layers, calls, disk, found, judged, layer, op

KB, MB = 1024, 1 << 20


def mount(
    rate: float, call: float, call_us: float, rpcs: float, rpc: float, rpc_us: float,
    limit: int, verb: str = "write", kind: str = "direct",
) -> Layers:  # fmt: skip
    """An NFS mount: rate, size and time of calls, the same of RPCs, and rsize = wsize = limit."""
    above: dict[str, Value] = {
        f"{verb}s_per_s": rate,
        f"{verb}_bytes_per_s": rate * call,
        f"{verb}_ns_per_s": rate * call_us * 1e3,
    }
    below: dict[str, Value] = {
        f"{verb}s_per_s": rpcs,
        f"{verb}_bytes_per_s": rpcs * rpc,
        f"{verb}_ns_per_s": rpcs * rpc_us * 1e3,
        "rsize_bytes": limit,
        "wsize_bytes": limit,
        "connections": 1,
    }
    keys = ("/mnt/n", "10.0.0.5:/e", "4.2", "sys", "tcp")
    tables = {"mount": [(("/mnt/n", "nfs4"), above)]}
    return {
        "syscall": calls(f"{verb}_{kind}", op(rate, call, call_us), tables),
        "nfs_client": layer("nfs_client", tables={"mount": [(keys, below)]}),
    }


def test_a_wsize_that_splits_direct_writes_is_reported() -> None:
    layers = mount(30, MB, 64_000, 960, 32 * KB, 2_000, 32 * KB)
    finding = found(layers)["nfs_fragmentation"]
    assert finding.cause == (
        "Writes of 1 MB become 32 WRITEs of 32 KB, one after another. wsize=32768 on 10.0.0.5:/e."
    )
    assert finding.command.startswith("findmnt -o SOURCE,OPTIONS /mnt/n   # ")
    assert "wsize=1048576" in finding.command
    assert "umount and mount" in finding.advice
    assert finding.confidence == "high"


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        # Of three calls answered within ten seconds, one was sent before.
        (mount(0.3, MB, 3_000_000, 6.4, 32 * KB, 90_000, 32 * KB), "become 32 WRITEs"),
        (mount(30, MB, 9_000, 960, 32 * KB, 8_500, 32 * KB), "all in parallel"),
        (mount(30, MB, 300, 960, 32 * KB, 2_000, 32 * KB, kind="buffered"), "inferred from rates"),
    ],
)
def test_the_cause_says_how_calls_are_split(layers: Layers, says: str) -> None:
    finding = found(layers)["nfs_fragmentation"]
    assert says in finding.cause
    assert "inferred" not in says or finding.confidence == "medium"


@pytest.mark.parametrize(
    "layers",
    [
        mount(30, MB, 9_000, 30, MB, 8_500, MB),  # whole
        mount(30, MB, 9_000, 120, 256 * KB + 1, 8_500, 256 * KB + 1),  # large pieces
        mount(300, 8 * KB, 900, 75, 32 * KB, 2_000, 32 * KB),  # joined, not cut
        {**mount(3, MB, 9_000, 96, 32 * KB, 2_000, 32 * KB), "syscall": layer("syscall")},
        mount(30, 4 * MB, 9_000, 960, 32 * KB, 2_000, 32 * KB),  # other bytes
        mount(0.3, MB, 9_000, 2, 32 * KB, 9_000, 32 * KB),  # few
    ],
)
def test_sizes_that_are_not_split_are_not_reported(layers: Layers) -> None:
    assert "nfs_fragmentation" not in found(layers)


def rpc(queue: float, rtt: float, execute: float) -> LayerSnapshot:
    metrics: dict[str, Value] = {
        "rpc_reads_per_s": 500.0,
        "rpc_read_queue_us": queue,
        "rpc_read_rtt_us": rtt,
        "rpc_read_execute_us": execute,
    }
    return layer("nfs_client", {"read": op(500, 8192, execute)}, metrics=metrics)


def wire(srtt_us: float) -> LayerSnapshot:
    return layer("tcp", tables={"port": [(("2049", "nfs"), {"srtt_us": srtt_us})]})


def server(read_us: float, reads: int = 500, **metrics: Value) -> LayerSnapshot:
    return layer("nfs_server", {"read": op(reads, 8192, read_us)}, metrics=metrics)


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ({"nfs_client": rpc(6_000, 3_000, 9_100)}, "in this client"),
        ({"nfs_client": rpc(20, 9_000, 9_100), "tcp": wire(7_000)}, "The network takes 7.00 ms"),
        (
            {"nfs_client": rpc(20, 9_000, 9_100), "nfs_server": server(900)},
            "The network takes 8.10 ms",
        ),
        (
            {
                "nfs_client": rpc(20, 9_000, 9_100),
                "nfs_server": server(900, threads=8, busy_threads=8),
            },
            "waiting for one of the server's 8 threads",
        ),
        ({"nfs_client": rpc(20, 30_000, 30_100), "tcp": wire(300)}, "The server takes 29.7 ms"),
        ({"nfs_client": rpc(20, 900, 950), "tcp": wire(300)}, ""),
        ({"nfs_client": rpc(20, 9_000, 9_100), "tcp": wire(300)}, ""),  # a disk's time
        ({"nfs_client": rpc(20, 9_000, 9_100), "nfs_server": server(8_500)}, ""),
        # This machine is a server, and the client of another one: the times cannot be compared.
        ({"nfs_client": rpc(20, 9_000, 9_100), "nfs_server": server(900, 4_000)}, ""),
    ],
)
def test_the_slow_part_of_an_nfs_call_is_named(layers: Layers, says: str) -> None:
    finding = found(layers).get("nfs_latency")
    assert (finding is not None) == bool(says)
    assert finding is None or says in finding.cause


HERE, THERE = "10.0.0.7:831", "10.0.0.9:2049"


def linked(srtt_us: float, *, is_local: bool = False, **more: float) -> LayerSnapshot:
    """The mount's connection, and its other end if the server is this machine."""
    values: dict[str, Value] = {"srtt_us": srtt_us, "in_bytes_per_s": 4e6, **more}
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = [((HERE, THERE), values)]
    if is_local:
        rows.append(((THERE, HERE), {}))
    unread: dict[str, Value] = {"unread_bytes": 1.2e6, "in_bytes_per_s": 60e6}
    tables: Any = {"connection": rows, "port": [(("2049", "nfs"), unread if is_local else {})]}
    return layer("tcp", tables=tables)


def named(**tables: Any) -> Layers:
    """READs of 40 ms, 39 of them beyond this client."""
    client = rpc(20, 39_000, 40_000)
    row: dict[str, Value] = {"reads_per_s": 500.0}
    mounts: Any = {"server": [(("nas", "10.0.0.9"), row)]}
    own = layer("nfs_client", client.ops, metrics=client.metrics, tables=mounts)
    return {"nfs_client": own, **tables}


@pytest.mark.parametrize(
    ("layers", "subject", "says"),
    [
        (named(tcp=linked(35_000)), "read network", "The network takes 35.0 ms"),
        (named(tcp=linked(300)), "read server", "The server takes 38.7 ms"),
        (
            named(tcp=linked(300, reordered_segs_per_s=90.0)),
            "read loss",
            "Packets are lost between this client and its NFS server: 39.0 ms of each READ's",
        ),
        # The round trip alone is most of it: however many are lost, it is the network.
        (named(tcp=linked(35_000, reordered_segs_per_s=90.0)), "read network", "takes 35.0 ms"),
        (named(tcp=linked(300, reordered_segs_per_s=4.0)), "read server", "takes 38.7 ms"),
        # Whose time nfsd measures is known by the connection, not by the number of calls.
        (
            named(tcp=linked(300, is_local=True), nfs_server=server(900, 900)),
            "read network",
            "The network takes 38.1 ms of each READ's 40.0 ms; the server takes only 900 µs",
        ),
        (named(tcp=linked(300), nfs_server=server(900, 500)), "read server", "takes 38.7 ms"),
        (
            named(
                tcp=linked(300, is_local=True),
                nfs_server=server(900, 900, threads=1, busy_threads=1),
            ),
            "read threads",
            "READs wait 20.0 ms of their 40.0 ms for one of the server's 1 threads",
        ),
    ],
)
def test_the_mounts_connection_tells_network_and_server_apart(
    layers: Layers, subject: str, says: str
) -> None:
    finding = found(layers)["nfs_latency"]
    assert finding.subject == subject
    assert says in finding.cause


def test_a_single_lost_packet_hides_nothing() -> None:
    calm, lossy = (named(tcp=linked(300, reordered_segs_per_s=n)) for n in (0.0, 90.0))
    seconds = [[calm, calm, lossy, calm, calm], [calm, lossy, calm, lossy, calm]]
    one, more = (judged(each * 3)[-1]["nfs_latency"].subject for each in seconds)
    assert (one, more) == ("read server", "read loss")


def test_a_healthy_disk_behind_a_network_that_reorders_is_no_loss() -> None:
    own = layer("nfs_client", metrics=rpc(20, 9_000, 9_100).metrics)
    layers = {"nfs_client": own, "tcp": linked(300, reordered_segs_per_s=90.0)}
    assert "nfs_latency" not in found(layers)


@pytest.mark.parametrize(("cpu_pct", "rtt_us", "fires"), [
    (40.0, 15_000, True), (85.0, 15_000, False), (85.0, 90_000, True),
])  # fmt: skip
def test_time_on_a_busy_cpu_is_not_taken_for_the_network(
    cpu_pct: float, rtt_us: float, fires: bool
) -> None:
    layers = {"nfs_client": rpc(20, rtt_us, rtt_us + 100), "nfs_server": server(900)}
    finding = found(layers, host=HostStats(cpu_pct=cpu_pct)).get("nfs_latency")
    assert (finding is not None) is fires
    if finding is not None:
        assert finding.confidence == ("low" if cpu_pct > 70 else "medium")


@pytest.mark.parametrize(
    ("watched", "at_end", "fires"), [(50.0, 0.0, False), (3_500.0, 3_500.0, True)]
)
def test_caching_is_reported_only_if_enough_reads_are_watched(
    watched: float, at_end: float, fires: bool
) -> None:
    """Reads of FUSE, CIFS … are not among the watched ones."""
    app = calls(
        "read_buffered", op(7_000, 128 * KB, 30), read_calls_per_s=watched,
        read_calls_cached_per_s=watched, read_calls_at_end_per_s=at_end,
    )  # fmt: skip
    assert ("caching" in found({"syscall": app})) is fires


@pytest.mark.parametrize(
    ("speeds", "is_impossible"),
    [((10**9,), True), ((10**9, None), False)],
)
def test_a_rate_that_no_link_can_carry_is_evidence_of_caching(
    speeds: tuple[int | None, ...], is_impossible: bool
) -> None:
    client = layer("nfs_client", metrics={"cached_pct": 95.0, "app_read_bytes_per_s": 900e6})
    read = op(7_000, 128 * KB, 30)
    links: list[Any] = [
        ((f"eth{at}",), {"speed_bits_per_s": speed, "in_packets_per_s": 9.0})
        for at, speed in enumerate(speeds)
    ]
    layers = {
        "syscall": calls("read_buffered", read),
        "nfs_client": client,
        "tcp": layer("tcp", tables={"interface": links}),
    }
    texts = [evidence.text for evidence in found(layers)["caching"].evidence]
    said = "faster than the network: eth0 can carry at most 125 MB/s" in texts
    assert said is is_impossible


def cut(pieces: int, size: int, **settings: Any) -> Layers:
    """20 direct reads of 1 MB a second, each split into ``pieces``; the disk's settings."""
    app = calls(
        "read_direct", op(20.0, MB, 9_000), read_calls_per_s=20.0,
        read_lower_ops_per_s=20.0 * pieces, read_lower_bytes_per_s=20.0 * MB,
    )  # fmt: skip
    read = op(20.0 * pieces, size, 9_000 / pieces)
    return {"syscall": app, "block": layer("block", **disk("sda", read, **settings))}


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (cut(8, 128 * KB, max_request_bytes=128 * KB, max_hw_request_bytes=4 * MB),
         "echo 1024 > /sys/block/sda/queue/max_sectors_kb"),
        (cut(8, 128 * KB, max_request_bytes=128 * KB, max_hw_request_bytes=128 * KB),
         "the hardware limit"),
        (cut(8, 128 * KB, max_segments=32), "max_segments x 4 KB"),
        (cut(16, 64 * KB, chunk_bytes=64 * KB), "chunk_sectors"),
        (cut(16, 64 * KB), "No device limit explains this"),
        (cut(1, MB, max_request_bytes=128 * KB), ""),
        (cut(2, 512 * KB, max_request_bytes=512 * KB), ""),  # large pieces
    ],
)  # fmt: skip
def test_the_disk_limit_that_splits_requests_is_named(layers: Layers, says: str) -> None:
    finding = found(layers).get("fragmentation")
    assert (finding is not None) == bool(says)
    if finding is not None:
        assert says in f"{finding.cause} {finding.advice} {finding.command}"
        assert finding.cause.startswith("Reads of 1 MB become ")
        assert "one after another" in finding.cause


@pytest.mark.parametrize(
    ("upper", "says"),
    [("loop2", "echo 1024 > /sys/block/loop2/queue/max_sectors_kb"), ("md0", "cannot cross a")],
)
def test_a_limit_of_a_device_above_the_disk_is_mended_there(upper: str, says: str) -> None:
    """A loop device has a queue of its own; md reports its chunk as the largest request."""
    block = disk("sda", op(320.0, 64 * KB, 560))
    row = {**block["tables"]["device"][0][1], "stacked": 1, "reads_per_s": 320.0}
    block["tables"]["device"].append(((upper, upper), {**row, "max_request_bytes": 64 * KB}))
    finding = found({**cut(16, 64 * KB), "block": layer("block", **block)})["fragmentation"]
    assert f"max_sectors_kb of {upper} is 64 KB" in finding.cause
    assert says in f"{finding.advice} {finding.command}"


@pytest.mark.parametrize("rule", ["maintenance", "saturation"])
@pytest.mark.parametrize(("seconds", "fires"), [(15, True), (1, False)])
def test_a_lasting_trim_or_queue_is_reported_but_not_a_single_burst(
    rule: str, seconds: int, fires: bool
) -> None:
    calm, busy = (layer("block", {"discard": op(n, 1 << 30, 900)}) for n in (0, 2))
    if rule == "saturation":
        calm, busy = (
            layer("block", **disk("sda", write=op(ops, 4096, queue + 900, queue_us=queue)))
            for ops, queue in ((190, 0.0), (2_000, 9_000.0))
        )
    said = judged([{"block": calm}] * 10 + [{"block": busy}] * seconds + [{"block": calm}] * 5)
    assert any(rule in each for each in said) is fires


def cached_by_client(share: float) -> Layers:
    read = op(7_000, 128 * KB, 30)
    row = {"reads_per_s": 7_000.0, "read_bytes_per_s": read.bytes_per_s}
    return {
        "syscall": calls("read_buffered", read, {"mount": [(("/mnt/n", "nfs4"), row)]}),
        "nfs_client": layer(
            "nfs_client", metrics={"cached_pct": share, "app_read_bytes_per_s": 900e6}
        ),
    }


def resent(payload_per_s: float) -> Layers:
    rates: dict[str, Value] = {"retrans_segs_per_s": 9.0, "sent_segs_per_s": 300.0}
    return {"tcp": layer("tcp", metrics={**rates, "retrans_bytes_per_s": payload_per_s})}


def commits(writes: int) -> Layers:
    ops = {"write": op(writes, 4096, 3_000), "commit": op(50, 0, 9_000)}
    return {"nfs_client": layer("nfs_client", ops), "syscall": layer("syscall")}


def lost(events: int) -> Layers:
    return {"block": layer("block", {"read": op(10_000, 4096, 100)}, lost={"map_full": events})}


def watched(*cpu_ns_per_s: float | None) -> Layers:
    names = zip(("block", "syscall"), cpu_ns_per_s, strict=True)
    return {name: layer(name, metrics={"probe_cpu_ns_per_s": cost}) for name, cost in names}


def beside_program(*program_pct: float | None) -> Layers:
    """Probes that take less than a tenth of a core, and their share of the busiest program."""
    return {
        name: layer(name, metrics={"probe_cpu_ns_per_s": 20e6, "probe_program_pct": pct})
        for name, pct in zip(("block", "syscall"), program_pct, strict=True)
    }


def test_a_share_of_the_busiest_program_is_evidence_only_if_it_is_large() -> None:
    texts = [each.text for each in found(beside_program(2.5, 3.5))["observer"].evidence]
    assert texts == ["block 2 %, syscall 2 %", "6 % of the busiest program's CPU time"]
    dear = {**beside_program(1.0, 1.0), **watched(80e6, 90e6)}
    assert len(found(dear)["observer"].evidence) == 1


def test_the_dearest_layer_is_named_with_the_option_that_leaves_it_out() -> None:
    finding = found(watched(80e6, 90e6))["observer"]
    assert finding.subject == "syscall"
    assert "17 % of a core, 9 % for layer syscall" in finding.cause
    assert "--no-layer syscall" in finding.advice


@pytest.mark.parametrize(
    ("rule", "sick", "healthy"),
    [
        ("tcp_retransmits", resent(13e3), resent(0.0)),  # SYNs to a host that is gone
        ("caching", cached_by_client(95.0), cached_by_client(60.0)),
        ("sync_writes", commits(50), commits(400)),
        ("losses", lost(900), lost(5)),
        ("observer", watched(80e6, 90e6), watched(80e6, 10e6)),
        ("observer", watched(80e6, 90e6), watched(None, None)),  # not measured yet
        ("observer", beside_program(2.5, 3.5), beside_program(2.5, 2.4)),
        # No program takes half a core, or so do all that the probes take 2 % of one.
        ("observer", beside_program(2.5, 3.5), beside_program(None, None)),
    ],
)
def test_a_problem_is_distinguished_from_a_healthy_look_alike(
    rule: str, sick: Layers, healthy: Layers
) -> None:
    assert rule in found(sick)
    assert rule not in found(healthy)


@pytest.mark.parametrize(
    ("mean_kb", "most", "set_to"),
    [(1024, 4 * MB, 1024), (871, 4 * MB, 1024), (1040, 4 * MB, 1024), (871, 960 * KB, 960)],
)
def test_a_limit_is_raised_to_the_large_calls_among_small_ones(
    mean_kb: int, most: int, set_to: int
) -> None:
    """Of reads of 1 MB and some of 4 KB the mean is between: that limit would split the large."""
    rate, pieces = 100, 100 * mean_kb / 64
    read = op(rate, mean_kb * KB, 2000)
    metrics: dict[str, Value] = {
        "read_calls_per_s": rate, "read_calls_cached_per_s": 0, "read_lower_ops_per_s": pieces,
        "read_lower_bytes_per_s": rate * mean_kb * KB, "read_lower_ops_per_op": pieces / rate,
    }  # fmt: skip
    settings: dict[str, Any] = {"max_request_bytes": 64 * KB, "max_hw_request_bytes": most}
    layers = {
        "syscall": layer("syscall", {"read": read, "read_direct": read}, metrics=metrics),
        "block": layer("block", **disk("sda", read=op(pieces, 64 * KB, 500), **settings)),
    }
    command = found(layers)["fragmentation"].command
    assert command == f"echo {set_to} > /sys/block/sda/queue/max_sectors_kb"
