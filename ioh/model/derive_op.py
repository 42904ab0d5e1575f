"""Derives one op, or several as one, from two readings of its totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter, is_

from ioh.model.distribution import NOTHING_DONE, UNKNOWN, Distribution
from ioh.model.hist import LatencyHist, SizeLatencyHist, add_hists
from ioh.model.rates import delta, quotient, rate_per_s, scaled
from ioh.model.sample import OpTotals
from ioh.model.snapshot import OpStats


def derive_op(older: OpTotals, newer: OpTotals, interval_s: float) -> OpStats:
    """Derive one op from two readings of its totals."""
    if newer is older:
        has_hists = newer.latency is not None and newer.size_lat is not None
        return _idle(newer, has_hists=has_hists)
    return _derive_op(older, newer, interval_s, (older,), (newer,))


def _idle(totals: OpTotals, *, has_hists: bool) -> OpStats:
    """The result of derive_op() for two equal readings: 0 or unknown, for any interval."""
    busy = totals.latency_ns_total if totals.weighted_ns_total is None else totals.weighted_ns_total
    are_known = (
        totals.count_total is not None,
        totals.bytes_total is not None,
        totals.errors_total is not None,
        busy is not None,
    )
    return _idle_stats(are_known, has_hists, totals.inflight)


@lru_cache(maxsize=256)
def _idle_stats(
    are_known: tuple[bool, ...],
    has_hists: bool,  # noqa: FBT001
    inflight: int | None,
) -> OpStats:
    """An idle op."""
    count, size, errors, busy = (0 if each else None for each in are_known)
    return OpStats.with_distribution(
        NOTHING_DONE if has_hists and count is not None else UNKNOWN,
        count=count,
        bytes=size,
        ops_per_s=scaled(count, 1.0),
        bytes_per_s=scaled(size, 1.0),
        avg_bytes=None,
        latency_us=None,
        queue_us=None,
        service_us=None,
        max_us=None,
        max_bytes=None,
        inflight=inflight,
        avg_inflight=scaled(busy, 1.0),
        errors_per_s=scaled(errors, 1.0),
    )


def _derive_op(
    older: OpTotals,
    newer: OpTotals,
    interval_s: float,
    older_hists: Sequence[OpTotals],
    newer_hists: Sequence[OpTotals],
) -> OpStats:
    """One op; its histograms are summed only when needed."""
    count = delta(older.count_total, newer.count_total)
    bytes_ = delta(older.bytes_total, newer.bytes_total)
    latency_ns = delta(older.latency_ns_total, newer.latency_ns_total)
    queued = delta(older.queued_total, newer.queued_total)
    queue_us = quotient(delta(older.queue_ns_total, newer.queue_ns_total), queued, 1e-3)
    # 0: the source's clock is too coarse for it (ticks of /proc/diskstats).
    latency_us = quotient(latency_ns or None, count, 1e-3)
    has_service = queue_us is not None and latency_us is not None and _is_nearly_all(queued, count)
    max_us = scaled(newer.max_ns, 1e-3) if count else None
    weighted_ns = delta(older.weighted_ns_total, newer.weighted_ns_total)
    busy_ns = weighted_ns if weighted_ns is not None else latency_ns
    return OpStats.with_distribution(
        Distribution(older_hists, newer_hists, max_us, count) if count is not None else UNKNOWN,
        count=count,
        bytes=bytes_,
        ops_per_s=scaled(count, 1 / interval_s),
        bytes_per_s=scaled(bytes_, 1 / interval_s),
        avg_bytes=quotient(bytes_, count),
        latency_us=latency_us,
        queue_us=queue_us,
        service_us=latency_us - queue_us
        if has_service and latency_us and queue_us is not None
        else None,
        max_us=max_us,
        max_bytes=newer.max_bytes if count else None,
        inflight=newer.inflight,
        avg_inflight=scaled(busy_ns, 1e-9 / interval_s),
        errors_per_s=rate_per_s(older.errors_total, newer.errors_total, interval_s),
    )


def _is_nearly_all(queued: int | None, count: int | None) -> bool:
    """Allow 1 % difference: operations that end during the read can be split over two intervals."""
    return None not in (queued, count) and abs((count or 0) - (queued or 0)) * 100 <= (count or 0)


def _sum_known(values: tuple[int | None, ...]) -> int | None:
    if None not in values:
        return sum(values)  # type: ignore[arg-type]
    numbers = [v for v in values if v is not None]
    return sum(numbers) if numbers else None


def add_ops(parts: list[OpTotals]) -> OpTotals:
    """Add the totals of several ops; the maximum is that of the slowest."""
    if len(parts) == 1:
        return parts[0]
    latencies = [p.latency for p in parts if p.latency is not None]
    size_lats = [p.size_lat for p in parts if p.size_lat is not None]
    return replace(
        _add_numbers(parts),
        latency=add_hists(latencies) if latencies else None,
        size_lat=add_hists(size_lats) if size_lats else None,
    )


def subtract_ops(newer: OpTotals, older: OpTotals) -> OpTotals:
    """The totals since ``older``; maximum and number in flight are those of ``newer``."""
    return replace(
        newer,
        **{name: delta(getattr(older, name), getattr(newer, name)) for name in _COUNTERS},
        latency=newer.latency and newer.latency - (older.latency or LatencyHist()),
        size_lat=newer.size_lat and newer.size_lat - (older.size_lat or SizeLatencyHist()),
    )


_COUNTERS = tuple(field.name for field in fields(OpTotals) if field.name.endswith("_total"))
_summed = attrgetter(
    "count_total", "bytes_total", "errors_total", "latency_ns_total", "queue_ns_total",
    "queued_total", "started_total", "inflight", "weighted_ns_total",
)  # fmt: skip


def _add_numbers(parts: Sequence[OpTotals]) -> OpTotals:
    """As add_ops(), without histograms."""
    count, size, errors, latency, queue, queued, started, inflight, weighted = map(
        _sum_known, zip(*map(_summed, parts), strict=True)
    )
    slowest = max(parts, key=lambda totals: totals.max_ns or 0)
    return OpTotals(
        count, size, errors, latency, queue, queued, started,
        slowest.max_ns, slowest.max_bytes, inflight, weighted,
    )  # fmt: skip


def derive_group(olds: list[OpTotals], news: list[OpTotals], interval_s: float) -> OpStats:
    """Derive several ops as one, with percentiles over all their operations."""
    if all(map(is_, olds, news)):
        has_hists = any(op.latency is not None for op in news) and any(
            op.size_lat is not None for op in news
        )
        return _idle(_add_numbers(news), has_hists=has_hists)
    return _derive_op(_add_numbers(olds), _add_numbers(news), interval_s, olds, news)
