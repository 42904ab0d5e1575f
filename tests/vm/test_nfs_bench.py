"""`ioh bench` on an NFS mount, compared with what the client asked its server for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ioh.bench.grade import class_of
from ioh.bench.results import Run, Test, load
from tests.kernel.rig import ioh_command, ioh_environment
from tests.vm.nfs import Server, client_counts, mounted

LIMIT_S = 900  # under emulation
PLAN = """
summary = "a test"
size = "16m"
run_s = 4

[[test]]
kind = "randread"
block = "8k"
users = 4
"""
MEMORY = """
[mine]
filename={place}/ioh-bench-test
rw=read
bs=64k
size=8m
direct=0
invalidate=0
time_based=1
runtime=8
"""
METADATA = """
summary = "a test"
size = "16m"
run_s = 4
"""
CALL = """
[[test]]
kind = "metadata"
rw = "{}"
block = "4k"
users = 2
files = 100
"""


def benched(folder: Path, *arguments: str | Path) -> Run:
    (test,) = all_benched(folder, *arguments)
    return test.run


def all_benched(folder: Path, *arguments: str | Path) -> tuple[Test, ...]:
    words = ["bench", *map(str, arguments), "-o", str(folder / "out")]
    subprocess.run(
        ioh_command(*words), cwd=folder, env=ioh_environment(), check=True, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    results = load(str(folder / "out"))
    assert class_of(results.conditions) == "nfs"
    return results.tests


def test_the_client_counts_what_fio_counts(server: Server, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    with mounted("4.2", "rsize=65536", "wsize=65536") as place:
        found = benched(tmp_path, place, "--plan", tmp_path / "plan.toml", "--keep")
        assert found.verdict.ok, found.verdict
        fio = found.fio["read"]
        (reads,) = [
            each.figures
            for each in found.layers
            if (each.layer, each.op, each.part) == ("nfs_client", "read", "")
        ]
        assert (reads.ops, reads.bytes) == (fio.ops, fio.bytes)
        (place / "ioh-bench.data").unlink()


def test_reads_from_the_clients_memory_are_named(server: Server, tmp_path: Path) -> None:
    with mounted("4.2", "rsize=65536", "wsize=65536") as place:
        (place / "ioh-bench-test").write_bytes(b"x" * (8 << 20))
        (tmp_path / "mine.fio").write_text(MEMORY.format(place=place))
        before = client_counts(place)
        found = benched(tmp_path, "--job", tmp_path / "mine.fio")
        asked = client_counts(place) - before
    assert asked.read_bytes < (found.fio["read"].bytes or 0) / 10
    assert not found.verdict.ok
    assert found.verdict.rule in {"caching", "bytes"}, found.verdict


def test_metadata_calls_are_requests_to_the_server(server: Server, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(METADATA + "".join(map(CALL.format, ("create", "rename", "stat"))))
    with mounted("3", "actimeo=0") as place:
        tests = all_benched(tmp_path, place, "--plan", plan)
    assert [test.verdict.rule for test in tests] == ["", "", ""]
    for test, op in zip(tests, ("create", "rename", "getattr"), strict=True):
        (calls,) = [figures.ops or 0 for figures in test.run.fio.values()]
        (requests,) = [
            each.figures.ops or 0
            for each in test.run.layers
            if (each.layer, each.op, each.part) == ("nfs_client", op, "")
        ]
        assert calls
        assert requests == calls if op != "getattr" else requests >= calls


def test_stats_from_the_attribute_cache_are_named(server: Server, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(METADATA + CALL.format("stat"))
    with mounted("3", "actimeo=600") as place:
        found = benched(tmp_path, place, "--plan", plan)
    assert found.verdict.rule == "caching"
    assert "requests to the server" in found.verdict.sentence
