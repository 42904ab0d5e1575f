"""What a test mounts for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import run


def with_own_sys(change: str) -> list[str]:
    """A command prefix: /sys changed for that command alone.

    Only /sys is made private: in a chroot / is no mount point, so it has no propagation to set.
    """
    script = f'mount --make-rprivate /sys && {change} && exec "$@"'
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, "sh"]


@contextlib.contextmanager
def mounted(what: str | Path, place: Path, *options: str) -> Iterator[Path]:
    """Mount something on a folder made for it, as long as the block lasts."""
    place.mkdir()
    run("mount", *options, what, place)
    try:
        yield place
    finally:
        run("umount", place)
