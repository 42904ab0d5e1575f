"""Operations in progress: how many, since when, and their waits so far."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.layers.db_ops import OPEN_KEY, OPEN_OP, OUTERS, WAITS
from ioh.layers.part_totals import NOTHING
from ioh.layers.per_owner_totals import Ops
from ioh.layers.rising_totals import RisingTotals
from ioh.model.sample import OpTotals
from ioh.procfs.processes import read_run_times

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_SHARED = 1 << 31  # set in a key that is not a thread's
_OP = OPEN_OP.reader("start_ns", "exec_ns", "delay_ns", "server", "tid", "is_wait", "waited.ns")
_TIMED = WAITS[:-2]  # the waits that are operations; then CPU time, and the wait for a CPU
# What younger ones wait for is booked when they are over: reading the run times of each is dear.
_TIMED_NS = 100_000_000
UNKNOWN = OpTotals()
IDLE = replace(NOTHING, queue_ns_total=None, queued_total=None, weighted_ns_total=0)
_MOST_TIMED = 256  # threads whose run times are read in a tick


@dataclass(frozen=True, slots=True)
class OpenOp:
    """One operation in progress.

    Units:
        ``start_ns`` by the monotonic clock; ``exec_ns`` and ``delay_ns``: its thread's time on a
        CPU, and in the run queue, when it began.  ``waited_ns``: its waits so far that have ended,
        by WAITS; that for a CPU is only what belongs to the others, negative.
    """

    tid: int
    op: str
    server: int
    start_ns: int
    exec_ns: int
    delay_ns: int
    is_wait: bool
    waited_ns: tuple[int, ...]


def read_open_ops(
    open_ops: Map,
    ops: Sequence[str],
    is_gone: Callable[[int, str], bool],
    is_client: Callable[[int, int], bool],
) -> tuple[list[OpenOp], list[OpenOp]]:
    """The operations in progress, and those that were dropped: ``is_gone(process, op)``.

    A commit counts only within a statement, which asked for it: MariaDB's probe point also fires at
    the end of each statement of a transaction.  So does anything else of a session,
    ``is_client(server, thread)``: without a statement, an error has ended it, unseen by the probes.
    """
    by_key: dict[tuple[int, str], OpenOp] = {}
    dropped: list[OpenOp] = []
    for key, value in open_ops.items_bytes():
        tid, at = OPEN_KEY.unpack(key)
        start, exec_, delay, server, thread, is_wait, *waited = _OP.unpack(value)
        open_op = OpenOp(thread, ops[at], server, start, exec_, delay, bool(is_wait), tuple(waited))
        if is_gone(tid if tid < _SHARED else server, open_op.op):
            open_ops.delete(key)
            dropped.append(open_op)
        else:
            by_key[tid, open_op.op] = open_op

    def is_asked(tid: int, each: OpenOp) -> bool:
        statement = by_key.get((tid, "statement"))
        if statement is not None:
            return statement.start_ns <= each.start_ns
        return tid >= _SHARED or (each.op != "commit" and not is_client(each.server, tid))

    return [each for (tid, _), each in by_key.items() if is_asked(tid, each)], dropped


class Progress:
    """Adds the time of operations in progress to the interval in which that time passes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._spent_ns = RisingTotals()
        self._dropped_ns: Counter[tuple[int, str]] = Counter()

    def book(
        self,
        totals: Mapping[int, Ops],
        open_ops: Iterable[OpenOp],
        known_ops: Mapping[int, Mapping[str, bool]],
        now_ns: int,
    ) -> dict[int, dict[str, OpTotals]]:
        """The totals of each server with the numbers in flight and their times so far.

        ``known_ops``: those counted at each server, and whether they can fail; others are unknown.
        """
        number: Counter[tuple[int, str]] = Counter()
        open_ns = self._dropped_ns.copy()
        for each in open_ops:
            if not each.is_wait:
                number[each.server, each.op] += 1
                open_ns[each.server, each.op] += max(0, now_ns - each.start_ns)
        booked: dict[int, dict[str, OpTotals]] = defaultdict(dict)
        for key in {(server, op) for server, ops in totals.items() for op in ops} | number.keys():
            server, op = key
            can_fail = known_ops.get(server, {}).get(op)
            if can_fail is None:
                booked[server][op] = UNKNOWN
                continue
            ended = totals.get(server, {}).get(op, IDLE)
            spent_ns = (ended.weighted_ns_total or 0) + open_ns[key]
            booked[server][op] = replace(
                ended,
                errors_total=ended.errors_total if can_fail else None,
                inflight=number[key],
                weighted_ns_total=self._spent_ns.at_least(key, spent_ns),
            )
        return booked

    def drop(self, open_ops: Iterable[OpenOp], now_ns: int) -> None:
        """Keep the time of operations that have no end."""
        for each in open_ops:
            if not each.is_wait:
                self._dropped_ns[each.server, each.op] += max(0, now_ns - each.start_ns)

    def forget(self, server: int) -> None:
        """Drop a server that has ended."""
        self._spent_ns.forget(lambda key: key[0] == server)

    def waits(self, open_ops: Collection[OpenOp], now_ns: int) -> dict[tuple[int, str], list[int]]:
        """The waits so far of what is in progress, by server and outer operation; in ns, by WAITS.

        Of the oldest threads only; the time of the others is in none of them.
        """
        outers = [x for x in open_ops if x.op in OUTERS and now_ns - x.start_ns >= _TIMED_NS]
        outers.sort(key=lambda each: each.start_ns)
        inner: dict[int, list[OpenOp]] = defaultdict(list)
        for each in open_ops:
            if each.op in _TIMED and (each.is_wait or each.tid):
                inner[each.tid].append(each)
        waits: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * len(WAITS))
        for each in outers[:_MOST_TIMED]:
            sums = waits[each.server, each.op]
            for at, spent_ns in enumerate(self._waits_of(each, inner[each.tid], now_ns)):
                sums[at] += spent_ns
        return waits

    def _waits_of(self, outer: OpenOp, inner: Iterable[OpenOp], now_ns: int) -> list[int]:
        waits_ns, queued = list(outer.waited_ns), outer.waited_ns[-1]
        ran_ns, delay_ns = read_run_times(outer.tid, self._root) or (
            outer.exec_ns,
            outer.delay_ns - queued,
        )
        for each in inner:
            if each is not outer and each.start_ns >= outer.start_ns:
                waits_ns[_TIMED.index(each.op)] += max(0, now_ns - each.start_ns)
                queued -= max(0, delay_ns - each.delay_ns)
        age_ns = now_ns - outer.start_ns
        waits_ns[-2] = min(age_ns, max(0, ran_ns - outer.exec_ns))
        waits_ns[-1] = min(age_ns, max(0, queued + delay_ns - outer.delay_ns))
        return waits_ns
