"""NFS mounts by superblock: those of one superblock have its counters, which count once."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.mountinfo import Mount, MountTable
from ioh.procfs.mountstats import NfsMount, add_mount, grown_since, has_fallen

# mountstats has whole seconds, and is read a little before the clock.
_SLACK_S = 1.0

# A dev_t; export and mount point where mountinfo has no such mount.
SuperblockId = int | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Superblock:
    """One file system of a server, mounted at one place or several.

    Shape:
        ``mounts``: the oldest first, all with the same counters.  ``grown`` is the first of them
        with what these counters have grown by since the reading before; ``is_new``: there was
        none.  ``address`` is the server's, ``""`` where mountinfo does not say.
    """

    id: SuperblockId
    mounts: tuple[NfsMount, ...]
    grown: NfsMount
    is_new: bool
    address: str


class Superblocks:
    """Finds which mounts share a superblock, and what each superblock has grown by.

    The kernel gives mounts of one server, file system and options one superblock, whatever their
    paths (nfs_compare_super()), as it does bind mounts; /proc/self/mountstats prints its
    counters for each of them and does not say so.  mountinfo has its dev_t.
    """

    def __init__(self, root: Path) -> None:
        self._where = MountTable(root)
        self._places = self._read_places()
        self._before: dict[SuperblockId, NfsMount] = {}
        self._looked_s: float | None = None

    def take_in(self, mounts: list[NfsMount], now_s: float) -> list[Superblock]:
        """Take in one reading of mountstats, in the order of its first mounts."""
        if self._where.refresh():  # after the reading: whatever is missing is gone by now
            self._places = self._read_places()
        by_id: dict[SuperblockId, list[NfsMount]] = {}
        addresses: dict[SuperblockId, str] = {}
        count: Counter[tuple[str, str]] = Counter()
        for mount in mounts:
            place = mount.export, mount.mount_point
            # Both files list mounts in one order: of several at one place the n-th is the n-th.
            there = self._places.get(place, [])[count[place] :]
            count[place] += 1
            key: SuperblockId = there[0].dev if there else place
            by_id.setdefault(key, []).append(mount)
            addresses[key] = there[0].address if there else ""
        since_s = None if self._looked_s is None else now_s - self._looked_s
        found = [
            self._superblock(key, tuple(shown), addresses[key], since_s)
            for key, shown in by_id.items()
        ]
        self._before = {superblock.id: superblock.mounts[0] for superblock in found}
        self._looked_s = now_s
        return found

    def _superblock(
        self, key: SuperblockId, mounts: tuple[NfsMount, ...], address: str, since_s: float | None
    ) -> Superblock:
        newest, before = mounts[0], self._before.get(key)
        if before is not None:
            grown = grown_since(newest, before)
            # Otherwise the dev_t has gone to another superblock since.
            if (newest.age_s or 0) >= (before.age_s or 0) and not has_fallen(grown):
                return Superblock(key, mounts, grown, is_new=False, address=address)
        # What an old one has counted in another mount namespace is not of this interval.
        is_old = since_s is not None and (newest.age_s or 0) > since_s + _SLACK_S
        grown = grown_since(newest, newest) if is_old else newest
        return Superblock(key, mounts, grown, is_new=True, address=address)

    def _read_places(self) -> dict[tuple[str, str], list[Mount]]:
        places: dict[tuple[str, str], list[Mount]] = defaultdict(list)
        for mount in self._where.mounts:
            places[mount.source, mount.mount_point].append(mount)
        return dict(places)


class ProcTotals:
    """Running totals of all superblocks by NFS version, and of each by its name.

    What an unmounted one has counted stays in those by version: they never fall.
    """

    def __init__(self) -> None:
        self._by_version: dict[str, NfsMount] = {}
        self.parts: dict[str, NfsMount] = {}

    @property
    def versions(self) -> list[NfsMount]:
        """One mount for each version, which has no more than counters."""
        return list(self._by_version.values())

    def add(self, superblocks: list[Superblock]) -> None:
        """Add what each has grown by."""
        before, self.parts = self.parts, {}
        for superblock in superblocks:
            grown = superblock.grown
            version = grown.options.get("vers", "?").partition(".")[0]
            totals = self._by_version.setdefault(version, _nothing(version))
            add_mount(totals, grown)
            name = f"{printable(grown.export)} on {printable(grown.mount_point)}"
            if name not in self.parts:
                self.parts[name] = before.get(name) or _nothing(version)
            add_mount(self.parts[name], grown)


def _nothing(version: str) -> NfsMount:
    return NfsMount("", "", options={"vers": version})
