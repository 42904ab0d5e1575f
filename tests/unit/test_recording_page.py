"""`ioh report --html`: one safe, small file with the numbers of the report."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ioh.findings.spans import FindingSpan
from ioh.model.derive import derive
from ioh.model.finding import Evidence, Finding
from ioh.model.hist import LATENCY_BUCKETS, LATENCY_EDGES_US, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.metric import LayerSpec, MetricSpec, TableSpec
from ioh.model.sample import LayerSample, Sample
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.pages.recording import Recorded, render_recording
from ioh.pipeline import snapshots
from tests.support import fakes
from tests.support.screens import layer_of
from tests.support.sessions import Shown, any_samples, recorded, small
from tests.unit.bench_results import HOSTILE

SAMPLES = fakes.first(12)
ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_500_000


def page_of(samples: Sequence[Sample], **options: Any) -> str:
    numbers = {"whole": derive(samples[0], samples[-1]), "columns": snapshots(samples)}
    given_ = {**numbers, "findings": [], **options}
    return render_recording(Recorded("x.ioh", samples[0].time_unix_s, len(samples) - 1, **given_))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_heat_maps_hold_every_operation() -> None:
    page = page_of(SAMPLES, utc=True)
    data, whole = data_of(page), derive(SAMPLES[0], SAMPLES[-1])
    assert len(data["columns"]) == len(SAMPLES) - 1
    # It begins at 15:44:47.25; a column has the time of its end, in seconds of the day.
    assert data["columns"][0] == [15 * 3600 + 44 * 60 + 48.25, 1.0]
    assert data["edges_ms"] == [edge_us / 1e3 for edge_us in LATENCY_EDGES_US]
    found = {heat["label"]: heat for heat in data["heats"]}
    assert {"prog reads", "platter reads", "platter flush"} <= found.keys()
    layer = layer_of(whole, "platter")
    for op, label in (("read", "platter reads"), ("flush", "platter flush")):
        hists = found[label]["hists"]
        assert sum(sum(hist[1:]) for hist in hists) == layer.ops[op].count
        hist = layer.ops[op].size_lat
        assert hist is not None
        by_latency = [0] * 26
        for first, *counts in filter(None, hists):
            for bucket, count in enumerate(counts, first):
                by_latency[bucket] += count
        assert tuple(by_latency) == hist.by_latency()
    for text in ("prog", "platter", "MB/s", "processes", "6.1.0-56-amd64"):
        assert text in page


def test_a_long_recording_has_few_columns(tmp_path: Path, shown: Shown) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(small(400)))
    page = shown("report", path, "--html", "--utc")
    columns = data_of(page)["columns"]
    assert 130 <= len(columns) <= 180
    assert sum(length for _, length in columns) == pytest.approx(399)


def test_the_command_writes_a_page(
    session_file: Path, shown: Shown, refused: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = session_file.with_suffix(".html")
    assert shown("report", session_file, "--html", "-o", out, "--utc") == ""
    page = out.read_text(encoding="utf-8")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "2012-04-24 15:44:47 to 2012-04-24 15:44:58 UTC" in page
    assert "run 3" in page
    assert str(session_file.parent) not in page  # whoever gets the page need not know
    assert len(page.encode()) < MOST_BYTES
    assert re.search(r"https?://", page.split("</style>")[0]) is None
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    assert "s.html exists, and ioh does not overwrite it" in refused(
        "report", session_file, "--html", "-o", out
    )
    told = refused("report", session_file, "--html", "-d", "hist")
    assert "-d works only with text" in told
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "the HTML page would go to the terminal. Give -o FILE.html" in refused(
        "report", session_file, "--html"
    )


def test_without_findings_it_says_that_they_were_not_searched(
    session_file: Path, shown: Shown
) -> None:
    assert "Not searched" in shown("report", session_file, "--html", "--no-findings")
    assert "Not searched" not in shown("report", session_file, "--html")


def test_it_is_utf_8_in_every_locale(session_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ioh", "report", str(session_file), "--html", "--top", "all"],
        cwd=ROOT, env={"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == b""
    assert "数据库.dbf" in done.stdout.decode("utf-8")


def finding(text: str) -> FindingSpan:
    evidence = tuple(Evidence(text, source=text) for _ in range(40))
    told = Finding("x", text, text, "critical", "high", text, evidence,
        text, text, text, text, text, 0.0, text)  # fmt: skip
    return FindingSpan(told, fakes.EPOCH_S, fakes.EPOCH_S + 3)


def forged(name: str, count: int) -> list[Sample]:
    """Many layers, parts, tables and columns, all with such names."""
    columns = tuple(MetricSpec(f"{name}{i}_bytes_total", "counter", name, name) for i in range(40))
    made: list[Sample] = []
    for sample in SAMPLES:
        disk = sample.layers["platter"]
        assert isinstance(disk, LayerSample)
        specs: dict[str, LayerSpec] = {}
        layers: dict[str, LayerSample] = {}
        for i in range(count):
            key = f"{name}{i}"
            tables = tuple(TableSpec(f"{name}{t}", name, (name,) * 3, columns, ()) for t in (1, 2))
            specs[key] = replace(fakes.DISK, name=key, title=name, tables=tables)
            tick = round(sample.time_unix_s - fakes.EPOCH_S)
            rows: Mapping[tuple[str, ...], tuple[int, ...]] = {
                (f"{name}{row}",) * 3: (tick * 10**15,) * 40 for row in range(count * 10)
            }
            layers[key] = replace(
                disk,
                parts={f"{name}{part}": disk.ops for part in range(count)},
                tables={table.name: rows for table in tables},
                notes=(name,) * count,
            )
        made.append(replace(sample, hostname=name, layers=layers, specs=specs))
    return made


def test_hostile_names_are_text() -> None:
    page = page_of(
        forged(HOSTILE, 2), findings=[finding(HOSTILE)], marks=[(0.0, HOSTILE)], remarks=[HOSTILE]
    )
    assert "<img src=x" not in page
    assert "\x1b" not in page
    assert page.count("</script>") == 4
    assert page.count("&lt;img src=x") > 50


def full(whole: Snapshot, ticks: int) -> Iterator[Snapshot]:
    """Intervals of layers that use every bucket."""
    hist = SizeLatencyHist((987_654_321_987_654_321,) * (SIZE_BUCKETS * LATENCY_BUCKETS))
    op = OpStats(1, 2, 1234.567e-9, 1234.567e-9, 1.0, 1234.567, p99_us=1234.567, size_lat=hist)
    for tick in range(ticks):
        layers = {
            name: replace(layer, ops={"read": op, "write": op, "flush": op})
            for name, layer in whole.layers.items()
            if isinstance(layer, LayerSnapshot)
        }
        yield replace(whole, time_unix_s=fakes.EPOCH_S + tick + 0.123, layers=layers)


@pytest.mark.parametrize("name", ["&" * 600, "\udcff" * 600])
def test_no_recording_makes_a_page_that_is_too_large(name: str) -> None:
    samples = forged(name, 14)
    whole = derive(samples[0], samples[-1])
    page = page_of(
        samples,
        whole=next(full(whole, 1)),
        columns=full(whole, 200),
        findings=[finding(name * 3)] * 300,
        marks=[(fakes.EPOCH_S, name)] * 1000,
        remarks=[name] * 99,
        top=None,
    )
    for left_out in ("And 270 more, in the recording", "More: ioh report", "And 90 more rows"):
        assert left_out in page
    assert len(page.encode()) < MOST_BYTES


@settings(max_examples=12)
@given(any_samples())
def test_any_recording_becomes_a_page(samples: list[Sample]) -> None:
    if len(samples) > 1:
        assert "</html>" in page_of(samples)


def test_setting_the_clock_does_not_break_the_page() -> None:
    jumped = [
        replace(s, time_unix_s=t) for s, t in zip(SAMPLES, (5e8, 2e11, 0.0, 4e8), strict=False)
    ]
    assert len(data_of(page_of(jumped))["columns"]) == 3
