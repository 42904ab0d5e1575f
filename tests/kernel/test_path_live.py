"""The path of a call through the layers: what each step of it takes, against fio."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.part import WatchedVolume
from tests.kernel.rig import Ioh, Volume, fio, opened, recording

COUNT = 512
# A call can end in another interval than its request: the fewer intervals, the fewer such.
PATH_CYCLE_S = 0.25


@pytest.fixture(scope="module")
def of_fio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedVolume]:
    with closing(Volume(tmp_path_factory.mktemp("path"))) as made:
        options = ("--device", made.device, "--comm", "fio")
        with recording(*options, cycle_s=PATH_CYCLE_S) as ioh:
            yield WatchedVolume(made, ioh)


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
    """Microseconds that requests waited and were in the device, by the block layer's numbers."""
    found = {"block_queue": 0.0, "device": 0.0}
    for interval in ioh.intervals:
        stats = interval["layers"]["block"]["ops"][op]
        if stats["count"]:
            found["block_queue"] += stats["count"] * stats["queue_us"]
            found["device"] += stats["count"] * stats["service_us"]
    return found


@pytest.mark.parametrize("direction", ["read", "write"])
def test_direct_calls_are_split_by_layer(of_fio: WatchedVolume, direction: str) -> None:
    of_fio.volume.file("j.0.0", COUNT * 4096)
    with of_fio.part() as ioh:
        (job,) = fio(
            of_fio.volume.mount, rw=f"rand{direction}", direct=1, bs="4k", size=COUNT * 4096,
            filename="j.0.0", overwrite=1,
        )  # fmt: skip
    spent = spent_us(ioh, direction)
    assert spent["mean"] == pytest.approx(job[direction]["clat_ns"]["mean"] * COUNT / 1e3, rel=0.1)
    # While a thread waits for a CPU, it no longer waits for its request.
    below, cpu_wait = block_us(ioh, direction), spent.get("cpu_wait", 0.0)
    for step, us in below.items():
        assert 0.98 * (us - cpu_wait) <= spent[step] <= 1.02 * us, step
    in_layers = sum(spent[step] for step in below)
    assert sum(below.values()) <= 1.02 * (in_layers + cpu_wait)
    assert spent["syscall"] == pytest.approx(spent["mean"] - in_layers - cpu_wait, rel=0.05)


def touch(path: Path) -> float:
    """Read a byte of each page by a mapping of its own; the microseconds that it took."""
    with opened(path, os.O_RDONLY) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
        mapped.madvise(mmap.MADV_RANDOM)  # no page is read ahead
        begun_ns = time.perf_counter_ns()
        for at in range(0, len(mapped), 4096):
            mapped[at]
        return (time.perf_counter_ns() - begun_ns) / 1e3


def test_page_faults_that_read_the_disk_are_a_path_and_those_in_memory_none(
    watched: WatchedVolume,
) -> None:
    path = watched.volume.file("data", COUNT * 4096)
    watched.volume.drop_caches()
    with watched.part() as ioh:
        took_us = touch(path)
    assert ioh.total("syscall", "fault_read") == COUNT
    spent = spent_us(ioh, "fault")
    assert sum(block_us(ioh, "read").values()) <= spent["mean"] <= took_us
    assert spent["page_fault"] == spent["mean"]
    # A request can end in the interval before that of its fault.
    assert spent_us(ioh, "read")["mean"] < 0.05 * spent["mean"]
    for _ in range(5):  # the kernel may have evicted a page: the disk says so
        with watched.part() as ioh:
            before = watched.volume.loop.stats()
            touch(path)
            reads = (watched.volume.loop.stats() - before).reads
        assert ioh.total("syscall", "fault_read") == reads
        assert any("fault" in interval["path"] for interval in ioh.intervals) == (reads > 0)
        if not reads:
            break
    assert not reads


def test_reads_from_the_cache_never_reach_the_disk(of_fio: WatchedVolume) -> None:
    path = of_fio.volume.file("j.0.0", COUNT * 4096)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        # Mapped, so that it stays in memory: the kernel has been seen to drop single pages that are
        # not, soon after they were read, with most of the memory free.
        assert len(mapped[:]) == COUNT * 4096
        with of_fio.part() as ioh:
            fio(of_fio.volume.mount, rw="randread", bs="4k", size=COUNT * 4096, filename="j.0.0",
                invalidate=0)  # fmt: skip
    spent = spent_us(ioh, "read")
    assert set(spent) == {"mean", "syscall"}
    notes = {note for i in ioh.intervals for note in i["path"].get("read", {"notes": []})["notes"]}
    assert notes == {"no call reached a lower layer"}
