"""What was read at one instant: running totals and gauges, no rate, no mean, no percentile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioh.model.calls import Calls
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.metric import LayerSpec

Value = int | float | None
READ_STEP_US = 100  # what a recording keeps of LayerSample.read_after_us


@dataclass(frozen=True, slots=True)
class OpTotals:
    """Everything counted of one op of one layer since ioh attached.

    Shape:
        Each field is None where this source cannot know it (a /proc source has no
        histogram; TCP bytes have no latency).  ``queue_ns_total`` and ``queued_total`` cover
        the operations whose queue time is known.  ``max_ns`` and ``max_bytes`` are of the
        slowest operation that ended since the sample before: a maximum cannot be subtracted.

    Units:
        Totals in operations, bytes and nanoseconds, as integers, exactly as the probe adds
        them; derive() turns them into µs.
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
# First part of the key of the row that stands for all those without one of their own; no file,
# process or host is called so.
OTHERS = "(others)"


def others_key(parts: int) -> tuple[str, ...]:
    """The key of that row in a table of so many key parts."""
    return (OTHERS, *[""] * (parts - 1))


@dataclass(frozen=True, slots=True)
class LayerSample:
    """One layer's totals at one instant.

    Shape:
        ``ops`` by the layer's op names; ``parts[part]`` the same for each device, mount …
        (a part may lie on another one, so parts need not add up to ``ops``); ``metrics`` by its
        MetricSpec names, ratios left out;
        ``tables[table][key]`` in the order of TableSpec.raw_columns, where a row OTHERS takes over
        the totals of each row that is dropped, so that all rows add up; ``lost`` counts events
        that a probe saw and could not account for, by reason.  ``source`` says who counted:
        ``bpf`` or ``proc``.  ``gauge_hists[name]`` counts things, not operations, by a latency
        of theirs over LATENCY_EDGES_US at this instant.  ``notes`` are sentences for the user
        (why something is unknown).  ``calls`` are a sample of them where that was asked for, those
        of the last samples before it, too.

    Units:
        ``read_after_us``: how long after the Sample's ``mono_ns`` this layer was read, a whole
        number of READ_STEP_US: layers are read one after another, and each takes now 1 ms, now
        10, by which the intervals of those behind it differ from the Sample's.
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
    """A layer that is not there: why, and what would make it available.

    Shape:
        ``is_idle``: there is nothing to measure on this host now, which is no fault (no NFS
        mount); it comes by itself when there is.
    """

    reason: str
    hint: str = ""
    is_idle: bool = False


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
        ``layers`` by name, in the path's order; ``specs`` of those layers, so that a reader
        that has never heard of a layer can still show it.

    Units:
        ``time_unix_s`` is wall-clock time for people; ``mono_ns`` the monotonic clock, the
        only one that intervals are computed from; both of when the reading began.
        ``self_cpu_ns_total`` is CPU time of ioh's own processes, ``bpf_ns_total`` of its probes
        (None where the kernel does not count).  ``fresh_numbers`` how many the sample before does
        not share with it, where a recording says so: what keeping both costs.
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
