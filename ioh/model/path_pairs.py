"""Divides an NFS call's time beyond the client, if both ends have measured it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ioh.model.path_flow import left_of
from ioh.model.snapshot import Pair, PairOp

# Most relative difference of a server's and its client's counts in one interval.
SAME_CALLS = 0.2


def shares_by_pairs(
    pairs: Iterable[Pair], names: Sequence[str], all_calls: float
) -> dict[str, float | None] | None:
    """The shares of network, server and its disk in the round trip, 0 to 1; None: unknown.

    Returns None if the calls of the pairs differ too much from the client's ``all_calls``.
    """
    ops = [op for pair in pairs for name in names if (op := pair.ops.get(name)) is not None]
    known = [(op.client_calls or 0, op) for op in ops if op.network_us is not None]
    calls = sum(count for count, _ in known)
    if not calls or abs(calls - all_calls) > SAME_CALLS * all_calls:
        return None
    rtt_us = sum(count * (op.rtt_us or 0.0) for count, op in known)

    def share(us_of: Callable[[PairOp], float | None]) -> float | None:
        times = [(count, us_of(op)) for count, op in known]
        found = [count * us for count, us in times if us is not None]
        return sum(found) / rtt_us if len(found) == len(times) else None

    queue, device = share(lambda op: op.block_queue_us), share(lambda op: op.device_us)
    disk = (queue or 0.0) + (device or 0.0)
    server = share(lambda op: op.server_us) or 0.0
    return {
        "network": share(lambda op: op.network_us),
        "nfs_server": left_of(server, disk),
        **({"block_queue": queue, "device": device} if disk else {}),
    }
