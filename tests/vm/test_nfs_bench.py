"""`ioh bench` on an NFS mount, compared with what the client asked its server for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ioh.bench.grade import class_of
from ioh.bench.results import Run, load
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


def benched(folder: Path, *arguments: str | Path) -> Run:
    words = ["bench", *map(str, arguments), "-o", str(folder / "out")]
    subprocess.run(
        ioh_command(*words), cwd=folder, env=ioh_environment(), check=True, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    results = load(str(folder / "out"))
    assert class_of(results.conditions) == "nfs"
    (test,) = results.tests
    return test.run


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
