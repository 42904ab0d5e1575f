"""What of the application and of NFS is open: the probes' maps, and the time it takes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from ioh.bpf.maps import Map
from ioh.layers import open_calls
from ioh.layers.flows import FlowTables
from ioh.layers.nfs_client import NfsClient
from ioh.layers.nfs_pending import PendingCalls
from ioh.layers.open_calls import CALL_GROUP, CALL_TICK_LOG2, Caller, OpenCalls
from ioh.layers.part_totals import NOTHING, OTHER_PARTS
from ioh.layers.rising_totals import RisingTotals
from ioh.layers.syscall import Syscall
from ioh.model.filters import Filters
from ioh.model.in_progress import oldest_first
from tests.unit import fake_kernel
from tests.unit.fake_kernel import FakeMap
from tests.unit.probe_text import text_of

NOW_NS, MS = 10**15, 10**6
OPS = ("read_buffered", "read_buffered", "read_direct", "write_buffered")
DIRECT, WRITE, SUBMIT = 2, 3, 0x80
DEV = 8 << 20
FILE = struct.pack("=QII", 7, DEV, 99)


class Kernel(NamedTuple):
    """The probe's maps as ioh reads them, and what is in them."""

    maps: dict[str, Map]
    held: dict[str, FakeMap]

    def call(self, tid: int, op: int, ago_ms: int, crowd: int = 0, dev: int = DEV) -> None:
        slot = tid & 0xFFFF
        size = self.held["calls"].spec.value_size
        self.held["calls"].entries[slot.to_bytes(4, "little")] = raw_call(
            tid, op, ago_ms, crowd, dev
        ).ljust(size, b"\0")
        groups = self.held["call_groups"]
        ticks = bytearray(groups.get(bytes(4)) or b"")
        struct.pack_into("=I", ticks, 4 * (slot // CALL_GROUP), NOW_NS >> CALL_TICK_LOG2)
        groups.entries[bytes(4)] = bytes(ticks)

    def request(self, number: int, op: int, ago_ms: int, file: int = 1) -> bytes:
        key = struct.pack("=QQ", number, 42)
        self.held["asyncs"].entries[key] = struct.pack(
            "=QQQIHHIIIIQ",
            NOW_NS - ago_ms * MS,
            file,
            7,
            DEV if file else 0,
            op,
            0,
            99,
            0,
            42,
            0,
            0,
        )
        return key


def raw_call(tid: int, op: int, ago_ms: int, crowd: int = 0, dev: int = DEV) -> bytes:
    start = NOW_NS - ago_ms * MS
    return struct.pack("=IIQQQIHHIII", tid, crowd, start, 1, 7, dev, op, 0, 99, 0, 42)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    maps, held, _ = fake_kernel.install(monkeypatch, text_of("syscall").maps())
    return Kernel(maps, held)


def open_calls_of(*, needs_device: bool = False) -> OpenCalls:
    root = Path("/nowhere")
    flows = FlowTables(root)
    return OpenCalls(OPS, root, flows, sees_pids=False, needs_device=needs_device)


def look(
    calls: OpenCalls, kernel: Kernel, later_s: int = 0, *abandoned: bytes
) -> dict[str, object]:
    """By op: since when the oldest is open, how many are, and whose thread the oldest is."""
    calls.look(kernel.maps, NOW_NS + later_s * 1000 * MS, abandoned)
    assert {each.who for each in calls.calls} <= {Caller(42, FILE), Caller(42, b"")}
    rows = oldest_first(calls.calls, NOW_NS + 100 * MS, lambda x: (x.op,), lambda x: (x.tid,))
    begun_ns = NOW_NS + 100 * MS
    return {op: (begun_ns - 1000 * int(age or 0), *more) for (op,), (age, *more) in rows.items()}


def test_calls_and_requests_of_a_process_on_a_file_are_one_row(kernel: Kernel) -> None:
    kernel.call(43, DIRECT, 300)
    kernel.call(44, DIRECT, 500)
    kernel.request(1, DIRECT, 400)
    kernel.request(2, DIRECT, 0)
    kernel.call(45, SUBMIT, 900)  # io_submit itself
    kernel.request(4, WRITE, 50, file=0)  # a registered file
    gone = kernel.request(3, DIRECT, 5000)
    calls = open_calls_of()
    rows = look(calls, kernel, 0, gone)
    assert rows == {
        "read_direct": (NOW_NS - 500 * MS, 4, 44),
        "write": (NOW_NS - 50 * MS, 1, 0),
    }
    assert calls.open_ns("read_direct") == 1200 * MS
    assert calls.open_ns("write_buffered") == 0  # not counted as begun


def test_calls_on_an_unknown_device_are_not_those_of_the_one_that_was_asked_for(
    kernel: Kernel,
) -> None:
    kernel.call(43, WRITE, 300)
    kernel.call(44, WRITE, 900, dev=0)
    kernel.request(1, DIRECT, 400, file=0)
    calls = open_calls_of(needs_device=True)
    assert look(calls, kernel) == {"write_buffered": (NOW_NS - 300 * MS, 1, 43)}
    assert calls.open_ns("write_buffered") == 300 * MS


def test_an_open_call_stays_in_sight_although_its_group_is_not_used_again(kernel: Kernel) -> None:
    calls = open_calls_of()
    kernel.call(43, WRITE, 300)
    for later_s in (0, 1, 2, 3, 300):
        assert "write_buffered" in look(calls, kernel, later_s)
    kernel.held["calls"].entries.clear()
    assert not look(calls, kernel, 301)
    kernel.call(43, WRITE, 300)
    assert not look(calls, kernel, 302)  # no call began lately: nobody looks


def test_threads_that_share_a_slot_are_in_the_hash(kernel: Kernel) -> None:
    kernel.call(43, WRITE, 300, crowd=1)
    hashed = kernel.held["crowded"]
    other = raw_call(43 + (1 << 16), WRITE, 700, 0xFFFFFFFF).ljust(hashed.spec.value_size, b"\0")
    hashed.entries[(43 + (1 << 16)).to_bytes(4, "little")] = other
    calls = open_calls_of()
    assert look(calls, kernel)["write_buffered"] == (
        NOW_NS - 700 * MS, 2, 43 + (1 << 16),
    )  # fmt: skip
    kernel.call(0, WRITE, 0)  # not this slot
    kernel.held["calls"].entries[(43).to_bytes(4, "little")] = raw_call(0, 0, 0, 1).ljust(
        kernel.held["calls"].spec.value_size, b"\0"
    )
    assert look(calls, kernel, 4)["write_buffered"] == (
        NOW_NS - 700 * MS, 1, 43 + (1 << 16),
    )  # fmt: skip


def test_the_start_of_a_call_that_was_just_beginning_is_read_again(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.call(43, WRITE, 9000)  # its previous one's
    at = Map.at

    def just_begun(self: Map, index: int) -> memoryview:
        if self is kernel.maps["calls"]:
            kernel.call(43, WRITE, 0)
        return at(self, index)

    monkeypatch.setattr(Map, "at", just_begun)
    assert look(open_calls_of(), kernel)["write_buffered"] == (NOW_NS, 1, 43)


def test_too_many_requests_are_not_all_looked_at(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_calls, "_MOST_REQUESTS", 3)
    calls = open_calls_of()
    for number in range(3):
        kernel.request(number, DIRECT, 200)
    look(calls, kernel)
    assert calls.open_ns("read_direct") == 600 * MS
    kernel.request(3, DIRECT, 200)
    assert look(calls, kernel)["read_direct"] == (NOW_NS - 200 * MS, 3, 0)
    assert calls.open_ns("read_direct") is None


def test_the_time_of_calls_is_unknown_while_they_are_too_many_to_look_at(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    layer = Syscall(Filters(), tmp_path)
    kernel.held["epoch"].entries[bytes(4)] = (5).to_bytes(8, "little")
    kernel.request(1, DIRECT, 200)
    assert layer.read(kernel.maps).ops["read_direct"].weighted_ns_total is not None
    monkeypatch.setattr(open_calls, "_MOST_REQUESTS", 0)
    assert layer.read(kernel.maps).ops["read_direct"].weighted_ns_total is None


def test_a_total_stands_still_rather_than_fall() -> None:
    spent = RisingTotals()
    assert spent.at_least("read", 10 + 500) == 510
    assert spent.at_least("read", 10 + 0) == 510  # ended between the two readings
    assert spent.at_least("read", 520 + 30) == 550
    assert spent.at_least("write", 2) == 2
    spent.forget(lambda key: key == "read")
    assert spent.at_least("read", 1) == 1


def test_pending_calls_of_nfs_are_listed_by_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, held, _ = fake_kernel.install(monkeypatch, text_of("nfs_client").maps())

    def pend(number: int, op: int, ago_ms: int, dev: int = 49, tgid: int = 42) -> None:
        comm = b"dd" if tgid else b"(write-back)"
        value = struct.pack("=QQIIII16s", NOW_NS - ago_ms * MS, 7, dev, tgid, op, 99, comm)
        held["pendings"].entries[number.to_bytes(8, "little")] = value

    pend(1, 0, 3000)
    pend(2, 0, 400)
    pend(3, 4, 2000, tgid=0)
    pend(4, 0, 700, dev=50)  # a mount beyond the probe's room
    pending = PendingCalls(FlowTables(Path("/nowhere")), NfsClient.spec.ops)
    pending.look(maps["pendings"], NOW_NS)
    rows = pending.table({49: "nas1:/export on /mnt"}.get)
    file = "inode 7 on device 0:49"
    assert rows == {
        ("42", "dd", "read", file, "nas1:/export on /mnt"): (3_000_000, 2),
        ("0", "(write-back)", "commit", file, "nas1:/export on /mnt"): (2_000_000, 1),
        ("42", "dd", "read", "inode 7 on device 0:50", "0:50"): (700_000, 1),
    }
    booked = pending.book(
        {49: {"read": NOTHING, "write_unstable": NOTHING}, OTHER_PARTS: {"read": NOTHING}}
    )
    accrued = {
        (dev, name): op.weighted_ns_total for dev, ops in booked.items() for name, op in ops.items()
    }
    assert accrued == {
        (49, "read"): 3400 * MS, (49, "write_unstable"): 0, (OTHER_PARTS, "read"): 700 * MS,
    }  # fmt: skip
