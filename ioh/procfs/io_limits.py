"""Reads the I/O limits of control groups: io.max (version 2), blkio.throttle (version 1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.diskstats import parse_dev
from ioh.procfs.files import ROOT, int_or_none, path_under, read_text

# Bytes read, bytes written, reads, writes, all per second; None: no limit.
Limits = tuple[int | None, ...]

_V2_WORDS = ("rbps", "wbps", "riops", "wiops")
_V1_FILES = ("read_bps_device", "write_bps_device", "read_iops_device", "write_iops_device")
_MAX_GROUPS = 2000
# Limits are few and rarely change: read all groups every so many ticks.
_PERIOD_TICKS = 30


def parse_io_max(text: str) -> dict[int, Limits]:
    """Limits by dev_t from io.max: ``8:16 rbps=2097152 wbps=max riops=max wiops=120``."""
    found: dict[int, Limits] = {}
    for line in text.split("\n"):
        number, _, rest = line.partition(" ")
        dev = parse_dev(number)
        if dev is None:
            continue
        words = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        values = tuple(int_or_none(words.get(name, "")) for name in _V2_WORDS)
        if any(value is not None for value in values):
            found[dev] = values
    return found


def parse_throttle(texts: Sequence[str]) -> dict[int, Limits]:
    """Limits by dev_t from the files of version 1, each with lines ``8:16 2097152``."""
    found: dict[int, list[int | None]] = {}
    for at, text in enumerate(texts):
        for line in text.split("\n"):
            number, _, rest = line.partition(" ")
            dev, value = parse_dev(number), int_or_none(rest)
            if dev is not None and value:
                found.setdefault(dev, [None] * len(texts))[at] = value
    return {dev: tuple(values) for dev, values in found.items()}


def read_limits(root: Path = ROOT) -> dict[tuple[str, int], Limits]:
    """All limits, by control group (printable) and dev_t."""
    is_v1 = cgroup_version(root) == 1
    base = path_under(root, "sys/fs/cgroup/blkio" if is_v1 else "sys/fs/cgroup")
    read_group = _read_v1 if is_v1 else _read_v2
    return {
        (printable(folder[len(base) :] or "/"), dev): limits
        for folder, _, _ in islice(os.walk(base), _MAX_GROUPS)
        for dev, limits in read_group(folder).items()
    }


def cgroup_version(root: Path = ROOT) -> int:
    """The version of the control groups that limit I/O; 1 if both are mounted."""
    return 2 if (root / "sys/fs/cgroup/cgroup.controllers").exists() else 1


def _read_v2(folder: str) -> dict[int, Limits]:
    return parse_io_max(read_text(f"{folder}/io.max") or "")


def _read_v1(folder: str) -> dict[int, Limits]:
    return parse_throttle(
        [read_text(f"{folder}/blkio.throttle.{name}") or "" for name in _V1_FILES]
    )


class IoLimits:
    """The limits of all control groups, read every _PERIOD_TICKS ticks."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.version = cgroup_version(root)
        self._ticks = 0
        self._known: dict[tuple[str, int], Limits] = {}

    def read(self) -> dict[tuple[str, int], Limits]:
        """Like read_limits(); call it once a tick."""
        if self._ticks % _PERIOD_TICKS == 0:
            self._known = read_limits(self._root)
        self._ticks += 1
        return self._known
