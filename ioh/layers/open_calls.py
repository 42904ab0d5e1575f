"""Calls and requests of programs that have begun and not ended, from the maps of syscall.c."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ioh.layers.call_records import ASYNC, CALL, FAULT
from ioh.layers.flows import FILE_KEY, FlowTables
from ioh.model.in_progress import LEAST_AGE_NS, Open, in_progress_table, oldest_first
from ioh.model.sample import Table, Value
from ioh.procfs.processes import is_uninterruptible

if TYPE_CHECKING:
    from ioh.bpf.maps import Map, Maps

OPEN_CALLS = in_progress_table(
    "pid, comm, op, file, device",
    more="""
        blocked | | 1 if only its device or file system can end the oldest: its thread sleeps
            uninterruptibly, or it has none (libaio, io_uring, page faults).
    """,
)
CALL_GROUP = 16  # slots of the map ``calls``
CALL_TICK_LOG2 = 27  # of nanoseconds: a tick of ``call_groups`` is 0.13 s
_MOST_GROUPS, _MOST_REQUESTS = 1024, 16384  # to look at in a tick: some 10 ms
_TARGET = ("target.ino", "target.dev", "target.op", "target.name")
_CALL = CALL.reader("tid", "crowd", "start_ns", *_TARGET, "tgid")
_ASYNC = ASYNC.reader("start_ns", "target.file", *_TARGET, "tgid")
_FAULT = FAULT.reader("start_ns", "key.ino", "key.dev", "key.tgid", "key.op", "key.name")
_NO_FILE = b""


class Caller(NamedTuple):
    """A process and its file, as flows.FileId; empty if the probe learns it only at the end."""

    tgid: int
    file: bytes


class OpenCalls:
    """Looks at the open calls once a tick.

    Shape:
        ``calls``: what was open at the last look.

    Args:
        ops: Their names, by the probe's numbers.
        root: Of /proc and /sys.
        flows: Know processes and files by name.
        sees_pids: Whether pids are those of the kernel.
        needs_device: Leave out calls whose device the probe learns only at the end.
    """

    def __init__(
        self,
        ops: Sequence[str],
        root: Path,
        flows: FlowTables,
        *,
        sees_pids: bool,
        needs_device: bool,
    ) -> None:
        self._ops, self._root, self._flows, self._sees_pids = ops, root, flows, sees_pids
        self._needs_device = needs_device
        self._groups: set[int] = set()  # of slots, with open calls at the last look
        self.calls: list[Open[Caller]] = []
        self._open_ns: Counter[str] = Counter()
        self._is_complete = True
        self._looked_ns = 0

    def open_ns(self, op: str) -> int | None:
        """How long its calls have been open, added up; None if they were too many to look at."""
        return self._open_ns[op] if self._is_complete else None

    def table(self, now_ns: int) -> Table:
        """The oldest ones; call it after the flows were read."""
        return oldest_first(self.calls, now_ns, self._name, self._blocked)

    def _name(self, each: Open[Caller]) -> tuple[str, ...]:
        file = each.who.file
        place = self._flows.place(file) if file else ("(registered file)", "")
        return (*self._flows.process(each.who.tgid), each.op, *place)

    def _blocked(self, each: Open[Caller]) -> tuple[Value, ...]:
        if not each.tid:
            return (1,)
        is_blocked = is_uninterruptible(each.tid, self._root) if self._sees_pids else None
        return (None if is_blocked is None else int(is_blocked),)

    def look(self, maps: Maps, now_ns: int, abandoned: Container[bytes]) -> None:
        """Look at all of them.

        Args:
            maps: The probe's.
            now_ns: When the probe's totals were read.
            abandoned: The keys of requests in ``asyncs`` that nobody waits for.
        """
        self.calls, self._open_ns, self._is_complete = [], Counter(), True
        for tid, _, start_ns, ino, dev, op, name, tgid in self._slots(maps, now_ns):
            # Not a call with requests for several files.
            if op < len(self._ops) and (dev or not self._needs_device):
                self._add(now_ns, start_ns, op, Caller(tgid, FILE_KEY.pack(ino, dev, name)), tid)
        self._look_at_requests(maps["asyncs"], now_ns, abandoned)
        for _, value in maps["faults"].entries() if "faults" in maps else ():
            start_ns, ino, dev, tgid, op, name = _FAULT.unpack_from(value)
            self._add(now_ns, start_ns, op, Caller(tgid, FILE_KEY.pack(ino, dev, name)))

    def _add(self, now_ns: int, start_ns: int, op: int, who: Caller, tid: int = 0) -> None:
        name = self._ops[op]
        if who.file:
            self._open_ns[name] += max(0, now_ns - start_ns)
        else:  # neither counted as begun nor known to be direct
            name = name.partition("_")[0]
        self.calls.append(Open(name, who, start_ns, tid=tid))

    def _slots(self, maps: Maps, now_ns: int) -> Iterator[tuple[int, ...]]:
        """The open slots, of the groups used since the last look or open at it."""
        # Also the tick before: a CPU may have read the clock then, and noted it a moment later.
        since, self._looked_ns = (self._looked_ns >> CALL_TICK_LOG2) - 1, now_ns
        ticks = maps["call_groups"].at(0).cast("I")
        used = {at for at, tick in enumerate(ticks) if tick and tick >= since}
        groups, calls = sorted(self._groups | used), maps["calls"]
        self._groups, is_crowded = set(groups[_MOST_GROUPS:]), False
        self._is_complete = not self._groups
        for group in groups[:_MOST_GROUPS]:
            values = bytes(calls.span(group * CALL_GROUP, CALL_GROUP))
            for at in range(CALL_GROUP):
                slot = _CALL.unpack_from(values, at * calls.spec.value_size)
                if not any(slot[:2]):
                    continue
                self._groups.add(group)
                is_crowded |= slot[1] > 0
                if slot[0] and now_ns - slot[2] >= LEAST_AGE_NS:
                    # Its start may be that of an earlier call: the thread was just beginning one.
                    again = _CALL.unpack_from(calls.at(group * CALL_GROUP + at))
                    slot = again if again[:1] == slot[:1] else (0, *slot[1:])
                if slot[0]:
                    yield slot
        for _, value in maps["crowded"].entries() if is_crowded else ():
            yield _CALL.unpack_from(value)

    def _look_at_requests(self, asyncs: Map, now_ns: int, abandoned: Container[bytes]) -> None:
        """Requests of libaio and io_uring; most entries may wait for their next request."""
        for number, (key, value) in enumerate(asyncs.entries()):
            if number == _MOST_REQUESTS:
                self._is_complete = False
                return
            start_ns, file, ino, dev, op, name, tgid = _ASYNC.unpack_from(value)
            is_open = start_ns and op < len(self._ops) and key not in abandoned
            if is_open and (dev or not self._needs_device):
                who = Caller(tgid, FILE_KEY.pack(ino, dev, name) if file else _NO_FILE)
                self._add(now_ns, start_ns, op, who)
