"""A long recording told by several processes: the same text, whatever happens to it or to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from ioh.commands import main, spread, telling
from ioh.model.errors import ExitCode
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.records import Gap
from ioh.session.writer import SessionWriter
from tests.bench.recording import endless, real_samples

TICKS = 330
DATA = Path(__file__).resolve().parents[1] / "data"
Told = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five layers, marks, a gap in time and one in the samples' clock."""
    path = tmp_path_factory.mktemp("spread") / "long.ioh"
    writer = SessionWriter(FileOutput(str(path)))
    for tick, sample in enumerate(islice(endless(real_samples()), TICKS)):
        if 200 <= tick < 210:
            continue
        if tick == 210:
            writer.gap(Gap(sample.time_unix_s - 10, sample.time_unix_s, b"no disk"))
        writer.write(sample)
        if tick % 40 == 7:
            writer.mark(f"run {tick}", sample.time_unix_s)
    writer.close()
    return path


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small spans and three processes, however many cores there are; how many spans each time."""
    asked: list[int] = []
    spans_of = spread.spans_of

    def counted(*args: object, **options: object) -> list[spread.Span]:
        found = spans_of(*args, **options)  # type: ignore[arg-type]
        asked.append(len(found))
        return found

    monkeypatch.setattr(telling, "FIRST_INTERVALS", 30)
    monkeypatch.setattr(telling, "_workers", lambda: 3)
    monkeypatch.setattr(spread, "MAX_SPAN_TICKS", 35)
    monkeypatch.setattr(spread, "MIN_SPANS_OF_LOOK_BACK", 0)
    monkeypatch.setattr(spread, "spans_of", counted)
    return asked


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    """What `ioh text` says of a recording."""

    def run(path: Path, *options: str) -> tuple[str, str]:
        assert main(["text", str(path), "--utc", *options]) == ExitCode.OK
        return tuple(capfd.readouterr())  # type: ignore[return-value]

    return run


def alone(monkeypatch: pytest.MonkeyPatch, run: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    with monkeypatch.context() as patched:
        patched.setattr(telling, "_workers", lambda: 1)
        return run()


OPTIONS = [
    (),
    ("-d", "all", "--top", "all"),
    ("--no-findings", "--layers", "block,syscall"),
    ("-t", "250"),
    ("--from", "run 87", "--to", "400"),
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_the_text_is_that_of_one_process(
    recording: Path,
    options: tuple[str, ...],
    told: Told,
    several: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = alone(monkeypatch, lambda: told(recording, *options))
    assert expected[0].count("\ndate: ") > 130
    several.clear()
    assert told(recording, *options) == expected
    assert len(several) == 1
    assert several[0] >= 3


@pytest.mark.parametrize(
    "name",
    ["local_rival", "lossy_link", "md_resync", "stalls", "joined_writes", "faster_tier"],
)
def test_findings_are_those_of_one_process(
    name: str, told: Told, several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "FIRST_INTERVALS", 3)
    monkeypatch.setattr(spread, "MAX_SPAN_TICKS", 4)
    path = DATA / f"scenarios/{name}.ioh"
    expected = alone(monkeypatch, lambda: told(path, "-d", "findings"))
    several.clear()
    assert told(path, "-d", "findings") == expected
    assert several


def test_intervals_that_become_shorter_are_shared_all_the_same(
    tmp_path: Path, told: Told, several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many samples as the rules look back on average are no such time there."""
    writer = SessionWriter(FileOutput(str(tmp_path / "a.ioh")))
    for tick, sample in enumerate(islice(endless(real_samples()), 720)):
        if tick > 480 or tick % 4 == 0:
            writer.write(sample)
    writer.close()
    expected = alone(monkeypatch, lambda: told(tmp_path / "a.ioh", "-d", "findings"))
    several.clear()
    monkeypatch.setattr(spread, "_alone", lambda *_: pytest.fail("one process went on alone"))
    assert told(tmp_path / "a.ioh", "-d", "findings") == expected
    assert several[0] > 3


@pytest.mark.parametrize("share", [0.1, 0.55, 0.97])
def test_damage_is_told_as_one_process_tells_it(
    recording: Path,
    share: float,
    told: Told,
    several: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    data = bytearray(recording.read_bytes())
    at = int(len(data) * share)
    data[at : at + 3000] = bytes(3000)  # more than parity gives back
    hurt = tmp_path / "hurt.ioh"
    hurt.write_bytes(bytes(data))
    expected = alone(monkeypatch, lambda: told(hurt))
    assert "faults" in expected[1]
    assert told(hurt) == expected
    torn = tmp_path / "torn.ioh"
    torn.write_bytes(recording.read_bytes()[: at + len(data) // 50])
    expected = alone(monkeypatch, lambda: told(torn))
    assert told(torn) == expected


def test_a_process_that_dies_costs_nothing(
    recording: Path, told: Told, several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(monkeypatch, lambda: told(recording))
    begin = spread.Spread.__init__

    def one_dies(self: spread.Spread, *args: object) -> None:
        begin(self, *args)  # type: ignore[arg-type]
        self._processes[1].kill()

    monkeypatch.setattr(spread.Spread, "__init__", one_dies)
    assert told(recording) == expected
    assert several


def test_what_is_still_being_recorded_is_left_to_one_process(
    recording: Path, told: Told, several: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "growing.ioh"
    with Session(str(recording)) as session:
        samples = [tick.sample for tick in islice(session.ticks(0), 90)]
    writer = SessionWriter(FileOutput(str(path)))
    for sample in samples:
        writer.write(sample)
    # It is followed to its end, which never comes: -t ends it.
    assert told(path, "-t", "60")[0].count("\ndate: ") > 30
    assert not several
    writer.close()
    assert told(path, "-t", "60")[0].count("\ndate: ") > 30
    assert several


PROGRAM = """
import sys
from ioh.commands import main, spread, telling
telling.FIRST_INTERVALS = 30
telling._workers = lambda: 3
spread.MIN_SPANS_OF_LOOK_BACK = 0
sys.exit(main(["text", sys.argv[1]]))
"""


@pytest.fixture
def running(recording: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It prints, with other processes at work."""
    ended: list[str] = []
    while len(ended) < 3:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(recording)],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            if told := _until_others_work(process):
                # Seen once, on a machine of which nothing else is known: twice running in five.
                ended.append(f"{told}, exit status {process.wait(20)}")
                continue
            yield process
            return
        finally:
            for pid in _group(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()
    pytest.fail(f"no other process was seen at work: {ended}")


def _until_others_work(process: subprocess.Popen[bytes]) -> str:
    """It prints no more than a pipe holds and what is read here, so the others stay long enough.

    Returns:
        What was seen, where it had printed all before that.
    """
    assert process.stdout is not None
    size, most = 0, 0
    while (now := len(_group(process.pid))) < 3:
        piece = process.stdout.read(2000)
        if not piece:
            return f"{size} bytes, {most} at once"
        size, most = size + len(piece), max(most, now)
    return ""


def _until_they_wait(leader: int) -> None:
    """Nobody reads what is printed, so each of them has something to send and cannot."""
    deadline, same = time.monotonic() + 60, 0
    spent: dict[int, str] = {}
    while same < 5:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        before, spent = spent, {pid: _spent(pid) for pid in _group(leader)}
        same = same + 1 if spent == before and len(spent) >= 3 else 0


def _spent(pid: int) -> str:
    """State and CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return " ".join((fields[0], *fields[11:13]))


def _group(leader: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found


def _nobody_is_left(leader: int) -> bool:
    deadline = time.monotonic() + 20
    while _group(leader):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
def test_a_signal_ends_all_of_them(
    running: subprocess.Popen[bytes], number: signal.Signals, code: int
) -> None:
    os.killpg(running.pid, number)  # as a terminal does
    assert running.wait(20) == code
    assert _nobody_is_left(running.pid)


def test_a_reader_that_goes_away_ends_all_of_them(running: subprocess.Popen[bytes]) -> None:
    assert running.stdout is not None
    running.stdout.close()
    assert running.wait(20) == 0
    assert _nobody_is_left(running.pid)
    running.stdout = None


def test_nobody_outlives_a_killed_one(running: subprocess.Popen[bytes]) -> None:
    running.kill()
    assert _nobody_is_left(running.pid)


def test_nobody_waits_for_a_killed_one(running: subprocess.Popen[bytes]) -> None:
    _until_they_wait(running.pid)
    running.kill()
    assert _nobody_is_left(running.pid)
