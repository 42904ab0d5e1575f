"""Which file systems are NFS, which are on a block device here, and which are not followed."""

from __future__ import annotations

NFS = ("nfs", "nfs4")
_OFF_DISK = frozenset(
    {*NFS, "cifs", "smb3", "ceph", "9p", "virtiofs", "afs", "fuse", "tmpfs", "ramfs"}
)
# Their calls are not followed to what serves them: a server, a daemon, threads of the kernel.
_SERVED_ELSEWHERE = {
    "cifs": "smb", "smb3": "smb", "fuse": "fuse", "fuseblk": "fuse", "virtiofs": "virtiofs",
    "9p": "9p", "ceph": "ceph", "afs": "afs", "lustre": "lustre", "zfs": "zfs",
}  # fmt: skip
SERVED_ELSEWHERE = tuple(dict.fromkeys(_SERVED_ELSEWHERE.values()))


def is_off_disk(fstype: str) -> bool:
    """Whether its files are on another machine or in memory, not on a block device here."""
    return fstype in _OFF_DISK or fstype.startswith("fuse.")


def served_elsewhere(fstype: str) -> str:
    """The name in SERVED_ELSEWHERE of a file system whose calls are not followed, else ""."""
    return _SERVED_ELSEWHERE.get(fstype.partition(".")[0], "")
