"""Totals by part and op of a layer (probes/part_totals.h), and the parts' names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ioh.bpf.counters import sum_columns
from ioh.bpf.layout import Layout
from ioh.bpf.totals import STARTED, WORDS, decode_ended_ns, decode_op_totals
from ioh.layers.per_owner_totals import Ops, OwnedTotals, add_each, has_grown
from ioh.model.derive_op import add_ops
from ioh.model.sample import OTHERS, OpTotals
from ioh.procfs.diskstats import dev_text

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map

PART_OP = Layout("part_op", "u32 part, op;")
_MOST_BYTES = 64 << 20  # of kernel memory for the totals of all parts and CPUs
# All parts that find the table full: no device has major number 4095, no process this pid.
OTHER_PARTS = 0xFFFFFFFF
NOTHING = OpTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def part_defines(host: HostFacts, ops: int) -> dict[str, int]:
    """The constants of probes/part_totals.h, for a layer with so many ops."""
    room = max(2 * ops, min(256, _MOST_BYTES // (WORDS * 8 * host.cpu_count)))
    return {"MAX_PART_OPS": room, "OTHER_PARTS": OTHER_PARTS}


class PartTotals:
    """Totals by part and op; keeps the last reading, to skip idle ops.

    Each op has an entry from the start for the parts that find the table full.  ``retired``: the
    totals of ended parts, by op.  ``accrues``: the time of all operations that ended is in
    ``weighted_ns_total``, for the caller to add that of the others.
    """

    def __init__(self, ops: tuple[str, ...], *, queue: bool, accrues: bool = False) -> None:
        self._ops, self._accrues = ops, accrues
        self._queue = queue
        self._previous: dict[bytes, OpTotals] = {}
        self.retired: dict[str, OpTotals] = {}
        self._has_others = False

    def read(self, totals: Map, ended: int) -> dict[int, dict[str, OpTotals]]:
        """Totals by part number, then op."""
        parts: dict[int, dict[str, OpTotals]] = defaultdict(dict)
        if not self._has_others:
            for op in range(len(self._ops)):
                totals.ensure(PART_OP.pack(OTHER_PARTS, op))
            self._has_others = True
        for key, value in totals.entries():
            part, op = PART_OP.unpack(key)
            if part == OTHER_PARTS and not sum_columns(value, WORDS, STARTED + 1)[STARTED]:
                continue
            decoded = decode_op_totals(
                value, ended, queue=self._queue, previous=self._previous.get(key)
            )
            ends = (decoded.count_total or 0) + (decoded.errors_total or 0)
            inflight = max(0, (decoded.started_total or 0) - ends)
            ended_ns = decode_ended_ns(value) if self._accrues else None
            now = replace(decoded, inflight=inflight, weighted_ns_total=ended_ns)
            self._previous[key] = parts[part][self._ops[op]] = now
        return parts

    def retire(self, totals: Map, part: int) -> None:
        """Drop the entries of a part that has ended; its totals move to ``retired``."""
        for key in [key for key in self._previous if PART_OP.unpack(key)[0] == part]:
            last = replace(self._previous.pop(key), max_ns=0, max_bytes=0, inflight=0)
            totals.delete(key)
            op = self._ops[PART_OP.unpack(key)[1]]
            self.retired[op] = add_ops([last, self.retired[op]] if op in self.retired else [last])


def sum_parts(
    parts: Mapping[int, Mapping[str, OpTotals]], ops: tuple[str, ...]
) -> dict[str, OpTotals]:
    """Each op, summed over all parts; zero if no part has it."""
    return {**dict.fromkeys(ops, NOTHING), **add_each(parts.values())}


class PartNames:
    """Names the probe's totals, which outlive the mounts: both dev_t and names are reused.

    ``find_name`` finds what is mounted here now; an unmounted part keeps its name.
    """

    def __init__(self, find_name: Callable[[int], str | None]) -> None:
        self._find_name = find_name
        self._totals = OwnedTotals()
        self._names: dict[int, str] = {}
        self._before: Mapping[int, Ops] = {}  # totals of the last reading
        self._unmounted: set[int] = set()  # unmounted, and write-back has finished

    def name(self, by_dev: Mapping[int, Ops]) -> dict[str, Ops]:
        """Each part's running totals."""
        for dev, ops in by_dev.items():
            title = OTHERS if dev == OTHER_PARTS else self._find_name(dev)
            if title is not None:
                self._names[dev] = title
                self._unmounted.discard(dev)
            elif not has_grown(self._before.get(dev, {}), ops):
                self._unmounted.add(dev)
            elif dev in self._unmounted or dev not in self._names:
                # A new file system in another mount namespace, or the rest of one.
                self._names[dev] = dev_text(dev)
        self._before = by_dev
        parts = self._totals.update(by_dev, self._names.__getitem__)
        gone = parts.keys() - {self._names[dev] for dev in by_dev}
        self._totals.forget(gone)
        return {name: ops for name, ops in parts.items() if name not in gone}
