"""Abandoned requests of libaio and io_uring in the probe's map: nobody waits for them."""

from __future__ import annotations

import os
import struct
import sys
import time
from typing import Any

import pytest

from ioh.layers.abandoned import AbandonedRequests

PID, CONTEXT, FILE, STAYS = os.getpid(), 0x7F00, 0xFFFF8800, 1 << 29
NO_PID = 1 << 22  # more than the kernel gives
OPS = ("read_buffered", "read_direct")
NOW_NS = 10**15
KEY, REQUEST = struct.Struct("=QQ"), struct.Struct("=QQ12xH10xIIQ")


class Asyncs(dict[bytes, bytes]):
    """The map; ``meanwhile`` is what the program starts just after ioh has read it."""

    def __init__(self) -> None:
        self.meanwhile: dict[bytes, bytes] = {}

    def items_bytes(self) -> list[tuple[bytes, bytes]]:
        found = list(self.items())
        self.update(self.meanwhile)
        return found

    def delete(self, key: bytes) -> None:
        del self[key]

    def lookup(self, key: bytes) -> bytes | None:
        return self.get(key)


class Destroyed(dict[bytes, bytes]):
    def drain(self) -> list[tuple[bytes, bytes]]:
        found = list(self.items())
        self.clear()
        return found


class Contents:
    value = -1

    def update(self, key: bytes, value: bytes) -> None:
        assert key == bytes(4)
        self.value = int.from_bytes(value, sys.byteorder)


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The maps; the monotonic clock stands at NOW_NS."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: NOW_NS)
    return {"asyncs": Asyncs(), "destroyed": Destroyed(), "async_places": Contents()}


def request(start_ns: int, pid: int = PID, file: int = FILE) -> bytes:
    return REQUEST.pack(start_ns, file, 1, pid, STAYS, CONTEXT)


def iocb(number: int, pid: int = PID) -> bytes:
    return KEY.pack(0x1000 + number, pid)


def destroy(maps: dict[str, Any], at_ns: int) -> None:
    maps["destroyed"][KEY.pack(CONTEXT, PID)] = at_ns.to_bytes(8, sys.byteorder)


@pytest.mark.parametrize("destroyed_s", [0, 61])
def test_requests_of_a_destroyed_context_are_lost_until_their_iocb_is_reused(
    maps: dict[str, Any], destroyed_s: int
) -> None:
    """After a minute their entries are deleted, but not a new request that reuses an iocb."""
    abandoned, asyncs = AbandonedRequests(OPS, sees_pids=True), maps["asyncs"]
    destroyed_ns = NOW_NS - destroyed_s * 10**9
    asyncs.update({iocb(n): request(destroyed_ns - 100 + n) for n in range(3)})
    asyncs[iocb(3)] = request(0, file=0)  # only a place: its request has ended
    abandoned.find(maps, is_at_a_halt=False)
    assert (abandoned["read_direct"], abandoned["aio_unseen"]) == (0, 0)
    destroy(maps, destroyed_ns)
    asyncs.meanwhile = {iocb(0): request(destroyed_ns + 100)}
    for _ in range(2):
        abandoned.find(maps, is_at_a_halt=False)
        assert asyncs[iocb(0)] == request(destroyed_ns + 100)  # the new request stays
    # The probe itself counts the first request, whose iocb was reused.
    assert (abandoned["read_direct"], abandoned["aio_unseen"]) == (2, 2)
    assert (len(asyncs), maps["async_places"].value) == (2 if destroyed_s else 4, 4)


@pytest.mark.parametrize("sees_pids", [True, False])
def test_requests_of_ended_processes_are_deleted(maps: dict[str, Any], sees_pids: bool) -> None:
    """Unless another PID namespace hides which processes are alive."""
    abandoned, asyncs = AbandonedRequests(OPS, sees_pids=sees_pids), maps["asyncs"]
    asyncs.update({iocb(0, NO_PID): request(100, NO_PID), iocb(1): request(100)})
    asyncs[KEY.pack(5, 0)] = request(100, NO_PID)  # of io_uring
    if sees_pids:  # each is counted as lost only once
        maps["destroyed"][KEY.pack(CONTEXT, NO_PID)] = NOW_NS.to_bytes(8, sys.byteorder)
    for _ in range(2):
        abandoned.find(maps, is_at_a_halt=True)
    dead = int(sees_pids)
    assert len(asyncs) == 3 - 2 * dead
    assert iocb(1) in asyncs
    assert (abandoned["aio_unseen"], abandoned["uring_unseen"]) == (dead, dead)
    assert abandoned["read_direct"] == 2 * dead
