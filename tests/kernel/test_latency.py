"""Latencies against fio's own: means within 1 % or 2 µs, asynchronous 5 %, p99 within 7 %."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.kernel.rig import MIB, Ioh, Volume, fio

# One interval holds the whole run: percentiles of several intervals cannot be joined.
INTERVAL_S = 3.5
RUN_S = 2.2

# Between the probe at the end of a call and fio's look at the clock the scheduler may let others
# run, which is no time of the call's: nobody comes before fio.
LOAD: dict[str, object] = {
    "size": 64 * MIB,
    "direct": 1,
    "overwrite": 1,
    "fallocate": "none",
    "nice": -20,
}


def measured(volume: Volume, **load: object) -> tuple[Ioh, Mapping[str, Any]]:
    """Run one job inside one interval of ioh's."""
    path = volume.file("data", 64 * MIB)
    volume.drop_caches()
    if load.get("invalidate") == 0:
        path.read_bytes()  # into the cache
    ioh = Ioh("--device", volume.device, "--layers", "syscall,block", cycle_s=INTERVAL_S)
    try:
        ioh.wait_for_lines(1)  # the first interval is a short one
        (job,) = fio(volume.mount, filename="data", **{**LOAD, **load})
        assert len(ioh.output.lines) == 1, "the load took longer than ioh's interval"
        ioh.wait_for_lines(2)
    finally:
        ioh.end()
    return ioh, job


def middle_of_three(deviation: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """The median of each deviation from fio, as shares of what is allowed.

    A machine that others share steals time between the two clocks.  When two rounds are within
    bounds, so is the middle one of three: the third is spared.
    """
    rounds = [deviation(), deviation()]
    if max(map(max, rounds)) > 1:
        rounds.append(deviation())
    return tuple(
        sorted(values)[1 if len(rounds) > 2 else -1] for values in zip(*rounds, strict=True)
    )


def the_interval(ioh: Ioh, op: str) -> Mapping[str, Any]:
    (busy,) = [numbers for numbers in ioh.ops("syscall", op) if numbers["count"]]
    return busy


@pytest.mark.parametrize(
    "load",
    [
        {"rw": "randread", "bs": "4k"},
        {"rw": "randwrite", "bs": "4k"},
        {"rw": "read", "bs": "192k"},
        {"rw": "randread", "bs": "64k"},
        {"rw": "read", "bs": "64k", "direct": 0, "invalidate": 0},
    ],
    ids=lambda load: "-".join(str(value) for value in load.values()),
)
def test_synchronous(volume: Volume, load: dict[str, object]) -> None:
    """fio's clat of psync is the system call with fio's own two looks at the clock.

    No load with pauses: after one, fio's first look at the clock alone costs 3 µs (cold caches).
    """
    op = "write" if "write" in str(load["rw"]) else "read"

    def deviation() -> tuple[float, ...]:
        ioh, job = measured(volume, ioengine="psync", time_based=1, runtime=RUN_S, **load)
        mine, its = the_interval(ioh, op), job[op]["clat_ns"]
        assert mine["count"] == its["N"]
        mean_us, p99_us = its["mean"] / 1e3, its["percentile"]["99.000000"] / 1e3
        return (
            abs(mine["latency_us"] - mean_us) / max(2, 0.01 * mean_us),
            abs(mine["p99_us"] - p99_us) / (0.07 * p99_us),
        )

    assert max(middle_of_three(deviation)) <= 1


@pytest.mark.parametrize(
    ("engine", "clock", "load"),
    [
        ("libaio", "lat_ns", {"rw": "randread", "bs": "16k", "iodepth": 4}),
        ("libaio", "lat_ns", {"rw": "randwrite", "bs": "16k", "iodepth": 2}),
        ("io_uring", "clat_ns", {"rw": "randread", "bs": "16k", "iodepth": 4}),
        ("io_uring", "clat_ns", {"rw": "randwrite", "bs": "64k", "iodepth": 4}),
    ],
)
def test_asynchronous(volume: Volume, engine: str, clock: str, load: dict[str, object]) -> None:
    """From submission to reaping for libaio, to completion for io_uring.

    ioh measures io_uring until the completion is posted.  fio's clat goes on until fio looks
    at the ring: with a depth of 32 and fio short of CPU, completions wait there for fio to
    come, which is no time of the storage's.  The depths here leave fio idle in between.  Its
    clat begins when the submitting call has returned, ioh's time when the kernel begins with
    the request.
    """
    op = "write" if "write" in str(load["rw"]) else "read"

    def deviation() -> tuple[float, ...]:
        ioh, job = measured(volume, ioengine=engine, time_based=1, runtime=RUN_S, **load)
        mine, its = the_interval(ioh, op), job[op]
        assert mine["count"] == its["total_ios"]
        mean_us = its[clock]["mean"] / 1e3
        return (abs(mine["latency_us"] - mean_us) / (0.05 * mean_us),)

    assert max(middle_of_three(deviation)) <= 1
