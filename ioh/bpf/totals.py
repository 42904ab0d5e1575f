"""Decodes the counters of ``probes/ioh.h``: op_totals, losses, skipped runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from ioh.bpf.counters import Bytes, sum_columns, sum_counts
from ioh.bpf.layout import Layout
from ioh.model import hist
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.sample import OpTotals

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_SLOWEST = Layout("slowest", "u64 epoch, ns, bytes;")  # of one tick
OP_TOTALS = Layout(
    "op_totals",
    f"""
    u64 started, count, bytes, errors, latency_ns, queue_ns, queued;
    u64 failed_ns; /* of operations that failed or are made anew */
    u8 last_log2[8]; /* of the last time and size: usually the same for the next ones */
    struct slowest slowest[2];
    u64 latency[{hist.FINE_BUCKETS}], size_lat[{hist.SIZE_BUCKETS * hist.LATENCY_BUCKETS}];
    """,
    _SLOWEST,
)
# Members as indices of 64-bit words.
STARTED, COUNT, BYTES, ERRORS = map(OP_TOTALS.word, ("started", "count", "bytes", "errors"))
LATENCY_NS, FAILED_NS = map(OP_TOTALS.word, ("latency_ns", "failed_ns"))
QUEUE_NS, QUEUED = map(OP_TOTALS.word, ("queue_ns", "queued"))
SLOWEST, LATENCY, SIZE_LAT = map(OP_TOTALS.word, ("slowest", "latency", "size_lat"))
PROGRESS = ERRORS + 1  # the sums of so many first words show whether anything was added
WORDS = OP_TOTALS.words
_done = itemgetter(COUNT, BYTES, ERRORS, LATENCY_NS)


def hist_defines() -> dict[str, int]:
    """The histograms' dimensions as ``-D`` constants of every probe."""
    return {
        "FINE_BUCKETS": hist.FINE_BUCKETS,
        "TOP_LOG2_UNITS": hist.LATENCY_MAX_LOG2_US + 7,
        "SIZE_BUCKETS": hist.SIZE_BUCKETS,
        "SIZE_MIN_LOG2": hist.SIZE_MIN_LOG2,
        "LATENCY_BUCKETS": hist.LATENCY_BUCKETS,
    }


def decode_op_totals(
    raw: Bytes,
    epoch: int,
    *,
    queue: bool = False,
    started: bool = True,
    previous: OpTotals | None = None,
) -> OpTotals:
    """Decode one op's totals over all CPUs.

    Args:
        raw: The kernel's value, with WORDS counters for each CPU.
        epoch: The tick whose slowest operation is wanted.
        queue: Whether the probe measures queue time.
        started: Whether the probe counts starts.
        previous: The last reading; returned again if nothing was added.  Its number in flight is
            kept; the caller updates it.
    """
    head = sum_columns(raw, WORDS, SLOWEST)
    if previous is not None and _done(head) == (
        previous.count_total,
        previous.bytes_total,
        previous.errors_total,
        previous.latency_ns_total,
    ):
        begun = head[STARTED] if started else None
        if not previous.max_ns and previous.started_total == begun:
            return previous
        return replace(previous, started_total=begun, max_ns=0, max_bytes=0)
    slot = 8 * (SLOWEST + 3 * (epoch & 1))
    slowest_ns, slowest_bytes = 0, 0
    for at in range(slot, len(raw), 8 * WORDS):
        now_epoch, ns, size = _SLOWEST.unpack_from(raw, at)
        if now_epoch == epoch and ns >= slowest_ns:
            slowest_ns, slowest_bytes = ns, size
    if previous is not None and previous.count_total == head[COUNT]:
        latency, size_lat = previous.latency, previous.size_lat
    else:
        counts = sum_counts(raw, WORDS, LATENCY)
        latency = LatencyHist(tuple(counts[: hist.FINE_BUCKETS]))
        size_lat = SizeLatencyHist(tuple(counts[hist.FINE_BUCKETS :]))
    return OpTotals(
        count_total=head[COUNT],
        bytes_total=head[BYTES],
        errors_total=head[ERRORS],
        latency_ns_total=head[LATENCY_NS],
        queue_ns_total=head[QUEUE_NS] if queue else None,
        queued_total=head[QUEUED] if queue else None,
        started_total=head[STARTED] if started else None,
        inflight=None if previous is None else previous.inflight,
        max_ns=slowest_ns,
        max_bytes=slowest_bytes,
        latency=latency,
        size_lat=size_lat,
    )


def decode_ended_ns(raw: Bytes) -> int:
    """The time of all operations that ended, also of those that failed."""
    head = sum_columns(raw, WORDS, SLOWEST)
    return head[LATENCY_NS] + head[FAILED_NS]


def advance_epoch(epochs: Map) -> int:
    """Start the next tick's maximum; return the tick that has just ended."""
    ended = int.from_bytes(epochs.at(0), sys.byteorder)
    epochs.update((0).to_bytes(4, sys.byteorder), (ended + 1).to_bytes(8, sys.byteorder))
    return ended


def decode_lost(lost: Map, reasons: tuple[str, ...]) -> dict[str, int]:
    """The probe's own losses by reason."""
    return {reason: lost.sum_cpus(lost.at(i))[0] for i, reason in enumerate(reasons)}


def skipped_events(misses: Sequence[int], turns: Map | None, copies: int) -> int:
    """Count the events that no copy of a program handled.

    Never too many: a copy that has not had its turn yet makes it less.  Events that take no turns
    are left out: more than one copy may handle each of them.

    Args:
        misses: Skipped runs of each program, read before ``turns``; the last ones are those of
            ``copies`` programs for each event.
        turns: By event, how often a copy ran, and how often it took the event.  None if programs
            have no copies: then every skipped run is an event.
        copies: The number of programs for each event.
    """
    if turns is None or copies == 1:
        return sum(misses)
    events = turns.spec.max_entries
    skipped = 0
    for event in range(events):
        first = len(misses) - (events - event) * copies
        runs, taken = turns.sum_cpus(turns.at(event))
        if runs:
            # Each event makes every copy run or be skipped.
            skipped += max(0, (runs + sum(misses[first : first + copies])) // copies - taken)
    return skipped
