"""Block devices as Snapshots show them: which one carries something, and its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioh.findings.sums import OpSum, sum_op
from ioh.findings.window import once, rows_of
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Device:
    """One device with what it did in one direction.

    Shape:
        ``name`` as the kernel has it, ``on`` what it is made of; ``settings`` gauges of its row
        by name; ``sum`` its reads or writes.
    """

    name: str
    on: str
    settings: Mapping[str, Value]
    sum: OpSum

    def setting(self, name: str) -> float | None:
        """A limit; None where it is not known or there is none."""
        return self.settings.get(name) or None

    @property
    def is_stacked(self) -> bool:
        """Whether its I/O appears again on another device."""
        return bool(self.settings.get("stacked"))

    @property
    def node(self) -> str:
        """Where udev has it; to be quoted in a command, as every name."""
        return f"/dev/{self.name}"

    def queue_file(self, name: str) -> str:
        """Where sysfs has a setting of its queue."""
        return f"/sys/block/{self.name.replace('/', '!')}/queue/{name}"


@once
def devices(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices that did ``op`` (read or write), the busiest first."""
    found = []
    for row in rows_of(snapshots[-1], "block", "device"):
        total = sum_op(snapshots, "block", op, row.key[0])
        if total.count:
            on = row.key[1] if len(row.key) > 1 else ""
            found.append(Device(row.key[0], on, row.values, total))
    return sorted(found, key=lambda device: -device.sum.bytes)


def passing(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices without requests of their own (md, dm) through which ``op`` passes now.

    What they did is in no part: their ``sum`` is empty.
    """
    nothing = OpSum(snapshots[-1].interval_s)
    return [
        Device(row.key[0], row.key[1] if len(row.key) > 1 else "", row.values, nothing)
        for row in rows_of(snapshots[-1], "block", "device")
        if row.values.get("stacked") and row.values.get(f"{op}s_per_s")
    ]


def bottom(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices that have nothing below them here, busiest first; with --device that one."""
    found = devices(snapshots, op)
    return [device for device in found if not device.is_stacked] or found


def carrier(
    snapshots: Sequence[Snapshot], op: str, bytes_: float, avg_bytes: float
) -> Device | None:
    """The device to which such requests most likely went: alike in bytes and in size.

    A loop device's I/O appears again below it, cut or joined anew, so the busiest one need
    not be the one that the application used.
    """
    candidates = [d for d in devices(snapshots, op) if d.sum.bytes and d.sum.avg_bytes]
    if not candidates or not bytes_ or not avg_bytes:
        return None

    def unlikeness(device: Device) -> float:
        by_bytes = abs(math.log(device.sum.bytes / bytes_))
        return by_bytes + abs(math.log(device.sum.avg_bytes / avg_bytes))

    return min(candidates, key=unlikeness)
