"""NFS mounts by superblock: mounts of one superblock share its counters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ioh.model.file_systems import NFS
from ioh.procfs.mountinfo import Mount, MountTable
from ioh.procfs.mountstats import NfsMount, grown_since, has_fallen

# mountstats has whole seconds and is read shortly before the clock.
_SLACK_S = 1.0

# A dev_t, or export and mount point if mountinfo does not list the mount.
SuperblockId = int | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Superblock:
    """One file system of a server, with one or several mounts.

    Shape:
        ``mounts``: oldest first, all with the same counters.  ``growth``: the first of them, with
        the growth of its counters since the last reading; ``is_new``: there was none.
        ``address``: the server's, ``""`` if mountinfo does not have it.
    """

    id: SuperblockId
    mounts: tuple[NfsMount, ...]
    growth: NfsMount
    is_new: bool
    address: str


class Superblocks:
    """Finds which mounts share a superblock, and the growth of each superblock.

    Mounts of one server file system with the same options share a superblock, whatever their paths
    (nfs_compare_super()); so do bind mounts.  /proc/self/mountstats prints its counters for each of
    them, without a hint.  mountinfo has its dev_t.
    """

    def __init__(self, root: Path) -> None:
        self._where = MountTable(root)
        self._before: dict[SuperblockId, NfsMount] = {}
        self._looked_s: float | None = None

    def take_in(self, mounts: list[NfsMount], now_s: float) -> list[Superblock]:
        """Group one reading of mountstats, in the order of the first mounts."""
        self._where.refresh()  # after the reading: a mount missing here has gone
        places: dict[tuple[str, str], list[Mount]] = defaultdict(list)
        for there in self._where.mounts:
            if there.fstype in NFS:  # a host of containers has thousands of others
                places[there.source, there.mount_point].append(there)
        by_id: dict[SuperblockId, list[NfsMount]] = {}
        addresses: dict[SuperblockId, str] = {}
        for mount in mounts:
            place = mount.export, mount.mount_point
            # Both files have the same order: match several mounts at one place by position.
            same = places[place].pop(0) if places[place] else None
            key: SuperblockId = place if same is None else same.dev
            by_id.setdefault(key, []).append(mount)
            addresses[key] = "" if same is None else same.address
        since_s = None if self._looked_s is None else now_s - self._looked_s
        superblocks = [
            self._superblock(key, tuple(group), addresses[key], since_s)
            for key, group in by_id.items()
        ]
        self._before = {superblock.id: superblock.mounts[0] for superblock in superblocks}
        self._looked_s = now_s
        return superblocks

    def _superblock(
        self, key: SuperblockId, mounts: tuple[NfsMount, ...], address: str, since_s: float | None
    ) -> Superblock:
        newest, before = mounts[0], self._before.get(key)
        if before is not None:
            growth = grown_since(newest, before)
            # Otherwise the dev_t now belongs to another superblock.
            if (newest.age_s or 0) >= (before.age_s or 0) and not has_fallen(growth):
                return Superblock(key, mounts, growth, is_new=False, address=address)
        # The counts of an old one, from another mount namespace, are not of this interval.
        is_old = since_s is not None and (newest.age_s or 0) > since_s + _SLACK_S
        growth = grown_since(newest, newest) if is_old else newest
        return Superblock(key, mounts, growth, is_new=True, address=address)
