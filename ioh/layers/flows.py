"""Turns the probe's ``flows`` map into tables: which process did what to which file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout
from ioh.layers.flow_rows import (
    CALLS,
    CALLS_OF_FILE,
    COPY,
    FAULT,
    IO,
    LOCK,
    META,
    META_WAITED,
    READ,
    READ_WAITED,
    RPCS,
    SYNC,
    WRITE,
    WRITE_WAITED,
    FlowRows,
    RoundRobin,
)
from ioh.layers.mount_roots import FILE_PATH, MountRoots
from ioh.model.printable import printable
from ioh.model.rows import Rows
from ioh.model.sample import Table
from ioh.procfs.blockdev import device_folder, folder_name
from ioh.procfs.diskstats import MINOR_BITS, dev_text, make_dev
from ioh.procfs.files import path_under
from ioh.procfs.mountinfo import Location, MountTable, place
from ioh.procfs.processes import are_pids_the_kernels, read_comm

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

FLOW_KEY = Layout("flow_key", "u64 ino; u32 dev, tgid, op, name;")
FLOW = Layout("flow", "u64 count, bytes, ns; char comm[16];")
# Inode numbers are reused after a file is deleted: name is the name's hash, or 0.
FILE_KEY = Layout("file_key", "u64 ino; u32 dev, name;")
_BTRFS_INO_MASK = (1 << 40) - 1  # SUBVOLUME_SHIFT of probes/syscall_file.h
OTHER_FILES = (1 << 64) - 1  # inode number of all files beyond the probe's room
_OTHERS, _NO_FILE = b"\xff" * 8, bytes(8)  # the start of a FileId: OTHER_FILES, and 0
_IN_NO_FOLDER = 2  # a value of complete
_IDLE_TICKS = 30
_NAME_TRIES = 5
# Each tick reads all entries.  Above this number, idle ones are dropped after two ticks.  Above
# _MOST, so are those that did least, if the probe counts them in another entry from then on.
_CROWDED = 512
_CROWDED_IDLE_TICKS = 2
_MOST = 2048
_SPARE_NAMES = 1024
# The probe does not see a renamed folder above a file, or a process' exec.
_FILES_LOOKED_AT, _FILES_REST_TICKS = 8, 10
_PROCESSES_LOOKED_AT = 16
# With inode 0, by the key's name: msync has no file, swap SWAP_NAME, sync ALL_FILES_NAME.
_IN_NO_FILE = (("(mapped memory)", ""), ("(swap)", ""), ("(all files)", ""))
META_NAME = 3  # a call on names or attributes: only its file system is known, if at all
ABSOLUTE_PATH = "(absolute path)"  # its mount is not known

_NO_COLUMN = -1  # the start of write-back
_COLUMN_OF_OP = (
    *(READ, READ, READ, WRITE, WRITE, WRITE, SYNC, COPY, FAULT, _NO_COLUMN),
    *((META,) * 7),  # open to setattr
    *(LOCK, META),  # META is close
)
WAITED = 1 << 8  # in the op of a metadata flow: it slept or used a lower layer
# A read that missed or was direct, a write that was direct or synchronous.
_WAITED_OF_OP = dict.fromkeys((1, 2), (READ_WAITED,)) | dict.fromkeys((4, 5), (WRITE_WAITED,))

FileId = bytes  # a FILE_KEY: ino, dev, hash of the name or 0
_Last = tuple[int, int, int, int]  # count, bytes, ns, tick of the last change


def file_of(flow: bytes) -> FileId:
    """The file in a flow's key: at the same place in every layer."""
    return flow[:12] + flow[20:24]


class FlowTables:
    """Running totals by process, file and mount, from the increments of each flow.

    Idle entries of the map are dropped to make room.  Their counts stay in the rows here until the
    rows have been idle for long.  Only items with their own row get a name.  ``has_others``: the
    probe counts files without an entry under OTHER_FILES.  ``mounts``: as of the last read().
    """

    def __init__(
        self,
        root: Path,
        column_of_op: tuple[int, ...] = _COLUMN_OF_OP,
        *,
        has_others: bool = False,
    ) -> None:
        self._column_of_op, self._has_others = column_of_op, has_others
        self._waited_of_op = _WAITED_OF_OP if FAULT in column_of_op else {}
        self._root = root
        self._are_pids_the_kernels = are_pids_the_kernels(root)
        self.mounts = MountTable(root)
        self._map: Map
        self._tick = 0
        self._last: dict[bytes, _Last] = {}
        self._retired: dict[bytes, bytes] = {}  # values of the entries dropped in this tick
        self._flow_of: dict[int, bytes] = {}  # an entry of each process active in this tick
        self._mount_of_dev: dict[int, tuple[str, str]] = {}  # where all files have the same mount
        # Processes with a new entry: each may have called exec, or have a reused pid.
        self._newly_at_work: set[int] = set()
        # As the probe reports them: names, whether complete, dentries.
        self._paths: dict[FileId, tuple[bytes, int, tuple[int, ...]]] = {}
        self._roots = MountRoots()
        self._files: dict[FileId, Location] = {}
        self._unnamed: dict[FileId, int] = {}
        self._file_turns = RoundRobin[FileId](_FILES_LOOKED_AT, _FILES_REST_TICKS, is_known=True)
        self._asked_for: list[FileId] = []
        self._in_use: set[FileId] = set()  # by calls that have not ended
        self._process_turns = RoundRobin[int](_PROCESSES_LOOKED_AT, 1, is_known=False)
        of_process, of_file, of_mount = RPCS, IO, IO
        if META in column_of_op:
            of_process, of_file, of_mount = CALLS, CALLS_OF_FILE, CALLS
        self._processes = FlowRows(Rows(2), self._name_process, columns=of_process)
        self._by_file = FlowRows(Rows(1), self._name_file, columns=of_file)
        self._by_mount = FlowRows[tuple[str, str]](Rows(2), lambda mount: mount, columns=of_mount)

    @property
    def at_work(self) -> Collection[int]:
        """The processes that did something in the last tick."""
        return self._flow_of.keys()

    def read(self, flows: Map, paths: Map, mount_roots: Map | None = None) -> dict[str, Table]:
        """Add everything since the last tick; return the tables."""
        self._tick += 1
        self._map = flows
        self._flow_of.clear()
        if self.mounts.refresh():
            self._mount_of_dev.clear()
            self._files.clear()  # locate all paths again
            self._forget_names(lambda _: True)
        self._roots.read(mount_roots)
        renamed = {self._learn_path(key, value) for key, value in paths.drain()} - {None}
        if renamed:
            self._forget_names(renamed.__contains__)
        self._retire(self._take_in(flows.sums(3)))
        self._processes.rename(self._newly_at_work)
        self._newly_at_work.clear()
        self._look_at_processes()
        tables = self._tables()
        self._retired.clear()
        self._forget_files()
        return tables

    def _take_in(self, sums: list[tuple[bytes, tuple[int, ...]]]) -> list[bytes]:
        """Add the increments of all entries; return the entries to drop."""
        last_by_key, dropped = self._last, []
        at_work: dict[FileId, bytes] = {}  # an entry of each active file with a location
        # With many entries, room for new ones matters more than keeping idle ones.
        is_crowded = len(sums) > _CROWDED
        oldest = self._tick - (_CROWDED_IDLE_TICKS if is_crowded else _IDLE_TICKS)
        excess = len(sums) - _MOST if self._has_others else 0
        growths: list[tuple[int, bytes]] = []
        for key, (count, size, ns) in sums:
            last = last_by_key.get(key)
            if last is not None and last[0] == count:
                if last[3] < oldest:
                    dropped.append(key)
                continue
            file = self._add(key, (count, size, ns), last)
            last_by_key[key] = (count, size, ns, self._tick)
            if excess > 0 and not file.startswith(_OTHERS):
                growths.append((size + ns - (last[1] + last[2] if last else 0), key))
            if file not in self._paths:
                if self._lacks_name(file):
                    dropped.append(key)
            elif file in self._files:
                at_work[file] = key
        # The probe reports the path of a dropped entry again.
        self._asked_for = self._file_turns.take(at_work, self._tick)
        dropped += [key for _, key in nsmallest(excess - len(dropped), growths)]
        return dropped + [at_work[file] for file in self._asked_for]

    def _tables(self) -> dict[str, Table]:
        return {
            "process": self._processes.table(),
            "file": self._by_file.table(),
            "mount": self._by_mount.table(),
        }

    def _add_rows(self, key: bytes, sums: tuple[int, int, int]) -> FileId:
        """Add a flow's increments to all its rows; return its file."""
        ino, dev, tgid, op, _ = FLOW_KEY.unpack(key)
        file = file_of(key)
        self._note_process(tgid, key)
        if op & WAITED or self._column_of_op[op] >= META:
            self._add_meta(dev, tgid, op, sums)
            return file
        for column in (self._column_of_op[op], *self._waited_of_op.get(op, ())):
            if column == _NO_COLUMN:
                continue
            self._processes.add(tgid, column, sums)
            if ino == OTHER_FILES:
                self._by_file.add_to_others(column, sums)
            else:
                self._by_file.add(file, column, sums)
            self._by_mount.add(self._mount_of(file), column, sums)
        return file

    def _note_process(self, tgid: int, key: bytes) -> None:
        """Keep an entry with its name: best a new one, of a file.

        An entry has the name of the program that made it; calls without a file share theirs with
        the program before an exec.
        """
        is_new, is_first = key not in self._last, tgid not in self._newly_at_work
        if is_new:
            self._newly_at_work.add(tgid)
        if tgid not in self._flow_of or (is_new and (is_first or not key.startswith(_NO_FILE))):
            self._flow_of[tgid] = key

    def _add_meta(self, dev: int, tgid: int, op: int, sums: tuple[int, int, int]) -> None:
        """Add calls on names and attributes: of a file system, not of a file."""
        mount, column = self.mount_by(dev), self._column_of_op[op & ~WAITED]
        for each in (column, META_WAITED) if op & WAITED and column == META else (column,):
            self._processes.add(tgid, each, sums)
            self._by_mount.add(mount, each, sums)

    def mount_by(self, dev: int) -> tuple[str, str]:
        """Mount point and type to name a file system by; 0 is an unknown one."""
        mount = self.mounts.of_dev(dev)
        if mount is not None:
            return printable(mount.mount_point), printable(mount.fstype)
        return f"device {dev_text(dev)}" if dev else ABSOLUTE_PATH, ""

    def _add(self, key: bytes, sums: tuple[int, int, int], last: _Last | None) -> FileId:
        """Add a flow's increments since it was last seen; return its file."""
        count, size, ns = sums
        if last is not None and last[0] <= count:
            sums = count - last[0], size - last[1], ns - last[2]
        return self._add_rows(key, sums)

    def _lacks_name(self, file: FileId) -> bool:
        """Whether to drop its entry: the probe reports the name when it makes a new one.

        The name comes after the first operation (libaio: when reaped), so it can miss this tick.
        """
        if file.startswith((_NO_FILE, _OTHERS)):
            return False
        tries = self._unnamed.get(file, 0)
        self._unnamed[file] = tries + 1
        return tries < _NAME_TRIES

    def _look_at_processes(self) -> None:
        if not self._are_pids_the_kernels:
            return
        for tgid in self._process_turns.take(self._flow_of, self._tick):
            name = read_comm(tgid, self._root)
            if name is not None:
                self._processes.call(tgid, (str(tgid), name))

    def _name_process(self, tgid: int) -> tuple[str, str]:
        """The process' current name, else the one that the probe saw (it may have exited)."""
        name = read_comm(tgid, self._root) if self._are_pids_the_kernels else None
        if name is None:
            key = self._flow_of[tgid]
            value = self._retired.get(key) or self._map.lookup(key) or b""
            comms = (
                value[at + FLOW.offset("comm") : at + FLOW.size].split(b"\0")[0]
                for at in range(0, len(value), FLOW.size)
            )
            name = printable(next((c for c in comms if c), b"?"))
        return str(tgid), sys.intern(name)

    def process(self, tgid: int) -> tuple[str, str]:
        """A process' pid and name, ``?`` if only the end of its first operation tells it."""
        key = self._processes.key_of(tgid)
        name = read_comm(tgid, self._root) if self._are_pids_the_kernels else None
        return str(tgid), key[1] if key else name or "?"

    def place(self, file: FileId) -> tuple[str, str]:
        """The path of a file in use, and its device, else what its file system is mounted from."""
        self._in_use.add(file)
        location = self._locate(file)
        return location.path, printable(self._device(location, FILE_KEY.unpack(file)[1]))

    def _device(self, location: Location, dev: int) -> str:
        if location.fstype == "devtmpfs":
            with contextlib.suppress(OSError):  # /dev/mapper may have its own nodes
                number = (self._root / location.path[1:]).stat().st_rdev
                dev = make_dev(os.major(number), os.minor(number))
        folder = device_folder(dev, self._root) if dev >> MINOR_BITS else None
        mount = self.mounts.of_dev(dev)
        if folder is not None or mount is None:
            return folder_name(folder or "")
        if mount.source.startswith("/dev/"):  # btrfs has no device number
            return mount.source.removeprefix("/dev/")
        return f"{mount.source} ({mount.fstype})"

    def _name_file(self, file: FileId) -> tuple[str]:
        return (self._locate(file).path,)

    def _forget_names(self, matches: Callable[[FileId], bool]) -> None:
        """Make the rows of some files find their names again."""
        self._by_file.forget_names(matches)

    def _mount_of(self, file: FileId) -> tuple[str, str]:
        """Mount point and type; on most file systems all files have the same."""
        ino, dev, name = FILE_KEY.unpack(file)
        if ino == 0:
            return _IN_NO_FILE[name]
        mount = self._mount_of_dev.get(dev)
        if mount is None:
            mount = self.mounts.of_whole(dev)
            if mount is None:
                location = self._locate(file)
                return location.mount_point, location.fstype
            self._mount_of_dev[dev] = mount
        return mount

    def _locate(self, file: FileId) -> Location:
        location = self._files.get(file)
        if location is None:
            location = self._files[file] = self._look_up(file)
        return location

    def _look_up(self, file: FileId) -> Location:
        """Where the user finds a file: a path below its mount, or the best name available."""
        ino, dev, name = FILE_KEY.unpack(file)
        if ino == 0:
            where, fstype = self.mount_by(dev) if name == META_NAME else _IN_NO_FILE[name]
            return Location(where, where, fstype)
        raw, complete, dentries = self._paths.get(file, (b"", 0, ()))
        names = [n.decode("utf-8", "surrogateescape") for n in raw.split(b"\0") if n]
        for mount in self.mounts.of_file_system(dev) if dentries else ():
            depth = self._roots.depth(mount.id, dentries)
            if depth is not None:
                return place(mount, "".join(f"/{name}" for name in reversed(names[:depth])))
        if complete == _IN_NO_FOLDER and names == ["/"]:  # opened by handle
            names = []
        elif complete == _IN_NO_FOLDER and names:
            return Location(printable(names[0]), "(memory)", "")
        path = "/" + "/".join(reversed(names))
        location = self.mounts.locate(dev, path) if complete else None
        if location is not None:
            return location
        # Deeper than the probe walks, or on no mount of this namespace (a container's).
        top = self.mounts.locate(dev, "/")
        where = top.mount_point if top is not None else f"device {dev_text(dev)}"
        fstype = top.fstype if top is not None else ""
        if file not in self._paths:
            number = ino & _BTRFS_INO_MASK if fstype == "btrfs" else ino
            node = self._node(where, ino) if fstype == "devtmpfs" else ""
            return Location(node or f"inode {number} on {where}", where, fstype)
        printable_path = printable(path if complete else f"/…{path}")
        return Location(f"{where}:{printable_path}", where, fstype)

    def _node(self, folder: str, ino: int) -> str:
        """The path of a device's node, before its first call has ended; "" if there is none."""
        with contextlib.suppress(OSError), os.scandir(path_under(self._root, folder)) as nodes:
            return next((f"{folder}/{printable(x.name)}" for x in nodes if x.inode() == ino), "")
        return ""

    def _learn_path(self, file: FileId, value: bytes) -> FileId | None:
        """Note a path; return its file if that had another one (inode numbers are reused)."""
        length, complete, names = FILE_PATH.unpack_from(value)
        path = names[:length], complete, self._roots.decode(value)
        self._unnamed.pop(file, None)
        if self._paths.get(file) == path:
            return None
        self._paths[file] = path
        return None if self._files.pop(file, None) is None else file

    def _retire(self, keys: list[bytes]) -> None:
        """Drop entries, and add their increments since the last read."""
        for key, value, (count, size, ns) in self._map.take_sums(keys, 3):
            self._retired[key] = value
            last = self._last.pop(key, None)
            if last is not None and count != last[0]:
                self._add(key, (count, size, ns), last)
        for key in keys:
            self._last.pop(key, None)  # if the entry was already gone

    def _forget_files(self) -> None:
        """From time to time, forget the names of files without entries.

        The probe reports the name again with a new entry.
        """
        if self._tick % _IDLE_TICKS and len(self._paths) < 2 * len(self._last) + _SPARE_NAMES:
            return
        files = {file_of(key) for key in self._last} | {*self._asked_for, *self._in_use}
        self._in_use.clear()
        self._paths = {file: path for file, path in self._paths.items() if file in files}
        self._files = {file: where for file, where in self._files.items() if file in files}
        self._unnamed = {file: tries for file, tries in self._unnamed.items() if file in files}
