"""A recording of a real NFS server and its clients; tests/vm/make_session.py makes it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.model.sample import LayerSample
from ioh.session.check import check
from ioh.session.reader import Session

PATH = Path(__file__).parents[1] / "data" / "nfs-session.ioh"
LAYERS = {"syscall", "nfs_client", "tcp", "nfs_server", "block"}
PUBLIC = ("/mnt/", "/srv/", "/dev/", "/tmp", "/usr/lib/", "/usr/share/", "/etc/")
WRITES = ("write_unstable", "write_data_sync", "write_file_sync")


def first_and_last() -> tuple[dict[str, LayerSample], dict[str, LayerSample]]:
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


def test_both_ends_tell_the_same() -> None:
    first, last = first_and_last()

    def done(layer: str, *ops: str) -> tuple[int, int]:
        pairs = [(first[layer].ops[op], last[layer].ops[op]) for op in ops]
        counts = sum((new.count_total or 0) - (old.count_total or 0) for old, new in pairs)
        moved = sum((new.bytes_total or 0) - (old.bytes_total or 0) for old, new in pairs)
        return counts, moved

    assert done("nfs_client", "read") == done("nfs_server", "read_disk", "read_cached")
    assert done("nfs_client", "read")[0] > 100
    for op in (*WRITES, "commit"):
        assert done("nfs_client", op) == done("nfs_server", op), op
        assert done("nfs_client", op)[0] > 10 or op == "write_data_sync"
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
