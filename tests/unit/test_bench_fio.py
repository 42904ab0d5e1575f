"""fio's JSON, recorded: every figure of ioh's is fio's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioh.bench.fio import columns, figures_of, read_json, run_s_of
from ioh.bench.results import HIST_COLUMNS
from ioh.model.errors import IohError

RECORDED = Path(__file__).parents[1] / "data" / "fio" / "commit-and-reader.json"


def test_every_figure_is_fios_own() -> None:
    commit, rival = read_json(RECORDED)
    found = figures_of([commit])
    assert sorted(found) == ["sync", "write"]
    raw, write = commit["write"], found["write"]
    assert (write.ops, write.bytes) == (raw["total_ios"], raw["io_bytes"])
    assert (write.iops, write.bytes_per_s) == (raw["iops"], raw["bw_bytes"])
    latency = raw["lat_ns"]
    told = latency["percentile"]
    assert write.mean_us == pytest.approx(latency["mean"] / 1000)
    assert (write.min_us, write.max_us) == (latency["min"] / 1000, latency["max"] / 1000)
    assert write.std_us == latency["stddev"] / 1000
    assert (write.p50_us, write.p99_us) == (told["50.000000"] / 1000, told["99.000000"] / 1000)
    assert write.p999_us == told["99.900000"] / 1000
    assert write.p9999_us is None  # of some thousand operations
    assert sum(write.hist) == write.ops
    sync = commit["sync"]["lat_ns"]
    assert (found["sync"].ops, found["sync"].max_us) == (sync["N"], sync["max"] / 1000)
    assert found["sync"].iops == pytest.approx(sync["N"] / run_s_of(commit))
    assert list(figures_of([rival])) == ["read"]


def test_several_jobs_are_added_up_from_their_bins() -> None:
    _, rival = read_json(RECORDED)
    one, two = figures_of([rival])["read"], figures_of([rival, rival])["read"]
    assert one.ops is not None
    assert (two.ops, two.hist) == (2 * one.ops, tuple(2 * count for count in one.hist))
    for name in ("mean_us", "std_us", "p50_us", "p95_us", "p99_us", "p999_us", "min_us", "max_us"):
        assert getattr(two, name) == pytest.approx(getattr(one, name)), name


def test_the_columns_are_fioparses() -> None:
    counts = columns({50_000: 1, 50_001: 2, 1_000_000: 3, 2e9: 4, 2.1e9: 5})
    assert dict(zip(HIST_COLUMNS, counts, strict=True)) == {
        **dict.fromkeys(HIST_COLUMNS, 0), "us50": 1, "us100": 2, "ms1": 3, "s2": 4, "s5": 5
    }  # fmt: skip
    assert columns({}) == ()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"jobs": 3}', "fio: odd\n"])
def test_what_is_no_json_of_fios_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(IohError, match="is not its JSON"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("without", ["write", "lat_ns"])
def test_json_that_lacks_a_field_is_one_line(without: str) -> None:
    commit = json.loads(json.dumps(read_json(RECORDED)[0]))
    commit.pop(without, None)
    commit.get("write", {}).pop(without, None)
    with pytest.raises(IohError, match="lacks a field that ioh reads"):
        figures_of([commit])
