"""Which file systems lie on a block device of this host, and which do not."""

from __future__ import annotations

_OFF_DISK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "afs", "fuse", "tmpfs", "ramfs"}
)


def is_off_disk(fstype: str) -> bool:
    """Whether its files are on another machine or in memory: no block device here knows of them."""
    return fstype in _OFF_DISK or fstype.startswith("fuse.")
