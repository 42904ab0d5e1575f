"""Requests that diskstats counted and the probe did not see."""

from __future__ import annotations

from ioh.layers.block_unseen import UnseenRequests
from ioh.model.sample import OpTotals


def of(**ops: int) -> dict[str, OpTotals]:
    return {name: OpTotals(count_total=count) for name, count in ops.items()}


def test_what_was_counted_before_the_first_reading_is_not_missing() -> None:
    unseen = UnseenRequests()
    assert unseen.note({}, {"sda": of(read=100)}) == 0
    # 5 lost while 7 were new; a device whose requests are seen below it loses none.
    told = {"sda": of(read=10), "dm-0": of(read=1000)}
    assert unseen.note(told, {"sda": of(read=112)}) == 0
    assert unseen.note({"sda": of(read=17)}, {"sda": of(read=112)}) == 5
    assert unseen.note({"sda": of(read=20)}, {"sda": of(read=118)}) == 5  # it never goes down


def test_classes_as_diskstats_has_them() -> None:
    unseen = UnseenRequests()
    unseen.note({}, {})
    probed = of(read=1, write=2, write_zeroes=4, zone_append=8, discard=16, flush=99, other=99)
    assert unseen.note({"sda": of(read=1, write=14, discard=16, flush=7)}, {"sda": probed}) == 0


def test_a_name_that_comes_to_mean_another_device() -> None:
    unseen = UnseenRequests()
    unseen.note({}, {})
    assert unseen.note({"loop0": of(read=100)}, {"loop0": of(read=98)}) == 2
    assert unseen.note({"loop0": of(read=10)}, {"loop0": of(read=108)}) == 2
    assert unseen.note({"loop0": of(read=20)}, {"loop0": of(read=117)}) == 3


def test_flushes_from_multipath_are_reads_of_the_disk_below() -> None:
    """As on Linux 6.1: diskstats tells 53 reads and no flush of 37 reads and 16 flushes."""
    unseen = UnseenRequests()
    unseen.note({}, {"sda": of(read=5, flush=9)})
    disks = {"sda": of(read=53, write=29, flush=0)}
    assert unseen.note(disks, {"sda": of(read=42, write=29, flush=25)}) == 0
    disks = {"sda": of(read=54, write=29, flush=0)}
    assert unseen.note(disks, {"sda": of(read=42, write=29, flush=25)}) == 1


def test_commands_of_programs_are_reads_to_diskstats_where_they_have_times() -> None:
    """As on Linux 5.10: 23 times TEST UNIT READY."""
    unseen = UnseenRequests()
    unseen.note({}, {"sda": of(read=5, other=9)})
    assert unseen.note({"sda": of(read=24)}, {"sda": of(read=6, other=32)}) == 0
    assert unseen.note({"sda": of(read=26)}, {"sda": of(read=7, other=32)}) == 1
