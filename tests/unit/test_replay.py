"""`ioh replay`, `ioh text FILE` and `ioh json FILE`: a recording shows what live showed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.findings.engine import Engine
from ioh.model.errors import ExitCode, IohError
from ioh.model.span import Downsampler
from ioh.pipeline import snapshots
from ioh.playback.time_range import parse_when, unix_s_of
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.writer import SessionWriter
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from tests.support import fakes
from tests.support.hostile_recordings import frames
from tests.support.sessions import Memory, Shown, recorded

ROOT = Path(__file__).parents[2]
SAMPLES = fakes.first(12)


@pytest.fixture
def session_file(tmp_path: Path) -> Path:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(SAMPLES, {3: "run 3 \x1b[31m", 7: "run 7 \x1b[31m"}))
    return path


def test_json_of_a_file_is_the_json_of_live(session_file: Path, shown: Shown) -> None:
    sink = JsonSink(top=None)
    live = "".join(map(sink.render, snapshots(SAMPLES, Engine)))
    assert shown("json", session_file, "--top", "all") == live


@pytest.mark.parametrize("command", [["text"], ["replay", "--as-text"]])
def test_text_of_a_file_is_the_text_of_live(
    session_file: Path, shown: Shown, command: list[str]
) -> None:
    sink = TextSink(TextOptions(frozenset({"all"}), utc=True))
    live = "".join(map(sink.render, snapshots(SAMPLES, Engine)))
    told = shown(*command, session_file, "-d", "all", "--utc")
    assert "# mark 15:44:50  run 3 \\x1b[31m\n\n" in told
    assert "\x1b" not in told
    without = "".join(
        block for block in told.splitlines(keepends=True) if not block.startswith("# mark")
    )
    assert without.replace("\n\n\n", "\n\n") == live


def test_default_text_is_the_same_without_decoding_breakdowns(
    session_file: Path, shown: Shown
) -> None:
    sink = TextSink(TextOptions(utc=True))
    live = "".join(map(sink.render, snapshots(SAMPLES)))
    told = shown("text", session_file, "--utc", "--no-findings", "--from", "0", "--to", "100000")
    assert [x for x in told.splitlines() if x and "# mark" not in x] == [
        x for x in live.splitlines() if x
    ]


@pytest.mark.parametrize(
    ("begin", "end", "ticks"),
    [
        ("0", "2", [1, 2]),
        ("8.5", "99", [9, 10, 11]),
        ("15:44:50", "15:44:52", [3, 4]),
        ("2012-04-24 15:44:55", "2012-04-24T15:44:56.9", [8, 9]),
        ("run 3", "run 7", [4, 5, 6, 7]),
    ],
)
def test_from_and_to_choose_a_part(
    session_file: Path, shown: Shown, begin: str, end: str, ticks: list[int]
) -> None:
    told = shown("replay", session_file, "--as-text", "--utc", "--from", begin, "--to", end)
    dates = [line.split()[1] for line in told.splitlines() if line.startswith("date:")]
    assert dates == [str(int(fakes.EPOCH_S + tick)) for tick in ticks]


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["--from", "nosuch"], 'no mark "nosuch" in'),
        (["--from", "99", "--to", "100"], '(from "99" to "100")'),
        (["--from", "5", "--to", "2"], '"2" is not after "5"'),
        (["--from", "run 7", "--to", "15:44:50"], '"15:44:50" is not after "run 7"'),
        (["--from", "run"], '"run" matches several marks: "run 3 \\x1b[31m"'),
        (["--from", "25:00"], "not a time of day"),
        (["--from", "2012-99-99 10:00"], "month must be in 1..12"),
        (["--from", ""], "seconds, a clock time"),
        (["--speed", "0"], "above 0"),
        (["--layers", "nosuch"], 'no layer "nosuch" in this recording. Its layers: program'),
    ],
)
def test_what_cannot_be_shown_prints_one_line(
    session_file: Path, refused: Shown, args: list[str], cause: str
) -> None:
    assert cause in refused("replay", session_file, "--as-text", *args)


def test_filters_are_refused_for_a_recording(session_file: Path, refused: Shown) -> None:
    assert "--pid works only when measuring" in refused("text", session_file, "--pid", "12")


def test_layers_and_time_can_be_chosen(session_file: Path, shown: Shown) -> None:
    told = shown("json", session_file, "--no-layer", "wire", "-t", "3")
    ticks = [json.loads(line) for line in told.splitlines()]
    assert [list(tick["layers"]) for tick in ticks] == [["program", "platter"]] * 3


def test_longer_intervals_add_up_and_keep_the_slowest(session_file: Path, shown: Shown) -> None:
    fine = [json.loads(line) for line in shown("json", session_file).splitlines()]
    coarse = [json.loads(line) for line in shown("json", session_file, "-c", "5").splitlines()]
    assert [tick["interval_s"] for tick in coarse] == [5.0, 5.0]
    for at, tick in enumerate(coarse):
        parts = [x["layers"]["platter"]["ops"]["read"] for x in fine[at * 5 : at * 5 + 5]]
        whole = tick["layers"]["platter"]["ops"]["read"]
        assert whole["count"] == sum(part["count"] for part in parts)
        slowest = max(parts, key=lambda part: part["max_us"])
        assert (whole["max_us"], whole["max_bytes"]) == (slowest["max_us"], slowest["max_bytes"])


def test_downsampling_allows_slightly_early_ticks() -> None:
    from dataclasses import replace

    downsampler = Downsampler(2.0)
    kept = [
        downsampler.take(replace(sample, mono_ns=sample.mono_ns - tick * 20_000_000))
        for tick, sample in enumerate(SAMPLES)
    ]
    assert [tick for tick, sample in enumerate(kept) if sample] == [0, 2, 4, 6, 8, 10]


def test_intervals_start_again_when_the_clock_went_back(tmp_path: Path, shown: Shown) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded([*SAMPLES[5:8], *SAMPLES[:3]]))
    told = shown("json", path)
    assert [json.loads(line)["time_unix_s"] for line in told.splitlines()] == [
        sample.time_unix_s for sample in (*SAMPLES[6:8], *SAMPLES[1:3])
    ]


def test_faults_are_one_line_on_stderr(
    session_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(session_file.read_bytes())
    data = data[: len(data) // 2]
    session_file.write_bytes(data)
    assert main(["text", str(session_file)]) == ExitCode.OK
    err = capfd.readouterr().err
    assert err == ("ioh: the recording has faults: its end is cut off. See: ioh verify\n")


def ioh(*args: str | Path, **how: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ioh", *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, **how)  # type: ignore[call-overload,no-any-return]


def test_a_pipe_is_shown_as_its_data_arrives() -> None:
    reader, writer = os.pipe()
    with ioh("replay", "-", "--speed", "1000", stdin=reader) as process:
        os.close(reader)
        session = SessionWriter(_Pipe(writer))
        assert process.stdout is not None
        for sample in SAMPLES[:2]:
            session.write(sample)
        line = b""
        while not line.startswith(b"date:"):
            line = process.stdout.readline()
        assert line.startswith(b"date: 1335282288 ")
        for sample in SAMPLES[2:5]:
            session.write(sample)
        os.close(writer)
        rest = process.stdout.read()
        assert rest.count(b"\ndate: ") == 3
        assert process.wait(20) == 0


class _Pipe(Memory):
    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def write(self, data: bytes) -> None:
        super().write(data)
        os.write(self._fd, data)


def test_replay_keeps_the_recordings_pace(session_file: Path) -> None:
    started = time.monotonic()
    with ioh("replay", session_file, "--speed", "16", "-t", "8") as process:
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(20) == 0
    assert out.count(b"\ndate: ") == 8
    assert time.monotonic() - started >= 0.45


def test_a_mark_is_shown_at_once_however_slow_the_pace(tmp_path: Path) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(SAMPLES, {0: "go"}))
    with ioh("replay", path, "--speed", "1e-12", "--utc") as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b"  go\n")
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (None, 0)])
def test_a_file_being_recorded_is_followed_until_it_or_the_recording_ends(
    tmp_path: Path, number: int | None, code: int
) -> None:
    path = tmp_path / "s.ioh"
    writer = SessionWriter(FileOutput(str(path)))
    writer.write(SAMPLES[0])
    writer.write(SAMPLES[1])
    with ioh("replay", path, "--speed", "1000", stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = iter(process.stdout.readline, b"")
        assert any(line.startswith(b"date: 1335282288") for line in lines)
        writer.write(SAMPLES[2])
        assert any(line.startswith(b"date: 1335282289") for line in lines)
        process.send_signal(number) if number else writer.close()
        assert process.wait(20) == code
        assert process.stderr.read() == b""


def test_a_moment_is_an_offset_a_mark_or_a_time_of_day(session_file: Path) -> None:
    with Session(str(session_file)) as session:
        assert unix_s_of(parse_when("+1.5s"), session) == fakes.EPOCH_S + 1.5
        assert unix_s_of(parse_when("run 7"), session) == pytest.approx(fakes.EPOCH_S + 7.1)
        night = parse_when("00:10")  # already past at the start: the next day's
        assert unix_s_of(night, session, utc=True) == 1335312600.0
        with pytest.raises(IohError, match="Its marks"):
            unix_s_of(parse_when("12 monkeys"), session)


def test_replay_imports_neither_bcc_nor_numpy(session_file: Path) -> None:
    probe = (
        "import sys; from ioh.commands import main; code = main(sys.argv[1:]);"
        "bad = {'bcc', 'numpy', 'ioh.bpf', 'ioh.layers', 'ioh.procfs'} & set(sys.modules);"
        "sys.exit(code or ' '.join(bad) or 0)"
    )
    subprocess.run(
        [sys.executable, "-c", probe, "text", str(session_file)],
        check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["text", "report", "verify"])
def test_a_recording_torn_before_its_first_sample(
    session_file: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    """Only the header is complete: each command says so, and none crashes."""
    data = session_file.read_bytes()
    session_file.write_bytes(data[: frames(data)[0].end])
    done = main([command, str(session_file)])
    out, err = capfd.readouterr()
    if command == "verify":  # whole, as far as it goes
        assert (done, err) == (ExitCode.OK, "")
        assert "samples    none\n" in out
        return
    assert (done, out) == (ExitCode.USAGE, "")
    assert err.startswith("ioh: no interval in that part of ")
    assert err.count("\n") == 1
