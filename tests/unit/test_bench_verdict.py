"""Verdicts: each artefact is named, and the same test without it is ok."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ioh.bench import runner
from ioh.bench.results import BenchDevice, Figures, LayerFigures, Spoken, TestSpec
from ioh.bench.verdict import Case, judge
from ioh.model.snapshot import TableRow

READ = TestSpec("randread-8k-1u", "randread", "randread", 8192)
WRITE = TestSpec("write-8k-1u", "write", "write", 8192)
MB = 1_000_000
LIMITS = (10_000_000, None, None, None)
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


def spoken(rule: str, subject: str = "") -> Spoken:
    return Spoken(rule, rule, "info", subject, f"It is {rule}.", "", 0.0, 1.0)


def case(**changed: Any) -> Case:
    made: dict[str, Any] = {
        "spec": READ, "run_s": 10.0, "fio": {"read": figures(100 * MB)},
        "layers": (below(100 * MB),), "devices": (DISK,),
    }  # fmt: skip
    return Case(**{**made, **changed})


OK: Mapping[str, dict[str, Any]] = {
    "as it should be": {},
    "a little missing": {"layers": (below(91 * MB),)},
    "a little of others": {"layers": (below(109 * MB),), "others": {"x[1]": 9 * MB}},
    "others on another disk": {"others": {"x[1]": 900 * MB}},
    "a journal beside synchronous writes": {
        "spec": WRITE,
        "fio": {"write": figures(10 * MB)},
        "layers": (below(80 * MB, "write"),),
    },
    "pages read before a part of them is written": {
        "spec": WRITE,
        "fio": {"write": figures(10 * MB)},
        "layers": (below(40 * MB), below(80 * MB, "write")),
        "own_read_bytes": 40 * MB,
    },
    "a finding that explains what did not happen": {"findings": (spoken("caching"),)},
    "maintenance of another device": {"findings": (spoken("maintenance", "md9"),)},
    "a limit far away": {"limits": {"control group /x": ("y", (10**9, None, None, None))}},
    "cut by what the hardware takes": {
        "devices": (BenchDevice("sda", limits={"max_sectors_kb": "64", "max_hw_sectors_kb": "64"},
                           carries=True),),
        "fio": {"read": figures(100 * MB, ops=100)},
        "layers": (below(100 * MB, ops=1600),),
    },
    "a network file system": {
        "file_system": "nfs4",
        "devices": (),
        "layers": (below(100 * MB, layer="nfs_client", part=""),),
        "link_bytes_per_s": 117e6,
    },
    "files deleted": {
        "spec": TestSpec("d", "files", "delete", files=9),
        "fio": {"write": figures(100 * MB)},
        "layers": (below(1, "write"),),
    },
}  # fmt: skip

REFUSED: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "holes": (
        {"layers": (below(1 * MB),), "findings": (spoken("caching"), spoken("holes"))},
        "holes",
        "It is holes.",
    ),
    "cached, and no rule says why": (
        {"layers": (below(50 * MB),)},
        "bytes",
        "50 % of what fio has read never reached the device",
    ),
    "cached, while others read": (
        {"layers": (below(100 * MB),), "own_read_bytes": 1000, "findings": (spoken("caching"),)},
        "caching",
        "It is caching.",
    ),
    "compressed": (
        {
            "spec": WRITE,
            "fio": {"write": figures(100 * MB)},
            "layers": (below(20 * MB, "write"),),
            "findings": (spoken("compression"),),
        },
        "compression",
        "It is compression.",
    ),
    "others read": (
        {"layers": (below(150 * MB),), "others": {"tar[7]": 50 * MB}},
        "others",
        "others moved 47.7 MB on the same device",
    ),
    "others write": (
        {"layers": (below(100 * MB), below(30 * MB, "write"))},
        "others",
        "others moved 28.6 MB",
    ),
    "limited": (
        {
            "limits": {
                "control group /x": ("10,000,000 read bytes a second", (10**7,) + (None,) * 3)
            }
        },
        "io_limit",
        "control group /x limits it: 10,000,000 read bytes a second",
    ),
    "cut": (
        {
            "devices": (
                BenchDevice(
                    "sda",
                    limits={"max_sectors_kb": "64", "max_hw_sectors_kb": "4096"},
                    carries=True,
                ),
            ),
            "fio": {"read": figures(100 << 20, ops=100)},
            "layers": (below(100 << 20, ops=1600),),
        },
        "fragmentation",
        "max_sectors_kb of sda cuts each read of 1 MB into 16.0 requests",
    ),
    "faster than SATA": (
        {"fio": {"read": figures(7000 * MB)}, "layers": (below(7000 * MB),)},
        "link",
        "700 MB/s is more than a SATA link carries",
    ),
    "faster than the network": (
        {
            "file_system": "nfs",
            "devices": (),
            "layers": (below(2000 * MB, layer="nfs_client", part=""),),
            "fio": {"read": figures(2000 * MB)},
            "link_bytes_per_s": 117e6,
        },
        "link",
        "200 MB/s is more than the network carries",
    ),
    "maintenance": ({"findings": (spoken("maintenance", "sda"),)}, "maintenance", "It is"),
    "from an NFS client's memory": (
        {
            "file_system": "nfs4",
            "devices": (),
            "layers": (below(5 * MB),),  # of the machine's own disk
            "watched": frozenset({"nfs_client", "block"}),
            "findings": (spoken("caching"),),
        },
        "caching",
        "It is caching.",
    ),
    "from memory, and the disks idle": (
        {"layers": (), "watched": frozenset({"block"})},
        "bytes",
        "100 % of what fio has read never reached the device",
    ),
    "in memory": ({"file_system": "tmpfs"}, "unwatched", "the files are in memory"),
    "nothing measured": ({"layers": ()}, "unwatched", "nothing reached a device"),
}


@pytest.mark.parametrize("name", OK)
def test_what_is_the_storages_is_ok(name: str) -> None:
    assert judge(case(**OK[name])).ok, judge(case(**OK[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_the_storages_is_named(name: str) -> None:
    changed, rule, said = REFUSED[name]
    found = judge(case(**changed))
    assert not found.ok
    assert found.rule == rule, found
    assert said in found.sentence


def test_without_known_carriers_all_disks_count() -> None:
    layers = (below(100 * MB, part=""), below(60 * MB), below(40 * MB, part="sdb"))
    assert judge(case(devices=(), file_system="zfs", layers=layers)).ok


def test_fio_moves_bytes_under_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reads between fork and exec is counted under ioh's own name."""
    rows = (
        TableRow(("7", "fio"), {"read_bytes_per_s": 1000.0}),
        TableRow(("8", "other"), {"read_bytes_per_s": 5.0, "write_bytes_per_s": 2.0}),
        TableRow(("7", "python"), {"read_bytes_per_s": 20.0}),
        TableRow(("9", "kworker/u8:1"), {"write_bytes_per_s": 90.0}),
    )
    monkeypatch.setattr(runner, "rows_of", lambda *_: rows)
    whole = SimpleNamespace(layers={"block": SimpleNamespace(interval_s=2.0)})
    seen = cast("Any", SimpleNamespace(whole=whole))
    assert runner._moved(seen, 7) == (2040, {"other[8]": 14})
