"""Which mount shows a file of an NFS server: mountinfo does not say which folder each one is."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ioh.layers.base import known_offsets

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.maps import Map

_MEMBERS = ("dentry d_sb", "super_block s_magic s_mounts s_root", "mount mnt_id mnt.mnt_root")
# A list until 6.17, then a chain of pointers.
_WAYS_ON = ("mnt_next_for_sb", "mnt_instance")
_ROOT = struct.Struct("=Q")
_ID = struct.Struct("=I")
_PARTS = struct.Struct("=16Q")  # PATH_PARTS of probes/path.h


def mount_root_defines(btf: Btf) -> dict[str, int]:
    """Offsets by which the probe finds the mounts of a file system; nothing if one is missing."""
    for way in _WAYS_ON:
        if offsets := known_offsets(btf, *_MEMBERS, f"mount {way}"):
            return {**offsets, "HAS_MOUNT_ROOTS": 1}
    return {}


class MountRoots:
    """The folders that are mounted, and those that a file lies below, by their dentries."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}  # by the mount's id

    def read(self, roots: Map | None) -> None:
        """Take in what the probe has noted; None: it cannot."""
        for key, value in roots.drain() if roots is not None else ():
            self._roots[_ID.unpack(key)[0]] = _ROOT.unpack(value)[0]

    @staticmethod
    def decode(value: bytes, size: int) -> tuple[int, ...]:
        """Dentries behind ``size`` bytes of struct file_path, from the file up; () if not NFS."""
        if len(value) < size + _PARTS.size:
            return ()
        dentries = _PARTS.unpack_from(value, size)
        return dentries if dentries[0] else ()

    def depth(self, mount_id: int, dentries: tuple[int, ...]) -> int | None:
        """How many names a file has below the mount; None where it is not seen through it."""
        root = self._roots.get(mount_id)
        return dentries.index(root) if root and root in dentries else None
