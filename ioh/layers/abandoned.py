"""Asynchronous requests that no call will ever reap: their process or context is gone."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.layers.call_records import ASYNC, ASYNC_KEY

if TYPE_CHECKING:
    from ioh.bpf.maps import Map, Maps

_CLEANING_TICKS = 60
_ASYNC = ASYNC.reader("start_ns", "target.file", "target.op", "tgid", "rw_flags", "context")
_STAYS = 1 << 29
_LEFT_NS = 60 * 10**9


class AbandonedRequests:
    """Count the entries of the map ``asyncs`` that nobody waits for any more.

    Requests of processes that ended are deleted every _CLEANING_TICKS.  Those of destroyed libaio
    contexts stay for a minute: most programs reuse the iocb immediately, and deleting the entry
    would lose the new request.  Once the iocb is reused, the probe counts the old one as unseen.
    """

    def __init__(self, ops: Sequence[str], *, sees_pids: bool) -> None:
        self._ops = ops
        self._sees_pids = sees_pids  # False in a separate PID namespace
        self._tick = 0
        self._deleted: Counter[str] = Counter()
        self._staying: Counter[str] = Counter()
        # By map key: the request, and when its context was destroyed.
        self._left: dict[bytes, tuple[bytes, int]] = {}

    def __getitem__(self, name: str) -> int:
        """Return the count of this op or this reason (``aio_unseen``, ``uring_unseen``)."""
        return self._deleted[name] + self._staying[name]

    def __contains__(self, key: object) -> bool:
        """Whether the entry with this key is there, but nobody waits for it."""
        return key in self._left

    def find(self, maps: Maps, *, is_at_a_halt: bool) -> None:
        """Find them.  This can take long: call it after reading the probe's own counts.

        Args:
            maps: The probe's.
            is_at_a_halt: Calls are in flight, but none starts or ends: check the processes now.
        """
        self._tick += 1
        is_due = self._sees_pids and (is_at_a_halt or self._tick % _CLEANING_TICKS == 0)
        asyncs, now_ns = maps["asyncs"], time.monotonic_ns()
        given_back = maps["destroyed"].drain()
        destroyed = {context: int.from_bytes(ns, sys.byteorder) for context, ns in given_back}
        if is_due or destroyed:
            places = self._look_through(asyncs, destroyed, is_due=is_due)
            maps["async_places"].update(bytes(4), places.to_bytes(8, sys.byteorder))
        self._staying.clear()
        for key, (request, since_ns) in list(self._left.items()):
            if asyncs.lookup(key) != request:  # the iocb was reused
                del self._left[key]
            elif now_ns - since_ns > _LEFT_NS:
                asyncs.delete(key)
                del self._left[key]
                self._count(self._deleted, key, request)
            else:
                self._count(self._staying, key, request)

    def _look_through(self, asyncs: Map, destroyed: Mapping[bytes, int], *, is_due: bool) -> int:
        """Delete those of ended processes, note those of these contexts; return the places left."""
        places, is_alive = 0, cache(lambda tgid: Path(f"/proc/{tgid}").exists())
        for key, request in asyncs.items_bytes():
            start_ns, _, _, tgid, flags, context = _ASYNC.unpack_from(request)
            if is_due and not is_alive(tgid):
                asyncs.delete(key)
                self._left.pop(key, None)
                self._count(self._deleted, key, request)
                continue
            places += bool(flags & _STAYS)
            if start_ns and destroyed:
                since_ns = destroyed.get(ASYNC_KEY.pack(context, tgid), 0)
                if start_ns < since_ns:  # else it belongs to a later context at the same address
                    self._left[key] = (request, since_ns)
        return places

    def _count(self, counts: Counter[str], key: bytes, request: bytes) -> None:
        _, file, op, *_ = _ASYNC.unpack_from(request)
        if file:  # counted as started
            counts[self._ops[op]] += 1
            counts["aio_unseen" if ASYNC_KEY.unpack(key)[1] else "uring_unseen"] += 1
