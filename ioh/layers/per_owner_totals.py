"""Adds up the totals of devices by owner, while devices change their owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from ioh.model.derive_op import add_ops, subtract_ops
from ioh.model.rates import sum_known
from ioh.model.sample import OpTotals

Ops = Mapping[str, OpTotals]
_MANY = 8  # devices of one owner; from then on only add the increments


@dataclass(slots=True, eq=False)
class _Account:
    """One device: ``base`` is its totals when it got this owner, ``last`` its newest totals."""

    owner: str | None
    base: Ops
    last: Ops


class OwnedTotals:
    """Totals by owner, from totals by device number.

    A probe's totals of a number continue when the number gets another meaning: another disk, or a
    loop device with another file.  Each increment belongs to the owner at the tick that shows it.
    An owner's totals never fall, and never include increments of other owners.
    """

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}
        self._owned: dict[str, list[_Account]] = {}
        self._settled: dict[str, dict[str, list[OpTotals]]] = defaultdict(lambda: defaultdict(list))
        # For owners of many devices: the sums, and those of the devices that grew last.
        self._summed: dict[str | None, dict[str, OpTotals]] = {}
        self._grown: dict[str, tuple[list[Ops], Ops]] = {}

    def update(
        self, readings: Mapping[int, Ops], owner_of: Callable[[int], str | None]
    ) -> dict[str, Ops]:
        """Add each device's totals by op; return the totals of each owner.

        ``owner_of`` is called for each device that has grown; None: leave its totals out.  Maximum
        and number in flight are those of the current devices.
        """
        grown: dict[str, list[tuple[Ops, Ops]]] = defaultdict(list)
        for dev, ops in readings.items():
            account = self._accounts.get(dev)
            if account is None:
                account = self._accounts[dev] = _Account(None, {}, ops)
                self._give(account, owner_of(dev))
                continue
            if account.last is ops:
                continue
            if account.last != ops and has_grown(account.last, ops):
                before, owner = account.owner, owner_of(dev)
                if owner != before:
                    self._hand_over(account, owner)
                elif owner is not None:
                    grown[owner].append((account.last, ops))
            account.last = ops
        return {
            owner: self._sum(owner, of, grown.get(owner, [])) for owner, of in self._owned.items()
        }

    def _sum(self, owner: str, accounts: list[_Account], grown: list[tuple[Ops, Ops]]) -> Ops:
        if len(accounts) == 1 and owner not in self._settled and not accounts[0].base:
            return accounts[0].last
        known = self._summed.get(owner)
        if known is not None and all(newer.keys() <= known.keys() for _, newer in grown):
            before, now = self._sums_before(owner, grown), add_each(newer for _, newer in grown)
            self._grown[owner] = [newer for _, newer in grown], now
            found = {
                name: replace(
                    _grow(op, before.get(name), now.get(name)), inflight=_inflight(name, accounts)
                )
                for name, op in known.items()
            }
        else:
            parts = {name: list(past) for name, past in self._settled.get(owner, {}).items()}
            for account in accounts:
                for name, op in account.last.items():
                    parts.setdefault(name, []).append(_since(account.base.get(name), op))
            found = {name: add_ops(several) for name, several in parts.items()}
        if len(accounts) >= _MANY:
            self._summed[owner] = found
        return found

    def _sums_before(self, owner: str, grown: list[tuple[Ops, Ops]]) -> Ops:
        """The totals a tick ago of the devices that grew; mostly the same ones grew then."""
        readings, sums = self._grown.get(owner, ([], {}))
        older = [older for older, _ in grown]
        return sums if older == readings else add_each(older)

    def forget(self, owners: Iterable[str]) -> None:
        """Forget what these owners got from former devices; they have none now."""
        for owner in owners:
            self._settled.pop(owner, None)
            self._summed.pop(owner, None)
            if not self._owned.get(owner):
                self._owned.pop(owner, None)

    def owner(self, dev: int) -> str | None:
        """The owner of the device's last increment; KeyError if there was none."""
        return self._accounts[dev].owner

    def __contains__(self, dev: int) -> bool:
        return dev in self._accounts

    def _give(self, account: _Account, owner: str | None) -> None:
        account.owner = owner
        self._summed.pop(owner, None)
        if owner is not None:
            self._owned.setdefault(owner, []).append(account)

    def _hand_over(self, account: _Account, owner: str | None) -> None:
        before = account.owner
        self._summed.pop(before, None)
        if before is not None:
            settled = self._settled[before]
            for name, op in account.last.items():
                past = replace(_since(account.base.get(name), op), max_ns=0, max_bytes=0)
                settled[name] = [add_ops([*settled[name], replace(past, inflight=None)])]
            self._owned[before].remove(account)
        account.base = account.last
        self._give(account, owner)


def has_grown(older: Ops, newer: Ops) -> bool:
    """Whether an operation began or ended between two readings of a device."""
    return any(
        name not in older or _progress(older[name]) != _progress(op) for name, op in newer.items()
    )


_progress = attrgetter("started_total", "count_total", "bytes_total", "errors_total")


def _since(older: OpTotals | None, newer: OpTotals) -> OpTotals:
    return newer if older is None else subtract_ops(newer, older)


def add_each(readings: Iterable[Ops]) -> dict[str, OpTotals]:
    """Each op, summed over several devices."""
    by_op: dict[str, list[OpTotals]] = defaultdict(list)
    for ops in readings:
        for name, op in ops.items():
            by_op[name].append(op)
    return {name: add_ops(several) for name, several in by_op.items()}


def _grow(known: OpTotals, before: OpTotals | None, now: OpTotals | None) -> OpTotals:
    """An owner's op a tick later: ``before`` and ``now`` are those of its devices that grew."""
    known = replace(known, max_ns=0, max_bytes=0)
    grown = known if now is None else add_ops([known, now])
    return grown if before is None else subtract_ops(grown, before)


def _inflight(name: str, accounts: list[_Account]) -> int | None:
    return sum_known(a.last[name].inflight for a in accounts if name in a.last)
