"""Findings on calls cut by wsize or joined by the client: their numbers against mountstats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.part import Part, part_of
from tests.kernel.rig import Ioh, fio
from tests.vm.nfs import Server, client_counts, mounted, watching

SECONDS = 20
LIMIT = 32 << 10
# An emulated machine is slow: there, less counts as load.  Nothing else is changed.
CONFIG = "[consolidation]\ncalls_min_per_s = 50\n"


@pytest.fixture(scope="module")
def layers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ioh]:
    config = tmp_path_factory.mktemp("config") / "findings.toml"
    config.write_text(CONFIG)
    options = ["--findings-config", str(config)]
    with (
        mounted("4.2", client=2, place="/mnt/idle"),
        watching("syscall", "nfs_client", "block", cycle_s=1.0, options=options) as ioh,
    ):
        yield ioh


def findings(part: Part, rule: str) -> list[dict[str, Any]]:
    found = [f for interval in part.intervals for f in interval["findings"]]
    return [finding for finding in found if finding["rule"] == rule]


def ratio(place: Path, part: Part, **options: Any) -> tuple[float, float]:
    """RPCs for each of fio's calls by mountstats and fio, and the same in bytes."""
    before = client_counts(place)
    fixed = {"time_based": 1, "runtime": options.pop("seconds", SECONDS), "size": "8m"}
    (job,) = fio(place, filename="f", **fixed, **options)
    told = client_counts(place) - before
    calls, size = job["write"]["total_ios"], job["write"]["io_bytes"]
    return told.write.calls / calls, told.write_bytes / size


@pytest.mark.parametrize(
    ("kind", "options"),
    [("direct", {"direct": 1}), ("sync", {"sync": 1}), ("buffered", {"fsync": 4})],
)
def test_writes_cut_by_wsize_are_reported(layers: Ioh, kind: str, options: dict[str, int]) -> None:
    with mounted("4.2", f"rsize={LIMIT}", f"wsize={LIMIT}") as place, part_of(layers) as part:
        truth, _ = ratio(place, part, rw="write", bs="1m", **options)
    found = findings(part, "nfs_fragmentation")
    assert found, kind
    for finding in found:
        said = re.fullmatch(
            r"Writes of (\d+) (KB|MB) become ([\d.]+) WRITEs of ([\d.]+) KB.*\. wsize=32768 on .*",
            finding["cause"],
        )
        assert said, finding["cause"]
    said_ratio = float(re.search(r"become ([\d.]+)", found[-1]["cause"])[1])  # type: ignore[index]
    assert said_ratio == pytest.approx(truth, rel=0.02)
    assert ("inferred" in found[-1]["cause"]) is (kind == "buffered")


def test_whole_writes_are_not_reported(layers: Ioh) -> None:
    with mounted("4.2", "rsize=1048576", "wsize=1048576") as place, part_of(layers) as part:
        ratio(place, part, rw="write", bs="64k", direct=1)
    assert findings(part, "nfs_fragmentation") == []


def test_small_writes_that_are_joined_are_reported(layers: Ioh) -> None:
    with mounted("4.2", "rsize=1048576", "wsize=1048576") as place, part_of(layers) as part:
        truth, conserved = ratio(place, part, rw="write", bs="4k", fsync=512, seconds=45)
    assert conserved == pytest.approx(1, rel=0.05)
    found = findings(part, "consolidation")
    assert found
    said = float(re.match(r"([\d.]+) writes", found[-1]["cause"])[1])  # type: ignore[index]
    assert said == pytest.approx(1 / truth, rel=0.1)
