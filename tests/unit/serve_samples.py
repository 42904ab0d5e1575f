"""A large host as `ioh serve` sees it: five layers, many disks and mounts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ioh.layers import all_layers
from ioh.model.hist import FINE_BUCKETS, LATENCY_BUCKETS, SIZE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.metric import LayerSpec
from ioh.model.sample import HostSample, LayerSample, OpTotals, Sample

LAYERS = ("syscall", "nfs_client", "tcp", "nfs_server", "block")
BUSY = OpTotals(
    count_total=17 * SIZE_BUCKETS,
    bytes_total=1 << 40,
    errors_total=3,
    latency_ns_total=1_234_567_890,
    queue_ns_total=234_567_890,
    queued_total=17,
    max_ns=12,
    max_bytes=4096,
    inflight=5,
    latency=LatencyHist((1,) * FINE_BUCKETS),
    size_lat=SizeLatencyHist((1,) * (SIZE_BUCKETS * LATENCY_BUCKETS)),
)
# What some layers measure less of; see their docs.
LESS = {
    "syscall": replace(BUSY, queue_ns_total=None, queued_total=None),
    "tcp": OpTotals(count_total=17, bytes_total=1 << 40),
}
IDLE = OpTotals(count_total=0, bytes_total=0, latency_ns_total=0)


def layer(
    spec: LayerSpec, parts: Iterable[str] = (), busy: frozenset[str] | None = None
) -> LayerSample:
    """A layer in which every operation occurs; in parts only those in ``busy``, None: all."""
    well = replace(BUSY, errors_total=0)
    ops = {op: IDLE if busy is not None and op not in busy else well for op in spec.ops}
    return LayerSample(
        "bpf",
        ops=dict.fromkeys(spec.ops, LESS.get(spec.name, BUSY)),
        metrics={m.name: 1_000 for m in spec.metrics if m.kind != "ratio"},
        tables={
            table.name: {
                tuple(f"{key}{row}" for key in table.keys): (row,) * len(table.raw_columns)
                for row in range(3)
            }
            for table in spec.tables
        },
        parts=dict.fromkeys(parts, ops),
        lost=dict.fromkeys(spec.lost, 0),
    )


def large_host(disks: int = 20, mounts: int = 10) -> Sample:
    specs = {name: all_layers()[name].spec for name in LAYERS}
    parts = {
        "block": [f"nvme{n}n1" for n in range(disks)],
        "nfs_client": [f"/mnt/volume{n}" for n in range(mounts)],
    }
    # A disk is read, written and flushed; a mount knows two of the three kinds of writes.
    busy = {
        "block": frozenset({"read", "write", "flush"}),
        "nfs_client": frozenset(specs["nfs_client"].ops) - {"write_data_sync"},
    }
    return Sample(
        time_unix_s=1_700_000_000.5,
        mono_ns=5_000_000_000,
        hostname="db01",
        kernel="6.1.0-56-amd64",
        host=HostSample(),
        layers={n: layer(spec, parts.get(n, ()), busy.get(n)) for n, spec in specs.items()},
        specs=specs,
        self_cpu_ns_total=4_000_000,
        bpf_ns_total=5_000_000,
    )
