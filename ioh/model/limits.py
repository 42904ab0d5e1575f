"""What a failure for want of memory, descriptors or processes means: which limit, what to do."""

from __future__ import annotations

import errno
import os
import resource
from typing import NamedTuple

from ioh.model.errors import IohError

MIN_FDS = 48  # without any probe
MIN_BYTES = 200 << 20  # of address space; numpy's BLAS ends or crashes a process with less
ENOUGH_FDS = 512  # all layers take some 110; 330 where each program is attached six times
SPARE_FDS = 16  # for the files of /proc and threads' pipes, beside what the probes take


class Lack(NamedTuple):
    """What there is too little of, and what to do about it."""

    cause: str
    hint: str

    def as_error(self) -> IohError:
        """The same as what ends a command."""
        return IohError(self.cause, self.hint[0].upper() + self.hint[1:])


def soft_limit(which: int) -> int | None:
    """A limit of this process; None where there is none."""
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def too_few_fds() -> Lack:
    """No descriptor is left."""
    limit = soft_limit(resource.RLIMIT_NOFILE)
    return Lack(f"too few file descriptors (ulimit -n {limit})", f"raise to {ENOUGH_FDS}")


def too_little_memory() -> Lack:
    """No memory is left, or no room for its addresses."""
    limit = soft_limit(resource.RLIMIT_AS)
    if limit is None:
        return Lack("too little memory", "free some")
    enough = max(MIN_BYTES, limit * 2) >> 10
    return Lack(f"too little memory (ulimit -v {limit >> 10})", f"raise to {enough}, or free some")


def require_limits() -> None:
    """Take as many descriptors as are needed, where this process is allowed to.

    Raises:
        IohError: It is allowed so little that nothing would work.
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
    """What a failure is for want of; None where it is for another reason.

    ``of_fork``: it may be that of a fork; EAGAIN has many meanings elsewhere.
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
        told = "too few processes" if limit is None else f"too few processes (ulimit -u {limit})"
        return Lack(f"{told}, or no memory for another", "raise the limit, or that of the service")
    return None


def _is(error: BaseException, code: int) -> bool:
    """Whether it has this code; the dynamic loader says it in words alone."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == code
    return isinstance(error, ImportError | OSError) and os.strerror(code) in str(error)


def _is_unmapped(error: BaseException) -> bool:
    """Whether the dynamic loader found no room for a library."""
    return isinstance(error, ImportError | OSError) and "failed to map segment" in str(error)
