"""What a test mounts for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import run


@contextlib.contextmanager
def mounted(what: str | Path, place: Path, *options: str) -> Iterator[Path]:
    """Mount something on a folder made for it, as long as the block lasts."""
    place.mkdir()
    run("mount", *options, what, place)
    try:
        yield place
    finally:
        run("umount", place)
