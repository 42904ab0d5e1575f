"""SCSI disks in memory (scsi_debug) with a latency that can be set, and arrays of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import run
from tests.kernel.talker import wait_until

SIZE_MB = 96
NAMES = ("sda", "sdb")  # free for any use
EXPORTED = "sdc"  # has a file system that the NFS server exports
# The machine's third disk takes 30 pieces of memory in a request; the others take 254.
FEW_SEGMENTS = "vdc"
_DRIVER = Path("/sys/bus/pseudo/drivers/scsi_debug")


class Disks:
    """Three disks of scsi_debug, marked as rotational: their latency stands for that.

    Each page of a request is a segment of its own there; ``max_segments`` is 2,048.
    """

    def __init__(self) -> None:
        if not _DRIVER.exists():
            run("modprobe", "-a", "sd_mod", "md-mod", "raid0", "raid1")
            run("modprobe", "scsi_debug", f"dev_size_mb={SIZE_MB}", "add_host=3",
                "per_host_store=1", "ndelay=1000000")  # fmt: skip
        for name in (*NAMES, EXPORTED):
            disk = Path("/sys/block", name)
            wait_until(disk.exists)
            (disk / "queue/rotational").write_text("1")

    @staticmethod
    def answer_after(us: int) -> None:
        """Each request takes so long, however many there are; 0 for at once."""
        setting, value = ("ndelay", us * 1000) if us else ("delay", 0)
        for _ in range(50):
            with contextlib.suppress(OSError):  # busy as long as a request is under way
                (_DRIVER / setting).write_text(str(value))
                return
            time.sleep(0.1)
        (_DRIVER / setting).write_text(str(value))

    @staticmethod
    @contextlib.contextmanager
    def array(*options: str) -> Iterator[str]:
        """Make an md array of the two free disks; yields its name.  ``options``: of mdadm."""
        members = [f"/dev/{name}" for name in NAMES]
        run("mdadm", "--create", "/dev/md9", "--run", "--quiet", "--metadata=1.2",
            "--raid-devices=2", *options, *members)  # fmt: skip
        try:
            yield "md9"
        finally:
            run("mdadm", "--stop", "--quiet", "/dev/md9")
            run("mdadm", "--zero-superblock", *members)
