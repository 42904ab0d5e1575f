"""Verdicts: each measurement artefact is named, and the same test without it is ok."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ioh.bench import runner
from ioh.bench.results import BenchDevice, Figures, LayerFigures, RunFinding, TestSpec
from ioh.bench.verdict import Case, judge
from ioh.model.snapshot import TableRow

READ = TestSpec("randread-8k-1u", "randread", "randread", 8192)
WRITE = TestSpec("write-8k-1u", "write", "write", 8192)
MB = 1_000_000
DISK = BenchDevice(
    "sda",
    transport="sata",
    limits={"max_sectors_kb": "1280", "max_hw_sectors_kb": "4096"},
    carries=True,
)


def figures(bytes_: int, ops: int = 1000, run_s: float = 10) -> Figures:
    return Figures(ops=ops, bytes=bytes_, bytes_per_s=bytes_ / run_s, iops=ops / run_s)


def below(bytes_: int, op: str = "read", part: str = "sda", layer: str = "block", **kw: Any) -> Any:
    return LayerFigures(layer, "Disk", op, figures(bytes_, **kw), part)


def spoken(rule: str, subject: str = "") -> RunFinding:
    return RunFinding(rule, rule, "info", subject, f"It is {rule}.", "", 0.0, 1.0)


def case(**changed: Any) -> Case:
    made: dict[str, Any] = {
        "spec": READ, "run_s": 10.0, "fio": {"read": figures(100 * MB)},
        "layers": (below(100 * MB),), "devices": (DISK,),
    }  # fmt: skip
    return Case(**{**made, **changed})


def written(own: int, *layers: LayerFigures, **changed: Any) -> dict[str, Any]:
    """fio wrote ``own`` bytes; ``layers`` are what the layers did."""
    return {"spec": WRITE, "fio": {"write": figures(own)}, "layers": layers, **changed}


def cut_at_64k(hardware_kb: int) -> dict[str, Any]:
    """Each read of 1 MiB is split into 16 requests."""
    limits = {"max_sectors_kb": "64", "max_hw_sectors_kb": str(hardware_kb)}
    return {
        "devices": (BenchDevice("sda", limits=limits, carries=True),),
        "fio": {"read": figures(100 << 20, ops=100)},
        "layers": (below(100 << 20, ops=1600),),
    }


def over_nfs(bytes_: int) -> dict[str, Any]:
    """Read over a network of 1 Gbit/s."""
    return {
        "file_system": "nfs4", "devices": (), "fio": {"read": figures(bytes_)},
        "layers": (below(bytes_, layer="nfs_client", part=""),), "link_bytes_per_s": 117e6,
    }  # fmt: skip


def limited(bytes_per_s: int) -> dict[str, Any]:
    words = f"{bytes_per_s:,} read bytes a second"
    return {"limits": {"control group /x": (words, (bytes_per_s, None, None, None))}}


CACHING = (spoken("caching"),)
OK: Mapping[str, dict[str, Any]] = {
    "as it should be": {},
    "a little missing": {"layers": (below(91 * MB),)},
    "a little of others": {"layers": (below(109 * MB),), "others": {"x[1]": 9 * MB}},
    "others on another disk": {"others": {"x[1]": 900 * MB}},
    "a journal beside synchronous writes": written(10 * MB, below(80 * MB, "write")),
    "pages read before a part of them is written": written(
        10 * MB, below(40 * MB), below(80 * MB, "write"), own_read_bytes=40 * MB
    ),
    "a finding that explains what did not happen": {"findings": CACHING},
    "maintenance of another device": {"findings": (spoken("maintenance", "md9"),)},
    "a limit far away": limited(10**9),
    "cut by what the hardware takes": cut_at_64k(64),
    "a network file system": over_nfs(100 * MB),
    "files deleted": written(
        100 * MB, below(1, "write"), spec=TestSpec("d", "files", "delete", files=9)
    ),
}
# Something other than the storage was measured: the case, the rule, and part of the sentence.
REFUSED: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "holes": (
        {"layers": (below(1 * MB),), "findings": (*CACHING, spoken("holes"))},
        "holes", "It is holes.",
    ),
    "cached, and no rule says why": (
        {"layers": (below(50 * MB),)},
        "bytes", "50 % of the bytes read by fio never reached the device",
    ),
    "cached, while others read": (
        {"layers": (below(100 * MB),), "own_read_bytes": 1000, "findings": CACHING},
        "caching", "It is caching.",
    ),
    "compressed": (
        written(100 * MB, below(20 * MB, "write"), findings=(spoken("compression"),)),
        "compression", "It is compression.",
    ),
    "others read": (
        {"layers": (below(150 * MB),), "others": {"tar[7]": 50 * MB}},
        "others", "other programs moved 47.7 MB on the same device",
    ),
    "limited": (
        limited(10**7), "io_limit", "control group /x limits fio: 10,000,000 read bytes a second",
    ),
    "cut": (
        cut_at_64k(4096),
        "fragmentation", "max_sectors_kb of sda splits each read of 1 MB into 16.0 requests",
    ),
    "faster than SATA": (
        {"fio": {"read": figures(7000 * MB)}, "layers": (below(7000 * MB),)},
        "link", "700 MB/s is more than a SATA link can carry",
    ),
    "faster than the network": (
        over_nfs(2000 * MB), "link", "200 MB/s is more than the network can carry",
    ),
    "maintenance": ({"findings": (spoken("maintenance", "sda"),)}, "maintenance", "It is"),
    "from an NFS client's memory": (
        {
            **over_nfs(100 * MB), "findings": CACHING,
            "layers": (below(5 * MB),),  # of the machine's own disk
            "watched": frozenset({"nfs_client", "block"}),
        },
        "caching", "It is caching.",
    ),
    "from memory, and the disks idle": (
        {"layers": (), "watched": frozenset({"block"})},
        "bytes", "100 % of the bytes read by fio never reached the device",
    ),
    "in memory": ({"file_system": "tmpfs"}, "unwatched", "the files are in memory"),
    "nothing measured": ({"layers": ()}, "unwatched", "no I/O reached a device"),
}  # fmt: skip


@pytest.mark.parametrize("name", OK)
def test_a_measurement_of_the_storage_is_ok(name: str) -> None:
    assert judge(case(**OK[name])).ok, judge(case(**OK[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_else_was_measured_is_named(name: str) -> None:
    changed, rule, said = REFUSED[name]
    found = judge(case(**changed))
    assert not found.ok
    assert found.rule == rule, found
    assert said in found.sentence


def test_bytes_of_fio_are_found_under_both_of_its_names() -> None:
    """What fio reads between fork and exec is counted under ioh's own name."""
    rows = (
        TableRow(("7", "fio"), {"read_bytes_per_s": 1000.0}),
        TableRow(("8", "other"), {"read_bytes_per_s": 5.0, "write_bytes_per_s": 2.0}),
        TableRow(("7", "python"), {"read_bytes_per_s": 20.0}),
        TableRow(("9", "kworker/u8:1"), {"write_bytes_per_s": 90.0}),
    )
    layers = {"block": SimpleNamespace(interval_s=2.0)}
    whole = SimpleNamespace(layers=layers, rows=lambda *_: rows)
    seen = cast("Any", SimpleNamespace(whole=whole))
    assert runner._bytes_of(seen, 7) == (2040, {"other[8]": 14})
