"""`ioh export --format parquet`, read by pyarrow and, as docs/recording.md shows, by DuckDB."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from math import isfinite
from pathlib import Path
from random import Random

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from ioh.commands import main
from ioh.model.errors import ExitCode
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, Sample
from ioh.pipeline import snapshots
from ioh.sinks.parquet import ParquetSink
from tests.support import fakes
from tests.support.sessions import Shown, any_samples, recorded

ROOT = Path(__file__).parents[2]
SAMPLES = fakes.first(12)
SQL = re.search(r"```sql\n(.*?)```", (ROOT / "docs" / "recording.md").read_text(), re.DOTALL)


def file_of(samples: list[Sample]) -> pq.ParquetFile:
    sink = ParquetSink()
    data = b"".join(map(sink.render, snapshots(samples))) + sink.finish()
    return pq.ParquetFile(io.BytesIO(data))


def test_all_numbers_equal_those_of_json(session_file: Path, shown: Shown) -> None:
    out = session_file.with_suffix(".parquet")
    assert shown("export", session_file, "--format", "parquet", "-o", out) == ""
    rows = {}
    for row in pq.read_table(out).to_pylist():
        key = (row["time"].timestamp(), row["layer"], row["part"], row["op"])
        assert key not in rows
        rows[key] = row
    seen = set()
    for line in shown("json", session_file).splitlines():
        tick = json.loads(line)
        at = tick["time_unix_s"]
        machine = rows[at, "host", "", ""]
        known = {k: v for k, v in tick["host"].items() if isinstance(v, int | float)}
        assert dict(machine["metrics"]) == pytest.approx(known, abs=1e-6)
        for name, layer in tick["layers"].items():
            own = dict(rows[at, name, "", ""]["metrics"])
            for metric, value in layer["metrics"].items():
                assert own.get(metric) == pytest.approx(value, abs=1e-6)
            assert {
                f"lost_{reason}": n for reason, n in layer["lost"].items()
            }.items() <= own.items()
            parts = {"": layer["ops"], **next(iter(layer["parts"].values()), {})}
            for part, ops in parts.items():
                for op, numbers in ops.items():
                    row = rows[at, name, part, op]
                    hist = numbers.pop("hist", None)
                    assert {k: row[k] for k in numbers} == pytest.approx(numbers, abs=1e-6)
                    operations = sum(bucket["operations"] for bucket in row["latency_hist"] or ())
                    assert operations == (sum(map(sum, hist["counts"])) if hist else 0)
                    seen.add((name, part != "", op))
    assert len(seen) > 10


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(any_samples())
def test_any_recording_becomes_a_file(samples: list[Sample]) -> None:
    for row in file_of(samples).read().to_pylist():
        for text in (row["host"], row["layer"], row["part"], row["op"]):
            assert printable(text) == text
        assert all(isfinite(value) for value in row.values() if isinstance(value, float))


def day_of(host: str, random: Random) -> tuple[list[Sample], dict[int, list[int]]]:
    """A sample each half hour, and how long (ns) the reads of each hour really took."""
    midnight_s = 1_795_219_200  # 21 November 2026, UTC
    op, made = fakes.Op(), []
    truth: dict[int, list[int]] = {}
    for half in range(49):
        if half:
            slow = random.choice((1, 1, 1, 40))
            took = [round(slow * random.lognormvariate(11, 1)) for _ in range(300)]
            truth.setdefault((half - 1) // 2, []).extend(took)
            for latency_ns in took:
                op.add(8192, latency_ns)
        totals = {"read": op.totals()}
        layer = LayerSample("bpf", totals, parts={"sda": totals})
        found = fakes.sample(half, {"platter": layer}, hostname=host)
        at_s = midnight_s - 600 + 1800 * half
        made.append(replace(found, time_unix_s=at_s, mono_ns=(1 + 1800 * half) * 10**9))
    return made, truth


def test_duckdb_knows_the_p99_of_each_host_and_hour(
    tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, hosts = Random(7), [f"db{number:02}" for number in range(1, 3)]
    expected = {}
    for host in hosts:
        samples, truth = day_of(host, random)
        path = tmp_path / f"{host}.ioh"
        path.write_bytes(recorded(samples))
        shown("export", path, "--format", "parquet", "-o", path.with_suffix(".parquet"))
        for hour, took in truth.items():
            expected[host, hour] = sorted(took)[-(-len(took) * 99 // 100) - 1] / 1e3
    assert SQL, "no SQL in docs/recording.md"
    assert len(SQL[1].splitlines()) == 3
    monkeypatch.chdir(tmp_path)
    sql = SQL[1].replace("'block'", "'platter'").replace("'day/", "'").rstrip(";\n")
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'Asia/Kolkata'")  # the hours are those of UTC
        told = database.execute(sql).fetchall()
    hours = [datetime(2026, 11, 21, hour) for hour in range(24)]  # noqa: DTZ001 (as DuckDB has it)
    assert [row[:2] for row in told] == [(host, hour) for host in hosts for hour in hours]
    for host, hour, p99_us in told:
        truth_us = expected[host, hour.hour]
        assert truth_us <= p99_us <= truth_us * 1.0625


@pytest.mark.parametrize("name", ["csv", "jsonl", "openmetrics", "parquet"])
def test_a_file_holds_what_stdout_would(
    name: str, session_file: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = session_file.with_suffix(".out")
    command = ["export", str(session_file), "--format", name]
    assert main([*command, "-o", str(out)]) == 0
    assert capfdbinary.readouterr() == (b"", b"")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert main(command) == 0
    assert capfdbinary.readouterr().out == out.read_bytes()


def test_a_failed_export_leaves_no_file_and_overwrites_none(
    session_file: Path, tmp_path: Path, refused: Shown
) -> None:
    out = tmp_path / "x\x1b.parquet"
    command = ["export", session_file, "--format", "parquet", "-o", out]
    refused(*command, "--from", "99999")
    assert not out.exists()
    out.symlink_to(tmp_path / "precious")
    assert "x\\x1b.parquet exists, and ioh does not overwrite it. Give another" in refused(*command)
    assert not (tmp_path / "precious").exists()
    out = tmp_path / "none" / "x"
    assert "No such file or directory" in refused(*command[:-1], out, code=ExitCode.FAILED)


def test_parquet_is_not_written_to_a_terminal(session_file: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ioh", "export", str(session_file), "--format", "parquet"],
            cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stderr) == (
        ExitCode.USAGE,
        b"ioh: Parquet is binary data and stdout is a terminal. Give -o FILE\n",
    )


def test_without_pyarrow_it_says_what_to_install(
    session_file: Path, tmp_path: Path, refused: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ioh.sinks.parquet", None)
    out = tmp_path / "x.parquet"
    told = refused(
        "export", session_file, "--format", "parquet", "-o", out, code=ExitCode.UNAVAILABLE
    )
    assert "--format parquet needs the Python library pyarrow. Install it: " in told
    assert " -m pip install pyarrow\n" in told
    assert not out.exists()
