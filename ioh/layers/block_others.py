"""Writes to the probe which of the devices that it has no room for lie on others."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_SCARCE_SHARE = 2  # of the room: from then on it is told, before there is none any more


class StackedDevices:
    """What was written to the probe so far: the sum over all devices counts none of these."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def tell(self, stacked: Map, devices: Iterable[int], used: int, room: int) -> None:
        """Once a tick.

        Args:
            stacked: The probe's map of them.
            devices: Those that lie on others now.
            used: Entries of the probe's totals.
            room: How many there can be.
        """
        if used * _SCARCE_SHARE < room:
            return
        now = set(devices)
        for dev in self._told - now:
            stacked.delete(dev.to_bytes(4, sys.byteorder))
        fresh = sorted(now - self._told)[: stacked.spec.max_entries - len(self._told & now)]
        for dev in fresh:
            stacked.update(dev.to_bytes(4, sys.byteorder), (1).to_bytes(4, sys.byteorder))
        self._told = self._told & now | set(fresh)
