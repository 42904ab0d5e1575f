"""A bench's work files: created by ioh, recognised by a marker, removed at the end."""

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
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

_MARKER_BYTES = 4096  # after the part that fio uses
_OURS = b"ioh bench made this file and may write over it\n"
_FILLED = b"It is written in full.\n"
_SPARE = 0.02  # of the file system, left free for others


@dataclass(frozen=True, slots=True)
class Need:
    """What tests need in a directory: names and size of work files, and other space."""

    names: tuple[str, ...]
    file_bytes: int
    other_bytes: int


def need_of(specs: Iterable[TestSpec]) -> Need:
    """Add up what tests need."""
    names: dict[str, None] = {}
    file_bytes = other_bytes = 0
    for spec in specs:
        if spec.kind == "metadata":
            other_bytes = max(other_bytes, spec.files * (4096 + spec.block_bytes))
            continue
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
    """A user's directory in which a bench has its files.

    Raises IohError if it is not a writable directory; each method, if a file of that name is not
    ours.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        name = printable(path)
        hint = "Give a directory on the storage, or -r with a device"
        try:
            is_directory = Path(path).is_dir()
        except OSError as error:
            cause = f"{name}: {error.strerror}"
            raise IohError(cause, hint, ExitCode.USAGE) from None
        refuse_if(not is_directory, f"{name} is not a directory", hint)
        if not os.access(path, os.W_OK | os.X_OK):
            cause = f"you cannot create files in {name}"
            raise IohError(cause, f"Run sudo install -d -o $USER {name}/bench, and give that")

    def check(self, need: Need, *, direct: bool) -> None:
        """Raise IohError for foreign files, too little space, or no direct I/O."""
        need_bytes = need.other_bytes
        for name in need.names:
            # A file that is not filled is created again, and needs its space.
            need_bytes += 0 if self.is_filled(name, need.file_bytes) else need.file_bytes
        self._own_folder()
        room = os.statvfs(self.path)
        free = room.f_bavail * room.f_frsize - int(room.f_blocks * room.f_frsize * _SPARE)
        if need_bytes > free:
            cause = (
                f"{self.path} has {free >> 20:,} MiB free, and the tests need {need_bytes >> 20:,}"
            )
            raise IohError(cause, "Give a smaller size: -m MEGABYTES")
        if direct and need.names and not self._takes_direct():
            cause = f"the file system of {self.path} does not support direct I/O"
            raise IohError(cause, "Results would be those of memory: choose another directory")

    def is_filled(self, name: str, size_bytes: int) -> bool:
        """Whether a filled work file of an earlier run exists."""
        marker = self._marker(name)
        return marker is not None and marker == (size_bytes, _OURS + _FILLED)

    def begin(self, name: str, size_bytes: int) -> None:
        """Create a work file with ioh's marker, before anything else is written to it."""
        self.remove(name)
        self._mark(name, size_bytes, _OURS, os.O_CREAT | os.O_EXCL)

    def finish(self, name: str, size_bytes: int) -> None:
        """Mark a work file as filled."""
        self._mark(name, size_bytes, _OURS + _FILLED)

    def _mark(self, name: str, size_bytes: int, text: bytes, flags: int = 0) -> None:
        with _opened(self._path(name), os.O_WRONLY | flags) as fd:
            os.pwrite(fd, text.ljust(_MARKER_BYTES, b"\n"), size_bytes)
            os.fsync(fd)

    def make_small_files(self) -> None:
        """Create an empty directory for small files and logs."""
        self.remove_small_files()
        self._path(FILES).mkdir(mode=0o700)
        (self._path(FILES) / ".ioh-bench").touch(0o600)

    def remove_small_files(self) -> None:
        """Remove that directory, if it is ours."""
        if self._own_folder():
            shutil.rmtree(self._path(FILES))

    def remove(self, name: str) -> None:
        """Remove a work file, if it is ours."""
        self._marker(name)
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return Path(self.path, name)

    def _marker(self, name: str) -> tuple[int, bytes] | None:
        """The offset and text of a work file's marker; None if there is no file."""
        try:
            with _opened(self._path(name), os.O_RDONLY) as fd:
                status = os.fstat(fd)
                at = max(0, status.st_size - _MARKER_BYTES)
                text = os.pread(fd, _MARKER_BYTES, at).rstrip(b"\n") + b"\n"
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._not_ours(name) from error
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_own or not text.startswith(_OURS):
            raise self._not_ours(name)
        return at, text

    def _own_folder(self) -> bool:
        path = self._path(FILES)
        if not path.exists() and not path.is_symlink():
            return False
        if path.is_symlink() or not (path / ".ioh-bench").is_file():
            raise self._not_ours(FILES)
        return True

    def _not_ours(self, name: str) -> IohError:
        cause = f"{self._path(name)} was not made by ioh bench"
        return IohError(cause, "Move it away: ioh writes to its own files only")

    def _takes_direct(self) -> bool:
        with (
            tempfile.NamedTemporaryFile(prefix="ioh-bench.", dir=self.path) as probe,
            contextlib.suppress(OSError),
            _opened(Path(probe.name), os.O_WRONLY | os.O_DIRECT),
        ):
            return True
        return False


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
