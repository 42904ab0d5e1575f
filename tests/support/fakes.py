"""Made-up Samples: three layers that ioh does not know, with everything a layer can have.

These specs exist only in tests, so that golden files prove that the sinks are generic, and do not
change when a real layer gains a metric.
"""

from __future__ import annotations

import itertools
import sys
import types
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from ioh.model.filters import Filters
from ioh.model.hist import (
    FINE_BUCKETS,
    LATENCY_BUCKETS,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    LatencyHist,
    SizeLatencyHist,
    fine_index,
    latency_index,
)
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.sample import HostSample, LayerSample, OpTotals, Row, Sample, Unavailable

EPOCH_S = 1335282287.25  # ioh.sh's README: 24/4/2012 15:44:47 UTC
SECOND_NS = 1_000_000_000

_FLOW = """
reads_total      | r/s   | Reads.
read_bytes_total | rB/s  | Bytes read.
read_ns_total    |       | Time in reads.
read_latency_us = 1e-3 * read_ns_total / reads_total | r_lat | Mean.
writes_total     | w/s   | Writes.
write_bytes_total | wB/s | Bytes written.
inflight         | in-fl | In flight.
"""

APP = LayerSpec(
    name="program",
    title="prog",
    rank=10,
    ops=("read_buffered", "read_direct", "write_buffered", "write_sync", "fsync"),
    groups={"read": ("read_buffered", "read_direct"), "write": ("write_buffered", "write_sync")},
    metrics=numbers(
        """
        calls_total  | | Calls.
        cached_total | | Calls served from cache.
        cached_pct = 100 * cached_total / calls_total | cached% | Hits.
        """
    ),
    tables=tables(
        f"""
        process | processes | pid, comm | read_bytes_per_s, write_bytes_per_s
            {_FLOW}
        file | files | path | read_bytes_per_s, write_bytes_per_s
            {_FLOW}
        """
    ),
    lost=("no_start", "map_full"),
)

WIRE = LayerSpec(
    name="wire",
    title="wire",
    rank=30,
    ops=("in", "out"),
    groups={},
    metrics=numbers(
        """
        retrans_bytes_total | retrans | Bytes sent again.
        srtt_us             | rtt     | Smoothed round trip.
        """
    ),
    tables=tables(
        """
        connection | connections | local, remote | in_bytes_per_s, out_bytes_per_s
            in_bytes_total  | in  | Bytes in.
            out_bytes_total | out | Bytes out.
            srtt_us         | rtt | Smoothed round trip.
        """
    ),
    gauge_hists=numbers("srtt_us | rtt | Connections by smoothed round-trip time."),
)

DISK = LayerSpec(
    name="platter",
    title="platter",
    rank=50,
    ops=("read", "write", "flush"),
    groups={},
    metrics=numbers("merges_total | merge/s | Requests joined."),
    tables=tables(
        """
        queue | queues | device | inflight
            queue_depth_limit | depth | Limit.
            inflight          | in-fl | Now.
        """
    ),
    lost=("no_start",),
    part="device",
)

SPECS = {spec.name: spec for spec in (APP, WIRE, DISK)}
HOSTILE = ("\x1b[31m[/b]", "a\nb", "\u202egnp.exe", "\udcff", "数据库.dbf", "-", "=cmd()", "")


@dataclass
class Op:
    """One op under construction: add operations, take its totals."""

    count: int = 0
    bytes: int = 0
    latency_ns: int = 0
    slowest: tuple[int, int] = (0, 0)
    fine: list[int] = field(default_factory=lambda: [0] * FINE_BUCKETS)
    size_lat: list[int] = field(default_factory=lambda: [0] * (SIZE_BUCKETS * LATENCY_BUCKETS))

    def add(self, size_bytes: int, latency_ns: int, times: int = 1) -> None:
        self.count += times
        self.bytes += size_bytes * times
        self.latency_ns += latency_ns * times
        self.slowest = max(self.slowest, (latency_ns, size_bytes))
        self.fine[fine_index(latency_ns)] += times
        cell = size_index(size_bytes) * LATENCY_BUCKETS + latency_index(latency_ns / 1e3)
        self.size_lat[cell] += times

    def totals(self, inflight: int = 0) -> OpTotals:
        """The running totals; resets the slowest operation, as a probe does."""
        max_ns, max_bytes = self.slowest
        self.slowest = (0, 0)
        return OpTotals(
            count_total=self.count,
            bytes_total=self.bytes,
            errors_total=0,
            latency_ns_total=self.latency_ns,
            queue_ns_total=self.latency_ns // 4,
            queued_total=self.count,
            max_ns=max_ns,
            max_bytes=max_bytes,
            inflight=inflight,
            latency=LatencyHist(tuple(self.fine)),
            size_lat=SizeLatencyHist(tuple(self.size_lat)),
        )


def size_index(size_bytes: int) -> int:
    """Bucket of SIZE_EDGES_BYTES, as the probes choose it; the last one for anything larger."""
    return bisect_left(SIZE_EDGES_BYTES, size_bytes)


def host(tick: int) -> HostSample:
    return HostSample(
        cpu_total_ticks=10_000 + 400 * tick,
        cpu_idle_ticks=9_000 + 260 * tick,
        cpu_iowait_ticks=50 + 16 * tick,
        cpu_steal_ticks=0,
        cpu_count=4,
        load1=1.25,
        load5=1.0,
        load15=0.5,
        mem_total_bytes=16 << 30,
        mem_available_bytes=12 << 30,
        cached_bytes=3 << 30,
        dirty_bytes=212 << 20,
        writeback_bytes=0,
        dirty_limit_bytes=1600 << 20,
        dirty_background_bytes=800 << 20,
        psi_io_some_us_total=1_000_000 + 21_000 * tick,
        psi_io_full_us_total=None,
    )


def sample(
    tick: int, layers: Mapping[str, LayerSample | Unavailable], *, hostname: str = "db01"
) -> Sample:
    return Sample(
        time_unix_s=EPOCH_S + tick,
        mono_ns=(1000 + tick) * SECOND_NS,
        hostname=hostname,
        kernel="6.1.0-56-amd64",
        host=host(tick),
        layers=layers,
        specs={name: SPECS[name] for name in layers},
        self_cpu_ns_total=4_000_000 * tick,
        bpf_ns_total=None,
    )


_Shape = tuple[tuple[int, int], tuple[int, int]]  # sizes in bytes, latencies in ns
_APP_OPS: dict[str, _Shape] = {
    "read_buffered": ((4096, 8192), (400, 9_000)),
    "read_direct": ((8192, 1_048_576), (80_000, 12_000_000)),
    "write_buffered": ((200, 65_536), (900, 40_000)),
    "write_sync": ((1024, 131_072), (2_000_000, 30_000_000)),
    "fsync": ((0, 0), (1_000_000, 20_000_000)),
}
_DISK_OPS: dict[str, _Shape] = {
    "read": ((4096, 131_072), (60_000, 9_000_000)),
    "write": ((512, 1_048_576), (100_000, 25_000_000)),
    "flush": ((0, 0), (700_000, 3_000_000)),
}


def _busy(ops: dict[str, Op], shapes: Mapping[str, _Shape], random: Random) -> None:
    for name, op in ops.items():
        (low, high), (fast, slow) = shapes[name]
        for _ in range(random.randrange(40, 400)):
            size = random.choice((low, high, random.randint(low, high)))
            op.add(size, int(fast * (slow / fast) ** random.random()))


def _table(
    names: tuple[tuple[str, ...], ...], tick: int, columns: int
) -> dict[tuple[str, ...], Row]:
    return {
        key: (*((i + 1) * (c + 1) * 12_345 * tick for c in range(columns - 1)), i)
        for i, key in enumerate(names)
    }


def seeded(seed: int = 7) -> Iterator[Sample]:
    """Endless Samples, the same for the same seed; from tick 3 on, a layer loses events."""
    random = Random(seed)
    app = {name: Op() for name in APP.ops}
    disk = {name: Op() for name in DISK.ops}
    files = tuple((f"/data/{name}",) for name in ("a.dbf", *HOSTILE))
    processes = tuple((str(100 + i), name) for i, name in enumerate(("fio", *HOSTILE)))
    for tick in itertools.count():
        if tick:
            _busy(app, _APP_OPS, random)
            _busy(disk, _DISK_OPS, random)
        whole = {name: op.totals(inflight=i) for i, (name, op) in enumerate(disk.items())}
        yield sample(
            tick,
            {
                "program": LayerSample(
                    "bpf",
                    {name: op.totals() for name, op in app.items()},
                    {"calls_total": 2_000 * tick, "cached_total": 700 * tick},
                    {"process": _table(processes, tick, 6), "file": _table(files, tick, 6)},
                    lost={"no_start": max(0, tick - 2) * 3, "map_full": 0},
                    notes=("io_uring requests begun before ioh are not counted",),
                ),
                "wire": LayerSample(
                    "proc",
                    {
                        "in": OpTotals(bytes_total=5_239_000 * tick),
                        "out": OpTotals(bytes_total=8_107_000 * tick),
                    },
                    {"retrans_bytes_total": 0, "srtt_us": None},
                    {
                        "connection": {
                            ("10.0.0.2:49152", f"10.0.0.{i}:2049"): (1_000_000 * i * tick, 0, 210.0)
                            for i in range(3, 12)
                        }
                    },
                    gauge_hists={"srtt_us": (0,) * 7 + (5, 4) + (0,) * 17},
                ),
                "platter": LayerSample(
                    "bpf",
                    whole,
                    {"merges_total": 12 * tick},
                    {"queue": {("sda",): (64, 3), ("nvme0n1",): (1023, 0)}},
                    {"sda": whole},
                    {"no_start": 0},
                ),
            },
        )


def first(count: int, seed: int = 7) -> list[Sample]:
    return list(itertools.islice(seeded(seed), count))


def quiet(count: int = 2) -> list[Sample]:
    """One idle layer, one that is unavailable, and one whose numbers are unknown."""
    nothing = Op().totals()
    return [
        sample(
            tick,
            {
                "program": Unavailable("needs root", "Run: sudo ioh"),
                "wire": LayerSample("proc", {}, {}),
                "platter": LayerSample("bpf", dict.fromkeys(DISK.ops, nothing)),
            },
        )
        for tick in range(count)
    ]


class FakeLiveSource:
    """Stands in for ioh.live.source.LiveSource: made-up Samples, on schedule."""

    kind = "seeded"
    delay_s = 0.0

    def __init__(
        self,
        layers: tuple[str, ...] | None,
        filters: Filters,
        interval_s: float,
        use_bpf: bool = True,
        preload: Callable[[], None] | None = None,
        report_first: object = None,
        login: object = None,
    ) -> None:
        del report_first, login
        self.asked = (layers, filters, interval_s, use_bpf)
        self.interval_s = interval_s
        self.awaited: tuple[str, ...] = ()
        self._preload = preload
        self._stopped = False

    def __enter__(self) -> FakeLiveSource:  # noqa: PYI034 (Self came with Python 3.11)
        if self._preload is not None:
            self._preload()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fork_loader(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

    def attach(self) -> None:
        return

    def stop(self) -> None:
        self._stopped = True

    def set_interval(self, interval_s: float) -> None:
        """Does nothing."""

    def sample_soon(self) -> None:
        return

    def __iter__(self) -> Iterator[Sample]:
        import time

        for tick, made in enumerate(seeded() if self.kind == "seeded" else quiet(1000)):
            if self._stopped:
                return
            yield replace(made, mono_ns=int((1000 + tick * self.interval_s) * SECOND_NS))
            deadline = time.monotonic() + self.delay_s
            while not self._stopped and time.monotonic() < deadline:
                time.sleep(0.005)


def install(*, kind: str = "seeded", delay_s: float = 0.0) -> None:
    """Replace the real source by the fake, in this process."""
    FakeLiveSource.kind, FakeLiveSource.delay_s = kind, delay_s
    module = types.ModuleType("ioh.live.source")
    module.LiveSource = FakeLiveSource  # type: ignore[attr-defined]
    sys.modules["ioh.live.source"] = module
