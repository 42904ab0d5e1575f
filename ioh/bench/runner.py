"""Run the tests of a bench one after the other: mark, fio, mark, read back, judge, save."""

from __future__ import annotations

import ctypes
import inspect
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from ioh.bench import small_files
from ioh.bench.conditions import DevicesBelow, frequency_khz, governors, own_limits
from ioh.bench.disturbances import disturbances_of
from ioh.bench.fio import Fio, figures_of, read_json, run_s_of
from ioh.bench.jobs import FILES, fill_file, job_file, small_files_job
from ioh.bench.price import TURN_S
from ioh.bench.results import Figures, Results, Run, Test, TestSpec, save
from ioh.bench.verdict import Case, judge, refused
from ioh.bench.watch import (
    BenchRecorder,
    RecordedRun,
    findings_of,
    layers_of,
    read_between,
    watched_layers,
)
from ioh.bench.work import Need, WorkFolder
from ioh.findings.config import Config
from ioh.model.errors import IohError
from ioh.model.printable import printable
from ioh.model.sample import OTHERS

_POLL_S = 0.1
_FILES_FOR_PRICE = 500  # at most, of a metadata test: they are written for each turn
# Not counted as others' I/O: the kernel's threads act for somebody, mostly for fio.
_KERNELS = ("kworker", "jbd2", "xfsaild", "btrfs", "ksoftirqd", "kswapd", "md", "loop", "dm")
# Read as root: the user may not be able to.
_SMALL_FILES = inspect.getsource(small_files)
_libc = ctypes.CDLL(None, use_errno=True)


class StoppedError(Exception):
    """The user ended the bench; finished tests are saved."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Where a bench reports its progress.

    ``doing`` gets what happens now, and for how many seconds (0: unknown); ``is_stopped`` returns
    whether to end.
    """

    began: Callable[[Results, Path], None]
    finished: Callable[[Test], None]
    doing: Callable[[str, float], None]
    say: Callable[[str], None]
    is_stopped: Callable[[], bool]


class Runner:
    """Runs the tests of a bench; ``results`` may hold finished tests of an earlier run.

    ``folder`` has the work files; it is None with raw devices, which are the ``targets``.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        directory: Path,
        results: Results,
        below: DevicesBelow,
        folder: WorkFolder | None,
        targets: tuple[str, ...],
        callbacks: Callbacks,
        config: Config,
    ) -> None:
        self.directory, self.results, self._below = directory, results, below
        self._folder, self._targets = folder, targets
        self._callbacks, self._config = callbacks, config

    def fill(self, need: Need, *, anew: bool) -> None:
        """Fill the work files, unless an earlier run did.

        Raises IohError if fio failed, or a file is not ours.
        """
        folder = self._folder
        if folder is None:
            for path in self._targets if anew else ():
                self._fill(path, need.file_bytes, "/")
            return
        for name in need.names:
            if anew or not folder.is_filled(name, need.file_bytes):
                folder.begin(name, need.file_bytes)
                self._fill(name, need.file_bytes, folder.path)
                folder.finish(name, need.file_bytes)

    def _fill(self, name: str, size_bytes: int, cwd: str) -> None:
        is_direct = any(spec.direct for spec in self.results.planned)
        self._callbacks.doing(f"writing {printable(name)}, {size_bytes >> 20:,} MiB", 0.0)
        job = fill_file(name.replace(":", "\\:"), size_bytes, direct=is_direct)
        fio = Fio(job, cwd, self.directory / "fill.json")
        self._wait(fio)
        if why := fio.why_failed():
            cause = f"{name} cannot be filled: {why}"
            raise IohError(cause, "Give a smaller size: -m MEGABYTES")
        (self.directory / "fill.json").unlink()

    def rate(self, spec: TestSpec) -> float:
        """Operations a second of a short run that nothing is kept of; IohError if fio fails."""
        files = min(spec.files, _FILES_FOR_PRICE)
        plain = msgspec.structs.replace(spec, ramp_s=0.0, rate_iops=0, rival="", files=files)
        self._prepare(plain)
        self._callbacks.doing("what watching costs", 0.0)
        path = self.directory / "price.json"
        try:
            fio = self._started(plain, job_file(plain, self._targets, TURN_S), path)
            self._wait(fio)
            if why := fio.why_failed():
                cause = f"fio failed: {why}"
                raise IohError(cause, "Leave the measurement out: --watch all")
            figures, *_ = _read(path)
        finally:
            path.unlink(missing_ok=True)
        return sum(each.iops or 0.0 for each in figures.values())

    def note(self, watch: str, remarks: tuple[str, ...]) -> None:
        """Save what is watched, and what that costs."""
        for remark in remarks:
            self._callbacks.say(remark)
        remarks = (*self.results.conditions.remarks, *remarks)
        conditions = msgspec.structs.replace(self.results.conditions, watch=watch, remarks=remarks)
        self._save(conditions=conditions)

    @property
    def _cwd(self) -> str:
        return self._folder.path if self._folder is not None else os.getcwd()  # noqa: PTH109

    def run(self, recorder: BenchRecorder) -> None:
        """Run all unfinished tests; IohError if nothing can be recorded or saved."""
        self._recorder = recorder
        finished = {test.spec.name for test in self.results.tests}
        for spec in self.results.planned:
            if spec.name in finished or self._is_past_the_knee(spec):
                continue
            test = self._test(spec)
            tests = (*self.results.tests, test)
            self._save(tests=tests, end_unix_s=time.time())
            self._callbacks.finished(test)
        names = {test.spec.name for test in self.results.tests}
        planned = tuple(spec for spec in self.results.planned if spec.name in names)
        self._save(planned=planned)

    def _save(self, **changes: Any) -> None:  # noqa: ANN401 (fields of Results)
        self.results = msgspec.structs.replace(self.results, **changes)
        save(self.results, str(self.directory))

    def _is_past_the_knee(self, spec: TestSpec) -> bool:
        """Whether the last increase of users already gained too little."""
        if not spec.knee_pct:
            return False
        same = [
            test.run.ops_per_s
            for test in self.results.tests
            if (test.spec.kind, test.spec.block_bytes) == (spec.kind, spec.block_bytes)
        ]
        return any(later < earlier * (1 + spec.knee_pct / 100) for earlier, later in pairwise(same))

    def _test(self, spec: TestSpec) -> Test:
        runs: list[Run] = []
        run_s = spec.run_s
        while len(runs) < spec.runs:
            runs.append(self._run(spec, run_s, len(runs) + 1))
        while spec.agree_pct and not _agree(runs, spec.agree_pct):
            run_s *= 1 + (len(runs) % 2 == 0)  # double it after two windows of each length
            if sum(run.end_unix_s - run.begin_unix_s for run in runs) + run_s > spec.limit_s:
                break
            runs.append(self._run(spec, run_s, len(runs) + 1))
        return test_of(spec, tuple(runs))

    def _run(self, spec: TestSpec, run_s: float, number: int) -> Run:
        name = spec.name if number == 1 else f"{spec.name}-run-{number}"
        self._stop_if_asked()
        self._prepare(spec)
        is_ours = spec.kind == "metadata"
        job = job_file(spec, self._targets, run_s)
        path = self.directory / f"{name}.{'job' if is_ours else 'fio'}"
        path.touch(0o600)
        path.write_text(job, "utf-8", "surrogateescape")
        output = self.directory / f"{name}.json"
        cpu = governors(), frequency_khz()
        self._callbacks.doing(name, spec.ramp_s + run_s)
        if not spec.ramp_s:
            self._recorder.mark(f"{name} begins")
        begin_unix_s = time.time() + spec.ramp_s
        fio = self._started(spec, job, output)
        if spec.ramp_s:
            self._wait(fio, spec.ramp_s)
            self._recorder.mark(f"{name} begins")
        self._wait(fio)
        why = fio.why_failed()
        self._recorder.mark(f"{name} ends")
        self._recorder.flush()
        end_unix_s = time.time()
        recording = read_between(
            self._recorder.path, f"{name} begins", f"{name} ends", self._config
        )
        figures, rival, both, took_s = ({}, {}, {}, 0.0) if why else _read(output)
        layers = layers_of(recording.whole, took_s)
        findings = findings_of(recording)
        case = Case(
            spec,
            took_s,
            both,
            layers,
            findings,
            self._below.file_system,
            self._below.devices,
            *_bytes_of(recording, fio.pid),
            own_limits(self._below.carriers),
            _link_bytes_per_s(recording),
            watched_layers(recording.whole),
        )
        if why:
            verdict = refused("failed", f"{'the test' if is_ours else 'fio'} failed: {why}")
        elif not figures:
            verdict = refused("failed", "it did nothing")
        else:
            verdict = judge(case)
        return Run(
            begin_unix_s,
            end_unix_s,
            figures,
            verdict,
            name,
            output.name,
            rival=rival,
            layers=layers,
            findings=findings,
            disturbances=disturbances_of(spec, recording, cpu, (governors(), frequency_khz())),
        )

    def _prepare(self, spec: TestSpec) -> None:
        if self._folder is None:
            return
        is_ours = spec.kind == "metadata"
        if spec.kind == "commit" or is_ours or (spec.files and spec.rw == "write"):
            self._folder.make_small_files()
        if is_ours:
            self._make_files(spec)
        # Write back what the previous test left in memory now, not during this one.
        fd = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _libc.syncfs(fd)
        os.close(fd)

    def _make_files(self, spec: TestSpec) -> None:
        """Write the files of a metadata test; none of their data stays in memory."""
        self._callbacks.doing(f"writing {spec.files:,} files", 0.0)
        path = self.directory / "prepare.json"
        files = 0 if spec.rw == "create" else spec.files  # only the directories
        job = small_files_job(msgspec.structs.replace(spec, files=files), "prepare")
        making = self._small_files(job, path)
        self._wait(making)
        if why := making.why_failed():
            cause = f"the files of {spec.name} cannot be written: {why}"
            raise IohError(cause, "Free some space, or set fewer files in the plan")
        path.unlink()

    def _started(self, spec: TestSpec, job: str, output: Path) -> Fio:
        is_ours = spec.kind == "metadata"
        return self._small_files(job, output) if is_ours else Fio(job, self._cwd, output)

    def _small_files(self, job: str, output: Path) -> Fio:
        words = (sys.executable, "-I", "-", job)
        return Fio(_SMALL_FILES, str(Path(self._cwd, FILES)), output, words)

    def _wait(self, fio: Fio, seconds: float | None = None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        try:
            while fio.poll() is None and (until is None or time.monotonic() < until):
                self._stop_if_asked()
                time.sleep(_POLL_S)
        except BaseException:
            fio.stop()
            raise

    def _stop_if_asked(self) -> None:
        if self._callbacks.is_stopped():
            raise StoppedError


def test_of(spec: TestSpec, runs: tuple[Run, ...]) -> Test:
    """Combine runs: the one with the median rate is shown, for a steady test the last one."""
    rates = [run.ops_per_s for run in runs]
    shown = len(runs) - 1 if spec.agree_pct else rates.index(statistics.median_low(rates))
    compared = rates[-2:] if spec.agree_pct else rates
    middle = statistics.median_low(compared)
    spread = (max(compared) - min(compared)) / middle * 100 if len(runs) > 1 and middle else None
    runs_of_verdict = runs[-2:] if spec.agree_pct else runs
    verdicts = [run.verdict for run in runs_of_verdict if not run.verdict.ok]
    verdict = verdicts[0] if verdicts else runs[shown].verdict
    if verdict.ok and spec.agree_pct and not _agree(list(runs), spec.agree_pct):
        verdict = refused(
            "unsteady",
            f"no two windows agreed within {spec.agree_pct:g} % in {spec.limit_s:g} s",
            *(f"{rate:,.0f} operations a second" for rate in compared),
        )
    return Test(spec, runs, shown, verdict, spread)


def _agree(runs: list[Run], pct: float) -> bool:
    """Whether the last two windows have the same length and, within ``pct``, the same rate."""
    if not runs or len(runs) % 2:
        return False
    earlier, later = (run.ops_per_s for run in runs[-2:])
    return abs(later - earlier) <= pct / 100 * max(earlier, later)


def _read(output: Path) -> tuple[dict[str, Figures], dict[str, Figures], dict[str, Figures], float]:
    """The figures of the test, of its rival, and of both; and the test's duration."""
    jobs = read_json(output)
    own = [job for job in jobs if job["jobname"] != "rival"]
    rivals = [job for job in jobs if job["jobname"] == "rival"]
    took_s = max((run_s_of(job) for job in own), default=0.0)
    return figures_of(own), figures_of(rivals), figures_of(jobs), took_s


def _bytes_of(recording: RecordedRun, fio_pid: int) -> tuple[int | None, dict[str, int]]:
    """Bytes that fio read from the devices, and bytes that other programs read and wrote."""
    own: int | None = None
    others: dict[str, int] = {}
    layer = recording.whole.layers.get("block")
    seconds = getattr(layer, "interval_s", 0.0)
    rows = recording.whole.rows("block", "process")
    for row in rows:
        pid, comm = row.key
        reads, writes = (
            round((row.values.get(f"{op}_bytes_per_s") or 0.0) * seconds)
            for op in ("read", "write")
        )
        if pid == str(fio_pid):
            own = (own or 0) + reads  # two names: it was ioh before exec
        elif reads + writes and not comm.startswith(_KERNELS):
            others[f"{printable(comm)}[{pid}]"] = reads + writes
    if own is None and rows and all(row.key[0] != OTHERS for row in rows):
        own = 0
    return own, others


def _link_bytes_per_s(recording: RecordedRun) -> float | None:
    """The total speed of all links with traffic; None if one is unknown."""
    speeds = [
        row.values.get("speed_bits_per_s")
        for row in recording.whole.rows("tcp", "interface")
        if row.values.get("in_packets_per_s")
    ]
    return sum(s for s in speeds if s) / 8 if speeds and all(speeds) else None
