"""Reads maintenance jobs of storage: md resync and check, btrfs scrub and balance."""

from __future__ import annotations

import re
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.blockdev import list_folder
from ioh.procfs.files import ROOT, path_under, read_line, read_text

_ARRAY = re.compile(r"(\S+) : ")
# A socket of btrfs-progs that exists while a scrub runs.
_SCRUB = "/var/lib/btrfs/scrub.progress."
_PROGRESS = re.compile(r"\s+\[[=>.]*\]\s+(\w+) =\s*(\d+(?:\.\d+)?)% .*?(?:speed=(\d+)K/sec)?\s*$")


# By device, an array (``md0``) or a btrfs file system (``btrfs on sda,sdb``), and by the kernel's
# word (resync, recovery, check, reshape, balance, device replace …) or scrub: share completed in %,
# and speed in bytes/s; None if the kernel does not report it.
Jobs = dict[tuple[str, ...], tuple[float | None, int | None]]


def parse_mdstat(text: str) -> Jobs:
    """The running jobs in /proc/mdstat, without waiting ones."""
    jobs: Jobs = {}
    array = ""
    for line in text.split("\n"):
        if found := _ARRAY.match(line):
            array = printable(found[1])
        elif array and (found := _PROGRESS.match(line)):
            speed = None if found[3] is None else int(found[3]) * 1024
            jobs[array, printable(found[1])] = float(found[2]), speed
    return jobs


def read_jobs(root: Path = ROOT) -> Jobs:
    """All jobs that the kernel reports, and scrubs by btrfs-progs."""
    jobs = parse_mdstat(read_text(path_under(root, "proc/mdstat")) or "")
    folder = path_under(root, "sys/fs/btrfs")
    uuids = [uuid for uuid in list_folder(folder) if "-" in uuid]  # not "features"
    sockets = (read_text(path_under(root, "proc/net/unix")) or "") if uuids else ""
    for uuid in uuids:
        kind = read_line(f"{folder}/{uuid}/exclusive_operation")  # since 5.10
        kinds = [] if kind in {None, "none"} else [printable(kind or "")]
        if f"{_SCRUB}{uuid}\n" in sockets:
            kinds.append("scrub")
        jobs |= {(_name(folder, uuid), kind): (None, None) for kind in kinds}
    return jobs


def _name(folder: str, uuid: str) -> str:
    """A btrfs file system, named by its devices."""
    devices = ",".join(printable(name) for name in list_folder(f"{folder}/{uuid}/devices"))
    return f"btrfs on {devices}" if devices else f"btrfs {printable(uuid)}"
