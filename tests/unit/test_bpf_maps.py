"""Reading BPF maps through a fake libbpf: batches, old kernels, per-CPU values."""

from __future__ import annotations

import errno
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import counters, totals
from ioh.bpf import maps as bpf_maps
from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.totals import decode_op_totals
from ioh.model.sample import OpTotals
from tests.unit import fake_kernel
from tests.unit.fake_kernel import CPUS, FakeLibbpf, FakeMap, install

HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY = 1, 2, 5, 6


def one(
    monkeypatch: pytest.MonkeyPatch, kind: int = HASH, value: int = 8, room: int = 5000
) -> tuple[Map, FakeMap, FakeLibbpf]:
    maps, held, lib = install(monkeypatch, [MapSpec("m", kind, 4, value, room)])
    return maps["m"], held["m"], lib


def fill(held: FakeMap, count: int) -> dict[bytes, bytes]:
    held.entries.update(
        {
            n.to_bytes(4, "little"): n.to_bytes(8, "little") * (held.value_size // 8)
            for n in range(count)
        }
    )
    return dict(held.entries)


def test_only_changed_entries_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, held, _ = one(monkeypatch, PERCPU_HASH, value=16)
    wanted = fill(held, 3000)
    before: dict[bytes, tuple[int, ...]] = {}
    assert [key for key, _ in opened.changed_entries(1, before)] == list(wanted)
    assert list(opened.changed_entries(1, before)) == []
    first, last = struct.pack(f"={2 * CPUS}Q", 9, *bytes(2 * CPUS - 1)), bytes(16 * CPUS)
    held.entries[(7).to_bytes(4, "little")] = first
    held.entries[(2999).to_bytes(4, "little")] = last
    assert [bytes(value) for _, value in opened.changed_entries(1, before)] == [first, last]
    assert len(before) == 3000


def test_buffers_grow_once_for_a_larger_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = []
    for read in (Map.items_bytes, Map.drain):
        opened, held, lib = one(monkeypatch)
        wanted = list(fill(held, 5000).items())
        held.per_bucket = 2500
        assert read(opened) == wanted
        fill(held, 5000)
        lib.calls.clear()
        assert read(opened) == wanted
        assert len(lib.calls) == 2


def shared_bytes() -> int:
    """The memory of this process' buffers for the kernel."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "RssShmem" in x)
    return int(line.split()[1]) * 1024


def test_the_memory_of_a_large_batch_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, held, _ = one(monkeypatch, value=4096)
    wanted = list(fill(held, 1000).items())
    assert opened.items_bytes() == wanted
    before = shared_bytes()
    opened.give_back()
    assert before - shared_bytes() >= 4_000_000
    assert opened.items_bytes() == wanted


@pytest.mark.parametrize("busy", [errno.EBUSY, errno.EDEADLK, errno.ETIMEDOUT])
def test_a_locked_bucket_is_read_again(monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    opened, held, lib = one(monkeypatch)
    wanted = fill(held, 7)
    batch = lib.bpf_map_lookup_batch

    def stop_early(*args: Any) -> int:
        args[5]._obj.value = 3
        return batch(*args) or fake_kernel.refuse(busy)

    monkeypatch.setattr(lib, "bpf_map_lookup_batch", stop_early)
    assert opened.items_bytes() == list(wanted.items())


def test_a_call_that_the_kernel_refuses_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, held, lib = one(monkeypatch, room=7)
    fill(held, 7)
    with pytest.raises(OSError, match="Argument list too long"):
        opened.update(b"full", bytes(8))
    lib.batch_errno = errno.EPERM
    with pytest.raises(PermissionError):
        opened.items_bytes()
    with pytest.raises(PermissionError):
        opened.drain()
    opened, _, _ = one(monkeypatch, PERCPU_ARRAY, room=2)
    with pytest.raises(FileNotFoundError):  # not zeros
        opened.at(99)


@pytest.mark.parametrize("refused", [0, errno.ENOTSUPP if hasattr(errno, "ENOTSUPP") else 524])
def test_take_returns_and_deletes_an_entry(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    opened, held, lib = one(monkeypatch)
    held.entries[b"abcd"] = b"12345678"
    lib.take_errno = refused
    assert opened.take(b"abcd") == b"12345678"
    assert opened.take(b"abcd") is None
    assert held.entries == {}


def op_totals(
    monkeypatch: pytest.MonkeyPatch, *cpus: dict[int, int], **options: object
) -> OpTotals:
    """Decode totals; each CPU's words are given by index."""
    opened, held, _ = one(monkeypatch, PERCPU_ARRAY, totals.WORDS * 8, 1)
    raw = b"".join(
        struct.pack(f"={totals.WORDS}Q", *(cpu.get(at, 0) for at in range(totals.WORDS)))
        for cpu in (*cpus, *[{}] * (CPUS - len(cpus)))
    )
    held.entries[bytes(4)] = raw
    return decode_op_totals(
        opened.at(0),
        **{"epoch": 0, **options},  # type: ignore[arg-type]
    )


def slowest(epoch: int, ns: int, size: int) -> dict[int, int]:
    at = totals.SLOWEST + 3 * (epoch & 1)
    return {at: epoch, at + 1: ns, at + 2: size}


@pytest.mark.parametrize("epoch", [6, 7])
def test_the_maximum_is_of_the_right_tick(monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
    older, newer = slowest(epoch - 2, 900, 1), slowest(epoch + 1, 800, 2)
    found = op_totals(
        monkeypatch,
        {**older, **newer},
        {**slowest(epoch, 50, 4096), **newer},
        slowest(epoch, 70, 512),
        epoch=epoch,
    )
    assert (found.max_ns, found.max_bytes) == (70, 512)
    nothing = op_totals(monkeypatch, {**older, **newer}, epoch=epoch)
    assert (nothing.max_ns, nothing.max_bytes) == (0, 0)


def test_totals_are_summed_over_cpus_and_decoded_only_if_they_grew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = {**{at: 10 + at for at in range(7)}, totals.LATENCY + 5: 2, totals.SIZE_LAT: 2}
    first = op_totals(monkeypatch, cpu, cpu, queue=True)
    counted = (first.started_total, first.count_total, first.bytes_total, first.errors_total)
    assert (*counted, first.latency_ns_total) == (20, 22, 24, 26, 28)
    assert (first.queue_ns_total, first.queued_total) == (30, 32)
    assert first.latency is not None
    assert first.size_lat is not None
    assert (first.latency.counts[5], first.size_lat.counts[0]) == (4, 4)
    same = op_totals(monkeypatch, {totals.COUNT: 22, totals.ERRORS: 1}, previous=first)
    assert (same.errors_total, same.queue_ns_total) == (1, None)  # None: not measured
    assert (same.latency, same.size_lat) == (first.latency, first.size_lat)
    begun = op_totals(monkeypatch, {totals.STARTED: 5, totals.COUNT: 22}, started=False)
    again = {totals.STARTED: 9, totals.COUNT: 22}
    assert op_totals(monkeypatch, again, started=False, previous=begun) is begun
    more = op_totals(monkeypatch, {totals.COUNT: 23, totals.LATENCY + 6: 3}, previous=first)
    assert more.latency is not None
    assert (more.latency.counts[5], more.latency.counts[6]) == (0, 3)


@pytest.mark.parametrize(("listed", "count"), [("0\n", 1), ("0-3,8-11\n", 12), ("0,2\n", 3)])
def test_possible_cpus_include_gaps_in_the_list(
    listed: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "possible").write_text(listed)
    opened = (tmp_path / "possible").open()
    monkeypatch.setattr(bpf_maps, "open", lambda *_, **__: opened, raising=False)
    assert bpf_maps.possible_cpus.__wrapped__() == count


WORDS = 5


def packed(cpus: list[list[int]]) -> bytes:
    return b"".join(struct.pack(f"={WORDS}Q", *row) for row in cpus)


def summed(cpus: list[list[int]]) -> list[int]:
    return [sum(column) % 2**64 for column in zip(*cpus, strict=True)]


@pytest.mark.parametrize("few", [0, 12])
@pytest.mark.parametrize("cpu_count", [1, 3])
def test_counters_are_sums_over_cpus(few: int, cpu_count: int) -> None:
    """With the method for few CPUs and with that for many."""
    rng = random.Random(few + cpu_count)
    cpus = [[rng.randrange(2**60) for _ in range(WORDS)] for _ in range(12)]
    entries = [cpus[at : at + cpu_count] for at in range(0, len(cpus), cpu_count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "FEW_CPUS", few)
        found = counters.sum_entries(packed(cpus), WORDS, cpu_count, 3)
        assert list(counters.sum_counts(packed(cpus), WORDS, 2)) == summed(cpus)[2:]
        assert counters.sum_entries(b"", WORDS, 2, 3) == []
    assert counters.sum_columns(packed(cpus), WORDS, 3) == summed(cpus)[:3]
    assert found == [tuple(summed(entry)[:3]) for entry in entries]


def test_numpy_is_imported_only_with_more_than_4_cpus() -> None:
    program = (
        "import sys; from ioh.bpf import maps\n"
        "for cpus in (4, 5):\n"
        "    maps.possible_cpus = lambda: cpus\n"
        "    maps.preload(); print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")
