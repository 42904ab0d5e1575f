"""Calls, requests and TCP of another kernel against fio, diskstats and what programs moved.

One ioh for all of them: starting one takes half a minute under emulation.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ioh.bpf.host import are_probes_preempted
from tests.kernel import tcp_load
from tests.kernel.fio_truth import Load, directions
from tests.kernel.part import part_of
from tests.kernel.rig import MIB, Ioh, Volume, fio
from tests.vm.nfs import watching

LOADS = [
    Load("psync", 1, "randrw", "4k", 4, 1, 1),
    Load("psync", 0, "read", "12k", 2, 1, 4),
    Load("psync", 0, "write", "192k", 2, 1, 6),
    Load("libaio", 1, "randrw", "12k", 2, 16, 3),
    Load("libaio", 0, "randwrite", "4k", 1, 4, 2),
    Load("io_uring", 1, "randrw", "192k", 2, 4, 6),
    Load("io_uring", 0, "randread", "128k", 4, 4, 4),
]


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    with closing(Volume(tmp_path_factory.mktemp("volume"))) as made:
        yield made


@pytest.fixture(scope="module")
def layers(volume: Volume) -> Iterator[Ioh]:
    options = ["--device", volume.device]
    with watching("syscall", "tcp", "block", options=options) as ioh:
        yield ioh


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_calls_and_requests_equal_fio_and_diskstats(
    volume: Volume, layers: Ioh, load: Load
) -> None:
    load.lay_out(volume)
    with part_of(layers) as ioh:
        compare = load.run(volume)
    compare(ioh)


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
def test_calls_of_tasks_on_one_cpu_are_seen_or_reported_as_lost(
    volume: Volume, layers: Ioh, engine: str
) -> None:
    """Linux 7 preempts programs at raw tracepoints: there 13 to 80 % of such calls went unseen.

    At trace events it does not, but it skips them while a task that reads a map is preempted on
    that CPU.  If that task is ioh, it waits for a time slice of 3 ms of each of the 8 tasks.  The
    load takes seconds, so that is 0.5 % of it, and hardly ever happens more than once.
    """
    volume.empty()
    volume.file("small", MIB)
    shape: dict[str, object] = {"filename": "small", "rw": "read", "bs": 16, "size": "256k"}
    shape |= {"ioengine": engine, "numjobs": 8, "cpus_allowed": 0, "thread": 1}
    with part_of(layers) as ioh:
        jobs = fio(volume.mount, **shape)
    done = directions(jobs)["read"][0]
    assert done == 8 * (256 << 10) // 16
    unseen, lost = done - ioh.total("syscall", "read"), ioh.lost("syscall")
    print(f"{engine}: {unseen} of {done} unseen, {lost}")
    if not are_probes_preempted():
        assert (unseen, lost) == (0, {})
    assert 0 <= unseen <= sum(lost.values())
    assert unseen < done / 50


def test_bytes_of_connections_equal_what_programs_moved(layers: Ioh) -> None:
    options = {"host": "127.0.0.1", "port": 2049, "short": 401, "bulk_bytes": 1_000_003}
    with part_of(layers) as ioh:
        done = subprocess.run(
            [sys.executable, Path(tcp_load.__file__), json.dumps(options)],
            input="\n", stdout=subprocess.PIPE, text=True, check=True, timeout=tcp_load.LIMIT_S,
        )  # fmt: skip
        moved = json.loads(done.stdout.splitlines()[-1])
    assert moved["sent"] == moved["received"] > 4 * 1_000_003
    lost = ioh.lost("tcp")
    for direction in ("in", "out"):
        seen = ioh.total("tcp", direction, "bytes")
        if are_probes_preempted() and lost:
            # Connections whose end was not seen: all of them are short ones.
            told = lost["recursion"] * (tcp_load.MOST_BYTES + 9)
            assert moved["sent"] - told <= seen <= moved["sent"]
        else:
            assert lost == {}
            assert seen == moved["sent"]
