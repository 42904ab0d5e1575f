"""A recording of a real NFS server and its clients; tests/vm/make_session.py recreates it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main
from ioh.session.check import check

PATH = Path(__file__).parents[1] / "data" / "nfs-session.ioh"
LAYERS = {"syscall", "nfs_client", "tcp", "nfs_server", "block"}
PUBLIC = ("/mnt/", "/srv/", "/dev/", "/tmp", "/usr/lib/", "/usr/share/", "/etc/")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from (key, *strings(part))
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def test_it_replays_and_holds_no_private_names(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    found = check(str(PATH))
    assert (found.faults, found.is_ended) == ([], True)
    assert PATH.stat().st_size < 500_000
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
