"""Recordings of real I/O: after kill -9 at any moment, on a full disk, and through a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ioh.model.sample import Sample
from ioh.session.check import check
from ioh.session.frame import Damage
from ioh.session.reader import Session
from ioh.session.stream import Tick
from tests.kernel.direct import read_directly
from tests.kernel.recordings import await_bytes, recording_into, start
from tests.kernel.rig import MIB, ROOT, Volume, ioh_command, ioh_environment, opened, run
from tests.kernel.talker import Talker, wait_until

QUICK_KILLS = 96
KILLS_WITH_PROBES = 16
CYCLE_S = 0.1


@contextlib.contextmanager
def full_disk(process: subprocess.Popen[bytes], volume: Volume) -> Iterator[None]:
    """Fill the disk of a recording for a while; ioh must report when it pauses and goes on."""
    ballast = volume.mount / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert process.stderr is not None
    lines = iter(process.stderr.readline, b"")
    assert any(b"is paused: No space left on device" in line for line in lines)
    yield
    ballast.unlink()
    assert any(b"recording again; " in line for line in lines)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Volume]:
    """A volume of 16 MiB, which is soon full."""
    folder = tmp_path / "small"
    folder.mkdir()
    with contextlib.closing(Volume(folder, 16 * MIB)) as made:
        yield made


@contextlib.contextmanager
def load(volume: Volume) -> Iterator[None]:
    """Buffered writes, each with an fsync, for as long as the block lasts."""
    over = threading.Event()

    def work() -> None:
        with opened(volume.mount / "load", os.O_RDWR | os.O_CREAT) as fd:
            while not over.is_set():
                os.pwrite(fd, b"x" * 8192, random.randrange(512) * 8192)
                os.fsync(fd)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_what_is_recorded_is_what_happened(volume: Volume, tmp_path: Path) -> None:
    path = tmp_path / "a.ioh"
    with recording_into(path, "-c", "0.25", "--device", volume.device) as process:
        await_bytes(path, 1, process)
        before = volume.loop.stats()
        with opened(volume.mount / "f", os.O_RDWR | os.O_CREAT) as fd:
            for at in range(23):
                os.pwrite(fd, bytes(8192), at * 8192)
            os.fsync(fd)
        volume.sync()
        disk = volume.loop.stats() - before
        await_ticks(path, 3)
    intervals = [json.loads(line) for line in run(*ioh_command("json", str(path))).splitlines()]
    app = [i["layers"]["syscall"]["ops"] for i in intervals if "syscall" in i["layers"]]
    assert sum(ops["write_buffered"]["count"] or 0 for ops in app) == 23
    written = [i["layers"]["block"]["ops"]["write"] for i in intervals if "block" in i["layers"]]
    assert sum(op["bytes"] for op in written) == disk.write_bytes
    report = run(*ioh_command("report", str(path)))
    assert "app fsync" in report
    assert "verdict    whole" in run(*ioh_command("verify", str(path)))


def await_ticks(path: Path, count: int) -> None:
    """Wait until so many more ticks are in the file."""
    with Session(str(path)) as session:
        wanted = len(session) + count
        wait_until(lambda: session.refresh() >= wanted)


def test_kill_9_at_any_moment_loses_at_most_the_tick_under_way(
    volume: Volume, tmp_path: Path
) -> None:
    with load(volume), quick_recorders() as begin:

        def kill_one(path: Path, after_s: float) -> None:
            pid = begin(path)
            await_second_write(path)
            time.sleep(0.25 * after_s)  # the random moment itself
            os.kill(pid, signal.SIGKILL)

        kill_many(tmp_path, QUICK_KILLS, kill_one)


def test_kill_9_with_probes_loses_at_most_the_tick_under_way(
    volume: Volume, tmp_path: Path
) -> None:
    def kill_one(path: Path, after_s: float) -> None:
        arguments = ["record", "-o", str(path), "-c", str(CYCLE_S), "--layers", "block"]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kernel.witnessed", f"{path}.notes", *arguments],
            cwd=ROOT, env=ioh_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        await_bytes(path, 2000, process)
        time.sleep(after_s)  # the random moment itself
        process.kill()
        process.communicate()

    with load(volume):
        kill_many(tmp_path, KILLS_WITH_PROBES, kill_one)


def kill_many(folder: Path, count: int, kill_one: Callable[[Path, float], None]) -> None:
    """Start recordings, eight at a time, kill each at its moment, 0 to 1, and check them."""
    moments = random.Random(1)
    paths = [folder / f"{number}.ioh" for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(kill_one, paths, [moments.random() for _ in paths]))
    for path in paths:
        assert_holds_all_but_one(path)


@contextlib.contextmanager
def quick_recorders() -> Iterator[Callable[[Path], int]]:
    """A function that starts a recording without probes within hundredths of a second."""
    command = (sys.executable, "-m", "tests.kernel.witnessed")
    with Talker(*command, cwd=ROOT, stderr=subprocess.DEVNULL) as agent:
        one_by_one = threading.Lock()

        def begin(path: Path) -> int:
            with one_by_one:
                return int(agent.ask(str(path)))

        yield begin


def await_second_write(path: Path) -> None:
    """A kill can cut off the first write, too: then there is no sample that could be held."""
    first = wait_until(lambda: path.exists() and path.stat().st_size, pause_s=0.005)
    wait_until(lambda: path.stat().st_size > first, pause_s=0.005)


def assert_holds_all_but_one(path: Path) -> None:
    """Every sample that was taken is in the file, except perhaps the one under way."""
    with Session(str(path)) as session:
        items = list(session.items())
        assert not session.is_ended
        assert len(session) > 0
        ticks = [item for item in items if isinstance(item, Tick)]
        assert [item.tick for item in ticks] == list(range(len(session)))
        assert all(item.is_tail for item in items if isinstance(item, Damage))
    # A sample is handed over when the one before is written: only the last one may be missing.
    taken = [float(line) for line in Path(f"{path}.notes").read_text().splitlines()]
    held = [item.sample.time_unix_s for item in ticks]
    assert held in (taken, taken[:-1])


def test_a_full_disk_loses_the_gap_and_no_more(small: Volume) -> None:
    path = small.mount / "a.ioh"
    options = ("-c", str(CYCLE_S), "--layers", "block,tcp")
    with recording_into(path, *options) as process:
        await_bytes(path, 4000, process)
        with full_disk(process, small), Session(str(path)) as session:
            told = len(session)
            assert told > 1
        await_ticks(path, 5)
    found = check(str(path))
    assert found.faults == []
    assert found.is_ended
    assert len(found.gaps) == 1
    assert found.gaps[0].reason == b"No space left on device"
    assert found.ticks >= told + 5


def test_an_endless_recording_on_a_full_disk_loses_only_the_gap(
    volume: Volume, small: Volume
) -> None:
    options = ("--max-size", "64k", "--keep", "9", "-c", str(CYCLE_S), "--layers", "block,tcp")
    with recording_into(small.mount / "a.ioh", *options) as process:
        with load(volume):  # a quiet machine takes minutes to fill a part
            await_bytes(small.mount / "a-0001.ioh", 62_000, process)
        with full_disk(process, small):  # the part is nearly full: the next one may meet it
            pass
        with load(volume):
            await_bytes(small.mount / "a-0002.ioh", 6000, process)
    gaps = 0
    last: Sample | None = None
    paths = sorted(small.mount.glob("a-*.ioh"))
    assert [path.name for path in paths][:2] == ["a-0001.ioh", "a-0002.ioh"]
    for path in paths:
        assert check(str(path)).faults == []
        with Session(str(path)) as session:
            held = [tick.sample for tick in session.ticks(0)]
            gaps += len(session.gaps())
            assert last is None or held[0] == last
            last = held[-1]
    assert gaps == 1


def test_a_machine_is_watched_through_a_pipe(tmp_path: Path) -> None:
    recorder = start("record", "-o", "-", "-c", "0.2")
    viewer = start("replay", "-", stdin=recorder.stdout)
    assert recorder.stdout is not None
    recorder.stdout.close()
    assert viewer.stdout is not None
    try:
        lines = iter(viewer.stdout.readline, b"")
        for _ in range(5):
            line = next(line for line in lines if line.startswith(b"date: "))
            assert time.time() - int(line.split()[1]) < 5
    finally:
        recorder.send_signal(signal.SIGTERM)
        viewer.communicate(timeout=20)
        assert recorder.stderr is not None
        assert recorder.stderr.read() == b""
        recorder.stderr.close()
        assert recorder.wait(20) == 0
    assert viewer.returncode == 0


def test_what_lies_between_two_marks_is_exact(volume: Volume, tmp_path: Path) -> None:
    """``ioh record & until ioh mark begin; do :; done; …``: a sample is taken at each mark."""
    path = tmp_path / "a.ioh"
    data = volume.file("data", 4096)
    options = ("-c", "3", "--layers", "syscall", "--device", volume.device)
    with recording_into(path, *options):
        first = ioh_command("mark", "begin", "--file", str(path))
        wait_until(lambda: subprocess.run(first, check=False, capture_output=True).returncode == 0)
        for count, name in [(11, "a"), (23, "b"), (7, "c")]:
            read_directly(data, count, step=0)
            run(*ioh_command("mark", name, "--file", str(path)))
    spans = [("begin", "a", 11), ("a", "b", 23), ("b", "c", 7), ("a", "c", 30)]
    for begin, end, count in spans:
        shown = run(*ioh_command("json", str(path), "--from", begin, "--to", end))
        layers = [json.loads(line)["layers"] for line in shown.splitlines()]
        assert sum(x["syscall"]["ops"]["read_direct"]["count"] for x in layers) == count
