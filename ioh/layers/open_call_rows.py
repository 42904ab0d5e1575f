"""The rows of open calls: who waits, for which file, on which device."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ioh.layers.flows import FlowTables
from ioh.layers.open_calls import Caller
from ioh.model.in_progress import Open, in_progress_table, oldest_first
from ioh.model.sample import Table, Value
from ioh.procfs.processes import is_uninterruptible

OPEN_CALLS = in_progress_table(
    "pid, comm, op, file, device",
    more="""
        blocked | | 1 if only its device or file system can end the oldest: its thread sleeps
            uninterruptibly, or it has none (libaio, io_uring, page faults).
    """,
)


class OpenCallRows:
    """Names open calls by what the flows know; call it after these were read."""

    def __init__(self, root: Path, flows: FlowTables, *, sees_pids: bool) -> None:
        self._root, self._flows, self._sees_pids = root, flows, sees_pids

    def table(self, found: Iterable[Open[Caller]], now_ns: int) -> Table:
        """The oldest ones."""
        return oldest_first(found, now_ns, self._name, self._blocked)

    def _name(self, each: Open[Caller]) -> tuple[str, ...]:
        file = each.who.file
        place = self._flows.place(file) if file else ("(registered file)", "")
        return (*self._flows.process(each.who.tgid), each.op, *place)

    def _blocked(self, each: Open[Caller]) -> tuple[Value, ...]:
        if not each.who.tid:
            return (1,)
        found = is_uninterruptible(each.who.tid, self._root) if self._sees_pids else None
        return (None if found is None else int(found),)
