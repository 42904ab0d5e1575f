"""Metadata tests: each call is made, counted and timed once, and judged by the requests below."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ioh.bench import small_files, start
from ioh.bench.columns import to_csv
from ioh.bench.families import page_data, panels_text
from ioh.bench.fio import Fio, figures_of, run_s_of
from ioh.bench.grade import card_of, measured_of, read_bands
from ioh.bench.jobs import job_file, small_files_job
from ioh.bench.plans import PlanChanges, plan_with, read_plan, specs_of
from ioh.bench.results import BenchDevice, Figures, LayerFigures, Results, TestSpec
from ioh.bench.table import table_text
from ioh.bench.verdict import Case, judge
from ioh.bench.work import need_of
from ioh.model.errors import IohError
from tests.unit.bench_results import made_test, results

SPECS = {
    spec.rw: spec
    for spec in specs_of(read_plan("metadata")[0], PlanChanges(users=4, block_bytes=2048))
}
FILES = 60
HEAD = 'summary = "x"\nsize = "1g"\nrun_s = 5\n'
TEST = '[[test]]\nkind = "metadata"\nblock = "8k"\n'


def run(folder: Path, job: str) -> Any:
    """The generator as a bench runs it; fio's jobs in its result."""
    with Path(small_files.__file__).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-I", "-", job], stdin=source, cwd=folder, capture_output=True,
            check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["jobs"]


def prepared(folder: Path, files: int = FILES) -> None:
    run(folder, small_files_job(msgspec.structs.replace(SPECS["stat"], files=files), "prepare"))


def made(folder: Path, op: str, run_s: float = 0.2, files: int = FILES) -> dict[str, Figures]:
    jobs = run(folder, job_file(msgspec.structs.replace(SPECS[op], files=files), (), run_s))
    assert len(jobs) == SPECS[op].users
    assert all(run_s_of(job) > 0 for job in jobs if len(job) > 1)
    return figures_of(jobs)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_all_files_are_created_and_then_removed(tmp_path: Path) -> None:
    prepared(tmp_path, files=0)
    assert len(list(tmp_path.rglob("*"))) == 5 + 25
    created = made(tmp_path, "create", run_s=60)["create"]
    files = files_in(tmp_path)
    sizes = [path.stat().st_size for path in files]
    assert created.ops == len(files) == sum(created.hist) == FILES
    assert created.bytes == sum(sizes)
    assert min(sizes) >= 512
    assert max(sizes) <= 2048
    assert len(set(sizes)) > FILES // 2
    removed = made(tmp_path, "unlink", run_s=60)
    assert list(removed) == ["unlink"]
    assert (removed["unlink"].ops, removed["unlink"].bytes) == (FILES, None)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(("op", "moves"), [("stat", False), ("open_read", True), ("rename", False)])
def test_these_go_on_until_the_time_is_over_and_keep_the_files(
    tmp_path: Path, op: str, moves: bool
) -> None:
    prepared(tmp_path)
    found = made(tmp_path, op)
    assert list(found) == [op]
    figures = found[op]
    assert figures.ops
    assert figures.ops > FILES
    assert (figures.bytes is not None) == moves
    assert (figures.bytes_per_s is not None) == moves
    assert len(files_in(tmp_path)) == FILES
    # Users' latencies add up to their time, less what passes between calls.
    assert figures.iops
    assert figures.mean_us
    assert 0.02 < figures.iops * figures.mean_us / 1e6 <= SPECS[op].users


def test_what_a_mix_does_is_left_in_the_directory(tmp_path: Path) -> None:
    prepared(tmp_path)
    before = sum(path.stat().st_size for path in files_in(tmp_path))
    found = made(tmp_path, "mix")
    assert list(found) == ["create", "open_read", "append", "unlink"]
    ops = {name: figures.ops or 0 for name, figures in found.items()}
    assert len(files_in(tmp_path)) == FILES + ops["create"] - ops["unlink"]
    transactions = ops["open_read"] + ops["append"], ops["create"] + ops["unlink"]
    # Each user may have ended between the two halves of one; without files there is no first half.
    assert 0 < transactions[1] <= transactions[0] + SPECS["mix"].users + ops["unlink"]
    written = (found["create"].bytes or 0) + (found["append"].bytes or 0)
    assert 0 < sum(path.stat().st_size for path in files_in(tmp_path)) <= before + written


def test_the_calls_are_exactly_those_that_are_counted(tmp_path: Path) -> None:
    """An independent truth: strace counts the calls below the directory."""
    for op, call, path in (("rename", "rename", '"'), ("open_read", "openat", 'AT_FDCWD, "')):
        folder, log = tmp_path / op, tmp_path / f"{op}.log"
        folder.mkdir()
        prepared(folder)
        job = job_file(msgspec.structs.replace(SPECS[op], files=FILES), (), 0.3)
        with Path(small_files.__file__).open("rb") as source:
            done = subprocess.run(
                ["strace", "-f", "-qq", "-e", f"trace={call}", "-o", log, sys.executable, "-I", "-",
                 job], stdin=source, cwd=folder, capture_output=True, check=True, timeout=120,
            )  # fmt: skip
        counted = figures_of(json.loads(done.stdout)["jobs"])[op].ops
        calls = [line for line in log.read_text().split("\n") if f"{call}({path}" in line]
        own = [line for line in calls if line.split(path, 1)[1][:1] in "01234"]
        assert counted == len(own)


def test_why_a_user_failed_is_the_last_line_of_stderr(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, small_files.__file__, job_file(SPECS["create"], (), 1.0)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "No such file or directory: '0'" in done.stderr.split("\n")[-2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEST + 'rw = "write"\nfiles = 9', "kind metadata needs rw = create, stat, open_read"),
        (TEST + 'rw = "append"\nfiles = 9', "kind metadata needs rw = create, stat, open_read"),
        (TEST + "files = 9", "kind metadata needs rw = create, stat, open_read"),
        (TEST + 'rw = "stat"', "kinds files and metadata need files"),
        (TEST + 'rw = "stat"\nfiles = 9\nsync = "fsync"', "sync is for tests that write"),
        (TEST + 'rw = "create"\nfiles = 9\nsync = "dsync"', "kind metadata takes only"),
        (TEST + 'rw = "create"\nfiles = 9\ndepth = 2', "kind metadata takes only"),
        (TEST + 'rw = "create"\nfiles = 9\nrate_iops = 2', "kind metadata takes only"),
        ('[[test]]\nkind = "write"\nblock = "8k"\nrw = "rename"', "kind metadata needs rw"),
    ],
)
def test_a_plan_that_asks_for_what_is_not_done_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + text)
    with pytest.raises(IohError) as caught:
        read_plan(str(path))
    assert said in str(caught.value)


def test_without_a_plan_the_first_one_that_has_the_tests_is_chosen() -> None:
    assert plan_with(()) == plan_with(("randread", "write")) == plan_with(("odd",)) == "database"
    assert plan_with(("metadata",)) == "metadata"
    assert plan_with(("commit",)) == "commit"


def test_a_raw_device_is_refused_in_one_line() -> None:
    for spec in (SPECS["stat"], TestSpec("files-4k-1u", "files", "read", 4096, files=9)):
        with pytest.raises(IohError, match=f"{spec.name} needs a directory, not a raw device"):
            start._within(spec, 1 << 30)


def below(op: str, ops: int, layer: str = "block", part: str = "sda") -> LayerFigures:
    return LayerFigures(layer, "Disk", op, Figures(ops=ops, bytes=0), part)


def judged(op: str, calls: dict[str, int], *layers: LayerFigures, fs: str = "ext4") -> Any:
    fio = {name: Figures(ops=ops, iops=float(ops)) for name, ops in calls.items()}
    disk = (BenchDevice("sda", carries=True),)
    watched = frozenset({"block", "nfs_client"})
    return judge(Case(SPECS[op], 1.0, fio, layers, (), fs, disk, watched=watched))


def unsynced(op: str) -> TestSpec:
    return msgspec.structs.replace(SPECS[op], sync="", sync_every=0)


def test_calls_that_reached_the_storage_are_ok() -> None:
    assert judged("open_read", {"open_read": 1000}, below("read", 990)).ok
    # A commit of the journal serves all four users.
    assert judged("create", {"create": 1000}, below("write", 251)).ok
    assert judged(
        "mix", {"open_read": 500, "create": 500}, below("read", 400), below("write", 230)
    ).ok
    assert judged("stat", {"stat": 1000}, below("meta", 1000, "nfs_client", ""), fs="nfs4").ok


def test_calls_that_memory_answered_are_named() -> None:
    found = judged("stat", {"stat": 300_000}, below("read", 3))
    assert (found.ok, found.rule) == (False, "caching")
    assert found.sentence == "memory answered: 300,000 calls became 3 requests to the device"
    assert found.evidence == ("300,000 × stat",)
    assert not judged("create", {"create": 1000}, below("write", 200)).ok
    assert not judged("mix", {"open_read": 500, "create": 500}, below("write", 130)).ok
    # Each change of an NFS client is a request of its own.
    found = judged("create", {"create": 1000}, below("meta", 500, "nfs_client", ""), fs="nfs")
    assert "became 500 requests to the server" in found.sentence
    assert judged("stat", {"stat": 9}, fs="tmpfs").rule == "unwatched"


def test_without_fsync_a_commit_serves_nobody() -> None:
    fio = {"create": Figures(ops=1000)}
    disk = (BenchDevice("sda", carries=True),)
    case = Case(unsynced("create"), 1.0, fio, (below("write", 300),), (), "ext4", disk)
    assert judge(case).rule == "caching"


def bench_of_metadata() -> Results:
    """Two users' numbers for stat and create, beside the tests for the card."""
    base = results()
    tests = []
    for op, moved in (("stat", None), ("create", 4e6)):
        for users in (1, 4):
            name = f"metadata-2k-{users}u-{op}"
            spec = msgspec.structs.replace(SPECS[op], users=users, name=name)
            test = made_test(spec, 100.0 * users)
            figures = msgspec.structs.replace(
                test.run.fio["read"], bytes_per_s=moved, bytes=None if moved is None else 9
            )
            run = msgspec.structs.replace(test.run, fio={op: figures})
            tests.append(msgspec.structs.replace(test, runs=(run,)))
    return msgspec.structs.replace(base, tests=tuple(tests), planned=tuple(t.spec for t in tests))


def test_reports_show_operations_and_no_bytes_where_none_move() -> None:
    made = bench_of_metadata()
    line = next(line for line in table_text(made) if line.startswith("metadata-2k-1u-stat"))
    assert line.split()[:3] == ["metadata-2k-1u-stat", "stat", "0.100"]
    panels = list(panels_text(made))
    assert panels[0] == "Files' attributes of 2K"
    assert "ops/s" in panels[1]
    assert "MB/s" not in panels[1]
    assert panels[2].split()[:2] == ["1", "10,000.0"]
    rows = [line.split(",") for line in to_csv(made).split("\n")]
    assert [row[1] for row in rows[1:5]] == ["metadata_stat"] * 2 + ["metadata_create"] * 2
    assert [row[4] for row in rows[1:5]] == ["", "", "3.815", "3.815"]
    bands = read_bands("classic")
    card = card_of(measured_of(made), bands, "any")
    families = page_data(made, card)["families"]
    assert [family["title"] for family in families] == [
        "Files' attributes of 2K", "Files created of 2K",
    ]  # fmt: skip
    assert families[0]["points"][0]["rate"] == pytest.approx(10_000)


def test_the_files_need_their_space_and_no_work_file() -> None:
    need = need_of(SPECS.values())
    assert need.names == ()
    assert need.other_bytes == 5000 * (4096 + 2048)


def of_directory(folder: Path) -> list[str]:
    """Processes whose working directory is this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [entry.name] * (str((entry / "cwd").readlink()) == str(folder))
    return found


def begun(folder: Path, op: str) -> Fio:
    """A long test, once all of its users are there."""
    folder.mkdir()
    prepared(folder)
    job = job_file(msgspec.structs.replace(SPECS[op], files=FILES), (), 600)
    source = Path(small_files.__file__).read_text()
    output = folder.parent / "out.json"
    running = Fio(source, str(folder), output, (sys.executable, "-I", "-", job))
    until = time.monotonic() + 30
    while len(of_directory(folder)) < 1 + SPECS[op].users:
        assert time.monotonic() < until
        time.sleep(0.01)
    return running


def test_a_stopped_test_leaves_no_user_behind(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    begun(folder, "mix").stop()
    assert of_directory(folder) == []
    shutil.rmtree(folder)


def test_users_end_with_their_parent(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    running = begun(folder, "stat")
    running.kill()
    assert running.stderr is not None
    with running.stderr:
        assert running.stderr.read() == b""  # each user has it open
    running.wait()
    assert of_directory(folder) == []
