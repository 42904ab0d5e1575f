"""Returns freed memory to the kernel."""

from __future__ import annotations

import ctypes

_libc = ctypes.CDLL(None)
_trim = getattr(_libc, "malloc_trim", None)  # glibc only
_set = getattr(_libc, "mallopt", None)
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def give_back_large() -> None:
    """From now on, return blocks of 64 KiB and more when they are freed; costs no CPU time.

    By default glibc raises this size up to 32 MB with each such block freed.
    """
    if _set is not None:
        _set(_MMAP_THRESHOLD, 64 << 10)
        _set(_TRIM_THRESHOLD, 128 << 10)


def give_back() -> None:
    """Return free pages between used ones; takes about 0.3 ms.

    By itself glibc only returns the end of its heap: a process would grow for half an hour.
    """
    if _trim is not None:
        _trim(0)
