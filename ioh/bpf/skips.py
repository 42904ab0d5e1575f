"""How many events met no program, where each program is attached in several copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.bpf.maps import Map


def skipped_events(misses: Sequence[int], turns: Map | None, copies: int) -> int:
    """Events that none of their program's copies has seen.

    Args:
        misses: Runs that the kernel skipped, of each program, read before ``turns`` is; it
            ends with ``copies`` programs for each event.
        turns: By event, how often a copy ran and how often it took the event.  None where a
            program has no copies: then every skipped run is an event.
        copies: How many programs there are for each event.

    Returns:
        Never more than there were: a copy that has not had its turn yet makes it less.  Events
        that take no turns are left out: more than one copy may act on each of them.
    """
    if turns is None or copies == 1:
        return sum(misses)
    events = turns.spec.max_entries
    skipped = 0
    for event in range(events):
        first = len(misses) - (events - event) * copies
        own = misses[first : first + copies]
        runs, taken = turns.sum_cpus(turns.at(event))
        if runs:
            # Each event makes every copy run or be skipped.
            skipped += max(0, (runs + sum(own)) // copies - taken)
    return skipped
