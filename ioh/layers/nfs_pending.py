"""READs, WRITEs and COMMITs of the NFS client that have no answer yet: its map ``pendings``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ioh.bpf.layout import Layout
from ioh.layers.flows import FILE_KEY, FlowTables
from ioh.layers.part_totals import OTHER_PARTS
from ioh.layers.per_owner_totals import Ops
from ioh.layers.rising_totals import RisingTotals
from ioh.model.in_progress import Open, in_progress_table, oldest_first
from ioh.model.printable import printable
from ioh.model.sample import OpTotals, Table
from ioh.procfs.diskstats import dev_text

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

PENDING_CALLS = in_progress_table("pid, comm, op, file, mount")
_MOST_CALLS = 16384  # to look at in a tick: some 10 ms
PENDING = Layout("pending", "u64 start_ns, ino; u32 dev, tgid, op, name; char comm[16];")


class _Caller(NamedTuple):
    dev: int
    file: bytes
    tgid: int
    comm: bytes


class PendingCalls:
    """Looks at them once a tick.

    Args:
        flows: Knows the files by name.
        ops: The layer's ops, by the probe's numbers.
    """

    def __init__(self, flows: FlowTables, ops: tuple[str, ...]) -> None:
        self._flows, self._ops = flows, ops
        self._spent_ns = RisingTotals()
        self._calls: list[Open[_Caller]] = []
        self._is_complete = True
        self._now_ns = 0

    def look(self, pendings: Map, now_ns: int) -> None:
        """Read the map; ``now_ns`` is when the totals were read, just before."""
        self._calls, self._now_ns, self._is_complete = [], now_ns, True
        for count, (_, value) in enumerate(pendings.entries()):
            if count == _MOST_CALLS:
                self._is_complete = False
                return
            start_ns, ino, dev, tgid, number, name, comm = PENDING.unpack(value)
            who = _Caller(dev, FILE_KEY.pack(ino, dev, name), tgid, comm)
            self._calls.append(Open(self._ops[number], who, start_ns))

    def book(self, parts: Mapping[int, Ops]) -> dict[int, Ops]:
        """The totals with the time of pending calls, which passes before they end."""
        open_ns: Counter[tuple[int, str]] = Counter()
        for each in self._calls:
            dev = each.who.dev if each.who.dev in parts else OTHER_PARTS
            open_ns[dev, each.op] += max(0, self._now_ns - each.start_ns)
        return {
            dev: {name: self._booked(dev, name, op, open_ns[dev, name]) for name, op in ops.items()}
            for dev, ops in parts.items()
        }

    def _booked(self, dev: int, name: str, op: OpTotals, open_ns: int) -> OpTotals:
        if not self._is_complete:
            return replace(op, weighted_ns_total=None)
        spent_ns = self._spent_ns.at_least((dev, name), (op.weighted_ns_total or 0) + open_ns)
        return replace(op, weighted_ns_total=spent_ns)

    def table(self, mount_of: Callable[[int], str | None]) -> Table:
        """The oldest ones; call it after the flows were read."""

        def name(each: Open[_Caller]) -> tuple[str, ...]:
            dev, file, tgid, comm = each.who
            path, _ = self._flows.place(file)
            mount = mount_of(dev) or dev_text(dev)
            return str(tgid), printable(comm.split(b"\0")[0]), each.op, path, mount

        return oldest_first(self._calls, self._now_ns, name)
