"""One interval, ready to show: rates, means and percentiles, as derive() computed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ioh.model.calls import Calls
from ioh.model.distribution import NOTHING_DONE, UNKNOWN, Distribution
from ioh.model.finding import Finding, NotEvaluated
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable, Value


class _Late:
    """Fields of OpStats that are not there yet: computed at the first look, then kept."""

    __slots__ = ("_late",)

    if not TYPE_CHECKING:  # else every misspelt field of OpStats would be one

        def __getattr__(self, name: str) -> object:
            """A field that is missing: only called for those."""
            if name not in _LATE_FIELDS:
                msg = f"{type(self).__name__} has no {name}"
                raise AttributeError(msg)
            late, put = self._late, object.__setattr__
            if name == "latency":
                put(self, name, late.latency())
            elif name == "size_lat":
                put(self, name, late.size_lat())
            else:
                found = late.percentiles_us(self.latency, tuple(_PERCENTILES.values()))
                for quantile, value in zip(_PERCENTILES, found, strict=True):
                    put(self, quantile, value)
            return getattr(self, name)


_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
_LATE_FIELDS = frozenset({*_PERCENTILES, "latency", "size_lat"})


@dataclass(frozen=True, slots=True)
class OpStats(_Late):
    """One op of one layer over one interval.

    Shape:
        None means not known (by this source, or too few operations for that percentile); 0
        means measured none.

    Units:
        As the names say; latency from the layer's start to its end.  ``queue_us`` is the mean
        over the operations whose queue time is known, ``service_us`` = ``latency_us`` -
        ``queue_us`` where these are all but 1 %.  ``max_bytes`` is the size of the slowest
        operation.  ``inflight`` counts operations at the sample instant, ``avg_inflight`` is the
        time-weighted mean where the source has one, else latency summed over the interval.
    """

    count: int | None = None
    bytes: int | None = None
    ops_per_s: float | None = None
    bytes_per_s: float | None = None
    avg_bytes: float | None = None
    latency_us: float | None = None
    queue_us: float | None = None
    service_us: float | None = None
    p50_us: float | None = None
    p95_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    max_us: float | None = None
    max_bytes: int | None = None
    inflight: int | None = None
    avg_inflight: float | None = None
    errors_per_s: float | None = None
    latency: LatencyHist | None = None
    size_lat: SizeLatencyHist | None = None

    def without_histograms(self, *, keep_percentiles: bool) -> OpStats:
        """The same, to be kept for long, with the percentiles computed now or never."""
        if getattr(self, "_late", None) in (UNKNOWN, NOTHING_DONE):
            return self
        names = OP_NUMBERS if keep_percentiles else _KEPT
        return OpStats.with_late(UNKNOWN, **{name: getattr(self, name) for name in names})

    @classmethod
    def with_late(cls, late: Distribution, **known: Value) -> OpStats:
        """Stats whose percentiles and histograms ``late`` computes when looked at."""
        made = object.__new__(cls)
        put = object.__setattr__
        put(made, "_late", late)
        for name, value in known.items():
            put(made, name, value)
        return made


# All but the histograms.
OP_NUMBERS = tuple(f.name for f in fields(OpStats) if f.name not in {"latency", "size_lat"})
_KEPT = tuple(name for name in OP_NUMBERS if name not in _PERCENTILES)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a breakdown: its key parts, printable, and values by derived name."""

    key: tuple[str, ...]
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class LayerSnapshot:
    """One layer over one interval.

    Shape:
        ``ops`` holds leaves and groups; ``parts[part]`` the same for each device, mount …
        that did something in this interval or has something under way; ``metrics`` by derived
        name; ``tables`` rows ranked, largest first, rows without activity left out unless the
        table holds gauges only.
        ``lost`` counts events lost in this interval; ``lost_pct`` their share of all.
        ``gauge_hists`` as in the newer sample; ``calls`` as far as there is a sample of them, and
        ``earlier_calls`` from the intervals before.

    Units:
        ``interval_s`` lies between this layer's own two readings: every rate here is one over it,
        and a rate times it is a count again.
    """

    spec: LayerSpec
    source: str
    interval_s: float
    ops: Mapping[str, OpStats] = field(default_factory=dict)
    metrics: Mapping[str, Value] = field(default_factory=dict)
    tables: Mapping[str, tuple[TableRow, ...]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, OpStats]] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    lost_pct: float | None = None
    gauge_hists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    calls: Calls = ()
    earlier_calls: Calls = ()


def rows_of(layer: LayerSnapshot | None, table: str) -> tuple[TableRow, ...]:
    """The rows of a layer that may not be there."""
    return layer.tables.get(table, ()) if layer is not None else ()


@dataclass(frozen=True, slots=True)
class HostStats:
    """The machine over one interval.

    Units:
        ``_pct`` of all CPUs' time, 0 to 100; bytes; PSI as share of the interval.
    """

    cpu_pct: float | None = None
    iowait_pct: float | None = None
    steal_pct: float | None = None
    cpu_count: int | None = None
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    mem_total_bytes: int | None = None
    mem_available_bytes: int | None = None
    cached_bytes: int | None = None
    dirty_bytes: int | None = None
    writeback_bytes: int | None = None
    dirty_limit_bytes: int | None = None
    dirty_background_bytes: int | None = None
    psi_io_some_pct: float | None = None
    psi_io_full_pct: float | None = None


HOST_NUMBERS = tuple(f.name for f in fields(HostStats))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One interval of the whole stack; what every sink receives.

    Shape:
        ``findings`` worst first, and ``not_evaluated`` the rules that could not look; both
        empty until findings.Engine has judged it.  ``pairs``: this client with each host that
        serves its mounts and is measured, too.  ``name`` is what the user calls the host, where
        several are read.

    Units:
        ``interval_s`` is measured between the two samples, never the period asked for.
        ``self_cpu_pct`` and ``bpf_cpu_pct`` are shares of one core; ``fresh_numbers`` as in Sample.
    """

    time_unix_s: float
    interval_s: float
    hostname: str
    kernel: str
    host: HostStats
    layers: Mapping[str, LayerSnapshot | Unavailable]
    specs: Mapping[str, LayerSpec]
    self_cpu_pct: float | None = None
    bpf_cpu_pct: float | None = None
    findings: tuple[Finding, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()
    fresh_numbers: int = field(default=0, compare=False)
    pairs: tuple[Pair, ...] = ()
    name: str = ""

    @property
    def measured(self) -> dict[str, LayerSnapshot]:
        """The layers that are not unavailable."""
        return {n: layer for n, layer in self.layers.items() if isinstance(layer, LayerSnapshot)}


@dataclass(frozen=True, slots=True)
class PairOp:
    """One kind of call between a client and its server.

    Shape:
        None is not known.  ``network_us`` is ``rtt_us`` less ``server_us``, None also where the
        server's mean is the larger one: then the two have not counted the same calls.  ``network``
        has what it took of each call that both ends sampled; None where an end samples none.

    Units:
        Calls of the interval as either end counted them; means in µs.  ``rtt_us`` from sending a
        call to its reply, ``server_us`` from taking it up to sending the reply.  Of that the disk
        has ``block_queue_us`` and ``device_us``, by their shares in the calls of all its clients.
    """

    client_calls: int | None = None
    server_calls: int | None = None
    rtt_us: float | None = None
    server_us: float | None = None
    block_queue_us: float | None = None
    device_us: float | None = None
    network: LatencyHist | None = None

    @property
    def disk_us(self) -> float | None:
        """What the server's disk has of ``server_us``."""
        return None if self.device_us is None else self.device_us + (self.block_queue_us or 0.0)

    @property
    def network_us(self) -> float | None:
        """What is left for the network, and for RPC at both ends."""
        if self.rtt_us is None or self.server_us is None or self.server_us > self.rtt_us:
            return None
        return self.rtt_us - self.server_us

    @property
    def network_pct(self) -> float | None:
        """Its share of the round trip."""
        network_us = self.network_us
        return 100 * network_us / self.rtt_us if network_us is not None and self.rtt_us else None

    @property
    def matched_calls(self) -> int | None:
        """How many calls both ends have told the time of."""
        return None if self.network is None else self.network.total

    @property
    def network_p50_p99_us(self) -> tuple[float | None, ...]:
        """Of these calls; None where they are too few."""
        return (None, None) if self.network is None else self.network.percentiles_us((0.5, 0.99))


@dataclass(frozen=True, slots=True)
class Pair:
    """A client and the host that serves its mounts, over one interval.

    Shape:
        ``ops`` of pairs.OPS, those that either end has counted.  ``there``: the server's whole
        interval.

    Units:
        ``retransmits_per_s`` of whole calls; ``tcp_retrans_segs_per_s`` and ``tcp_rtt_us`` (the
        mean over the connections) of the client's connections to this server.
    """

    client: str
    server: str
    ops: Mapping[str, PairOp]
    retransmits_per_s: float | None = None
    tcp_retrans_segs_per_s: float | None = None
    tcp_rtt_us: float | None = None
    there: Snapshot | None = field(default=None, compare=False, repr=False)
