"""The files that a bench works on: made by ioh, known again by a marker, removed in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ioh.bench.jobs import DATA, FILES, LOG_BYTES
from ioh.bench.results import TestSpec
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

_MARKER_BYTES = 4096  # behind the part that fio uses
_OURS = b"ioh bench made this file and may write over it\n"
_FILLED = b"It is written in full.\n"
_SPARE = 0.02  # of the file system, left to others
_O_DIRECT = getattr(os, "O_DIRECT", 0)


@dataclass(frozen=True, slots=True)
class Need:
    """What tests need in a directory: the names of work files, their size, and room besides."""

    names: tuple[str, ...]
    file_bytes: int
    other_bytes: int


def need_of(specs: Iterable[TestSpec]) -> Need:
    """What some tests need."""
    names: dict[str, None] = {}
    file_bytes = other_bytes = 0
    for spec in specs:
        if spec.files:
            other_bytes = max(other_bytes, 3 * spec.files * max(4096, spec.block_bytes))
            continue
        if spec.kind == "commit":
            other_bytes = max(other_bytes, min(LOG_BYTES, spec.size_bytes))
        if (spec.job and spec.kind != "like") or (spec.kind == "commit" and not spec.rival):
            continue
        names |= dict.fromkeys(
            [f"{DATA}.{n}" for n in range(spec.users)] if spec.own_files else [DATA]
        )
        names |= dict.fromkeys([DATA] if spec.rival else [])
        file_bytes = max(file_bytes, spec.size_bytes)
    return Need(tuple(names), file_bytes, other_bytes)


class WorkFolder:
    """A directory of the user's in which a bench has its files.

    Raises IohError where it is none, or nothing can be made there; each method, where a file of
    that name is not ours.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        shown = printable(path)
        if not Path(path).is_dir():
            cause = f"{shown} is not a directory"
            raise IohError(
                cause, "Give a directory on the storage, or -r with a device", ExitCode.USAGE
            )
        if not os.access(path, os.W_OK | os.X_OK):
            cause = f"you cannot make files in {shown}"
            hint = f"sudo install -d -o $USER {shown}/bench, and give that"
            raise IohError(cause, hint)

    def check(self, need: Need, *, direct: bool) -> None:
        """Refuse what cannot end well: files of others, no room, no direct I/O."""
        wanted = need.other_bytes
        for name in need.names:
            # A file that is not filled is made anew, and its room with it.
            wanted += 0 if self.is_filled(name, need.file_bytes) else need.file_bytes
        self._own_folder()
        room = os.statvfs(self.path)
        free = room.f_bavail * room.f_frsize - int(room.f_blocks * room.f_frsize * _SPARE)
        if wanted > free:
            cause = (
                f"{printable(self.path)} has room for {free >> 20:,} MiB, "
                f"and the tests need {wanted >> 20:,}"
            )
            raise IohError(cause, "Give a smaller size: -m MEGABYTES")
        if direct and need.names and not self._takes_direct():
            cause = f"the file system of {printable(self.path)} takes no direct I/O"
            raise IohError(cause, "Its results would be those of memory: choose another directory")

    def is_filled(self, name: str, size_bytes: int) -> bool:
        """Whether a work file of an earlier run is there, written in full."""
        found = self._marker(name)
        return found is not None and found == (size_bytes, _OURS + _FILLED)

    def begin(self, name: str, size_bytes: int) -> None:
        """Make a new work file that says whose it is, before anything else is written to it."""
        self.remove(name)
        self._mark(name, size_bytes, _OURS, os.O_CREAT | os.O_EXCL)

    def finish(self, name: str, size_bytes: int) -> None:
        """Note that a work file is written in full."""
        self._mark(name, size_bytes, _OURS + _FILLED)

    def _mark(self, name: str, size_bytes: int, text: bytes, flags: int = 0) -> None:
        with _opened(self._path(name), os.O_WRONLY | flags) as fd:
            os.pwrite(fd, text.ljust(_MARKER_BYTES, b"\n"), size_bytes)
            os.fsync(fd)

    def make_small_files(self) -> None:
        """An empty directory for small files and logs."""
        self.remove_small_files()
        Path(self._path(FILES)).mkdir(mode=0o700)
        marker = os.open(f"{self._path(FILES)}/.ioh-bench", os.O_WRONLY | os.O_CREAT, 0o600)
        os.close(marker)

    def remove_small_files(self) -> None:
        """Remove that directory, where it is ours."""
        if self._own_folder():
            shutil.rmtree(self._path(FILES))

    def remove(self, name: str) -> None:
        """Remove a work file, where it is ours."""
        self._marker(name)
        with contextlib.suppress(FileNotFoundError):
            Path(self._path(name)).unlink()

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _marker(self, name: str) -> tuple[int, bytes] | None:
        """Where a work file's marker stands, and what it says; None where there is no file."""
        try:
            with _opened(self._path(name), os.O_RDONLY) as fd:
                found = os.fstat(fd)
                at = max(0, found.st_size - _MARKER_BYTES)
                text = os.pread(fd, _MARKER_BYTES, at).rstrip(b"\n") + b"\n"
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._not_ours(name) from error
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_own or not text.startswith(_OURS):
            raise self._not_ours(name)
        return at, text

    def _own_folder(self) -> bool:
        path = Path(self._path(FILES))
        if not path.exists() and not path.is_symlink():
            return False
        if path.is_symlink() or not (path / ".ioh-bench").is_file():
            raise self._not_ours(FILES)
        return True

    def _not_ours(self, name: str) -> IohError:
        cause = f"{printable(self._path(name))} was not made by ioh bench"
        return IohError(cause, "Move it away: ioh writes to its own files only")

    def _takes_direct(self) -> bool:
        fd, probe = tempfile.mkstemp(prefix="ioh-bench.", dir=self.path)
        os.close(fd)
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | _O_DIRECT))
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                Path(probe).unlink()
        return True


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
