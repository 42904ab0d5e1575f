"""Mounts for a test, and a control group with a limit on the bytes it reads a second."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import Volume, run


def with_own_sys(change: str) -> list[str]:
    """A command prefix that changes /sys for that command alone.

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
        # A ring of io_uring keeps its files for a moment after it was closed.
        run(
            "sh",
            "-c",
            'for i in 1 2 3 4 5 6; do umount "$1" && exit; sleep 0.3; done; exit 1',
            "",
            place,
        )
        place.rmdir()


@contextlib.contextmanager
def throttled(volume: Volume, bytes_per_s: int) -> Iterator[None]:
    """Put this process into a control group, of version 1 or 2, that may read only so much."""
    roots = [
        (Path(words[1]), words[2])
        for words in map(str.split, Path("/proc/self/mounts").read_text().splitlines())
        if (words[2] == "cgroup" and "blkio" in words[3].split(",")) or words[2] == "cgroup2"
    ]
    root, kind = min(roots, key=lambda found: found[1])
    folder = root / f"ioh-test-{os.getpid()}"
    if kind == "cgroup2":
        (root / "cgroup.subtree_control").write_text("+io")
    folder.mkdir()
    try:
        if kind == "cgroup2":
            (folder / "io.max").write_text(f"{volume.loop.number} rbps={bytes_per_s}")
        else:
            limit = folder / "blkio.throttle.read_bps_device"
            limit.write_text(f"{volume.loop.number} {bytes_per_s}")
        (folder / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        folder.rmdir()
