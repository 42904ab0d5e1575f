"""Asynchronous requests whose end no call will return: their thread or their context is gone."""

from __future__ import annotations

import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.bpf.maps import Map, Maps

_CLEANING_TICKS = 60
# struct async of probes/syscall_below.h: start_ns, file, op, tgid, rw_flags, context
_ASYNC = struct.Struct("=QQ12xH10xIIQ")
_ASYNC_KEY = struct.Struct("=QQ")  # request or context of libaio, tgid
_STAYS = 1 << 29
_STAYING_NS = 60 * 10**9


class AbandonedRequests:
    """Counts what stays in the map ``asyncs`` although nobody waits for it any more.

    Requests of processes that ended are deleted, now and then.  Those of libaio contexts that were
    destroyed stay for a minute: most programs use the same iocb again at once, and deleting would
    hit the new request.  The probe counts the old one as unseen then.
    """

    def __init__(self, ops: Sequence[str], *, sees_pids: bool) -> None:
        self._ops = ops
        self._sees_pids = sees_pids  # not in a PID namespace of its own
        self._tick = 0
        self._deleted: Counter[str] = Counter()
        self._staying: Counter[str] = Counter()
        self._destroyed: dict[bytes, int] = {}  # when, of contexts that have requests left

    def __getitem__(self, name: str) -> int:
        """How many of this op, or for this reason (``aio_unseen``, ``uring_unseen``)."""
        return self._deleted[name] + self._staying[name]

    def find(self, maps: Maps, *, is_at_a_halt: bool) -> None:
        """Look for them, after the probe's own counts were read.

        Args:
            maps: The probe's.
            is_at_a_halt: Calls are under way and none begins or ends: look for the dead now.
        """
        self._tick += 1
        is_due = is_at_a_halt or self._tick % _CLEANING_TICKS == 0
        is_due = is_due and self._sees_pids
        for context, ns in maps["destroyed"].drain():
            self._destroyed[context] = int.from_bytes(ns, sys.byteorder)
        if not is_due and not self._destroyed:
            return
        asyncs, places, left, now_ns = maps["asyncs"], 0, {}, time.monotonic_ns()
        self._staying.clear()
        for key, value in asyncs.items_bytes():
            start_ns, file, op, tgid, flags, context_id = _ASYNC.unpack_from(value)
            context = _ASYNC_KEY.pack(context_id, tgid)
            since_ns = self._destroyed.get(context, 0)
            found = None
            if is_due and not Path(f"/proc/{tgid}").exists():
                asyncs.delete(key)
                found = self._deleted
            # A context that is made later can have the same address.
            elif not 0 < start_ns < since_ns:
                places += bool(flags & _STAYS)
            elif now_ns - since_ns > _STAYING_NS and _is_taken(asyncs, key, value):
                found = self._deleted
            else:
                places += bool(flags & _STAYS)
                left[context] = since_ns
                found = self._staying
            if found is not None and file:  # counted as started
                found[self._ops[op]] += 1
                found["aio_unseen" if _ASYNC_KEY.unpack(key)[1] else "uring_unseen"] += 1
        self._destroyed = left
        maps["async_places"].update(bytes(4), places.to_bytes(8, sys.byteorder))


def _is_taken(asyncs: Map, key: bytes, value: bytes) -> bool:
    """Delete a request, unless its iocb has been used again meanwhile."""
    taken = asyncs.take(key)
    if taken is not None and taken != value:
        asyncs.update(key, taken)
    return taken == value
