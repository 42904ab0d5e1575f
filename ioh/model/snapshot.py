"""One interval, ready to show: rates, means and percentiles from derive()."""

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


class _Lazy:
    """Computes missing fields of OpStats on first access."""

    __slots__ = ("_distribution",)

    if not TYPE_CHECKING:  # otherwise mypy would accept misspelt fields of OpStats

        def __getattr__(self, name: str) -> object:
            """Compute a missing field."""
            if name not in _LAZY_FIELDS:
                msg = f"{type(self).__name__} has no {name}"
                raise AttributeError(msg)
            distribution, assign = self._distribution, object.__setattr__
            if name == "latency":
                assign(self, name, distribution.latency())
            elif name == "size_lat":
                assign(self, name, distribution.size_lat())
            else:
                percentiles = distribution.percentiles_us(
                    self.latency, tuple(_PERCENTILES.values())
                )
                for quantile, value in zip(_PERCENTILES, percentiles, strict=True):
                    assign(self, quantile, value)
            return getattr(self, name)


_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
_LAZY_FIELDS = frozenset({*_PERCENTILES, "latency", "size_lat"})


@dataclass(frozen=True, slots=True)
class OpStats(_Lazy):
    """One op of one layer over one interval.

    Shape:
        None means unknown (not in this source, or too few operations for a percentile); 0 means
        none was measured.

    Units:
        As in the names; latency from the layer's start to its end.  ``queue_us``: the mean over the
        operations with a known queue time.  ``service_us`` = ``latency_us`` - ``queue_us``, if at
        most 1 % of the operations lack a queue time.  ``max_bytes``: the size of the slowest
        operation.  ``inflight``: operations at the sample instant.  ``avg_inflight``: the
        time-weighted mean if the source has one, otherwise summed latency over the interval.
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
        """A copy to keep for long: percentiles are computed now or never."""
        if getattr(self, "_distribution", None) in (UNKNOWN, NOTHING_DONE):
            return self
        names = OP_NUMBERS if keep_percentiles else _KEPT
        return OpStats.with_distribution(UNKNOWN, **{name: getattr(self, name) for name in names})

    @classmethod
    def with_distribution(cls, distribution: Distribution, **numbers: Value) -> OpStats:
        """Make stats whose percentiles and histograms ``distribution`` computes on access."""
        stats = object.__new__(cls)
        assign = object.__setattr__
        assign(stats, "_distribution", distribution)
        for name, value in numbers.items():
            assign(stats, name, value)
        return stats


# All except the histograms.
OP_NUMBERS = tuple(f.name for f in fields(OpStats) if f.name not in {"latency", "size_lat"})
_KEPT = tuple(name for name in OP_NUMBERS if name not in _PERCENTILES)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a breakdown: printable key parts, and values by derived name."""

    key: tuple[str, ...]
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class LayerSnapshot:
    """One layer over one interval.

    Shape:
        ``ops``: leaves and groups.  ``parts[part]``: the same for each device, mount … that was
        active in this interval or has operations in flight.  ``metrics``: by derived name.
        ``tables``: ranked rows, largest first, without idle rows unless the table has only gauges.
        ``lost``: events lost in this interval; ``lost_pct``: their share of all.  ``gauge_hists``:
        as in the newer sample.  ``calls``: sampled calls, if any; ``earlier_calls``: those from the
        intervals before.

    Units:
        ``interval_s``: the time between this layer's own two readings.  All rates here are over it.
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

    def rows(self, table: str) -> tuple[TableRow, ...]:
        """The rows of a table, largest first; () if the layer lacks it."""
        return self.tables.get(table, ())


@dataclass(frozen=True, slots=True)
class HostStats:
    """The machine over one interval.

    Units:
        ``_pct`` of all CPUs' time, 0 to 100; bytes; PSI as a share of the interval.
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
        ``findings``: worst first; ``not_evaluated``: rules without inputs.  Both are empty until
        findings.Engine has judged it.  ``pairs``: this client with each measured host that serves
        its mounts.  ``name``: the user's name for the host, if several are read.

    Units:
        ``interval_s``: measured between the two samples, not the requested period.
        ``self_cpu_pct`` and ``bpf_cpu_pct``: shares of one core.  ``fresh_numbers``: as in Sample.
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

    def layer(self, name: str) -> LayerSnapshot | None:
        """A measured layer; None if it is not measured."""
        layer = self.layers.get(name)
        return layer if isinstance(layer, LayerSnapshot) else None

    def title(self, layer: str) -> str:
        """A layer's title in tables and on screens: ``app`` for ``syscall``."""
        return self.specs[layer].title if layer in self.specs else layer

    def rows(self, layer: str, table: str) -> tuple[TableRow, ...]:
        """The rows of a layer's table, largest first; () if the layer or the table is missing."""
        measured = self.layer(layer)
        return () if measured is None else measured.rows(table)

    def busiest(self, layer: str, table: str, number: str) -> TableRow | None:
        """The row with the largest number of this name; None if there are no rows."""
        rows = self.rows(layer, table)
        return max(rows, key=lambda row: row.values.get(number) or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class PairOp:
    """One kind of call between a client and its server.

    Shape:
        None is unknown.  ``network_us`` is ``rtt_us`` minus ``server_us``.  It is also None if the
        server's mean is larger: then the two have not counted the same calls.  ``network``: the
        network time of each call that both ends sampled; None if an end samples none.

    Units:
        Calls of the interval as counted by each end; means in µs.  ``rtt_us``: from sending a call
        to its reply.  ``server_us``: from accepting it to sending the reply, including the disk's
        ``block_queue_us`` and ``device_us``, by their shares in the calls of all clients.
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
        """The disk's part of ``server_us``."""
        return None if self.device_us is None else self.device_us + (self.block_queue_us or 0.0)

    @property
    def network_us(self) -> float | None:
        """The time of the network, and of RPC at both ends."""
        if self.rtt_us is None or self.server_us is None or self.server_us > self.rtt_us:
            return None
        return self.rtt_us - self.server_us

    @property
    def network_pct(self) -> float | None:
        """The network's share of the round trip."""
        network_us = self.network_us
        return 100 * network_us / self.rtt_us if network_us is not None and self.rtt_us else None

    @property
    def matched_calls(self) -> int | None:
        """How many calls both ends sampled."""
        return None if self.network is None else self.network.total

    @property
    def network_p50_p99_us(self) -> tuple[float | None, ...]:
        """p50 and p99 of these calls; None if they are too few."""
        return (None, None) if self.network is None else self.network.percentiles_us((0.5, 0.99))


@dataclass(frozen=True, slots=True)
class Pair:
    """A client and the host that serves its mounts, over one interval.

    Shape:
        ``ops``: those of pairs.OPS that either end has counted.  ``there``: the server's whole
        interval.

    Units:
        ``retransmits_per_s``: whole calls.  ``tcp_retrans_segs_per_s`` and ``tcp_rtt_us`` (mean
        over the connections): the client's connections to this server.
    """

    client: str
    server: str
    ops: Mapping[str, PairOp]
    retransmits_per_s: float | None = None
    tcp_retrans_segs_per_s: float | None = None
    tcp_rtt_us: float | None = None
    there: Snapshot | None = field(default=None, compare=False, repr=False)
