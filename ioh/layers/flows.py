"""Who did what to which file: turns the probe's ``flows`` map into the layer's tables."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.model.printable import printable
from ioh.model.sample import Row, Table
from ioh.procfs.diskstats import split_dev
from ioh.procfs.mountinfo import Location, MountTable
from ioh.procfs.processes import read_comm

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_FLOW_KEY = struct.Struct("=QIIII")  # ino, dev, tgid, op, padding
_FLOW = struct.Struct("=QQQ16s")  # count, bytes, ns, comm
_FILE_KEY = struct.Struct("=QQ")  # ino, dev
_PATH_HEAD = struct.Struct("=II")  # length, complete
_IDLE_TICKS = 30
_NAMES_MAX = 50_000
_NAME_TRIES = 5
_COLUMNS = 8
_COMM_AT = 24
# With more than a quarter of the map in use, idle entries go after two ticks.
_CROWDED_SHARE = 4
_CROWDED_IDLE_TICKS = 2

# Where each op's count, bytes and time go in a row: reads 0-2, writes 3-5, syncs 6-7.
READ, WRITE, SYNC = 0, 3, 6
_COLUMN_OF_OP = (READ, READ, WRITE, WRITE, WRITE, SYNC, WRITE)

FileId = tuple[int, int]  # ino, dev


class Rows:
    """Running totals by key, added to in place; a table handed out is never changed again."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, ...], list[int]] = {}
        self._touched: dict[tuple[str, ...], int] = {}
        self._shown: dict[tuple[str, ...], Row] = {}
        self._changed: set[tuple[str, ...]] = set()

    def add(self, key: tuple[str, ...], column: int, increments: tuple[int, ...]) -> None:
        """Add a flow's count, bytes and time from ``column`` on."""
        row = self._totals.get(key)
        if row is None:
            row = self._totals[key] = [0] * _COLUMNS
        for at, increment in enumerate(increments, column):
            row[at] += increment
        self._changed.add(key)

    def table(self, tick: int) -> Table:
        """All rows as they are now."""
        for key in self._changed:
            self._shown[key] = tuple(self._totals[key])
            self._touched[key] = tick
        self._changed.clear()
        return dict(self._shown)

    def forget_before(self, tick: int) -> None:
        """Drop the rows that have not changed since ``tick``; those that just did stay."""
        idle = {key for key, touched in self._touched.items() if touched < tick}
        for key in idle - self._changed:
            del self._totals[key], self._touched[key], self._shown[key]

    def keys(self) -> set[tuple[str, ...]]:
        """The rows there are."""
        return set(self._totals)


class FlowTables:
    """Running totals by process, file and mount, fed with the increments of each flow.

    The map's entries come and go (idle ones are dropped to make room); what they counted stays
    in the rows here until the rows themselves have been idle for long.

    Args:
        root: Where /proc lies.
        column_of_op: Where each op's count, bytes and time go in a row: READ, WRITE, or SYNC,
            which has no bytes.
    """

    def __init__(self, root: Path, column_of_op: tuple[int, ...] = _COLUMN_OF_OP) -> None:
        self._column_of_op = column_of_op
        self._root = root
        self._mounts = MountTable(root)
        self._tick = 0
        self._seen: dict[bytes, tuple[int, int, int, int]] = {}
        self._comms: dict[int, str] = {}
        self._paths: dict[FileId, tuple[str, bool]] = {}
        self._files: dict[FileId, Location] = {}
        self._unnamed: dict[FileId, int] = {}
        self._processes, self._by_file, self._by_mount = Rows(), Rows(), Rows()

    def read(self, flows: Map, paths: Map) -> dict[str, Table]:
        """Take in what happened since the last tick."""
        self._tick += 1
        if self._mounts.refresh():
            self._files.clear()  # the paths stay, where they are seen is looked up again
        for key, value in paths.drain():
            self._learn_path(key, value)
        # Room for newcomers matters more than keeping idle entries, once they are many.
        is_crowded = len(self._seen) > flows.spec.max_entries // _CROWDED_SHARE
        oldest = self._tick - (_CROWDED_IDLE_TICKS if is_crowded else _IDLE_TICKS)
        for key, (count, size, ns) in flows.sums(3):
            seen = self._seen.get(key)
            if seen is not None and seen[0] == count:
                if seen[3] < oldest:
                    self._retire(flows, key)
            elif self._add(flows, key, (count, size, ns), seen):
                self._ask_for_name(flows, key)
        if self._tick % _IDLE_TICKS == 0:
            self._forget_idle_rows()
        return self._tables()

    def _tables(self) -> dict[str, Table]:
        return {
            "process": self._processes.table(self._tick),
            "file": self._by_file.table(self._tick),
            "mount": self._by_mount.table(self._tick),
        }

    def _file_of(self, key: bytes) -> FileId:
        ino, dev, *_ = _FLOW_KEY.unpack(key)
        return ino, dev

    def _add_rows(
        self, flows: Map, key: bytes, location: Location, sums: tuple[int, int, int]
    ) -> None:
        """Add a flow's increments to every row that it is part of."""
        _, _, tgid, op, _ = _FLOW_KEY.unpack(key)
        column = self._column_of_op[op]
        increments = (sums[0], sums[2]) if column == SYNC else sums
        comm = self._comms.get(tgid) or self._name_process(tgid, flows, key)
        self._processes.add((str(tgid), comm), column, increments)
        self._by_file.add((location.path,), column, increments)
        self._by_mount.add((location.mount_point, location.fstype), column, increments)

    def _add(
        self,
        flows: Map,
        key: bytes,
        sums: tuple[int, int, int],
        seen: tuple[int, int, int, int] | None,
    ) -> bool:
        """Add a flow's increments to its rows; True when its file's name is not known yet."""
        self._seen[key] = (*sums, self._tick)
        count, size, ns = sums
        if seen is not None and seen[0] <= count:
            count, size, ns = count - seen[0], size - seen[1], ns - seen[2]
        ino, dev = self._file_of(key)
        location = self._files.get((ino, dev)) or self._locate(ino, dev)
        self._add_rows(flows, key, location, (count, size, ns))
        return ino != 0 and (ino, dev) not in self._paths

    def _ask_for_name(self, flows: Map, key: bytes) -> None:
        """Drop the entry: the probe notes a name whenever it makes one (libaio: at the reap)."""
        file = self._file_of(key)
        tries = self._unnamed.get(file, 0)
        if tries < _NAME_TRIES:
            self._unnamed[file] = tries + 1
            self._retire(flows, key)

    def _name_process(self, tgid: int, flows: Map, key: bytes) -> str:
        """The process' name now, else the one that the probe saw (it may have exited)."""
        name = read_comm(tgid, self._root)
        if name is None:
            value = flows.lookup(key) or b""
            comms = (
                value[at + _COMM_AT : at + _FLOW.size].split(b"\0")[0]
                for at in range(0, len(value), _FLOW.size)
            )
            name = printable(next((c for c in comms if c), b"?"))
        self._comms[tgid] = name
        return name

    def _locate(self, ino: int, dev: int) -> Location:
        found = self._files[ino, dev] = self._look_up(ino, dev)
        return found

    def _look_up(self, ino: int, dev: int) -> Location:
        """Where the user finds a file: below its mount, else named as well as can be."""
        if ino == 0:
            return Location("(mapped memory)", "(mapped memory)", "", "")
        path, complete = self._paths.get((ino, dev), ("", False))
        found = self._mounts.locate(dev, path) if complete else None
        if found is not None:
            return found
        # Deeper than the probe walks, or seen through no mount of this namespace (a container's).
        major, minor = split_dev(dev)
        mount = self._mounts.locate(dev, "/")
        where = mount.mount_point if mount is not None else f"device {major}:{minor}"
        fstype = mount.fstype if mount is not None else ""
        if not path:
            return Location(f"inode {ino} on {where}", where, fstype, "")
        shown = printable(path if complete else f"/…{path}")
        return Location(f"{where}:{shown}", where, fstype, "")

    def _learn_path(self, key: bytes, value: bytes) -> None:
        ino, dev = _FILE_KEY.unpack(key)
        length, complete = _PATH_HEAD.unpack_from(value)
        raw = value[_PATH_HEAD.size : _PATH_HEAD.size + length]
        names = [n.decode("utf-8", "surrogateescape") for n in raw.split(b"\0") if n]
        if len(self._paths) >= _NAMES_MAX:
            self._paths.clear()
            self._files.clear()
        self._paths[ino, dev] = ("/" + "/".join(reversed(names)), bool(complete))
        self._files.pop((ino, dev), None)
        self._unnamed.pop((ino, dev), None)

    def _retire(self, flows: Map, key: bytes) -> None:
        """Drop an entry; what was added since the last read is kept."""
        value = flows.take(key)
        seen = self._seen.pop(key, None)
        if value is None or seen is None:
            return
        count, size, ns = (int(n) for n in flows.sum_cpus(value)[:3])
        if count != seen[0]:
            self._add(flows, key, (count, size, ns), seen)
            self._seen.pop(key, None)

    def _all_rows(self) -> tuple[Rows, ...]:
        return self._processes, self._by_file, self._by_mount

    def _forget_idle_rows(self) -> None:
        for rows in self._all_rows():
            rows.forget_before(self._tick - 2 * _IDLE_TICKS)
        pids = {key[0] for key in self._processes.keys()}  # noqa: SIM118 (not a dict)
        self._comms = {pid: name for pid, name in self._comms.items() if str(pid) in pids}
        # The probe tells a file's name again when it makes a new entry of it.
        files = {self._file_of(key) for key in self._seen}
        self._paths = {file: path for file, path in self._paths.items() if file in files}
        self._files = {file: where for file, where in self._files.items() if file in files}
        self._unnamed = {file: tries for file, tries in self._unnamed.items() if file in files}
