"""Read and write whole files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ioh.model.errors import IohError


def read_file(path: Path, most_mib: int, wrong: Callable[[str], IohError]) -> bytes:
    """Read a file of limited size; ``wrong`` makes the error to raise from a description."""
    what = f"is larger than {most_mib} MiB"
    try:
        with path.open("rb") as file:
            raw = file.read((most_mib << 20) + 1)
        if len(raw) <= most_mib << 20:
            return raw
    except (OSError, ValueError) as error:  # a NUL in the path
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise wrong(what)


def write_file(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically; OSError if there is no space, or the directory is gone."""
    new = path.with_name(f"{path.name}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
