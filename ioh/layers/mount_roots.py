"""Finds the mount that shows an NFS file; mountinfo does not have the mounted folder."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ioh.bpf.defines import known_offsets

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.maps import Map

_MEMBERS = ("dentry d_sb", "super_block s_magic s_mounts s_root", "mount mnt_id mnt.mnt_root")
# A list until 6.17, then linked by plain pointers.
_WAYS_ON = ("mnt_next_for_sb", "mnt_instance")
_ROOT = struct.Struct("=Q")
_ID = struct.Struct("=I")
_PARTS = struct.Struct("=16Q")  # PATH_PARTS of probes/path.h


def mount_root_defines(btf: Btf) -> dict[str, int]:
    """Offsets to find the mounts of a file system; empty if one is missing."""
    for way in _WAYS_ON:
        if offsets := known_offsets(btf, *_MEMBERS, f"mount {way}"):
            return {**offsets, "HAS_MOUNT_ROOTS": 1}
    return {}


class MountRoots:
    """The root folder of each mount, by dentry."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}  # by mount id

    def read(self, roots: Map | None) -> None:
        """Take the mounts that the probe found; None if it finds none on this kernel."""
        for key, value in roots.drain() if roots is not None else ():
            self._roots[_ID.unpack(key)[0]] = _ROOT.unpack(value)[0]

    @staticmethod
    def decode(value: bytes, size: int) -> tuple[int, ...]:
        """The dentries after ``size`` bytes of struct file_path, upwards; () if not NFS."""
        if len(value) < size + _PARTS.size:
            return ()
        dentries = _PARTS.unpack_from(value, size)
        return dentries if dentries[0] else ()

    def depth(self, mount_id: int, dentries: tuple[int, ...]) -> int | None:
        """How many names a file's path has below the mount; None if the mount does not show it."""
        root = self._roots.get(mount_id)
        return dentries.index(root) if root and root in dentries else None
