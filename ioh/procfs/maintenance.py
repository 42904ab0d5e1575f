"""Reads what storage does on its own account: md resync and check, btrfs balance and replace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.blockdev import list_folder
from ioh.procfs.files import ROOT, path_under, read_line, read_text

_ARRAY = re.compile(r"(\S+) : ")
_PROGRESS = re.compile(r"\s+\[[=>.]*\]\s+(\w+) =\s*(\d+(?:\.\d+)?)% .*?(?:speed=(\d+)K/sec)?\s*$")


@dataclass(frozen=True, slots=True)
class Job:
    """One job under way.

    Shape:
        ``device`` is an array (``md0``) or a btrfs file system (its UUID), printable;
        ``kind`` the kernel's word: resync, recovery, check, reshape, balance, device replace …
        ``done_pct`` and ``speed_bytes_per_s`` are None where the kernel does not tell.
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
    """Every job that the kernel tells of; a btrfs scrub is not among them."""
    jobs = parse_mdstat(read_text(path_under(root, "proc/mdstat")) or "")
    folder = path_under(root, "sys/fs/btrfs")
    for uuid in list_folder(folder):
        kind = read_line(f"{folder}/{uuid}/exclusive_operation")  # since 5.10
        if kind not in {None, "none"}:
            jobs.append(Job(printable(uuid), printable(kind or "")))
    return jobs
