"""What was read at one instant: running totals and gauges; no rates, means or percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioh.model.calls import Calls
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.metric import LayerSpec

Value = int | float | None
READ_STEP_US = 100  # resolution of LayerSample.read_after_us in a recording


@dataclass(frozen=True, slots=True)
class OpTotals:
    """All counters of one op of one layer since ioh attached.

    Shape:
        A field is None if the source does not have it (/proc has no histograms; TCP bytes have no
        latency).  ``queue_ns_total`` and ``queued_total`` cover the operations with a known queue
        time.  ``max_ns`` and ``max_bytes`` are those of the slowest operation since the last
        sample: a maximum cannot be subtracted.

    Units:
        Totals in operations, bytes and ns, as integers, exactly as the probe adds them; derive()
        converts them to µs.
    """

    count_total: int | None = None
    bytes_total: int | None = None
    errors_total: int | None = None
    latency_ns_total: int | None = None
    queue_ns_total: int | None = None
    queued_total: int | None = None
    started_total: int | None = None
    max_ns: int | None = None
    max_bytes: int | None = None
    inflight: int | None = None
    weighted_ns_total: int | None = None
    latency: LatencyHist | None = None
    size_lat: SizeLatencyHist | None = None


Row = tuple[Value, ...]
Table = Mapping[tuple[str, ...], Row]
# First part of the key of the row for everything without its own row; no file, process or host has
# this name.
OTHERS = "(others)"


def others_key(parts: int) -> tuple[str, ...]:
    """The key of that row in a table with so many key parts."""
    return (OTHERS, *[""] * (parts - 1))


@dataclass(frozen=True, slots=True)
class LayerSample:
    """One layer's totals at one instant.

    Shape:
        ``ops``: by the layer's op names; by a group's, what is known of the whole group only (how
        many are in flight, if not the kind of each).  ``parts[part]``: the same for each device,
        mount … (a part can lie on another one, so parts need not add up to ``ops``).  ``metrics``:
        by MetricSpec names, without ratios.  ``tables[table][key]``: in the order of
        TableSpec.raw_columns; a row OTHERS gets the totals of dropped rows, so that all rows add
        up.  ``lost``: events that a probe saw but could not count, by reason.  ``source``: ``bpf``
        or ``proc``.  ``gauge_hists[name]``: counts of things, not operations, by their latency
        over LATENCY_EDGES_US at this instant.  ``notes``: sentences for the user (why something is
        unknown).  ``calls``: sampled calls, if requested, including those of earlier samples.

    Units:
        ``read_after_us``: how long after the Sample's ``mono_ns`` this layer was read, a multiple
        of READ_STEP_US.  Layers are read one after another, each in 1 to 10 ms, so their intervals
        differ from the Sample's.  Negative if what is here was read before, by a layer that waits
        for answers.
    """

    source: str
    ops: Mapping[str, OpTotals] = field(default_factory=dict)
    metrics: Mapping[str, Value] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, OpTotals]] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    gauge_hists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    read_after_us: int = 0
    calls: Calls = ()


@dataclass(frozen=True, slots=True)
class Unavailable:
    """An unavailable layer: why, and how to make it available.

    Shape:
        ``is_idle``: there is nothing to measure on this host now (no NFS mount), which is not an
        error; the layer appears when there is.
    """

    reason: str
    hint: str = ""
    is_idle: bool = False

    @property
    def is_starting(self) -> bool:
        """Whether the layer will have numbers soon, without anything to be done."""
        return self.hint in {SOON, ATTACHING}


# Hints.
SOON = "numbers appear in the second interval"
ATTACHING = "shown as soon as it is attached"


@dataclass(frozen=True, slots=True)
class HostSample:
    """The machine at one instant, from /proc.

    Units:
        CPU times in ticks since boot (``/proc/stat`` line ``cpu``); memory in bytes; PSI
        totals in µs since boot (``/proc/pressure/io``), None where the kernel has no PSI.
    """

    cpu_total_ticks: int | None = None
    cpu_idle_ticks: int | None = None
    cpu_iowait_ticks: int | None = None
    cpu_steal_ticks: int | None = None
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
    psi_io_some_us_total: int | None = None
    psi_io_full_us_total: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything read at one instant.

    Shape:
        ``layers``: by name, in the path's order.  ``specs``: of those layers, so that a reader can
        show a layer it does not know.

    Units:
        ``time_unix_s``: wall-clock time, for display.  ``mono_ns``: the monotonic clock, the only
        one used to compute intervals.  Both are from the start of the reading.
        ``self_cpu_ns_total``: CPU time of ioh's own processes; ``bpf_ns_total``: of its probes
        (None if the kernel does not count it).  ``fresh_numbers``: in a recording, how many numbers
        differ from the sample before: the cost of keeping both.
    """

    time_unix_s: float
    mono_ns: int
    hostname: str
    kernel: str
    host: HostSample
    layers: Mapping[str, LayerSample | Unavailable]
    specs: Mapping[str, LayerSpec]
    self_cpu_ns_total: int | None = None
    bpf_ns_total: int | None = None
    fresh_numbers: int = field(default=0, compare=False)
