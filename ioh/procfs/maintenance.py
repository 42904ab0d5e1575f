"""Reads what storage does on its own account: md resync and check, btrfs scrub and balance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.blockdev import list_folder
from ioh.procfs.files import ROOT, path_under, read_line, read_text

_ARRAY = re.compile(r"(\S+) : ")
# Where btrfs-progs reports the progress of a scrub: a socket for as long as it runs.
_SCRUB = "/var/lib/btrfs/scrub.progress."
_PROGRESS = re.compile(r"\s+\[[=>.]*\]\s+(\w+) =\s*(\d+(?:\.\d+)?)% .*?(?:speed=(\d+)K/sec)?\s*$")


@dataclass(frozen=True, slots=True)
class Job:
    """One job under way, on an array (``md0``) or a btrfs file system (``btrfs on sda,sdb``).

    ``kind`` is the kernel's word: resync, recovery, check, reshape, balance, device replace …, or
    scrub.  ``done_pct`` and ``speed_bytes_per_s`` are None where the kernel does not say.
    """

    device: str
    kind: str
    done_pct: float | None = None
    speed_bytes_per_s: int | None = None


def parse_mdstat(text: str) -> list[Job]:
    """Jobs of /proc/mdstat; those that wait for another one are left out."""
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
    """Every job that the kernel reports, and scrubs that btrfs-progs started."""
    jobs = parse_mdstat(read_text(path_under(root, "proc/mdstat")) or "")
    folder = path_under(root, "sys/fs/btrfs")
    uuids = [uuid for uuid in list_folder(folder) if "-" in uuid]  # "features" is none
    sockets = (read_text(path_under(root, "proc/net/unix")) or "") if uuids else ""
    for uuid in uuids:
        kind = read_line(f"{folder}/{uuid}/exclusive_operation")  # since 5.10
        kinds = [] if kind in {None, "none"} else [printable(kind or "")]
        if f"{_SCRUB}{uuid}\n" in sockets:
            kinds.append("scrub")
        jobs += [Job(_name(folder, uuid), kind) for kind in kinds]
    return jobs


def _name(folder: str, uuid: str) -> str:
    """What people know a btrfs file system by: its devices."""
    devices = ",".join(printable(name) for name in list_folder(f"{folder}/{uuid}/devices"))
    return f"btrfs on {devices}" if devices else f"btrfs {printable(uuid)}"
