"""Findings of a running ``ioh``: a fault is reported within 10 s, a healthy load is not.

All steps take part: probes, derivation, rules, JSON.  The full collection of scenarios is in
``tests/scenarios``; these are three of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.rig import Ioh, recording, run
from tests.kernel.talker import wait_until
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
    """Seconds from now until a rule reports; ends one second after the limit in any case."""
    begun = time.time()
    while ioh.intervals[-1]["time_unix_s"] < begun + WITHIN_S + 1:
        ioh.wait_for_lines(len(ioh.intervals) + 1)
        if any(finding["rule"] == rule for finding in ioh.intervals[-1]["findings"]):
            break
    return float(ioh.intervals[-1]["time_unix_s"] - begun)


def test_reads_cut_by_max_sectors_kb_are_reported(stage: Stage) -> None:
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "128")
    with recording("--device", disk.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=1M", DIRECT, PSYNC)
        assert seconds_until(ioh, "fragmentation") <= WITHIN_S
    found = [finding for finding in said(ioh) if finding["rule"] == "fragmentation"]
    assert re.match(r"Reads of 1 MB become 8 requests of 128 KB\b", found[0]["cause"])
    assert f"max_sectors_kb of {disk.name} is 128 KB" in found[0]["cause"]
    assert found[0]["command"] == f"echo 1024 > {disk.queue}/max_sectors_kb"


def test_reads_of_a_sparse_file_are_reported(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.mount / "f"
    run("truncate", "-s", "2G", path)
    with recording("--device", volume.loop.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={path}", "--rw=randread", "--bs=64k", DIRECT, PSYNC)
        assert seconds_until(ioh, "holes") <= WITHIN_S
    found = [finding for finding in said(ioh) if finding["rule"] == "holes"]
    assert found[0]["cause"].startswith("At least 100 % of the bytes read with O_DIRECT")


def test_requests_that_are_not_cut_are_not_reported(stage: Stage) -> None:
    """They are of 512 KB: the most for ``max_segments`` (128) when memory is in single pages."""
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "512")
    with recording("--device", disk.name, cycle_s=1.0) as ioh:
        stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=512k", DIRECT, AIO,
                  "--iodepth=4", "--rate=60m")  # fmt: skip
        ioh.wait_for_lines(len(ioh.intervals) + 8)  # more than any rule needs
    assert ioh.total("block", "read") > 200
    assert said(ioh) == []


def test_a_dear_probe_is_reported_with_its_layer_and_a_cheap_load_is_not(stage: Stage) -> None:
    file = stage.folder / "cached"
    file.write_bytes(bytes(16 << 20))
    with Ioh("--layers", "syscall,block", cycle_s=1.0) as ioh:
        stage.fio(f"--filename={file}", "--rw=read", "--bs=4k", PSYNC, "--rate_iops=100")
        ioh.wait_for_lines(15, timeout_s=90)  # with a measurement of the cost
        assert "observer" not in {each["rule"] for each in said(ioh)}
        tiny = f"while :; do dd if={file} of=/dev/null bs=16 status=none; done"
        for _ in range(2):
            stage.load("sh", "-c", tiny)
        # It measures a tenth of a second in ten: on busy CPUs, dd may not run in the first.
        observed = wait_until(
            lambda: [each for each in said(ioh) if each["rule"] == "observer"],
            120,
            why=lambda: [each["ioh"] for each in ioh.intervals],
        )
        now = ioh.intervals[-1]
    assert observed[0]["subject"] == "syscall"
    assert "layer syscall" in observed[0]["cause"]
    share_pct = now["layers"]["syscall"]["metrics"]["probe_cpu_pct"]
    assert share_pct <= 1.05 * now["ioh"]["bpf_cpu_pct"]  # of slightly different times
