"""Devices without requests: in the total as the kernel counts them, once with what lies on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.rig import Ioh, about, recording, run, settle_devices
from tests.kernel.talker import wait_until

CONTROL = Path("/sys/class/zram-control")
READS, WRITES, SIZE = 4001, 401, 4096


@pytest.fixture
def zram() -> Iterator[str]:
    """A new zram disk of 64 MiB."""
    number = (CONTROL / "hot_add").read_text().strip()
    (Path(f"/sys/block/zram{number}") / "disksize").write_text("64M")
    settle_devices()
    yield f"zram{number}"

    def is_gone() -> bool:
        try:
            (CONTROL / "hot_remove").write_text(number)
        except OSError:  # still in use
            return False
        return True

    wait_until(is_gone)


def assert_sums_up(ioh: Ioh, name: str) -> None:
    """The disk's own numbers are exact, and the total has each device that is not stacked once."""
    summed, part = 0, 0
    for interval in ioh.intervals_of("block"):
        block = interval["layers"]["block"]
        stacked = {row["device"] for row in block["top"]["device"] if row["stacked"]}
        counted = {n: ops for n, ops in block["parts"]["device"].items() if n not in stacked}
        reads = sum(ops["read"]["count"] for ops in counted.values() if "read" in ops)
        assert block["ops"]["read"]["count"] == reads
        part += counted.get(name, {}).get("read", {"count": 0})["count"]
        summed += reads
    assert part == READS
    assert summed >= READS
    row = ioh.table("block", "device", "device", "on")[name, name]
    assert (row["reads"], row["writes"]) == (READS, WRITES)
    assert row["read_bytes"] == about(READS * SIZE)


def test_reads_of_zram_are_in_the_total(zram: str) -> None:
    with recording("--layers", "block") as ioh:
        read_directly(f"/dev/{zram}", READS, step=0)
        write_directly(f"/dev/{zram}", WRITES)
    assert_sums_up(ioh, zram)


def test_reads_of_a_loop_device_on_zram_are_in_the_total_once(zram: str) -> None:
    loop = run("losetup", "--find", "--show", "--direct-io=on", f"/dev/{zram}").strip()
    settle_devices()
    try:
        with recording("--layers", "block") as ioh:
            read_directly(loop, READS, step=0)
            write_directly(loop, WRITES)
    finally:
        run("losetup", "--detach", loop)
    assert_sums_up(ioh, zram)
    name = loop.removeprefix("/dev/")
    assert ioh.table("block", "device", "device")[name,]["reads"] + ioh.unseen >= READS
