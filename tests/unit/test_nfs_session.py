"""A recording of a real NFS server and its clients; tests/vm/make_session.py makes it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.model.sample import LayerSample, OpTotals
from ioh.session.check import check
from ioh.session.reader import Session

PATH = Path(__file__).parents[1] / "data" / "nfs-session.ioh"
LAYERS = {"syscall", "nfs_client", "tcp", "nfs_server", "block"}
PUBLIC = ("/mnt/", "/srv/", "/dev/", "/tmp", "/usr/lib/", "/usr/share/", "/etc/")
WRITES = ("write_unstable", "write_data_sync", "write_file_sync")


@pytest.fixture(scope="module")
def layers() -> tuple[dict[str, LayerSample], dict[str, LayerSample]]:
    """What the layers' totals were at the beginning and in the end."""
    with Session(str(PATH)) as session:
        ticks = [tick.sample for tick in session.ticks(0)]
    assert 60 <= len(ticks) <= 180
    first, last = ({**ticks[at].layers} for at in (0, -1))
    for found in (*first.values(), *last.values()):
        assert isinstance(found, LayerSample)
        assert found.source == "bpf"
    return first, last  # type: ignore[return-value]  # just looked at


def test_it_is_whole_and_small() -> None:
    found = check(str(PATH))
    assert (found.faults, found.is_ended) == ([], True)
    assert PATH.stat().st_size < 500_000


def test_both_ends_tell_the_same(
    layers: tuple[dict[str, LayerSample], dict[str, LayerSample]],
) -> None:
    first, last = layers

    def done(layer: str, op: str) -> tuple[int, int]:
        older: OpTotals = first[layer].ops[op]
        newer: OpTotals = last[layer].ops[op]
        return (
            (newer.count_total or 0) - (older.count_total or 0),
            (newer.bytes_total or 0) - (older.bytes_total or 0),
        )

    def add(*parts: tuple[int, int]) -> tuple[int, int]:
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    reads = done("nfs_client", "read")
    assert reads == add(done("nfs_server", "read_disk"), done("nfs_server", "read_cached"))
    assert reads[0] > 100
    for op in (*WRITES, "commit"):
        assert done("nfs_client", op) == done("nfs_server", op), op
    assert done("nfs_client", "write_unstable")[0] > 10
    assert done("nfs_client", "write_file_sync")[0] > 10
    assert done("nfs_client", "commit")[0] > 10
    for sample in last.values():
        assert not any(sample.lost.values()), sample.lost


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from (key, *strings(part))
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def test_it_replays_and_names_nothing_of_the_machine_that_made_it(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["json", str(PATH), "--top", "all", "--no-findings"]) == 0
    intervals = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert set().union(*(interval["layers"] for interval in intervals)) == LAYERS
    named = {text for interval in intervals for text in strings(interval)}
    assert {interval["host"]["hostname"] for interval in intervals} == {"vm"}
    for text in named:
        assert not text.startswith("/") or text == "/" or text.startswith(PUBLIC), text
    versions = {
        row["vers"]
        for interval in intervals
        for row in interval["layers"]["nfs_client"]["top"]["mount"]
    }
    assert versions == {"3", "4.2"}
