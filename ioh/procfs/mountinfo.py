"""Finds mounts in /proc/self/mountinfo, and the path of a file; never touches a mount."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ioh.model.file_systems import NFS
from ioh.model.printable import printable
from ioh.procfs.diskstats import parse_dev
from ioh.procfs.files import ROOT, path_under, read_fd, read_text

_OCTAL = re.compile(r"\\([0-3][0-7]{2})")
_FIXED_FIELDS = 6  # id, parent, major:minor, root, mount point, options; then optional fields


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount of the caller's mount namespace.

    Strings are the kernel's, with octal escapes decoded, not yet printable.  ``root``: the mounted
    directory of the file system (``/`` unless it is a bind mount or a subvolume).  ``source``:
    ``/dev/sda1``, ``10.0.0.5:/export``; free text for some file systems.  ``dev``: the kernel's
    dev_t of the file system, with major 0 if it is not on a single block device.  ``id``: the
    kernel's, reused after an unmount.  ``address``: the server's, ``""`` if there is none.
    """

    mount_point: str
    fstype: str
    source: str
    root: str
    dev: int
    id: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True)
class Location:
    """A file as the user sees it; every string printable."""

    path: str
    mount_point: str
    fstype: str


def decode_octal(text: str) -> str:
    r"""Decode the kernel's escapes (``\040`` for a space); keep other backslashes."""
    return _OCTAL.sub(
        lambda match: bytes([int(match[1], 8)]).decode("utf-8", "surrogateescape"), text
    )


def parse_line(line: str) -> Mount | None:
    """Parse one mount; None if malformed."""
    # Not str.split(): a path can contain Unicode spaces.
    fields = line.split(" ")
    if len(fields) < _FIXED_FIELDS:
        return None
    dev = parse_dev(fields[2])
    try:
        separator = fields.index("-", _FIXED_FIELDS)
    except ValueError:
        return None
    rest = fields[separator + 1 :]
    if dev is None or len(rest) < 2:
        return None
    return Mount(
        mount_point=decode_octal(fields[4]),
        fstype=decode_octal(rest[0]),
        source=decode_octal(rest[1]),
        root=decode_octal(fields[3]),
        dev=dev,
        id=int(fields[0]) if fields[0].isdecimal() else 0,
        address=_address(rest[2]) if len(rest) > 2 else "",
    )


def _address(options: str) -> str:
    given = (word for word in options.split(",") if word.startswith("addr="))
    return next(given, "").removeprefix("addr=")


def parse_mountinfo(text: str) -> list[Mount]:
    """Parse /proc/PID/mountinfo, oldest mount first; skip malformed lines."""
    return [mount for line in text.split("\n") if (mount := parse_line(line)) is not None]


def read_mounts(root: Path = ROOT) -> list[Mount]:
    """The mounts of this process' namespace, oldest first; empty if unreadable."""
    return parse_mountinfo(read_text(path_under(root, "proc/self/mountinfo")) or "")


def mount_of_path(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount of an absolute path in this namespace; does not touch the path."""
    best: Mount | None = None
    for mount in mounts:
        if relative_to(path, mount.mount_point) is not None and (
            best is None or len(mount.mount_point) >= len(best.mount_point)
        ):
            best = mount  # the later of two on one mount point hides the other
    return best


def relative_to(path: str, folder: str) -> str | None:
    """The rest of ``path`` below ``folder`` (``""`` or ``/…``); None if it is elsewhere."""
    folder = folder.rstrip("/")
    if path == folder or path.startswith(folder + "/"):
        return path[len(folder) :].rstrip("/")
    return None


_shown = lru_cache(maxsize=1024)(printable)  # of the strings of mounts


def place(mount: Mount, below: str) -> Location:
    """The location of a file, given its path below the mount (``""`` or ``/…``)."""
    return Location(
        path=printable(mount.mount_point.rstrip("/") + below or "/"),
        mount_point=_shown(mount.mount_point),
        fstype=_shown(mount.fstype),
    )


class MountTable:
    """The mounts of this process' namespace, read again only after a change.

    The kernel signals a change by POLLPRI on the open file, so checking costs one system call.
    This namespace does not include mounts inside containers.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._by_dev: dict[int, list[Mount]] = {}
        self._mounts: tuple[Mount, ...] = ()
        self._poll = select.poll()
        try:
            self._fd = os.open(path_under(root, "proc/self/mountinfo"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1
            return
        self._poll.register(self._fd, select.POLLPRI)
        self._read()

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """All mounts as of the last refresh, oldest first."""
        return self._mounts

    def refresh(self) -> bool:
        """Read the mounts again if they changed; True if so: then cached paths are invalid."""
        # poll() acknowledges the change before the read, so none is missed.
        if self._fd < 0 or not self._poll.poll(0):
            return False
        self._read()
        return True

    def of_whole(self, dev: int) -> tuple[str, str] | None:
        """Printable mount point and type of the mount that shows every file of ``dev``.

        None if different mounts show different files.
        """
        mounts = self._by_dev.get(dev)
        # Every NFS mount has the root "/".
        is_shared = mounts and len(mounts) > 1 and mounts[0].fstype in NFS
        if not mounts or is_shared or mounts[0].root != "/":
            return None
        return _shown(mounts[0].mount_point), _shown(mounts[0].fstype)

    def of_dev(self, dev: int) -> Mount | None:
        """The mount to name a file system by: that of its root, or else its oldest one.

        NFSv4 mounts of subdirectories do not show the root; those of one file system share a dev_t.
        """
        mounts = self.of_file_system(dev)
        whole = (mount for mount in mounts if mount.root == "/")
        return next(whole, mounts[0] if mounts else None)

    def locate(self, dev: int, path: str) -> Location | None:
        """The location of ``path`` of file system ``dev``; None if no mount here shows it.

        If several do, the oldest: a bind mount is newer than its origin.
        """
        for mount in self.of_file_system(dev):
            below = relative_to(path, mount.root)
            if below is not None:
                return place(mount, below)
        return None

    def of_file_system(self, dev: int) -> Sequence[Mount]:
        """All mounts of one file system, oldest first."""
        return self._by_dev.get(dev, ())

    def _read(self) -> None:
        try:
            os.lseek(self._fd, 0, os.SEEK_SET)
            text = read_fd(self._fd).decode("utf-8", "surrogateescape")
        except OSError:
            return
        self._mounts = tuple(parse_mountinfo(text))
        self._by_dev = {}
        for mount in self._mounts:
            self._by_dev.setdefault(mount.dev, []).append(mount)
