"""Which file systems are NFS, and which are on a block device of this host."""

from __future__ import annotations

NFS = ("nfs", "nfs4")
_OFF_DISK = frozenset(
    {*NFS, "cifs", "smb3", "ceph", "9p", "virtiofs", "afs", "fuse", "tmpfs", "ramfs"}
)


def is_off_disk(fstype: str) -> bool:
    """Whether its files are on another machine or in memory, not on a block device here."""
    return fstype in _OFF_DISK or fstype.startswith("fuse.")
