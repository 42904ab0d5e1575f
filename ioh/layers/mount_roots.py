"""Finds the mount that shows an NFS file; mountinfo does not have the mounted folder."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ioh.bpf.defines import known_offsets
from ioh.bpf.layout import Layout

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.maps import Map

_MEMBERS = ("dentry d_sb", "super_block s_magic s_mounts s_root", "mount mnt_id mnt.mnt_root")
# A list until 6.17, then linked by plain pointers.
_WAYS_ON = ("mnt_next_for_sb", "mnt_instance")
_ROOT = struct.Struct("=Q")
_ID = struct.Struct("=I")
_PATH_BYTES, _NAME_BYTES, _PATH_PARTS = 1024, 256, 16
# A file's names up to its mount's root, each with a NUL; complete is 1 up to the root, 2 for a name
# in no folder.
_NAMES = f"u32 length, complete; char names[{_PATH_BYTES + _NAME_BYTES}];"
FILE_PATH = Layout("file_path", _NAMES)
# With the dentries of each name, and of what they are below, if on NFS.
FILE_PATH_ON_NFS = Layout("file_path", f"{_NAMES} u64 dentries[{_PATH_PARTS}];")
_DENTRIES = FILE_PATH_ON_NFS.reader("dentries")
PATH_DEFINES = {"PATH_BYTES": _PATH_BYTES, "NAME_BYTES": _NAME_BYTES, "PATH_PARTS": _PATH_PARTS}


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
    def decode(value: bytes) -> tuple[int, ...]:
        """The dentries in a struct file_path, upwards; () if not NFS."""
        if len(value) < FILE_PATH_ON_NFS.size:
            return ()
        dentries = _DENTRIES.unpack_from(value)
        return dentries if dentries[0] else ()

    def depth(self, mount_id: int, dentries: tuple[int, ...]) -> int | None:
        """How many names a file's path has below the mount; None if the mount does not show it."""
        root = self._roots.get(mount_id)
        return dentries.index(root) if root and root in dentries else None
