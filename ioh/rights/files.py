"""Create and remove all of ioh's files: only new ones, mode 0600, without following links.

With a caller (sudo), ioh does this with the caller's rights.  If root itself started ioh, which
then becomes an unprivileged user, a small process keeps root only for this.  When forked, it gets a
directory and a pattern of names.  It creates new files with such names there, passes their
descriptors, and removes files that it created or was given.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterable, Iterator

from ioh.rights.sandbox import forbid_calls
from ioh.rights.user import caller

_MAX_BYTES = 4096
_TIMEOUT_S = 10.0
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Files that the screen's keys write; cron, shells and logins read no file with such a suffix.
SCREEN_FILES = re.compile(r"ioh-[A-Za-z0-9._-]{1,128}\.(ioh|svg|txt)")

MAX_NAMES = 999  # for files of the same second

_keeper: _Keeper | None = None


def dated_names(hostname: str, time_unix_s: float, suffix: str) -> Iterator[str]:
    """``ioh-HOST-<local date and time>.SUFFIX``, then ``…-2.SUFFIX`` and so on if that is taken."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname)[:64].lstrip(".-") or "host"
    stem = f"ioh-{host}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(time_unix_s))}"
    yield f"{stem}.{suffix}"
    yield from (f"{stem}-{number}.{suffix}" for number in range(2, MAX_NAMES + 1))


def create(path: str) -> int:
    """Create a new file that only its owner can read; return a descriptor for writing.

    OSError: it exists, or cannot be created.  ValueError: a NUL in the path.
    """
    if _keeper is not None and _keeper.is_for(path):
        return _keeper.create(os.path.basename(path))  # noqa: PTH119
    fd = os.open(path, _FLAGS, 0o600)
    os.fchmod(fd, 0o600)  # overrides a default ACL
    return fd


def remove(path: str) -> None:
    """Remove a file of ioh's.  OSError: it does not exist, or ioh may not remove it."""
    if _keeper is not None and _keeper.is_for(path):
        _keeper.remove(os.path.basename(path))  # noqa: PTH119
        return
    os.unlink(path)  # noqa: PTH108


def write_new(folder: str, names: Iterable[str], text: str) -> str:
    """Write a new file that only its owner can read, by the first free name; return its path.

    OSError: it cannot be written.
    """
    for name in names:
        path = os.path.join(folder, name).removeprefix("./")  # noqa: PTH118
        try:
            fd = create(path)
        except FileExistsError:
            continue
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return path
    raise FileExistsError(None, "too many files of that name")


def writable_folder() -> str:
    """The working directory, else the one for temporary files, as far as known in advance."""
    if _keeper is not None and _keeper.is_for("x"):
        return "."
    import tempfile  # noqa: PLC0415 (the loader is forked before anything large is imported)

    return "." if os.access(".", os.W_OK | os.X_OK) else tempfile.gettempdir()


@contextlib.contextmanager
def kept(directory: str, names: re.Pattern[str], removable: Iterable[str] = ()) -> Iterator[None]:
    """If root itself runs ioh: allow creating files in a directory after root is dropped.

    ``names`` are the allowed names; ``removable`` are existing files that may be removed.
    OSError: the process cannot be forked.
    """
    global _keeper  # noqa: PLW0603 (a process drops root once)
    # A missing directory is reported when the file cannot be created.
    if os.getuid() != 0 or caller() is not None or not os.path.isdir(directory or "."):  # noqa: PTH112
        yield
        return
    _keeper = _Keeper(directory or ".", names, frozenset(removable))
    try:
        yield
    finally:
        _keeper.close()
        _keeper = None


class _Keeper:
    """The client of the process that creates files as root."""

    def __init__(self, directory: str, names: re.Pattern[str], removable: frozenset[str]) -> None:
        self._directory = os.path.abspath(directory)  # noqa: PTH100
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_TIMEOUT_S)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _serve(theirs, folder, names, set(removable))
            finally:
                os._exit(0)
        theirs.close()
        os.close(folder)

    def is_for(self, path: str) -> bool:
        return os.path.dirname(os.path.abspath(path)) == self._directory  # noqa: PTH100, PTH120

    def create(self, name: str) -> int:
        fds = self._ask(b"+", name)
        os.set_inheritable(fds[0], False)  # noqa: FBT003 (positional in os)
        return fds[0]

    def remove(self, name: str) -> None:
        self._ask(b"-", name)

    def _ask(self, verb: bytes, name: str) -> list[int]:
        answer, fds = b"", list[int]()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.send(verb + os.fsencode(name))
            answer, fds, _, _ = socket.recv_fds(self._channel, _MAX_BYTES, 1)
        if not answer:
            msg = "the process that creates files as root has ended"
            raise ConnectionError(None, msg)
        if number := int(answer):
            raise OSError(number, os.strerror(number), name)
        return fds

    def close(self) -> None:
        self._channel.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(channel: socket.socket, folder: int, names: re.Pattern[str], own: set[str]) -> None:
    """Serve requests, in the process that keeps root."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGTSTP):
        signal.signal(ending, signal.SIG_IGN)
    forbid_calls()
    low, high = sorted((channel.fileno(), folder))
    for begin, end in ((0, low), (low + 1, high), (high + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(begin, end)
    while request := channel.recv(_MAX_BYTES):
        verb, name = request[:1], os.fsdecode(request[1:])
        fds, number = [], 0
        try:
            if not names.fullmatch(name) or (verb == b"-" and name not in own):
                raise PermissionError(1, "")
            if verb == b"-":
                os.unlink(name, dir_fd=folder)
            else:
                fds = [os.open(name, _FLAGS, 0o600, dir_fd=folder)]
                os.fchmod(fds[0], 0o600)
                own.add(name)
        except OSError as error:
            number = error.errno or 1
        socket.send_fds(channel, [str(number).encode()], fds)
        for fd in fds:
            os.close(fd)
