"""Metadata: what is said of programs that wait for it, and of look-alikes that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ioh.model.sample import Value
from tests.unit.snapshot_maker import Layers, found, layer, op

RULES = {"metadata_bound", "directory_scan", "open_close", "nfs_revalidation", "lock_wait"}
Kinds = Mapping[str, tuple[float, float]]  # operations a second, and µs of each
NFS_KEYS = ("/mnt/n", "10.0.0.5:/e", "4.2", "sys", "tcp")


def program(
    kinds: Kinds, waited: float = 500, each_us: float = 1500,
    read: tuple[float, float, float] = (0, 0, 0),
) -> Layers:  # fmt: skip
    """A program's metadata calls by kind (rate, µs), those that wait, and its reads that wait."""
    reads, read_bytes, read_us = read
    row: dict[str, Value] = {
        "metas_per_s": sum(rate for rate, _ in kinds.values()),
        "metas_waited_per_s": waited,
        "meta_waited_ns_per_s": waited * each_us * 1e3,
        "reads_waited_per_s": reads,
        "read_waited_ns_per_s": reads * read_us * 1e3,
    }
    ops = {kind: op(rate, 0, us) for kind, (rate, us) in kinds.items()}
    total = sum(rate for rate, _ in kinds.values())
    spent_us = sum(rate * us for rate, us in kinds.values())
    ops["meta"] = op(total, 0, spent_us / total)
    ops["read"] = ops["read_buffered"] = op(reads, read_bytes, read_us)
    metrics: dict[str, Value] = {
        "meta_waited_per_s": waited, "meta_waited_ns_per_s": waited * each_us * 1e3,
    }  # fmt: skip
    tables: Any = {"process": [(("17", "tar"), row)]}
    return {"syscall": layer("syscall", ops, metrics=metrics, tables=tables)}


def nfs(asked: float, kept_s: float | None, reads: float = 0, us: float = 1500) -> Layers:
    """A mount that keeps attributes for a time; None: not known."""
    ops = {"getattr": op(asked, 0, us), "meta": op(asked, 0, us), "read": op(reads, 4096, us)}
    row: dict[str, Value] = {"metas_per_s": asked, "attr_cache_s": kept_s}
    return {"nfs_client": layer("nfs_client", ops, tables={"mount": [(NFS_KEYS, row)]})}


def locks(
    rate: float = 0, us: float = 0, age_us: float = 0, name: str = "lock", count: int = 1
) -> Layers:
    """Locks that were waited for, and one that still is."""
    row: dict[str, Value] = {"age_us": age_us, "count": count}
    tables: Any = {"process": [(("9", "dpkg"), {"lock_ns_per_s": rate * us * 1e3})]}
    if age_us:
        tables["in_progress"] = [(("9", "dpkg", name, "/var/lib/dpkg/lock", "sda"), row)]
    return {"syscall": layer("syscall", {"lock": op(rate, 0, us)}, tables=tables)}


UNPACK = {"create": (400.0, 1200.0), "setattr": (800.0, 150.0), "stat": (900.0, 2.0)}
LIST = {"readdir": (2.0, 3000.0), "stat": (600.0, 1400.0)}
SMALL = {"open": (300.0, 1900.0), "close": (300.0, 500.0), "stat": (300.0, 2.0)}


@pytest.mark.parametrize(
    ("rule", "layers"),
    [
        ("metadata_bound", program(UNPACK)),
        # find: many small directories
        ("metadata_bound", program({"readdir": (300, 1500), "stat": (2000, 300)})),
        ("directory_scan", program(LIST)),
        ("open_close", program(SMALL, read=(300, 2048, 300))),
        ("nfs_revalidation", {**program(LIST), **nfs(600, 0.0)}),
        ("nfs_revalidation", nfs(600, 1.0)),
        ("lock_wait", locks(rate=2, us=400_000)),
        ("lock_wait", locks(age_us=5e6)),
    ],
)
def test_one_finding_says_what_is_waited_for(rule: str, layers: Layers) -> None:
    assert RULES & set(found(layers)) == {rule}


@pytest.mark.parametrize(
    "layers",
    [
        program({"stat": (50_000, 1.5)}, waited=0, each_us=0),  # git status: all in memory
        program(UNPACK, read=(2000, 65536, 3000)),  # it waits for data more
        program({"open": (20, 2000)}, waited=20, each_us=2000),  # a twentieth of a thread
        nfs(600, 60.0),  # the first walk through a tree
        nfs(600, None),
        nfs(600, 0.0, reads=2000),  # noac, but the data is most of it
        nfs(50, 0.0, us=1000),
        locks(rate=20, us=300),
        locks(age_us=5e6, name="read"),
        locks(age_us=300_000, count=0),
    ],
)
def test_a_look_alike_is_not_reported(layers: Layers) -> None:
    assert not RULES & set(found(layers))


@pytest.mark.parametrize(
    ("rule", "layers"),
    [
        # a tree of small directories, names alone, and a large directory in memory
        ("directory_scan", program({"readdir": (300, 1500), "stat": (600, 300)})),
        ("directory_scan", program({"readdir": (400, 2500)})),
        ("directory_scan", program(LIST, waited=2, each_us=3000)),
        # a file is read whole, created and not read, or opened and read from memory
        ("open_close", program(SMALL, read=(300, 1 << 20, 300))),
        ("open_close", program({"create": (400, 1900)})),
        ("open_close", program(SMALL, waited=2, each_us=3000, read=(300, 2048, 5))),
    ],
)
def test_a_look_alike_is_not_called_so(rule: str, layers: Layers) -> None:
    assert rule not in found(layers)


def test_the_sentences() -> None:
    finding = found(program(UNPACK))["metadata_bound"]
    assert finding.cause == (
        "tar spends 100 % of the time of its I/O in metadata calls: 500 a second wait 1.50 ms "
        "each, most of their time in create."
    )
    assert "faster throughput" in finding.false_alarm
    finding = found({**program(LIST), **nfs(600, 0.0)})["nfs_revalidation"]
    assert finding.cause.startswith("/mnt/n keeps no attributes, so the client asks the server 600")
    assert finding.command == "findmnt -o SOURCE,OPTIONS /mnt/n   # keep these, without noac"
    assert "a remount does not change it" in finding.advice
    finding = found(locks(age_us=5e6))["lock_wait"]
    assert finding.cause == "dpkg[9] has waited 5 s for a lock on /var/lib/dpkg/lock."


def test_over_nfs_the_advice_is_another_one() -> None:
    local = found(program(UNPACK))["metadata_bound"]
    remote = found({**program(UNPACK), **nfs(600, 60.0)})["metadata_bound"]
    assert "on the server" in remote.advice
    assert "on the server" not in local.advice
