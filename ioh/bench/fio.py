"""Run fio as a child that cannot outlive ioh, and read its JSON."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ioh.bench.results import HIST_COLUMNS, HIST_EDGES_US, METADATA, Figures
from ioh.model.errors import ExitCode, IohError
from ioh.model.hist import has_percentile
from ioh.model.printable import printable
from ioh.rights.process import die_with
from ioh.rights.user import give_root_up

_N = TypeVar("_N", int, float)
MAX_JSON_BYTES = 64 << 20
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EDGES_NS = tuple(edge * 1000 for edge in HIST_EDGES_US.values())
_QUANTILES = {
    "p50_us": 0.5,
    "p95_us": 0.95,
    "p99_us": 0.99,
    "p995_us": 0.995,
    "p999_us": 0.999,
    "p9995_us": 0.9995,
    "p9999_us": 0.9999,
}


def program(name: str, install: str) -> str:
    """Find a program; with root's rights, in the system's directories only.

    IohError: it is not installed.
    """
    path = shutil.which(name, path=_SYSTEM_PATH if 0 in os.getresuid() else None)
    if path is None:
        cause = f"{name} is not installed"
        raise IohError(cause, f"Install it: apt install {install}", ExitCode.UNAVAILABLE)
    return path


def fio_version() -> str:
    """The installed fio's version; IohError if there is none."""
    command = [program("fio", "fio"), "--version"]
    process = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        preexec_fn=give_root_up,
    )  # fmt: skip
    return printable(process.stdout.strip(), 80)


class Fio(subprocess.Popen[bytes]):
    """One run of fio in a folder, with its job from stdin and its JSON to a file.

    ``command`` runs another program with that stdin, which writes such JSON.  Raises OSError if it
    cannot be started, or the file cannot be created.
    """

    def __init__(self, job: str, folder: str, output: Path, command: Sequence[str] = ()) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(output, flags, 0o600)
        try:
            super().__init__(
                command or [program("fio", "fio"), "--output-format=json+", "--eta=never", "-"],
                stdin=subprocess.PIPE,
                stdout=fd,
                stderr=subprocess.PIPE,
                cwd=folder,
                start_new_session=True,  # so that Ctrl-C goes to ioh only
                preexec_fn=partial(die_with, os.getpid()),  # one thread forks
            )
        finally:
            os.close(fd)
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended: see why_failed()
                self.stdin.write(job.encode("utf-8", "surrogateescape"))
                self.stdin.close()

    def stop(self) -> None:
        """Kill it, and wait for it and its children; fio's jobs are its threads."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self.stderr is not None:
            self.stderr.read()  # which each of them has open
            self.stderr.close()

    def why_failed(self) -> str:
        """Wait for its end; return its last message if it failed, else ""."""
        raw = b"" if self.stderr is None else self.stderr.read(1 << 16)
        code = self.wait()
        if code == 0:
            return ""
        lines = [line.strip() for line in raw.decode("utf-8", "replace").split("\n")]
        messages = [line for line in lines if line and not line.startswith("note:")]
        return printable(messages[-1] if messages else f"fio ended with status {code}", 300)


def read_json(path: Path) -> list[Mapping[str, Any]]:
    """The jobs in fio's JSON, after any messages of fio; IohError if it is invalid."""
    with path.open("rb") as file:
        raw = file.read(MAX_JSON_BYTES)
    begin = re.search(rb"^\{", raw, re.MULTILINE)
    try:
        output = msgspec.json.decode(raw[begin.start() if begin else 0 :])
        return list(output["jobs"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        cause = f"fio's output {path} is not its JSON: {error}"
        raise IohError(cause, "Run fio by hand with the .fio file next to it") from None


def figures_of(jobs: list[Mapping[str, Any]]) -> dict[str, Figures]:
    """fio's figures of each active direction, for all these jobs together.

    Raises IohError if fields are missing.
    """
    by_direction: dict[str, Figures] = {}
    try:
        for direction in dict.fromkeys(name for job in jobs for name in _directions(job)):
            of_it = [job[direction] for job in jobs if direction in _directions(job)]
            results = [result for result in of_it if result["total_ios"]]
            if results:
                by_direction[direction] = _direction(results)
        # Not its total_ios, which is 0 if jobs are reported as a group.
        syncs = [(job, lat) for job in jobs if (lat := job.get("sync", {}).get("lat_ns", {}))]
        syncs = [(job, lat) for job, lat in syncs if lat.get("N")]
        if syncs:
            figures = _latency([lat for _, lat in syncs])
            took_s = max(run_s_of(job) for job, _ in syncs)
            rate = figures.ops / took_s if figures.ops and took_s else None
            by_direction["sync"] = msgspec.structs.replace(figures, iops=rate)
    except (KeyError, TypeError, ValueError) as error:
        cause = f"this fio's JSON lacks a field that ioh reads: {error}"
        raise IohError(cause, "Use fio 3.0 or later") from None
    return by_direction


def run_s_of(job: Mapping[str, Any]) -> float:
    """The runtime of a group of jobs: that of its longest direction."""
    return max(float(job[name]["runtime"]) for name in _directions(job)) / 1000


def _directions(job: Mapping[str, Any]) -> Iterator[str]:
    """Those of fio, or of small_files.py."""
    own = [name for name in METADATA if name in job]
    yield from own or ("read", "write", "trim")


def _direction(raws: list[Mapping[str, Any]]) -> Figures:
    # Engines without separate submission (filecreate) report no lat_ns.
    latencies = [raw["lat_ns"] if raw["lat_ns"].get("bins") else raw["clat_ns"] for raw in raws]
    return msgspec.structs.replace(
        _latency(latencies),
        ops=sum(int(raw["total_ios"]) for raw in raws),
        bytes=_sum(raws, "io_bytes", int),
        bytes_per_s=_sum(raws, "bw_bytes", float),
        iops=sum(float(raw["iops"]) for raw in raws),
    )


def _sum(raws: list[Mapping[str, Any]], name: str, kind: type[_N]) -> _N | None:
    """The sum of a field; None if the calls move no bytes, so that none has it."""
    return sum((kind(raw[name]) for raw in raws), kind()) if name in raws[0] else None


def _latency(raws: list[Mapping[str, Any]]) -> Figures:
    """Merge fio's latencies; percentiles come from the bins, as in fio."""
    counts = [int(raw["N"]) for raw in raws]
    ops = sum(counts)
    bins: dict[float, int] = {}
    for raw in raws:
        for ns, count in raw.get("bins", {}).items():
            bins[float(ns)] = bins.get(float(ns), 0) + int(count)
    mean = sum(raw["mean"] * n for raw, n in zip(raws, counts, strict=True)) / max(1, ops)
    squares = sum(
        n * (raw["stddev"] ** 2 + (raw["mean"] - mean) ** 2)
        for raw, n in zip(raws, counts, strict=True)
    )
    percentiles = {
        name: _rank(bins, quantile) / 1000
        for name, quantile in _QUANTILES.items()
        if bins and has_percentile(ops, quantile)
    }
    return Figures(
        ops=ops,
        mean_us=mean / 1000,
        min_us=min(raw["min"] for raw in raws) / 1000,
        max_us=max(raw["max"] for raw in raws) / 1000,
        std_us=(raws[0]["stddev"] if len(raws) == 1 else (squares / max(1, ops)) ** 0.5) / 1000,
        hist=columns(bins),
        **percentiles,  # type: ignore[arg-type]
    )


def _rank(bins: Mapping[float, int], quantile: float) -> float:
    """The bin that holds a quantile, as in fio."""
    rank, total = quantile * sum(bins.values()), 0
    for ns in sorted(bins):
        total += bins[ns]
        if total >= rank:
            break
    return ns


def columns(counts_by_ns: Mapping[float, int]) -> tuple[int, ...]:
    """Sort counts by latency into HIST_COLUMNS; () for none."""
    counts = [0] * len(HIST_COLUMNS)
    for ns, count in counts_by_ns.items():
        counts[bisect_left(_EDGES_NS, ns)] += count
    return tuple(counts) if counts_by_ns else ()
