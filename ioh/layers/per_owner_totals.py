"""Adds up the totals of devices by owner, while devices change their owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

from ioh.model.derive_op import add_ops, subtract_ops
from ioh.model.rates import sum_known
from ioh.model.sample import OpTotals

Ops = Mapping[str, OpTotals]


@dataclass(slots=True, eq=False)
class _Device:
    """A device's newest totals, and who got the last increment."""

    owner: str | None = None
    last: Ops = field(default_factory=dict)


class OwnedTotals:
    """Totals by owner, from totals by device number.

    A probe's totals of a number continue when the number gets another meaning: another disk, or a
    loop device with another file.  Each increment belongs to the owner at the tick that shows it.
    An owner's totals never fall, and never include increments of other owners.
    """

    def __init__(self) -> None:
        self._devices: dict[int, _Device] = {}
        self._owned: dict[str, list[_Device]] = defaultdict(list)
        self._totals: dict[str, Ops] = {}
        self._mixed: set[str] = set()  # the others have the totals of one device, all of them
        # The newest totals of the devices that grew last, and their sums.
        self._last_growth: dict[str, tuple[list[Ops], Ops]] = {}

    def update(
        self, readings: Mapping[int, Ops], owner_of: Callable[[int], str | None]
    ) -> dict[str, Ops]:
        """Add each device's totals by op; return the totals of each owner.

        ``owner_of`` is called for each device that has grown; None: leave its totals out.  Maximum
        and number in flight are those of the current devices.
        """
        growth: dict[str, list[tuple[Ops, Ops]]] = defaultdict(list)
        changed: set[str | None] = set()
        for dev, ops in readings.items():
            device = self._devices.get(dev) or self._devices.setdefault(dev, _Device())
            before, device.last = device.last, ops
            if before is ops:
                continue
            changed.add(device.owner)
            if before != ops and has_grown(before, ops):
                owner = owner_of(dev)
                if owner != device.owner:
                    self._hand_over(device, owner, is_new=not before)
                    changed.add(owner)
                if owner is not None:
                    growth[owner].append((before, ops))
        self._totals |= {
            each: self._sum(each, growth[each]) for each in changed if each is not None
        }
        return dict(self._totals)

    def _hand_over(self, device: _Device, owner: str | None, *, is_new: bool) -> None:
        if device.owner is not None:
            self._owned[device.owner].remove(device)
            self._mixed.add(device.owner)
        device.owner = owner
        if owner is not None:
            self._owned[owner].append(device)
            if len(self._owned[owner]) > 1 or not is_new:
                self._mixed.add(owner)

    def _sum(self, owner: str, growth: list[tuple[Ops, Ops]]) -> Ops:
        devices = self._owned[owner]
        if owner not in self._mixed:
            return devices[0].last
        before, now = self._sums_before(owner, growth), add_each(newer for _, newer in growth)
        self._last_growth[owner] = [newer for _, newer in growth], now
        totals = self._totals.get(owner, {})
        return {
            name: replace(
                _grow(totals.get(name), before.get(name), now.get(name)),
                inflight=sum_known(d.last[name].inflight for d in devices if name in d.last),
            )
            for name in {**totals, **now}
        }

    def _sums_before(self, owner: str, growth: list[tuple[Ops, Ops]]) -> Ops:
        """The totals a tick ago of the devices that grew; mostly the same ones grew then."""
        readings, sums = self._last_growth.get(owner, ([], {}))
        older = [older for older, _ in growth]
        return sums if older == readings else add_each(older)

    def forget(self, owners: Iterable[str]) -> None:
        """Forget these owners, except those that have a device."""
        for owner in owners:
            if not self._owned[owner]:
                del self._owned[owner]
                self._totals.pop(owner, None)
                self._last_growth.pop(owner, None)
                self._mixed.discard(owner)

    def owner(self, dev: int) -> str | None:
        """The owner of the device's last increment; KeyError if there was none."""
        return self._devices[dev].owner

    def __contains__(self, dev: int) -> bool:
        return dev in self._devices


def has_grown(older: Ops, newer: Ops) -> bool:
    """Whether an operation began, waited or ended between two readings of a device."""
    return any(
        name not in older or _progress(older[name]) != _progress(op) for name, op in newer.items()
    )


_progress = attrgetter(
    "started_total", "count_total", "bytes_total", "errors_total", "weighted_ns_total"
)


def add_each(readings: Iterable[Ops]) -> dict[str, OpTotals]:
    """Each op, summed over several devices."""
    by_op: dict[str, list[OpTotals]] = defaultdict(list)
    for ops in readings:
        for name, op in ops.items():
            by_op[name].append(op)
    return {name: add_ops(several) for name, several in by_op.items()}


def _grow(totals: OpTotals | None, before: OpTotals | None, now: OpTotals | None) -> OpTotals:
    """An owner's op a tick later: ``before`` and ``now`` are those of its devices that grew."""
    parts = [] if now is None else [now]
    if totals is not None:
        parts.append(replace(totals, max_ns=0, max_bytes=0))
    after = add_ops(parts)
    return after if before is None else subtract_ops(after, before)
