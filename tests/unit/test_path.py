"""The mean operation's time is divided exactly, and the output says what is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.io_path import Cached, IoPath
from ioh.model.path import paths
from ioh.model.snapshot import OpStats, Snapshot
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from ioh.tui.history import point_of
from tests.support.screens import FINDINGS, drawn, minute
from tests.support.sessions import Shown
from tests.unit.snapshot_maker import by_chance, disk, layer, op, ticks

ROOT = Path(__file__).parents[2]
ALL_NS = 1e9  # of 1,000 calls of 1 ms


def on(fstype: str, share: float = 1.0, verb: str = "read", waited: float | None = None) -> Any:
    """A row of the table of mounts: a share of the calls, and of those that waited."""
    waited = share if waited is None else waited
    ops, size, ns = 1000, 4096e3, ALL_NS
    row = {f"{verb}s_per_s": ops * share, f"{verb}_bytes_per_s": size * share}
    row |= {f"{verb}_ns_per_s": ns * share, f"{verb}_waited_ns_per_s": ns * waited}
    row |= {f"{verb}s_waited_per_s": ops * waited, f"{verb}_waited_bytes_per_s": size * waited}
    return ((f"/{fstype}", fstype), row)


ON_NFS = [on("nfs4")]
SERVER_HERE: Any = {"connection": [(("10.0.0.1:2049", "10.0.0.1:831"), {})]}
SERVER: Any = {"server": [(("10.0.0.1", "10.0.0.1"), {})]}


def path(direction: str = "read", **layers: Any) -> IoPath:
    return paths(ticks(1, {name: layer(name, **what) for name, what in layers.items()})[0])[
        direction
    ]


def steps(found: IoPath) -> dict[str, float | None]:
    return {
        segment.name: None if segment.us is None else round(segment.us, 3)
        for segment in found.segments
    }


def reads(name: str = "read_missed", **numbers: Any) -> dict[str, Any]:
    """System calls: 1,000 a second of 1 ms each."""
    stats = op(1000, 4096, 1000)
    return {"ops": {name: stats, name.partition("_")[0]: stats}, **numbers}


def old(found: Snapshot, cached_pct: float) -> IoPath:
    """The path of reads as recorded before their kinds were known."""
    app = found.measured["syscall"]
    ops = {name: stats for name, stats in app.ops.items() if "cached" not in name}
    for name in ("read_missed", "read_waited"):
        ops.pop(name)
    ops["read"] = app.ops["read_missed"]
    app = replace(app, ops=ops, metrics={**app.metrics, "cached_pct": cached_pct})
    return paths(replace(found, layers={**found.layers, "syscall": app}))["read"]


@pytest.mark.parametrize(
    ("slow", "cached_pct", "title"),
    [
        (100, 95, "system call"),  # 91 % of the time is the device's
        (20, 95, "page cache"),
        (20, 49, "system call"),
        (20, 51, "system call"),  # the other half may have had the time
    ],
)
def test_an_old_recording_spreads_the_device_over_cached_reads(
    slow: int, cached_pct: float, title: str
) -> None:
    layers = {
        "syscall": layer("syscall", **reads(metrics={"read_lower_bytes_per_s": slow * 4096.0})),
        "block": layer("block", **disk("sda", read=op(slow, 4096, 9000, queue_us=0))),
    }
    found = old(ticks(1, layers)[0], cached_pct)
    assert steps(found) == {"syscall": 1000 - 9 * slow, "block_queue": 0, "device": 9 * slow}
    assert found.notes == (f"{cached_pct}% of calls cached",)
    assert found.segments[0].title == title


def test_the_path_is_that_of_the_reads_that_were_not_in_memory() -> None:
    """However many were in memory, and however little of the time the others took."""
    slow, fast = op(2, 131072, 8000), op(50_000, 4096, 1.2)
    layers: dict[str, Any] = {
        "syscall": {
            "ops": {"read_missed": slow, "read_cached": fast, "read": op(50_002, 4101, 1.5)},
            "metrics": {"read_lower_bytes_per_s": 262144.0},
        },
        "block": disk("sda", read=op(2, 131072, 7900, queue_us=100)),
    }
    found = path(**layers)
    assert (found.mean_us, found.ops_per_s) == (8000, 2)
    assert steps(found) == {"syscall": 100, "block_queue": 100, "device": 7800}
    assert found.cached == Cached(50_000, 1.2)
    assert not any(segment.is_cache for segment in found.segments)
    layers["syscall"]["ops"].pop("read_missed")
    found = path(**layers)
    assert steps(found) == {"syscall": 1.2}
    assert (found.segments[0].is_cache, found.segments[0].title) == (True, "page cache")
    assert (found.cached, found.notes) == (None, ("no call reached a lower layer",))


@pytest.mark.parametrize(
    ("verb", "waited_us", "mean_us", "expected"),
    [
        ("read", 46_000, 46_000, {"smb": 46_000}),  # of reads, the probe tells which slept
        ("write", 46_000, 46_000, {"smb": 46_000}),  # buffered, but sent at once
        ("write", 2, 2, {"syscall": 2}),  # left to write-back: only copied
    ],
)
def test_calls_on_a_file_system_that_is_not_followed_are_its_own_step(
    verb: str, waited_us: float, mean_us: float, expected: dict[str, float]
) -> None:
    kind = "read_missed" if verb == "read" else "write_buffered"
    ns = {"_per_s": 100.0, "_ns_per_s": 100e3 * waited_us}
    row = {f"{verb}s_per_s": 100.0, f"{verb}_ns_per_s": ns["_ns_per_s"]}
    is_read = verb == "read"
    row |= {f"{verb}s_waited_per_s": 100.0 * is_read}
    row |= {f"{verb}_waited_ns_per_s": ns["_ns_per_s"] * is_read}
    found = path(
        verb,
        syscall={
            "ops": {kind: op(100, 4096, mean_us), "read_cached": op(9000, 100, 1)},
            "tables": {"mount": [(("/mnt", "cifs"), row)]},
            "metrics": {"cached_pct": 99.0},
        },
    )
    assert {name: us for name, us in steps(found).items() if us} == expected
    assert found.segments[-1].is_cache == (waited_us == 2)


def test_a_process_of_ioh_does_not_make_a_path() -> None:
    """Its recording is written synchronously; other programs' writes stay."""
    own = {"writes_per_s": 1.0, "write_bytes_per_s": 9e3, "write_ns_per_s": 489e3}
    own |= {f"write_waited_{name}": own[f"write_{name}"] for name in ("bytes_per_s", "ns_per_s")}
    own |= {"writes_waited_per_s": 1.0}
    rows = {"process": [(("223", "ioh"), own)]}
    alone: Any = {"ops": {"write_sync": op(1, 9e3, 489)}, "tables": rows}
    assert "write" not in paths(ticks(1, {"syscall": layer("syscall", **alone)})[0])
    alone["ops"]["write_direct"] = op(10, 4096, 100)
    found = path("write", syscall=alone)
    assert (round(found.ops_per_s), round(found.mean_us)) == (10, 100)


def test_synchronous_writes_to_a_disk_are_not_the_nfs_clients() -> None:
    """Other threads' buffered writes on NFS, which write-back sends, took most of the time."""
    write = {"write_sync": op(400, 8192, 2500), "write_buffered": op(1000, 65536, 7000)}
    rows = [
        (
            ("/", "ext4"),
            {
                "writes_per_s": 400.0, "write_bytes_per_s": 400 * 8192.0, "write_ns_per_s": 1e9,
                "writes_waited_per_s": 400.0, "write_waited_bytes_per_s": 400 * 8192.0,
                "write_waited_ns_per_s": 1e9,
            },
        ),
        (
            ("/mnt", "nfs4"),
            {
                "writes_per_s": 1e3, "write_bytes_per_s": 65536e3, "write_ns_per_s": 7e9,
                "writes_waited_per_s": 0.0, "write_waited_bytes_per_s": 0.0,
                "write_waited_ns_per_s": 0.0,
            },
        ),
    ]  # fmt: skip
    layers: dict[str, Any] = {
        "syscall": {
            "ops": write,
            "tables": {"mount": rows},
            "metrics": {"write_lower_bytes_per_s": 400 * 8192.0},
        },
        "nfs_client": {"ops": {"write": op(1000, 65536, 900)}},
        "block": disk("sda", write=op(400, 8192, 1500, queue_us=0)),
    }
    found = path("write", **layers)
    assert steps(found) == {"syscall": 1000, "block_queue": 0, "device": 1500}
    assert found.cached == Cached(1000, 7000)
    for _, row in rows:  # as recorded before it was known which files the writes waited for
        for name in [name for name in row if "waited" in name]:
            row[name] = None  # type: ignore[assignment]
    found = path("write", **layers)
    assert steps(found) == {"syscall": 2500}
    assert "nfs client and block not separable" in found.notes


@pytest.mark.parametrize(
    ("cpu_us", "expected"),
    [
        (0, {"syscall": 300, "block_queue": 200, "device": 500}),
        (250, {"syscall": 50, "cpu_wait": 250, "block_queue": 200, "device": 500}),
        # Requests that were under way meanwhile were not waited for.
        (650, {"syscall": None, "cpu_wait": 650, "block_queue": 100, "device": 250}),
        (5000, {"syscall": None, "cpu_wait": 1000}),
    ],
)
def test_waiting_for_a_cpu_is_a_step_of_its_own(
    cpu_us: float, expected: dict[str, float | None]
) -> None:
    found = path(
        syscall=reads(
            metrics={
                "read_lower_bytes_per_s": 4096e3,
                "read_waited_cpu_wait_ns_per_s": cpu_us * 1e6,
                "read_cpu_wait_ns_per_s": 9e9,
            }
        ),
        block=disk("sda", read=op(1000, 4096, 700, queue_us=200)),
    )
    assert found.mean_us == pytest.approx(sum(segment.us or 0 for segment in found.segments))
    assert steps(found) == expected


def test_overlapping_requests_take_no_longer_than_their_call() -> None:
    found = path(
        syscall=reads(metrics={"read_lower_bytes_per_s": 4096e3}),
        block=disk("sda", read=op(8000, 512, 500, queue_us=100)),
    )
    assert steps(found) == {"syscall": None, "block_queue": 200, "device": 800}
    assert found.notes == ("system call in other steps",)


def test_without_probes_the_queue_is_part_of_the_device() -> None:
    untimed = replace(op(1000, 4096, 0), latency_us=None)
    found = path(
        syscall={"ops": {"read": untimed}, "source": "proc"},
        block=disk("sda", read=op(1000, 4096, 700)),
    )
    assert steps(found) == {"block_queue": None, "device": 700}
    assert found.top == "block"
    assert found.notes == ("time above block is not known", "block queue in other steps")


def test_nfs_on_this_machine_shows_the_server_and_its_disk() -> None:
    found = path(
        syscall=reads(tables={"mount": ON_NFS}, metrics={"read_lower_bytes_per_s": 4096e3}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}, "tables": SERVER},
        nfs_server={"ops": {"read": op(1000, 4096, 600)}},
        tcp={"tables": SERVER_HERE},
        block=disk("sda", read=op(500, 8192, 800, queue_us=200)),
    )
    assert steps(found) == {
        "syscall": 100, "nfs_queue": 50, "network": 250, "nfs_server": 200, "block_queue": 100,
        "device": 300,
    }  # fmt: skip
    assert found.mean_us == sum(segment.us or 0 for segment in found.segments)


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        # Counts of one interval do not agree at its edges.
        (op(900, 4096, 600), {"network": 310, "nfs_server": 540}),
        (op(1600, 4096, 600), {"network": 250, "nfs_server": 600}),  # it has other clients
        (op(300, 4096, 600), {"network_server": 850}),
        (op(0, 0, 0), {"network_server": 850}),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_no_server_gets_more_time_than_it_measured(
    served: OpStats, expected: dict[str, float], *, is_known: bool
) -> None:
    """Whether it is this machine is a fact, or unknown: equal counts may be a stranger's."""
    tables = {"port": [(("2049", "nfs"), {"srtt_us": 100})]}
    found = path(
        syscall=reads(tables={"mount": ON_NFS}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}, "tables": SERVER},
        nfs_server={"ops": {"read": served}},
        tcp={"tables": {**tables, **(SERVER_HERE if is_known else {})}},
    )
    expected = expected if is_known else {"network_server": 850}
    assert steps(found) == {"syscall": 100, "nfs_queue": 50, **expected}
    assert found.notes == ()


@pytest.mark.parametrize(
    ("tcp", "expected"),
    [
        ([(("2049", "nfs"), {"srtt_us": 100})], {"network": 100, "nfs_server": 750}),
        ([(("2049", "nfs"), {"srtt_us": 5000})], {"network_server": 850}),
        ([(("22", "ssh"), {"srtt_us": 100})], {"network_server": 850}),
    ],
)
def test_a_remote_servers_time_is_what_remains_after_the_round_trip(
    tcp: list[Any], expected: dict[str, float]
) -> None:
    found = path(
        syscall=reads(tables={"mount": ON_NFS}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}},
        tcp={"tables": {"port": tcp}},
    )
    assert steps(found) == {"syscall": 100, "nfs_queue": 50, **expected}
    titles = [segment.title for segment in found.segments]
    assert ("network + nfs server" in titles) == ("network_server" in expected)


def test_lost_packets_are_not_the_servers_time() -> None:
    wire = {"srtt_us": 100.0, "retrans_segs_per_s": 200.0, "in_bytes_per_s": 1.0}
    found = path(
        syscall=reads(tables={"mount": ON_NFS}),
        nfs_client={"ops": {"read": op(1000, 4096, 900, queue_us=50)}, "tables": SERVER},
        tcp={"tables": {"connection": [(("10.0.0.7:831", "10.0.0.1:2049"), wire)]}},
    )
    assert steps(found) == {"syscall": 100, "nfs_queue": 50, "network_server": 850}
    assert found.notes == ("packets are lost",)


def test_calls_that_no_thread_has_read_yet_wait_for_the_server() -> None:
    """One thread for many clients: their calls lie in its sockets, not on the network."""
    unread = {"unread_bytes": 800.0, "in_bytes_per_s": 1e6}  # 0.8 ms of calls
    found = path(
        syscall=reads(tables={"mount": ON_NFS}),
        nfs_client={"ops": {"read": op(1000, 4096, 900)}, "tables": SERVER},
        nfs_server={"ops": {"read": op(1000, 4096, 60)}},
        tcp={"tables": {**SERVER_HERE, "port": [(("2049", "nfs"), unread)]}},
    )
    assert steps(found) == {"syscall": 100, "nfs_queue": None, "network": 40, "nfs_server": 860}


def test_parallel_calls_of_the_client_divide_by_their_own_parts() -> None:
    """31 WRITEs at once take longer in sum than their call: none of the layers fills it."""
    found = path(
        "write",
        syscall={
            "ops": {"write_direct": op(10, 1 << 20, 100_000)},
            "tables": {
                "mount": [
                    (
                        ("/mnt", "nfs4"),
                        {
                            "writes_waited_per_s": 10.0,
                            "write_waited_bytes_per_s": 10.0 * (1 << 20),
                            "write_waited_ns_per_s": 1e9,
                        },
                    )
                ]
            },
        },
        nfs_client={
            "ops": {"write": op(310, (10 << 20) / 310, 50_000, queue_us=16_000)},
            "tables": SERVER,
        },
        nfs_server={"ops": {"write": op(310, (10 << 20) / 310, 5_000)}},
        tcp={"tables": SERVER_HERE},
    )
    assert steps(found) == {
        "syscall": None, "nfs_queue": 32_000, "network": 58_000, "nfs_server": 10_000
    }  # fmt: skip


def test_a_server_shows_its_clients_calls() -> None:
    found = path(
        syscall=reads("read_buffered"),
        nfs_server={"ops": {"read": op(5000, 4096, 600)}},
        block=disk("sda", read=op(5000, 4096, 400, queue_us=100)),
    )
    assert found.top == "nfs_server"
    assert steps(found) == {"nfs_server": 200, "block_queue": 100, "device": 300}


@pytest.mark.parametrize(("size", "told"), [(1e6, "100"), (1.234e7, "1234")])
def test_buffered_writes_wait_for_no_device_and_a_note_shows_write_back(
    size: float, told: str
) -> None:
    found = path(
        "write", syscall=reads("write_buffered"), block=disk("sda", write=op(100, size, 9000))
    )
    assert steps(found) == {"syscall": 1000}
    assert found.segments[0].title == "page cache"
    assert found.notes == (f"written back: {told} MB/s, 9.00 ms each",)
    idle = path("write", syscall=reads("write_buffered"), block=disk("sda", read=op(9, size, 9000)))
    assert idle.notes == ("no call reached a lower layer",)


def test_most_of_what_is_written_back_is_told_whatever_its_way() -> None:
    layers = {
        "syscall": reads("write_buffered"),
        "nfs_client": {"ops": {"write": op(1, 4096, 500)}, "tables": SERVER},
        "block": disk("sda", write=op(100, 1e6, 9000)),
    }
    assert "written back: 100 MB/s, 9.00 ms each" in path("write", **layers).notes
    layers["tcp"] = {"tables": SERVER_HERE}  # the disk has the server's writes: the same bytes
    assert "written back: 0.004 MB/s, 0.500 ms each" in path("write", **layers).notes
    del layers["tcp"]
    layers["nfs_client"] = {"ops": {"write": op(200, 1e6, 500)}}
    assert "written back: 200 MB/s, 0.500 ms each" in path("write", **layers).notes


def test_a_sync_waits_for_its_writes_and_the_flush() -> None:
    made = disk("sda", write=op(1000, 4096, 200, queue_us=50))
    made["ops"]["flush"] = op(1000, 0, 400, queue_us=100)
    found = path(
        "sync", syscall=reads("fsync", metrics={"write_lower_bytes_per_s": 4096e3}), block=made
    )
    assert steps(found) == {"syscall": 400, "block_queue": 150, "device": 450}
    assert found.notes == ("system call includes journal writes",)


def test_copies_have_one_step_and_are_no_writes() -> None:
    ops = {
        "copy": op(335, 5880, 1780),
        "write_buffered": op(38, 1000, 26),
        "write": op(38, 1000, 26),
    }
    copies, writes = (path(way, syscall={"ops": ops}) for way in ("copy", "write"))
    assert steps(copies) == {"syscall": 1780}
    assert (copies.ops_per_s, copies.size_bytes) == (335, 5880)
    assert copies.notes == ("not divided",)
    assert (writes.ops_per_s, writes.mean_us) == (38, 26)
    found = ticks(1, {"syscall": layer("syscall", ops=ops)})[0]
    options = TextOptions(sections=frozenset({"path"}))
    assert "C |   1.780 = system call 1.780 (100%)" in TextSink(options).render(found)
    assert json.loads(JsonSink().render(found))["path"]["copy"]["mean_us"] == 1780
    assert "copy" not in paths(ticks(1, {"syscall": layer("syscall", **reads())})[0])


def test_page_faults_that_read_a_disk_have_a_path_of_one_step() -> None:
    ops = {"fault_read": op(129, 16384, 1300), **reads()["ops"]}
    faults = path("fault", syscall={"ops": ops})
    assert steps(faults) == {"page_fault": 1300}
    assert (faults.ops_per_s, faults.size_bytes, faults.notes) == (129, 16384, ("not divided",))
    found = ticks(1, {"syscall": layer("syscall", ops=ops)})[0]
    options = TextOptions(sections=frozenset({"path"}))
    assert "F |   1.300 = page fault 1.300 (100%)" in TextSink(options).render(found)
    assert json.loads(JsonSink().render(found))["path"]["fault"]["mean_us"] == 1300


@pytest.mark.parametrize(("size", "is_known"), [(16384, True), (8192, False)])
def test_the_disks_reads_for_page_faults_are_no_reads(size: int, *, is_known: bool) -> None:
    faults = layer("syscall", ops={"fault_read": op(129, size, 1300)})
    disk = layer("block", ops={"read": op(129, 16384, 1200, queue_us=10)})
    found = paths(ticks(1, {"syscall": faults, "block": disk})[0])
    assert ("read" not in found) == is_known
    if not is_known:
        assert found["read"].ops_per_s == pytest.approx(129 / 2)


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
    assert (
        "R |   1.000 = system call 0.300 (30%) + block queue 0.200 (20%) + device 0.500 (50%)\n"
        in text
    )
    found: Any = JsonSink().to_json(snapshot)["path"]
    told, segments = found["read"], found["read"].pop("segments")
    assert told == {
        "top": "syscall", "ops_per_s": 1000, "mean_us": 1000.0, "size_bytes": 4096, "cached": None,
        "rpcs_per_call": None, "notes": [],
    }  # fmt: skip
    assert segments[0] == {"name": "syscall", "us": 300.0, "share_pct": 30.0, "is_cache": False}
    assert [each["us"] for each in segments] == [300, 200, 500]


def test_text_names_cached_calls_beside_those_that_waited() -> None:
    """In the table as in the path; with everything, the sum of both, too."""
    ops = {
        "read": op(50_002, 4101, 1.5), "read_waited": op(2, 131072, 8000),
        "read_missed": op(2, 131072, 8000), "read_cached": op(50_000, 4096, 1.2),
        "write": op(300, 4096, 11), "write_waited": op(0, 0, 0),
        "write_buffered": op(300, 4096, 11),
    }  # fmt: skip
    snapshot = ticks(1, {"syscall": layer("syscall", ops)})[0]

    def rows(*sections: str) -> list[str]:
        text = TextSink(TextOptions(frozenset(sections))).render(snapshot)
        return [" ".join(line.split("|")[1:4]) for line in text.splitlines() if "app" in line]

    found = [row.split() for row in rows("path")]
    assert [row for row in found if "MB" not in row][:4] == [
        ["app:", "0.262", "8.0000"], ["app", "cached:", "204.800", "0.0012"],
        ["app:", ".", "."], ["app", "buffered:", "1.229", "0.0110"],
    ]  # fmt: skip
    assert ["app", "all:", "205.058", "0.0015"] in [row.split() for row in rows("all")]
    text = TextSink(TextOptions(frozenset({"path"}))).render(snapshot)
    assert "R |   8.000 = system call 8.000 (100%)\n  | + 50.0k/s cached, 1 µs\n" in text
    assert "  | mostly 128K each\n" in text


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


def test_the_paths_of_one_interval_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trends, its rules and its pictures want them; findings make no difference to them."""
    made: list[object] = []
    monkeypatch.setattr("ioh.model.path._undivided", lambda _, kind: made.append(kind))
    first, other = (replace(minute()[-1], name=name) for name in "ab")
    point_of(first)
    judged = replace(first, findings=FINDINGS)
    for _ in range(2):
        drawn(judged, (120, 40), history=(judged,))
    assert made == ["copy", "fault"]
    found = paths(first)
    found.clear()
    assert paths(judged), "what a caller does with it is its own"
    assert paths(other)
    assert made == ["copy", "fault"] * 2, "of another host they are others"
