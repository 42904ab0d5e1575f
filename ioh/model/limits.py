"""Explains failures from too little memory, or too few descriptors or processes."""

from __future__ import annotations

import errno
import os
import resource
from typing import NamedTuple

from ioh.model.errors import IohError

MIN_FDS = 48  # without probes
MIN_BYTES = 200 << 20  # address space; with less, numpy's BLAS exits or crashes
ENOUGH_FDS = 512  # all layers need about 110; 330 if each program is attached six times
SPARE_FDS = 16  # for /proc files and threads' pipes, in addition to the probes


class Lack(NamedTuple):
    """A lack of some resource, and what to do about it."""

    cause: str
    hint: str

    def as_error(self) -> IohError:
        """The error that ends a command."""
        return IohError(self.cause, self.hint[0].upper() + self.hint[1:])


def soft_limit(which: int) -> int | None:
    """A soft limit of this process; None if unlimited."""
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def too_few_fds() -> Lack:
    """Out of descriptors."""
    limit = soft_limit(resource.RLIMIT_NOFILE)
    return Lack(f"too few file descriptors (ulimit -n {limit})", f"raise to {ENOUGH_FDS}")


def too_little_memory() -> Lack:
    """Out of memory or address space."""
    limit = soft_limit(resource.RLIMIT_AS)
    if limit is None:
        return Lack("too little memory", "free some")
    enough = max(MIN_BYTES, limit * 2) >> 10
    return Lack(f"too little memory (ulimit -v {limit >> 10})", f"raise to {enough}, or free some")


def require_limits() -> None:
    """Raise the descriptor limit as far as needed and allowed.

    Raises:
        IohError: A limit is too low for ioh to work at all.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = ENOUGH_FDS if hard == resource.RLIM_INFINITY else min(ENOUGH_FDS, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    if enough < MIN_FDS:
        raise too_few_fds().as_error()
    limit = soft_limit(resource.RLIMIT_AS)
    if limit is not None and limit < MIN_BYTES:
        raise too_little_memory().as_error()


def lack_behind(error: BaseException, *, of_fork: bool = False) -> Lack | None:
    """The lack behind an error; None if the error has another reason.

    ``of_fork``: the error may come from fork(); elsewhere EAGAIN has other meanings.
    """
    if isinstance(error, MemoryError) or _is(error, errno.ENOMEM) or _is_unmapped(error):
        return too_little_memory()
    if _is(error, errno.EMFILE):
        return too_few_fds()
    if _is(error, errno.ENFILE):
        return Lack("too few file descriptors on this machine", "raise the sysctl fs.file-max")
    is_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
    if is_thread or (of_fork and _is(error, errno.EAGAIN)):
        limit = soft_limit(resource.RLIMIT_NPROC)
        cause = "too few processes" if limit is None else f"too few processes (ulimit -u {limit})"
        return Lack(f"{cause}, or no memory for another", "raise the limit of user or service")
    return None


def _is(error: BaseException, code: int) -> bool:
    """Whether an error has this code; the dynamic loader only gives its text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == code
    return isinstance(error, ImportError | OSError) and os.strerror(code) in str(error)


def _is_unmapped(error: BaseException) -> bool:
    """Whether the dynamic loader found no room for a library."""
    return isinstance(error, ImportError | OSError) and "failed to map segment" in str(error)
