"""Sparse differences between two vectors of numbers, and their application."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from itertools import accumulate, count
from operator import add

from ioh.model.sample import Value
from ioh.session.records import RecordError

_MIN_INC, _MAX_INC = -(1 << 63), (1 << 64) - 1
Counts = tuple[int, ...]


def diff_values(
    older: Sequence[Value], newer: Sequence[Value]
) -> tuple[list[int], list[int], list[int], list[Value]]:
    """Gaps and increments of integers; gaps and values of everything else."""
    gaps: list[int] = []
    incs: list[int] = []
    set_gaps: list[int] = []
    sets: list[Value] = []
    after_inc = after_set = 0
    for at, (a, b) in enumerate(zip(older, newer, strict=True)):
        if a is b or (a == b and type(a) is type(b)):
            continue
        if isinstance(a, int) and isinstance(b, int) and _MIN_INC <= b - a <= _MAX_INC:
            gaps.append(at - after_inc)
            incs.append(b - a)
            after_inc = at + 1
        else:
            set_gaps.append(at - after_set)
            sets.append(b)
            after_set = at + 1
    return gaps, incs, set_gaps, sets


def apply_values(
    values: list[Value],
    gaps: Sequence[int],
    incs: Sequence[int],
    set_gaps: Sequence[int],
    sets: Sequence[Value],
) -> list[int]:
    """Change ``values`` in place.

    Returns:
        The positions changed, in no order.

    Raises:
        RecordError: A position beyond the end, or an increment of what is no integer.
    """
    if len(gaps) != len(incs) or len(set_gaps) != len(sets):
        msg = "as many gaps as changes are needed"
        raise RecordError(msg)
    changed: list[int] = []
    at = -1
    try:
        for gap, inc in zip(gaps, incs, strict=True):
            at += gap + 1
            values[at] += inc  # type: ignore[operator]
            changed.append(at)
        at = -1
        for gap, value in zip(set_gaps, sets, strict=True):
            at += gap + 1
            values[at] = value
            changed.append(at)
    except (IndexError, TypeError):
        msg = f"no integer at position {at}"
        raise RecordError(msg) from None
    return changed


def diff_cells(pairs: Iterable[tuple[Counts, Counts]]) -> tuple[list[int], list[int]]:
    """Gaps and increments over many histograms laid end to end."""
    gaps: list[int] = []
    incs: list[int] = []
    base = after = 0
    for older, newer in pairs:
        if older is not newer and older != newer:
            for at, (a, b) in enumerate(zip(older, newer, strict=True), base):
                if a != b:
                    gaps.append(at - after)
                    incs.append(b - a)
                    after = at + 1
        base += len(newer)
    return gaps, incs


def apply_cells(
    hists: list[Counts],
    gaps: Sequence[int],
    incs: Sequence[int],
    unwanted: Container[int] = (),
) -> list[int]:
    """Change ``hists`` in place.

    Args:
        hists: Histograms, laid end to end.
        gaps: Places passed over before each cell.
        incs: What to add there.
        unwanted: Indices of histograms that nobody will look at, left as they are.

    Returns:
        Indices of the histograms changed, in order.

    Raises:
        RecordError: A position beyond the last histogram.
    """
    if len(gaps) != len(incs):
        msg = "as many gaps as changes are needed"
        raise RecordError(msg)
    places = list(map(add, accumulate(gaps), count()))
    starts = [0, *accumulate(map(len, hists))]
    if places and places[-1] >= starts[-1]:
        msg = f"no histogram cell {places[-1]}"
        raise RecordError(msg)
    changed: list[int] = []
    at = 0
    while at < len(places):
        which = bisect_right(starts, places[at]) - 1
        end = bisect_left(places, starts[which + 1], at)
        if which not in unwanted:
            start, work = starts[which], list(hists[which])
            for place, inc in zip(places[at:end], incs[at:end], strict=True):
                work[place - start] += inc
            hists[which] = tuple(work)
            changed.append(which)
        at = end
    return changed
