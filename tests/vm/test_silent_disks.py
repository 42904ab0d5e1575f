"""A suspended volume does not answer; a slow disk and an idle one do."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernel.rig import Ioh, aligned, opened, recording, run
from tests.kernel.talker import wait_until
from tests.vm.disks import NAMES, Disks

DISK = NAMES[0]
READS = 9  # one a second: the rule needs 5 s
SLOW_US = 900_000  # the driver takes less than a second


@contextlib.contextmanager
def volume() -> Iterator[str]:
    """A volume on the disk; yields the kernel's name."""
    Disks().answer_after(0)
    run("modprobe", "dm-mod")
    sectors = Path(f"/sys/block/{DISK}/size").read_text().strip()
    table = f"0 {sectors} linear /dev/{DISK} 0"
    run("dmsetup", "--noudevsync", "create", "slowly", "--table", table)
    try:
        (device,) = Path(f"/sys/block/{DISK}/holders").iterdir()
        yield device.name
    finally:
        run("dmsetup", "--noudevsync", "remove", "--retry", "slowly")


def silent(ioh: Ioh) -> list[dict[str, Any]]:
    return [
        finding
        for interval in ioh.intervals
        for finding in interval["findings"]
        if finding["rule"] == "disk_no_answer"
    ]


def write(name: str) -> None:
    with opened(f"/dev/{name}", os.O_WRONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
        os.pwritev(fd, [buffer], 0)


def test_calls_on_a_suspended_volume_do_not_end() -> None:
    with volume() as name, recording("--layers", "syscall,block", cycle_s=0.5) as ioh:
        run("dmsetup", "--noudevsync", "suspend", "--nolockfs", "slowly")
        writer = threading.Thread(target=write, args=(name,))
        writer.start()
        wait_until(lambda: silent(ioh))
        ioh.settle()
        run("dmsetup", "--noudevsync", "resume", "slowly")
        writer.join(20)
        wait_until(
            lambda: "disk_no_answer" not in {x["rule"] for x in ioh.intervals[-1]["findings"]}
        )
    found = silent(ioh)
    assert found
    assert {finding["subject"] for finding in found} == {name}
    assert found[-1]["severity"] == "critical"
    assert f"[{os.getpid()}] has waited for" in found[-1]["cause"]
    assert found[-1]["command"].startswith(f"dmsetup info /dev/{name}; ")


def test_a_disk_that_takes_nearly_a_second_for_each_read_answers() -> None:
    with volume() as name, recording("--layers", "syscall,block", cycle_s=0.5) as ioh:
        Disks.answer_after(SLOW_US)
        with opened(f"/dev/{name}", os.O_RDONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
            for at in range(READS):
                os.preadv(fd, [buffer], 4096 * at)
        Disks.answer_after(0)
    assert ioh.total("block", "read") >= READS
    assert silent(ioh) == []
