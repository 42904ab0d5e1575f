"""Reads small text files of /proc and sysfs cheaply, and parses numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from pathlib import Path

ROOT = Path("/")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CHUNK_BYTES = 65536
_PRESSURE = re.compile(r"^(some|full) .*\btotal=([0-9]+)$", re.MULTILINE)


def path_under(root: Path, name: str) -> str:
    """The path of ``name`` (relative, such as ``proc/stat``) below ``root``, as a string."""
    prefix = os.fspath(root)
    return f"/{name}" if prefix == "/" else f"{prefix}/{name}"


def read_bytes(path: str) -> bytes | None:
    """Read a whole file, in as many reads as it takes.

    None if the file is missing or cannot be read (sysfs ``speed`` of a link that is down: EINVAL;
    ``pressure/io`` with PSI off: EOPNOTSUPP).
    """
    try:
        # O_NONBLOCK: a fifo or device in place of a /proc file must not hang us.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):  # ValueError: a NUL or lone surrogate in the name
        return None
    try:
        return read_fd(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_fd(fd: int) -> bytes:
    """Read from the current position to the end; OSError if the kernel refuses."""
    chunks: list[bytes] = []
    while chunk := os.read(fd, _CHUNK_BYTES):
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def read_text(path: str) -> str | None:
    """As read_bytes(); invalid UTF-8 becomes surrogates, so that names stay usable."""
    data = read_bytes(path)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def read_line(path: str) -> str | None:
    """A sysfs attribute without its line break; None if unreadable or empty."""
    text = read_text(path)
    return (text.removesuffix("\n") or None) if text is not None else None


def read_int(path: str) -> int | None:
    """The number in a sysfs attribute; None if unreadable or not a number."""
    text = read_text(path)
    return None if text is None else int_or_none(text.strip())


def read_numbers(path: str, wanted: Container[str]) -> dict[str, int]:
    """The wanted values of a file that has a name and a number on each line."""
    found: dict[str, int] = {}
    for line in (read_text(path) or "").split("\n"):
        name, _, word = line.partition(" ")
        if name in wanted and (number := int_or_none(word)) is not None:
            found[name] = number
    return found


def read_pressure(path: str) -> dict[str, int]:
    """Stall time in µs since boot, by ``some`` and ``full``; empty without PSI."""
    return {kind: int(total) for kind, total in _PRESSURE.findall(read_text(path) or "")}


def int_or_none(text: str) -> int | None:
    """A decimal number as the kernel writes it; None for anything else."""
    try:
        return int(text)
    except ValueError:
        return None


def ints_or_none(words: list[str]) -> list[int] | None:
    """All words as numbers; None if one is not a number."""
    try:
        return [int(word) for word in words]
    except ValueError:
        return None
