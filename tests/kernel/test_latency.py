"""Latencies against fio's: means within 1 % or 2 µs, asynchronous 5 %, p99 7 %."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from ioh.model.snapshot import OpStats
from tests.kernel.direct import write_directly
from tests.kernel.part import WatchedVolume
from tests.kernel.recordings import Marked, marked
from tests.kernel.rig import MIB, Ioh, Volume, fio, opened, real_time_fio

RUN_S = 1.3
One = tuple[Volume, Marked]

# Between the probe at the end of a call and fio's reading of the clock, the scheduler may let
# others run, which is not the call's time: so fio has the best nice value.  The tasks that wake it
# (the loop device's workers, with the same value) still come first, unless fio is a real-time
# process.  That is for calls that sleep: the kernel stops a real-time process that does not for a
# twentieth of each second.
LOAD: dict[str, object] = {
    "size": 64 * MIB,
    "direct": 1,
    "overwrite": 1,
    "fallocate": "none",
    "nice": -20,
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[One]:
    """A volume, and the one recording of all loads on it."""
    folder = tmp_path_factory.mktemp("latency")
    with closing(Volume(folder)) as made:
        options = ("--device", made.device, "--layers", "syscall,block")
        with marked(folder / "a.ioh", *options) as ioh:
            yield made, ioh


def rounds_of(
    one: One, op: str, run_fio: Callable[..., list[Mapping[str, Any]]], /, **load: object
) -> Callable[[], tuple[OpStats, Mapping[str, Any]]]:
    """A function that runs a job once and returns ioh's and fio's numbers of its operations.

    Each run is one interval, since percentiles of several intervals cannot be combined.
    """
    volume, ioh = one
    path = volume.file("data", 64 * MIB)
    volume.drop_caches()  # only once: for a while afterwards every program reads its files again
    if load.get("invalidate") == 0:
        path.read_bytes()  # into the cache

    def run_once() -> tuple[OpStats, Mapping[str, Any]]:
        options = {**LOAD, "filename": "data", "time_based": 1, "runtime": RUN_S, **load}
        layers, (job,) = ioh.one_interval(lambda: run_fio(volume.mount, **options))
        assert layers["syscall"].source == layers["block"].source == "bpf"
        return layers["syscall"].ops[op], job[op]

    return run_once


def assert_most_within(deviations: Callable[[], tuple[float, ...]]) -> None:
    """Four rounds must deviate from fio by no more than is allowed; one more round may fail.

    On a shared machine time can be stolen between the two readings of the clock, which shows in a
    round: each round is printed, and one failure is forgiven.
    """
    rounds: list[tuple[float, ...]] = []
    while sum(max(values) <= 1 for values in rounds) < 4:
        rounds.append(deviations())
        print("round", *(f"{value:.2f}" for value in rounds[-1]))
        assert sum(max(values) > 1 for values in rounds) < 2, rounds


@pytest.mark.parametrize(
    "load",
    [
        {"rw": "randread", "bs": "2m"},
        {"rw": "randwrite", "bs": "2m"},
        {"rw": "read", "bs": "1m"},
        {"rw": "write", "bs": "2m"},
        {"rw": "read", "bs": "128k", "direct": 0, "invalidate": 0},
    ],
    ids=lambda load: "-".join(str(value) for value in load.values()),
)
def test_synchronous_calls_take_as_long_as_fio_says(one: One, load: dict[str, object]) -> None:
    """fio's clat of psync is the system call plus fio's own two readings of the clock.

    After a call that sleeps, fio reaches its second reading through cold caches: 3 to 10 µs after
    512k to 2m went through them, which is not the call's time.  Such loads use large blocks, so
    that 1 % of the mean is twice that.  For a call answered by the page cache, entry and exit take
    0.7 to 1 µs: more than 7 % of 64k's p99, which is 13 µs, so that load is of larger blocks, too.
    """
    op = "write" if "write" in str(load["rw"]) else "read"
    run_fio = real_time_fio if load.get("direct", 1) else fio

    def deviations() -> tuple[float, ...]:
        mine, job = run_once()
        its = job["clat_ns"]
        assert mine.count == its["N"]
        assert mine.latency_us is not None
        assert mine.p99_us is not None
        mean_us, p99_us = its["mean"] / 1e3, its["percentile"]["99.000000"] / 1e3
        of_mean: float = abs(mine.latency_us - mean_us) / max(2, 0.01 * mean_us)
        of_p99: float = abs(mine.p99_us - p99_us) / (0.07 * p99_us)
        return of_mean, of_p99

    run_once = rounds_of(one, op, run_fio, ioengine="psync", **load)
    assert_most_within(deviations)


@pytest.mark.parametrize(
    ("engine", "clock", "load"),
    [
        ("libaio", "lat_ns", {"rw": "randread", "bs": "16k", "iodepth": 4}),
        ("libaio", "lat_ns", {"rw": "randwrite", "bs": "16k", "iodepth": 2}),
        ("io_uring", "clat_ns", {"rw": "randread", "bs": "16k", "iodepth": 4}),
        ("io_uring", "clat_ns", {"rw": "randwrite", "bs": "256k", "iodepth": 4}),
    ],
)
def test_asynchronous_requests_take_as_long_as_fio_says(
    one: One, engine: str, clock: str, load: dict[str, object]
) -> None:
    """From submission to reaping for libaio, to completion for io_uring.

    ioh measures io_uring until the completion is posted, fio's clat until fio looks at the ring.
    With a depth of 32 and fio short of CPU, completions wait there for fio, which is not the
    storage's time; the depths here leave fio idle in between.  fio's clat begins when the
    submitting call has returned, ioh's time when the kernel begins with the request.  For writes
    of 64k these two are 3 % of the mean already, of 256k 2 %.
    """
    op = "write" if "write" in str(load["rw"]) else "read"

    def deviations() -> tuple[float, ...]:
        mine, job = run_once()
        assert mine.count == job["total_ios"]
        assert mine.latency_us is not None
        mean_us = job[clock]["mean"] / 1e3
        share: float = abs(mine.latency_us - mean_us) / (0.05 * mean_us)
        return (share,)

    run_once = rounds_of(one, op, fio, ioengine=engine, **load)
    assert_most_within(deviations)


def block_time_us(ioh: Ioh, op: str, what: str) -> float:
    return float(sum((n[what] or 0.0) * n["count"] for n in ioh.ops("block", op)))


def test_a_flush_before_a_write_is_not_queue_time(watched: WatchedVolume) -> None:
    """ext4's commit block asks for a flush, so that what it commits is on the disk first."""
    volume = watched.volume
    volume.loop.set_queue("scheduler", "none")
    assert (volume.loop.queue / "fua").read_text() == "0\n"  # as SATA and virtio disks
    with watched.part() as ioh, opened(volume.mount / "log", os.O_WRONLY | os.O_CREAT) as fd:
        for _ in range(23):
            os.write(fd, bytes(4096))
            os.fsync(fd)
    flushing_us = block_time_us(ioh, "flush", "latency_us")
    assert ioh.total("block", "flush") >= 2 * 23 - ioh.unseen  # before the block and after it
    assert block_time_us(ioh, "write", "queue_us") < flushing_us / 10
    assert block_time_us(ioh, "write", "service_us") > flushing_us
    # Nothing that ext4 writes is smaller than its blocks.
    assert sum(ioh.sizes("block", "write").values()) == ioh.total("block", "write")
    assert min(ioh.sizes("block", "write")) == 4096
    assert all(n["max_bytes"] >= 4096 for n in ioh.ops("block", "write") if n["count"])


def test_writes_have_a_service_time_where_flushes_are_requested(watched: WatchedVolume) -> None:
    """An fdatasync that finds no metadata to write is a flush alone, a write without bytes."""
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh:
        write_directly(path, 23, syncs=True)
    writes = [n for n in ioh.ops("block", "write") if n["count"]]
    assert sum(n["count"] for n in writes) >= 2 * 23 - ioh.unseen
    assert all(n["service_us"] is not None for n in writes)
