"""Where the time of metadata calls goes: open, stat, readdir, unlink, rename …"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ioh.model.path import paths
from ioh.sinks.metrics import path_notes
from ioh.sinks.text import TextOptions, TextSink
from tests.unit.snapshot_maker import layer, op, ticks
from tests.unit.test_path import path, steps

ROWS: dict[str, float] = {"metas_per_s": 100, "meta_ns_per_s": 1e9}


def calls(mount: str = "", lower_bytes: float = 0, **ops: Any) -> dict[str, Any]:
    """1,000 calls a second from memory, of 2 µs each, and 100 of 10 ms that waited."""
    row = {**ROWS, "metas_waited_per_s": 100, "meta_waited_ns_per_s": 1e9}
    metrics = {"meta_waited_per_s": 100, "meta_waited_ns_per_s": 1e9}
    metrics |= {"meta_lower_bytes_per_s": lower_bytes}
    all_calls = op(1100, 0, (1000 * 2 + 100 * 10_000) / 1100)
    tables = {"mount": [(("/m", mount), row)]} if mount else {}
    return {"ops": {"meta": all_calls, **ops}, "metrics": metrics, "tables": tables}


def test_calls_that_memory_serves_are_beside_those_that_wait() -> None:
    found = path("meta", syscall=calls("ext4"))
    assert (found.ops_per_s, found.mean_us) == (100, 10_000)
    assert found.cached is not None
    assert (found.cached.ops_per_s, round(found.cached.mean_us, 3)) == (1000, 2)
    assert steps(found) == {"syscall": 10_000}
    assert "system call includes journal writes" in found.notes
    opened = path("meta", syscall=calls("nfs4"))  # by a delegation: without an RPC
    assert "system call includes journal writes" not in opened.notes


def test_if_no_call_waits_the_path_is_that_of_the_others() -> None:
    none = {"meta_waited_per_s": 0, "meta_waited_ns_per_s": 0}
    found = path("meta", syscall={"ops": {"meta": op(1000, 0, 2)}, "metrics": none})
    assert [(each.title, each.us) for each in found.segments] == [("name cache", 2)]


def test_a_directory_that_is_not_in_memory_is_read_from_the_disk() -> None:
    block = {"ops": {"read": op(1000, 4096, 4000, queue_us=500)}}
    found = path("meta", syscall=calls("ext4", lower_bytes=80 * 4096), block=block)
    assert steps(found) == {"syscall": 6800, "block_queue": 400, "device": 2800}


@pytest.mark.parametrize("mount", ["nfs4", ""])
def test_a_call_waits_for_its_rpcs_even_if_its_file_system_is_not_known(mount: str) -> None:
    """A call that names a file by its whole path does not tell where that is."""
    client = {"ops": {"meta": op(320, 0, 2500, queue_us=100)}}
    layers = {"syscall": calls(mount), "nfs_client": client}
    found = path("meta", **layers)
    assert steps(found) == {"syscall": 2000, "nfs_queue": 320, "network_server": 7680}
    assert found.rpcs_per_call == 3.2
    assert "each becomes 3.20 RPCs" in path_notes(found)


def test_calls_on_a_disk_do_not_wait_for_the_nfs_client() -> None:
    client = {"ops": {"meta": op(320, 0, 2500)}}
    found = path("meta", syscall=calls("xfs"), nfs_client=client)
    assert steps(found) == {"syscall": 10_000}


def test_a_close_waits_for_its_writes_and_their_commit() -> None:
    client = {"ops": {"meta": op(100, 0, 1000), "write": op(50, 1e6, 30_000)}}
    served = op(50, 1e6, 10_000)
    writes: dict[str, Any] = {"ops": {**client["ops"], "commit": served}}
    found = path("meta", syscall=calls("nfs4", close=op(20, 0, 45_000)), nfs_client=writes)
    # 100 ms of RPCs, and of the 2,000 ms of WRITEs and COMMITs the 900 ms of the closes.
    assert steps(found) == {"syscall": None, "nfs_queue": None, "network_server": 10_000}


def test_a_server_has_the_path_of_its_clients() -> None:
    server = {"ops": {"meta": op(500, 0, 2000), "read": op(100, 4096, 500)}}
    block = {"ops": {"read": op(200, 4096, 3000)}}
    found = path("meta", nfs_server=server, block=block)
    assert found.top == "nfs_server"
    assert steps(found) == {"nfs_server": 1400, "block_queue": None, "device": 600}


def test_reads_of_a_disk_alone_are_no_metadata() -> None:
    with pytest.raises(KeyError):
        path("meta", block={"ops": {"read": op(100, 4096, 500)}})


@pytest.mark.parametrize(("lower_bytes", "reads"), [(4.0e6, None), (1.0e6, 750.0)])
def test_reads_of_metadata_calls_are_not_the_kernels(
    lower_bytes: float, reads: float | None
) -> None:
    app = layer("syscall", **calls("ext4", lower_bytes=lower_bytes))
    block = layer("block", {"read": op(1000, 4000, 500)})
    found = paths(ticks(1, {"syscall": app, "block": block})[0])
    assert (found["read"].ops_per_s if "read" in found else None) == reads


def test_a_server_has_no_reads_of_programs_names() -> None:
    """Of the disk's 4 MB/s a local find has 3, and the clients' READs the rest."""
    app = layer("syscall", **calls("ext4", lower_bytes=3e6))
    served = layer("nfs_server", {"read": op(1000, 4000, 900)})
    block = layer("block", {"read": op(1000, 4000, 400)})
    found = paths(ticks(1, {"syscall": app, "nfs_server": served, "block": block})[0])["read"]
    assert steps(found) == {"nfs_server": 800, "block_queue": None, "device": 100}


def test_text_has_a_line_for_it() -> None:
    snapshot = ticks(1, {"syscall": layer("syscall", **calls("ext4"))})[0]
    text = TextSink(TextOptions(frozenset({"path"})), with_legend=False).render(snapshot)
    assert "M |  10.000 = system call 10.000 (100%)\n  | + 1.00k/s cached, 2 µs" in text


def test_known_steps_add_up_whatever_the_rounding() -> None:
    """Where NFS has all of the time, what it leaves to an idle disk can be below 0 by rounding."""
    pick = Random(1)
    for _ in range(300):
        rate, us, share = pick.uniform(1, 1e4), pick.uniform(1, 1e6), pick.random()
        waited_ns = rate * us * 1e3
        row = {"metas_per_s": rate, "metas_waited_per_s": rate * share}
        row |= {"meta_ns_per_s": waited_ns, "meta_waited_ns_per_s": waited_ns * share}
        metrics = {"meta_waited_per_s": rate, "meta_waited_ns_per_s": waited_ns}
        metrics["meta_waited_cpu_wait_ns_per_s"] = waited_ns * pick.random()
        app: Any = {
            "ops": {"meta": op(rate, 0, us)},
            "metrics": metrics,
            "tables": {"mount": [(("/n", "nfs4"), row)]},
        }
        client = {"ops": {"meta": op(rate, 0, us * pick.uniform(0.1, 3), queue_us=us / 30)}}
        found = path("meta", syscall=app, nfs_client=client, block={"ops": {"read": op(0, 0, 0)}})
        known = [segment.us for segment in found.segments if segment.us is not None]
        assert min(known) >= 0
        assert sum(known) == pytest.approx(found.mean_us)
