"""A bench's work files, result lines, screen and disturbances, and jobs like a recording."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ioh.bench import runner, table
from ioh.bench.disturbances import disturbances_of
from ioh.bench.jobs import DATA, FILES
from ioh.bench.like import job_like
from ioh.bench.plans import PlanChanges, read_plan, specs_of
from ioh.bench.results import BenchVerdict, Figures, Run, TestSpec
from ioh.bench.watch import RecordedRun, layers_of, read_between
from ioh.bench.work import WorkFolder, need_of
from ioh.commands import bench_screen
from ioh.commands.bench_screen import BenchScreen, line_from
from ioh.findings.config import Config
from ioh.model.errors import IohError
from ioh.model.snapshot import HostStats, Snapshot
from ioh.session.reader import Session
from ioh.tui.render.screen import draw
from ioh.tui.state import ViewState
from tests.support.screens import judged, screen_data
from tests.unit.snapshot_maker import disk, layer, op, ticks

DATA_PATH = Path(__file__).parents[2] / "ioh" / "data"
SPEC = TestSpec("randread-8k-1u", "randread", "randread", 8192, size_bytes=1 << 20, run_s=30)


def test_a_work_file_is_recognized_and_removed(tmp_path: Path) -> None:
    folder, need = WorkFolder(str(tmp_path)), need_of([SPEC])
    folder.check(need, direct=False)
    folder.begin(DATA, 1 << 20)
    assert not folder.is_filled(DATA, 1 << 20)  # as if killed while filling it
    folder.finish(DATA, 1 << 20)
    assert folder.is_filled(DATA, 1 << 20)
    assert not folder.is_filled(DATA, 1 << 21)  # another size is written anew
    folder.check(need, direct=False)
    folder.remove(DATA)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    folder, need = WorkFolder(str(tmp_path)), need_of([SPEC])
    own = tmp_path / DATA
    other = tmp_path / "other"
    other.write_text("precious")
    makes: list[Callable[[], object]] = [own.mkdir, own.touch]
    makes += [lambda: own.write_text("precious"), lambda: own.symlink_to(other)]
    for make in makes:
        make()
        with pytest.raises(IohError, match="was not made by ioh bench"):
            folder.check(need, direct=False)
        with pytest.raises(IohError, match="was not made by ioh bench"):
            folder.begin(DATA, 5)
        own.rmdir() if own.is_dir() and not own.is_symlink() else own.unlink()
    assert other.read_text() == "precious"


def test_the_check_for_direct_io_removes_only_its_own_file(tmp_path: Path) -> None:
    for name in (f"{DATA}.probe", "ioh-bench.probe"):
        (tmp_path / name).write_text("precious")
    WorkFolder(str(tmp_path))._takes_direct()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"] * 2


def test_a_directory_of_others_is_never_removed(tmp_path: Path) -> None:
    folder = WorkFolder(str(tmp_path))
    (tmp_path / FILES).mkdir()
    (tmp_path / FILES / "precious").touch()
    with pytest.raises(IohError, match="was not made by ioh bench"):
        folder.make_small_files()
    assert (tmp_path / FILES / "precious").exists()
    (tmp_path / FILES / "precious").unlink()
    (tmp_path / FILES).rmdir()
    folder.make_small_files()
    (tmp_path / FILES / "f.0.0").touch()
    folder.remove_small_files()
    assert list(tmp_path.iterdir()) == []


def test_free_space_is_checked_before_a_bench(tmp_path: Path) -> None:
    need = need_of([msgspec.structs.replace(SPEC, size_bytes=1 << 60)])
    with pytest.raises(IohError, match=r"has [0-9,]+ MiB free, and the tests need"):
        WorkFolder(str(tmp_path)).check(need, direct=False)


def test_each_plan_needs_its_own_work_files() -> None:
    for name, names in (("database", (DATA,)), ("files", ()), ("commit", (DATA,))):
        assert need_of(specs_of(read_plan(name)[0], PlanChanges())).names == names
    own = need_of([msgspec.structs.replace(SPEC, own_files=True, users=3)])
    assert own.names == (f"{DATA}.0", f"{DATA}.1", f"{DATA}.2")
    assert need_of([msgspec.structs.replace(SPEC, kind="job", job="[x]")]).names == ()


def a_run(iops: float, verdict: BenchVerdict | None = None) -> Run:
    fio = {"read": Figures(ops=100, bytes=819_200, bytes_per_s=1e6, iops=iops, mean_us=1000.0)}
    return Run(0.0, 30.0, fio, verdict or BenchVerdict(ok=True), "x", "x.json")


def test_the_median_run_is_the_result_of_a_test() -> None:
    made = runner.test_of(SPEC, (a_run(90), a_run(120), a_run(100)))
    assert (made.shown, made.verdict.ok) == (2, True)
    assert made.spread_pct == pytest.approx(30)
    refused = BenchVerdict(False, "others", "others moved it")
    made = runner.test_of(SPEC, (a_run(90), a_run(120, verdict=refused), a_run(100)))
    assert made.verdict == refused
    assert runner.test_of(SPEC, (a_run(90),)).spread_pct is None


@pytest.mark.parametrize(
    ("rates", "rule", "spread"),
    [([100, 102], "", 2.0), ([50, 80, 100, 101], "", 1.0), ([50, 80, 100, 120], "unsteady", 20.0)],
)
def test_the_last_window_is_the_result_of_a_steady_test(
    rates: list[float], rule: str, spread: float
) -> None:
    spec = msgspec.structs.replace(SPEC, agree_pct=5.0, limit_s=100)
    made = runner.test_of(spec, tuple(map(a_run, rates)))
    assert made.shown == len(rates) - 1
    assert made.verdict.rule == rule
    assert made.spread_pct == pytest.approx(spread, rel=0.03)


def test_result_lines_show_fios_figures_or_why_they_are_refused() -> None:
    made = runner.test_of(SPEC, (a_run(1234.5),))
    (line,) = table.test_lines(made)
    assert "1.0 in flight" in table.little(a_run(1000.0), 1)
    assert "delayed" in table.little(a_run(500.0), 1)
    assert line.split() == ["randread-8k-1u", "read", "1.0", "1.000", *["-"] * 4, "1,234", "ok"]
    refused = BenchVerdict(False, "others", "others \x1b[2J moved", ("tar\n[7]",))
    told = list(table.test_lines(runner.test_of(SPEC, (a_run(5, verdict=refused),))))
    assert told[0].endswith("not the storage: others \\x1b[2J moved")
    assert told[1] == "  | tar\\x0a[7]"


def seen(rates: list[float], host: HostStats | None = None) -> RecordedRun:
    made = tuple(
        tick
        for at, rate in enumerate(rates)
        for tick in ticks(
            1, {"block": layer("block", **disk("sda", op(rate / 8192, 8192, 90)))},
            host=host, start=at,
        )
    )  # fmt: skip
    return RecordedRun(made[0], made, ())


NOTHING: list[str] = []


@pytest.mark.parametrize(
    ("host", "kinds"),
    [
        (HostStats(steal_pct=0.9, dirty_bytes=1 << 20), NOTHING),
        (HostStats(steal_pct=5.0), ["steal"]),
        (HostStats(dirty_bytes=1 << 30), ["dirty"]),
    ],
)
def test_disturbances_by_the_host_are_reported(host: HostStats, kinds: list[str]) -> None:
    same = ("performance", 2e6)
    found = disturbances_of(SPEC, seen([1e8] * 20, host), same, same)
    assert [each.kind for each in found] == kinds


def test_a_change_of_cpu_governor_or_frequency_is_reported() -> None:
    found = disturbances_of(SPEC, None, ("performance", 3e6), ("powersave", 2e6))
    assert [each.sentence for each in found] == [
        "the CPUs' governor changed from performance to powersave",
        "the CPUs went from 3,000 to 2,000 MHz",
    ]


@pytest.mark.parametrize(
    ("rates", "at_s"),
    [
        ([1e8] * 12 + [3e7] * 12, 13),
        ([1e8] * 12 + [3e7] * 3 + [1e8] * 12, None),  # it came back
        ([1e8, 3e7] * 12, None),
    ],
)
def test_a_lasting_drop_of_the_rate_is_reported_with_its_time(
    rates: list[float], at_s: float | None
) -> None:
    same = ("", None)
    found = disturbances_of(SPEC, seen(rates), same, same)
    assert [each.value for each in found] == ([] if at_s is None else [pytest.approx(at_s, abs=2)])


def marks_of(path: Path) -> list[str]:
    with Session(str(path)) as session:
        return [mark.text for mark in session.marks()]


def test_a_job_has_the_block_sizes_of_a_recording() -> None:
    job = job_like(str(DATA_PATH / "sample.ioh"), "", "", 1 << 30, 20)
    assert "runtime=20\nfilename=ioh-bench.data\nsize=1073741824\n" in job
    shares = [line.partition("=")[2] for line in job.splitlines() if line.startswith("bssplit=")]
    assert shares
    for share in shares:
        assert sum(int(part.partition("/")[2]) for part in share.split(":")) == 100
    with pytest.raises(IohError, match="no mark"):
        job_like(str(DATA_PATH / "sample.ioh"), "nowhere", "", 1 << 30, 20)


def test_figures_of_layers_between_two_marks_are_consistent() -> None:
    path = DATA_PATH / "demo.ioh"
    begin, end = marks_of(path)[:2]
    found = read_between(path, begin, end, Config())
    assert isinstance(found.whole, Snapshot)
    assert found.ticks
    for each in layers_of(found.whole, 10.0):
        figures = each.figures
        assert figures.ops
        assert figures.iops == pytest.approx(figures.ops / 10)
        assert sum(figures.hist) in {0, figures.ops}


def test_the_newest_complete_line_is_read_without_blocking() -> None:
    theirs, ours = os.pipe()
    read = line_from(theirs)
    assert read is not None
    assert read() == ""
    os.write(ours, "test 1\ntest 2 µ\n".encode())
    assert read() == read() == "test 2 µ"
    os.write(ours, b"\xff\n")
    assert read() == "�"
    os.close(ours)
    ended: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    try:
        read()
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(theirs)
    assert ended == [signal.SIGTERM]


@pytest.mark.parametrize(
    ("script", "status"), [("import sys; sys.stdin.read()", None), ("raise SystemExit(3)", 3)]
)
def test_a_screen_that_reads_nothing_or_dies_does_not_block_the_bench(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, status: int | None
) -> None:
    monkeypatch.setattr(bench_screen, "_COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(bench_screen, "_END_S", 0.2)
    screen = BenchScreen(tmp_path / "run.ioh")
    if status is not None:
        end_s = time.monotonic() + 30
        while screen.ended() is None and time.monotonic() < end_s:
            time.sleep(0.01)
        assert screen.ended() == status
    for number in range(2000):
        screen.line(f"{number} " + "x" * 8000)
    screen.close()
    assert screen.ended() is not None


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_line_of_a_bench_takes_one_line_of_the_screen(size: tuple[int, int]) -> None:
    data = screen_data(judged())
    plain = draw(ViewState(), data, *size)
    found = draw(ViewState(), replace(data, line="test 3 of 8 | " + "x" * 200), *size)
    assert len(plain.lines) == len(found.lines) == size[1]
    assert found.lines[1].text.startswith(" test 3 of 8 | xx")
    assert found.lines[-1].text == plain.lines[-1].text
    assert found.lines[1].width == size[0]
