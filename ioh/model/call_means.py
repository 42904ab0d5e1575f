"""Rate and mean time of each path's calls, to keep of an interval and to average over several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ioh.model.io_path import IoPath
from ioh.model.path import paths
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot


class CallMean(NamedTuple):
    """The calls of one kind in one interval; ``mean_us`` in µs, 0 if there were none."""

    ops_per_s: float = 0.0
    mean_us: float = 0.0


def call_means(snapshot: Snapshot) -> dict[str, CallMean]:
    """By name_of() each path: its calls; also those of all calls, ``all read``."""
    found: dict[str, CallMean] = {}
    for kind, path in paths(snapshot).items():
        own, beside = CallMean(path.ops_per_s, path.mean_us), path.cached
        found[name_of(path)] = found[f"all {kind}"] = own
        if beside is not None:
            others = CallMean(beside.ops_per_s, beside.mean_us)
            number = own.ops_per_s + others.ops_per_s
            mean_us = sum(each.ops_per_s * each.mean_us for each in (own, others)) / number
            found[f"all {kind}"] = CallMean(number, mean_us)
    return found


def name_of(path: IoPath) -> str:
    """``read``; ``all read`` if no call reached a lower layer, so that the path is of the others.

    A mean over intervals of both kinds would be nobody's.
    """
    is_of_cached = len(path.segments) == 1 and path.slowest.is_cache
    return f"all {path.direction}" if is_of_cached else path.direction


def mean_over(intervals: Iterable[tuple[float, CallMean]]) -> Value:
    """The mean time, in µs, of the calls of intervals, each with its length in seconds.

    Returns:
        0 if they had none, None without an interval.
    """
    known = [(seconds * calls.ops_per_s, calls.mean_us) for seconds, calls in intervals]
    number = sum(count for count, _ in known)
    return sum(count * us for count, us in known) / number if number else (0.0 if known else None)
