"""The way of a direct read and a write: fio's own mean above, the requests' time below."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kernel.rig import Ioh, Volume, fio, recording

COUNT = 512


def spent_us(ioh: Ioh, direction: str) -> dict[str, float]:
    """Microseconds by step, over the whole recording."""
    spent: dict[str, float] = {"mean": 0.0}
    for interval in ioh.intervals:
        path: Mapping[str, Any] = interval["path"].get(direction, {"segments": []})
        calls = (
            path["ops_per_s"] * interval["layers"]["syscall"]["interval_s"]
            if path["segments"]
            else 0.0
        )
        spent["mean"] += calls * path.get("mean_us", 0.0)
        for segment in path["segments"]:
            spent[segment["name"]] = spent.get(segment["name"], 0.0) + calls * segment["us"]
    return spent


def block_us(ioh: Ioh, op: str) -> dict[str, float]:
    """Microseconds of the requests, waiting and in the device, as the block layer has them."""
    found = {"block_queue": 0.0, "device": 0.0}
    for interval in ioh.intervals:
        stats = interval["layers"]["block"]["ops"][op]
        if stats["count"]:
            found["block_queue"] += stats["count"] * stats["queue_us"]
            found["device"] += stats["count"] * stats["service_us"]
    return found


@pytest.mark.parametrize("direction", ["read", "write"])
def test_direct_calls_are_the_file_system_the_queue_and_the_device(
    volume: Volume, direction: str
) -> None:
    volume.file("j.0.0", COUNT * 4096)
    with recording("--device", volume.device, "--comm", "fio") as ioh:
        (job,) = fio(
            volume.mount, rw=f"rand{direction}", direct=1, bs="4k", size=COUNT * 4096,
            filename="j.0.0", overwrite=1,
        )  # fmt: skip
    spent = spent_us(ioh, direction)
    assert spent["mean"] == pytest.approx(job[direction]["clat_ns"]["mean"] * COUNT / 1e3, rel=0.1)
    below = block_us(ioh, direction)
    for step, us in below.items():
        assert spent[step] == pytest.approx(us, rel=0.02), step
    assert spent["syscall"] == pytest.approx(spent["mean"] - sum(below.values()), rel=0.05)


def test_reads_from_the_cache_never_reach_the_disk(volume: Volume) -> None:
    path = volume.file("j.0.0", COUNT * 4096)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        # Only what is mapped stays: the kernel has been seen to drop single pages that are not,
        # soon after they were read, with most of the memory free.
        assert len(mapped[:]) == COUNT * 4096
        with recording("--device", volume.device, "--comm", "fio") as ioh:
            fio(volume.mount, rw="randread", bs="4k", size=COUNT * 4096, filename="j.0.0",
                invalidate=0)  # fmt: skip
    spent = spent_us(ioh, "read")
    assert set(spent) == {"mean", "syscall"}
    notes = {note for i in ioh.intervals for note in i["path"].get("read", {"notes": []})["notes"]}
    assert notes == {"100 % cached"}
