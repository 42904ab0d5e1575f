"""`ioh bench` with real fio: exact counts, artefacts named, nothing left behind; and its screen."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioh.bench.results import Conditions, Figures, Run, load
from ioh.bench.watch import read_between
from ioh.findings.config import Config
from tests.kernel.mounts import mounted, throttled
from tests.kernel.rig import MIB, Loop, Volume, ioh_command, ioh_environment, run
from tests.kernel.talker import wait_until
from tests.support.pty_screen import LEFT, PtyScreen

LIMIT_S = 120
# Long enough for rules that look at five seconds.
PLAN = """
summary = "a test"
size = "64m"
run_s = 7
"""
RANDOM_READS = '[[test]]\nkind = "randread"\nblock = "8k"\nusers = 4\n'
STREAM = '[[test]]\nkind = "seqread"\nblock = "1m"\n'


class Bench:
    """Runs `ioh bench` in a directory of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"

    def start(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        words = [str(argument) for argument in arguments]
        return subprocess.Popen(
            ioh_command("bench", *words), cwd=self.folder, env=ioh_environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def end(self, *arguments: str | Path) -> tuple[int, str]:
        """Run to the end; return the status and the messages on stderr."""
        process = self.start(*arguments)
        _, stderr = process.communicate(timeout=LIMIT_S)
        return process.returncode, stderr.decode()

    def run(self, *arguments: str | Path) -> Run:
        """Run a plan or job with one test, and return its results."""
        status, stderr = self.end(*arguments, "-o", self.out)
        assert status == 0, stderr
        (test,) = load(str(self.out)).tests
        return test.run

    def plan(self, text: str, head: str = PLAN) -> Path:
        path = self.folder / "plan.toml"
        path.write_text(head + text)
        return path

    def job(self, text: str) -> Path:
        path = self.folder / "mine.fio"
        path.write_text(f"[mine]\ntime_based=1\nruntime=7\n{text}\n")
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "here"
    folder.mkdir()
    return Bench(folder)


def of_layer(found: Run, layer: str, op: str, part: str = "") -> Figures:
    wanted = (layer, op, part)
    (figures,) = [x.figures for x in found.layers if (x.layer, x.op, x.part) == wanted]
    return figures


def children_named_fio(folder: Path) -> list[int]:
    """fio processes whose working directory is in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text() == "fio\n":
                cwd = str((entry / "cwd").readlink())
                found += [int(entry.name)] * cwd.startswith(str(folder))
    return found


@pytest.mark.parametrize(
    ("test", "op"),
    [
        (RANDOM_READS, "read"),
        ('[[test]]\nkind = "write"\nrw = "randwrite"\nblock = "16k"\nusers = 3\n', "write"),
    ],
    ids=["randread", "randwrite"],
)
def test_the_layers_count_what_fio_counts(bench: Bench, volume: Volume, test: str, op: str) -> None:
    head = PLAN.replace("run_s = 7", "run_s = 2")
    found = bench.run(volume.mount, "--plan", bench.plan(test, head))
    fio = found.fio[op]
    assert found.verdict.ok, found.verdict
    assert fio.ops
    calls = of_layer(found, "syscall", f"{op}_direct")
    assert (calls.ops, calls.bytes) == (fio.ops, fio.bytes)
    requests = of_layer(found, "block", op, volume.loop.name)
    missing = fio.ops - (requests.ops or 0)
    # What the kernel hid from BPF is missing; the journal's own writes come on top.
    assert missing <= volume.loop.witness.hidden
    assert missing >= (0 if op == "read" else -50)
    assert sum(fio.hist) == fio.ops
    assert sum(calls.hist) == calls.ops
    assert list(volume.mount.glob("ioh-bench*")) == []


METADATA = """
summary = "a test"
size = "64m"
run_s = 2

[[test]]
kind = "metadata"
rw = "create"
sync = "fsync"
block = "16k"
users = 3
files = 2000

[[test]]
kind = "metadata"
rw = "stat"
block = "16k"
users = 3
files = 300

[[test]]
kind = "metadata"
rw = "mix"
sync = "fsync"
block = "16k"
users = 3
files = 300
"""
# Each user opens the directories that it syncs, and the one above.
OPENS = {"create": 3 * 31, "stat": 3, "mix": 3 * 31}


def test_the_file_system_sees_each_metadata_call_that_is_reported(
    bench: Bench, volume: Volume
) -> None:
    plan = bench.plan(METADATA, head="")
    status, stderr = bench.end(volume.mount, "--plan", plan, "-o", bench.out)
    assert status == 0, stderr
    tests = load(str(bench.out)).tests
    assert [test.spec.rw for test in tests] == list(OPENS)
    for test in tests:
        name, fio = test.spec.name, test.run.fio
        marks = (f"{name} begins", f"{name} ends")
        whole = read_between(bench.out / "run.ioh", *marks, Config()).whole
        seconds = whole.layers["syscall"].interval_s  # type: ignore[union-attr]
        (row,) = [row for row in whole.rows("syscall", "mount") if row.key[0] == str(volume.mount)]
        seen = round((row.values["metas_per_s"] or 0) * seconds)
        calls = sum(figures.ops or 0 for figures in fio.values())
        assert seen == calls + OPENS[test.spec.rw]
        assert all(sum(figures.hist) == figures.ops for figures in fio.values())
        for op in {"create", "unlink"} & set(fio):
            assert (of_layer(test.run, "syscall", op).ops or 0) >= (fio[op].ops or 0)
        synced = of_layer(test.run, "syscall", "fsync").ops if test.spec.sync else 0
        once = sum(fio[op].ops or 0 for op in ("append", "unlink") if op in fio)
        assert (synced or 0) >= (2 * (fio["create"].ops or 0) + once if test.spec.sync else 0)
    assert [test.verdict.rule for test in tests] == ["", "caching", ""]
    assert list(volume.mount.glob("ioh-bench*")) == []


def test_a_sparse_file_is_named(bench: Bench, volume: Volume) -> None:
    path = volume.file("data", 0)
    os.truncate(path, 64 * MIB)
    job = bench.job(f"filename={path}\nrw=randread\nbs=64k\ndirect=1\nsize=64m")
    found = bench.run("--job", job)
    assert found.verdict.rule == "holes", found.verdict


def test_a_run_from_memory_is_named(bench: Bench, volume: Volume) -> None:
    full = volume.file("full", 64 * MIB)
    job = bench.job(f"filename={full}\nrw=read\nbs=1m\ndirect=0\ninvalidate=0\nsize=64m")
    found = bench.run("--job", job)
    assert found.verdict.rule == "caching", found.verdict
    assert found.verdict.evidence[0].startswith("fio: ")


@contextlib.contextmanager
def rival(path: Path) -> Iterator[None]:
    """Another program's reads of the same device."""
    words = [f"--filename={path}", "--rw=randread", "--bs=64k", "--direct=1", "--name=other"]
    words += ["--time_based", "--runtime=60", "--size=64m", "--output=/dev/null"]
    process = subprocess.Popen(["fio", *words])
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def test_a_rival_on_the_same_disk_is_named(bench: Bench, volume: Volume) -> None:
    other = volume.file("other", 64 * MIB)
    with rival(other):
        found = bench.run(volume.mount, "--plan", bench.plan(RANDOM_READS), "-s", "3")
    assert found.verdict.rule == "others", found.verdict
    assert "fio[" in found.verdict.evidence[0]


def test_a_limit_of_the_control_group_is_named(bench: Bench, volume: Volume) -> None:
    with throttled(volume, 4_000_000):  # of reads only: the file is laid out as fast as ever
        found = bench.run(volume.mount, "--plan", bench.plan(RANDOM_READS), "-s", "3")
    assert found.verdict.rule == "io_limit", found.verdict
    assert "4,000,000 read bytes a second" in found.verdict.sentence


def test_requests_cut_by_a_lowered_limit_are_named(bench: Bench, volume: Volume) -> None:
    volume.loop.set_queue("max_sectors_kb", "64")
    found = bench.run(volume.mount, "--plan", bench.plan(STREAM), "-s", "3")
    assert found.verdict.rule == "fragmentation", found.verdict


def test_whole_requests_of_a_full_file_are_no_artefact(bench: Bench, volume: Volume) -> None:
    found = bench.run(volume.mount, "--plan", bench.plan(STREAM))
    assert found.verdict.rule == "", found.verdict


@pytest.mark.parametrize(("pct", "run_s", "is_ok"), [(95, "3", False), (0, "7", True)])
def test_compressible_data_is_named(
    bench: Bench, loop: Loop, tmp_path: Path, pct: int, run_s: str, is_ok: bool
) -> None:
    run("mkfs.btrfs", "-q", "-f", loop.path)
    with mounted(loop.path, tmp_path / "mnt", "-o", "compress-force=lzo") as mount:
        test = '[[test]]\nkind = "write"\nrw = "write"\nblock = "128k"\ndirect = false\n'
        test += f'sync = "fsync"\nsync_every = 16\ncompress_pct = {pct}\n'
        found = bench.run(mount, "--plan", bench.plan(test), "-s", run_s)
    assert found.verdict.ok == is_ok, found.verdict
    assert found.verdict.rule in ({""} if is_ok else {"compression", "bytes"})


def test_kill_9_leaves_no_fio_and_resume_completes_the_results(
    bench: Bench, volume: Volume
) -> None:
    tests = '[[test]]\nkind = "randread"\nblock = "8k"\nusers = [1, 2, 3, 4, 5]\n'
    plan = bench.plan(tests, PLAN.replace("run_s = 7", "run_s = 2"))
    for _ in range(6):
        if bench.out.exists():
            arguments: list[str | Path] = ["--resume", bench.out]
        else:
            arguments = [volume.mount, "--plan", plan, "-o", bench.out]
        process = bench.start(*arguments)
        until = time.monotonic() + random.uniform(2.5, 6)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=LIMIT_S)
        time.sleep(0.3)
        assert children_named_fio(volume.mount) == []
        assert (bench.out / "results.json").exists()
        load(str(bench.out))
    status, stderr = bench.end("--resume", bench.out)
    assert status == 0, stderr
    results = load(str(bench.out))
    assert results.is_complete
    names = [test.spec.name for test in results.tests]
    assert names == [f"randread-8k-{users}u" for users in range(1, 6)]
    assert list(volume.mount.glob("ioh-bench*")) == []


def test_ctrl_c_keeps_finished_tests_and_says_how_to_continue(bench: Bench, volume: Volume) -> None:
    users = '[[test]]\nkind = "randread"\nblock = "8k"\nusers = [1, 2]\n'
    plan = bench.plan(users, PLAN.replace("run_s = 7", "run_s = 3"))
    process = bench.start(volume.mount, "--plan", plan, "-o", bench.out)
    assert process.stdout is not None
    process.stdout.readline()
    assert b"randread-8k-1u" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert f"continue with: ioh bench --resume {bench.out}" in stderr.decode()
    assert [test.spec.name for test in load(str(bench.out)).tests] == ["randread-8k-1u"]
    assert children_named_fio(volume.mount) == []
    assert list(volume.mount.glob("ioh-bench*")) == []


def test_a_device_in_use_is_never_written_to(bench: Bench, volume: Volume) -> None:
    token = f"{volume.loop.name}:ext4"
    status, stderr = bench.end("-r", volume.device, "-t", "write", "--destroy-data", token)
    assert status == 1
    assert "it is mounted, or a volume, array or swap uses it" in stderr


def test_a_device_with_a_file_system_must_be_named_with_it(bench: Bench, loop: Loop) -> None:
    run("mkfs.ext4", "-q", "-F", loop.path)
    arguments = ["-r", loop.path, "-t", "write", "-l", "8", "-u", "1", "-s", "1", "-m", "64"]
    for token, said in (
        ([], "this would destroy"),
        (["--destroy-data", loop.name], "contains ext4"),
    ):
        status, stderr = bench.end(*arguments, *token)
        assert status == 2
        assert said in stderr
    assert bench.run(*arguments, "--destroy-data", f"{loop.name}:ext4").fio["write"].ops


SCREEN_PLAN = """
summary = "a test"
size = "32m"
run_s = 3

[[test]]
kind = "randread"
block = "8k"
users = [1, 2]
"""
CTRL_C = "\x03"


LONG_PLAN = """
summary = "a test"
size = "4m"
run_s = 60

[[test]]
kind = "randread"
block = "4k"
"""


def conditions_once_watched(bench: Bench, volume: Volume, changes: str) -> Conditions:
    """Begin a long bench; what it knows once it has decided what to watch."""
    plan = bench.plan(f"{LONG_PLAN}{changes}\n", head="")
    process = bench.start(volume.mount, "--plan", plan, "-o", bench.out)

    def decided() -> Conditions | None:
        has_results = (bench.out / "results.json").exists()
        found = load(str(bench.out)).conditions if has_results else None
        return found if found is not None and found.watch else None

    try:
        found = wait_until(lambda: decided() or process.poll(), LIMIT_S)
        assert isinstance(found, Conditions), process.communicate(timeout=LIMIT_S)
        return found
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)


def test_a_slow_disk_is_watched_by_all_layers(bench: Bench, volume: Volume) -> None:
    with throttled(volume, 4_000_000):  # 1,000 reads a second
        found = conditions_once_watched(bench, volume, "users = 4")
    assert found.watch == "all", found.remarks
    (price,) = (remark for remark in found.remarks if remark.startswith("price of watching: "))
    assert "operations/s with all layers" in price


def test_reads_from_memory_are_watched_without_their_calls(bench: Bench, volume: Volume) -> None:
    """Each takes a few microseconds, and the probes of a call a tenth of them or more."""
    found = conditions_once_watched(bench, volume, "users = 1\ndirect = false")
    assert found.watch != "all", found.remarks  # a machine that others disturb may leave out more
    assert "with no system calls" in found.remarks[2]
    assert found.remarks[-1].startswith("watched with ")


def started(volume: Volume, folder: Path, *options: str) -> PtyScreen:
    (folder / "plan.toml").write_text(SCREEN_PLAN)
    words = ("bench", str(volume.mount), "--plan", str(folder / "plan.toml"), "-o", "out")
    return PtyScreen(ioh_command(*words, *options), folder)


def test_q_leaves_the_screen_and_the_bench_goes_on(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path) as shown:
        shown.wait_for("REPLAY", "test 1 of 2: randread-8k-1u")
        shown.wait_for("|  randread-8k-1u: ok")
        shown.press("q")
        shown.wait_until(lambda: LEFT in shown.shown)
        assert shown.wait() == 0
        last = shown.text[shown.text.rindex("test   ") :]
        assert last.count("randread-8k-1u ") == last.count("randread-8k-2u ") == 1
        assert "open report.html" in last
    assert load(str(tmp_path / "out")).is_complete
    assert (tmp_path / "out" / "report.html").exists()


def test_ctrl_c_on_the_screen_ends_the_bench(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path) as shown:
        shown.wait_for("REPLAY", "test 1 of 2: randread-8k-1u")
        shown.press(CTRL_C)
        assert shown.wait() == 130
        assert "stopped; continue with: ioh bench --resume " in shown.text
    assert children_named_fio(volume.mount) == []


def test_the_screen_ends_with_the_bench(tmp_path: Path, volume: Volume) -> None:
    with started(volume, tmp_path, "-u", "1") as shown:
        shown.wait_for("REPLAY", "test 1 of 1: randread-8k-1u")
        assert shown.wait() == 0
        assert LEFT in shown.shown
        assert "Traceback" not in shown.text
    assert list(volume.mount.glob("ioh-bench*")) == []
