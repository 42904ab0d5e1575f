"""What is wrong is told while it happens, within 10 s; what is healthy, not at all.

The whole way: probes, derivation, rules, JSON of a running ``ioh``.  The full collection of
scenarios is in ``tests/scenarios``; these are three of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.rig import Ioh, recording, run
from tests.scenarios.plays import AIO, DIRECT, PSYNC
from tests.scenarios.stage import Stage

WITHIN_S = 10.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, tmp_path / "unused.ioh") as made:
        yield made


def said(ioh: Ioh) -> list[dict[str, Any]]:
    return [finding for interval in ioh.intervals for finding in interval["findings"]]


def seconds_until(ioh: Ioh, rule: str) -> float:
    """How long it takes until a rule speaks, from now; an interval later it is too late."""
    begun = time.time()
    while ioh.intervals[-1]["time_unix_s"] < begun + WITHIN_S + 1:
        ioh.wait_for_lines(len(ioh.intervals) + 1)
        if any(finding["rule"] == rule for finding in ioh.intervals[-1]["findings"]):
            break
    return float(ioh.intervals[-1]["time_unix_s"] - begun)


def test_reads_cut_by_max_sectors_kb(stage: Stage) -> None:
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "128")
    with recording("--device", disk.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=1M", DIRECT, PSYNC)
        assert seconds_until(ioh, "fragmentation") <= WITHIN_S
    found = [finding for finding in said(ioh) if finding["rule"] == "fragmentation"]
    assert re.match(r"Reads of 1 MB become 8 requests of 128 KB\b", found[0]["cause"])
    assert f"max_sectors_kb of {disk.name} is 128 KB" in found[0]["cause"]
    assert found[0]["command"] == f"echo 1024 > {disk.queue}/max_sectors_kb"


def test_reads_of_a_sparse_file(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.mount / "f"
    run("truncate", "-s", "2G", path)
    with recording("--device", volume.loop.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={path}", "--rw=randread", "--bs=64k", DIRECT, PSYNC)
        assert seconds_until(ioh, "holes") <= WITHIN_S
    found = [finding for finding in said(ioh) if finding["rule"] == "holes"]
    assert found[0]["cause"].startswith("At least 100 % of the bytes read with O_DIRECT")


def test_whole_requests_are_healthy(stage: Stage) -> None:
    """Of 512 KB: the most that fits into ``max_segments`` (128) when memory is in single pages."""
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "512")
    with recording("--device", disk.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=512k", DIRECT, AIO,
                  "--iodepth=4", "--rate=60m")  # fmt: skip
        ioh.wait_for_lines(len(ioh.intervals) + 12)
    assert ioh.total("block", "read") > 200
    assert said(ioh) == []
