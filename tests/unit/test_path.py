"""The mean operation's time is divided exactly, and the output says what is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path as FilePath
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.path import Path, paths
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from tests.sessions import Shown
from tests.unit.snapshot_maker import by_chance, disk, layer, op, ticks

ROOT = FilePath(__file__).parents[2]
ON_NFS = [(("/mnt/db", "nfs4"), {"read_ns_per_s": 10e9, "write_ns_per_s": 10e9})]


def path(direction: str = "read", **layers: Any) -> Path:
    return paths(ticks(1, {name: layer(name, **what) for name, what in layers.items()})[0])[
        direction
    ]


def steps(found: Path) -> dict[str, float | None]:
    return {
        segment.name: None if segment.us is None else round(segment.us, 3)
        for segment in found.segments
    }


def reads(name: str = "read", **numbers: Any) -> dict[str, Any]:
    """System calls: 1,000 a second of 1 ms each."""
    stats = op(1000, 4096, 1000)
    return {"ops": {name: stats, name.partition("_")[0]: stats}, **numbers}


def test_the_device_time_is_spread_over_cached_reads_too() -> None:
    found = path(
        syscall=reads(metrics={"read_lower_bytes_per_s": 409.6e3, "cached_pct": 90.0}),
        block=disk("sda", read=op(100, 4096, 9000, queue_us=0)),
    )
    assert steps(found) == {"syscall": 100, "block_queue": 0, "device": 900}
    assert found.notes == ("90 % cached",)
    assert found.segments[0].title == "page cache"


def test_overlapping_requests_take_no_longer_than_their_call() -> None:
    found = path(
        syscall=reads(metrics={"read_lower_bytes_per_s": 4096e3}),
        block=disk("sda", read=op(8000, 512, 500, queue_us=100)),
    )
    assert steps(found) == {"syscall": None, "block_queue": 200, "device": 800}
    assert found.notes == ("app not separable",)


def test_without_probes_the_queue_is_part_of_the_device() -> None:
    untimed = replace(op(1000, 4096, 0), latency_us=None)
    found = path(
        syscall={"ops": {"read": untimed}, "source": "proc"},
        block=disk("sda", read=op(1000, 4096, 700)),
    )
    assert steps(found) == {"block_queue": None, "device": 700}
    assert found.top == "block"
    assert found.notes == ("time above block is not known", "block queue not separable")


def test_nfs_on_this_machine_shows_the_server_and_its_disk() -> None:
    found = path(
        syscall=reads(tables={"mount": ON_NFS}, metrics={"read_lower_bytes_per_s": 4096e3}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}},
        nfs_server={"ops": {"read": op(1000, 4096, 600)}},
        block=disk("sda", read=op(500, 8192, 800, queue_us=200)),
    )
    assert steps(found) == {
        "syscall": 100, "nfs_queue": 50, "network": 250, "nfs_server": 200, "block_queue": 100,
        "device": 300,
    }  # fmt: skip
    assert found.mean_us == sum(segment.us or 0 for segment in found.segments)


@pytest.mark.parametrize(
    ("tcp", "expected"),
    [
        ([(("2049", "nfs"), {"srtt_us": 100})], {"network": 100, "nfs_server": 750}),
        ([(("2049", "nfs"), {"srtt_us": 5000})], {"network": 850, "nfs_server": None}),
        ([(("22", "ssh"), {"srtt_us": 100})], {"network": 850, "nfs_server": None}),
    ],
)
def test_a_remote_servers_time_is_what_remains_after_the_round_trip(
    tcp: list[Any], expected: dict[str, float | None]
) -> None:
    found = path(
        syscall=reads(tables={"mount": ON_NFS}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}},
        nfs_server={},
        tcp={"tables": {"port": tcp}},
    )
    assert steps(found) == {"syscall": 100, "nfs_queue": 50, **expected}


def test_a_server_shows_its_clients_calls() -> None:
    found = path(
        syscall=reads("read_buffered"),
        nfs_server={"ops": {"read": op(5000, 4096, 600)}},
        block=disk("sda", read=op(5000, 4096, 400, queue_us=100)),
    )
    assert found.top == "nfs_server"
    assert steps(found) == {"nfs_server": 200, "block_queue": 100, "device": 300}


def test_buffered_writes_wait_for_no_device_and_a_note_shows_write_back() -> None:
    found = path(
        "write", syscall=reads("write_buffered"), block=disk("sda", write=op(100, 1e6, 9000))
    )
    assert steps(found) == {"syscall": 1000}
    assert found.segments[0].title == "page cache"
    assert found.notes == ("write-back: 100 MB/s, 9 ms per block write",)


def test_a_sync_waits_for_its_writes_and_the_flush() -> None:
    made = disk("sda", write=op(1000, 4096, 200, queue_us=50))
    made["ops"]["flush"] = op(1000, 0, 400, queue_us=100)
    found = path(
        "sync", syscall=reads("fsync", metrics={"write_lower_bytes_per_s": 4096e3}), block=made
    )
    assert steps(found) == {"syscall": 400, "block_queue": 150, "device": 450}
    assert found.notes == ("app includes the journal's writes",)


def test_there_is_no_sync_path_without_sync_calls() -> None:
    """WRITEs and COMMITs also come from direct writes, write-back and a server's clients."""
    commits = {"write": op(1000, 4096, 900), "commit": op(10, 0, 2000)}
    layers = {
        "syscall": layer("syscall", **reads("write_direct")),
        "nfs_client": layer("nfs_client", ops=commits),
        "nfs_server": layer("nfs_server", ops=commits),
    }
    assert "sync" not in paths(ticks(1, layers)[0])
    for name in layers:
        assert "sync" not in paths(ticks(1, {name: layers[name]})[0])


def test_text_and_json_show_the_same_numbers() -> None:
    layers = {
        "syscall": layer("syscall", **reads(metrics={"read_lower_bytes_per_s": 4096e3})),
        "block": layer("block", **disk("sda", read=op(1000, 4096, 700, queue_us=200))),
    }
    snapshot = ticks(1, layers)[0]
    text = TextSink(TextOptions(frozenset({"path"}))).render(snapshot)
    assert "R |   1.000 = app 0.300 (30%) + block queue 0.200 (20%) + device 0.500 (50%)\n" in text
    found: Any = JsonSink().to_json(snapshot)["path"]
    told, segments = found["read"], found["read"].pop("segments")
    assert told == {"top": "syscall", "ops_per_s": 1000, "mean_us": 1000.0, "notes": []}
    assert segments[0] == {"name": "syscall", "us": 300.0, "share_pct": 30.0}
    assert [each["us"] for each in segments] == [300, 200, 500]


def test_options_that_show_less_do_not_change_the_path(shown: Shown) -> None:
    """A breakdown says which mounts are NFS, even if it is not shown."""
    file = ROOT / "tests/data/scenarios/server_disk.ioh"
    told = shown("text", "-d", "path", "--no-findings", file).splitlines()
    bare = [line for line in told if line.startswith("R |")]
    told = shown("text", "-d", "path top", file).splitlines()
    assert [line for line in told if line in bare] == bare
    assert any("nfs server" in line for line in bare)
    more, less = (
        [json.loads(line)["path"] for line in shown("json", file, *options).splitlines()]
        for options in ((), ("--top", "0", "--no-findings"))
    )
    assert more == less


@given(st.integers(0, 2**32))
def test_known_steps_add_up_and_none_is_negative(seed: int) -> None:
    for found in paths(by_chance(Random(seed), 1.7e9)).values():
        known = [segment.us for segment in found.segments if segment.us is not None]
        assert sum(known) == pytest.approx(found.mean_us, rel=1e-6)
        assert min(known) >= -1e-6 * found.mean_us
