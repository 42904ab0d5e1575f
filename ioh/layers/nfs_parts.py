"""Totals by file system under the names of their mounts, which come and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from ioh.layers.nfs_maps import OTHER_DEVS
from ioh.model.derive_op import add_ops, subtract_ops
from ioh.model.sample import OTHERS, OpTotals

Ops = Mapping[str, OpTotals]


class Parts:
    """Names the probe's totals, which outlive the mounts: dev_t are used again, names are.

    A file system that is no longer mounted keeps its name.  What a dev_t has counted under one
    name is not charged to the next one, and several of one name are one part.

    Args:
        find_name: What a dev_t is called now; None where it is not mounted (here).
    """

    def __init__(self, find_name: Callable[[int], str | None]) -> None:
        self._find_name = find_name
        self._names: dict[int, str] = {}
        self._before: Mapping[int, Ops] = {}  # totals of the last reading
        self._bases: dict[int, Ops] = {}  # totals when the dev_t got its name
        self._left: dict[str, Ops] = {}  # of names that lost a dev_t and have another
        self._ended: set[int] = set()  # no longer mounted, and write-back has come to its end

    def name(self, by_dev: Mapping[int, Ops]) -> dict[str, Ops]:
        """Each part's running totals."""
        parts: dict[str, list[Ops]] = defaultdict(list)
        for dev, ops in by_dev.items():
            self._take_name(dev, ops)
            parts[self._names[dev]].append(_since(self._bases.get(dev), ops))
        self._before = by_dev
        self._left = {name: ops for name, ops in self._left.items() if name in parts}
        for name, ops in self._left.items():
            parts[name].append(ops)
        return {name: _sum(those) for name, those in parts.items()}

    def _take_name(self, dev: int, ops: Ops) -> None:
        if dev == OTHER_DEVS:
            self._names[dev] = OTHERS
            return
        before, known = self._before.get(dev, {}), self._names.get(dev)
        found, numbers = self._find_name(dev), f"{dev >> 20}:{dev & 0xFFFFF}"
        if known is None:
            self._names[dev] = found or numbers
            return
        if found is not None:
            self._ended.discard(dev)
        elif _counts(ops) == _counts(before):
            self._ended.add(dev)
        elif dev in self._ended:
            found = numbers  # of another mount namespace: a new file system, or what is left of it
        if found is not None and found != known:
            own = _since(self._bases.get(dev), before)
            ended = {name: replace(op, max_ns=0, inflight=0) for name, op in own.items()}
            self._left[known] = _sum([ended, self._left.get(known, {})])
            self._names[dev], self._bases[dev] = found, before


def _counts(ops: Ops) -> dict[str, tuple[int | None, ...]]:
    return {name: (op.started_total, op.count_total, op.errors_total) for name, op in ops.items()}


def _since(base: Ops | None, ops: Ops) -> Ops:
    if not base:
        return ops
    return {
        name: subtract_ops(totals, base[name]) if name in base else totals
        for name, totals in ops.items()
    }


def _sum(several: list[Ops]) -> Ops:
    if len(several) == 1:
        return several[0]
    by_op: dict[str, list[OpTotals]] = defaultdict(list)
    for ops in several:
        for name, totals in ops.items():
            by_op[name].append(totals)
    return {name: add_ops(totals) for name, totals in by_op.items()}
