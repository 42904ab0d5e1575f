"""Reads maintenance jobs of storage: md resync and check, btrfs scrub and balance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.blockdev import list_folder
from ioh.procfs.files import ROOT, path_under, read_line, read_text

_ARRAY = re.compile(r"(\S+) : ")
# A socket of btrfs-progs that exists while a scrub runs.
_SCRUB = "/var/lib/btrfs/scrub.progress."
_PROGRESS = re.compile(r"\s+\[[=>.]*\]\s+(\w+) =\s*(\d+(?:\.\d+)?)% .*?(?:speed=(\d+)K/sec)?\s*$")


@dataclass(frozen=True, slots=True)
class Job:
    """A running job, on an array (``md0``) or a btrfs file system (``btrfs on sda,sdb``).

    ``kind`` is the kernel's word (resync, recovery, check, reshape, balance, device replace …) or
    scrub.  ``done_pct`` and ``speed_bytes_per_s`` are None if the kernel does not report them.
    """

    device: str
    kind: str
    done_pct: float | None = None
    speed_bytes_per_s: int | None = None


def parse_mdstat(text: str) -> list[Job]:
    """The running jobs in /proc/mdstat, without waiting ones."""
    jobs: list[Job] = []
    array = ""
    for line in text.split("\n"):
        if found := _ARRAY.match(line):
            array = printable(found[1])
        elif array and (found := _PROGRESS.match(line)):
            speed = None if found[3] is None else int(found[3]) * 1024
            jobs.append(Job(array, printable(found[1]), float(found[2]), speed))
    return jobs


def read_jobs(root: Path = ROOT) -> list[Job]:
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
        jobs += [Job(_name(folder, uuid), kind) for kind in kinds]
    return jobs


def _name(folder: str, uuid: str) -> str:
    """A btrfs file system, named by its devices."""
    devices = ",".join(printable(name) for name in list_folder(f"{folder}/{uuid}/devices"))
    return f"btrfs on {devices}" if devices else f"btrfs {printable(uuid)}"
