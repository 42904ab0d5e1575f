"""results.json: what is kept comes back, and what is no such file is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.bench.results import (
    FILE_NAME,
    HIST_COLUMNS,
    BenchDevice,
    BenchVerdict,
    Conditions,
    Figures,
    LayerFigures,
    Results,
    Run,
    Test,
    TestSpec,
    load,
    save,
)
from ioh.model.errors import IohError


def made() -> Results:
    conditions = Conditions(
        host="db01", kernel="6.1", machine="x86_64", cpu="", cpus=2, memory_bytes=1 << 34,
        cache_bytes=0, target="/mnt/data", file_system="ext4", mount_options="rw",
        source="/dev/sda1",
        devices=(BenchDevice("sda", rotational=True, limits={"nr_requests": "64"}),),
        governor="", io_limits=(), fio_version="fio-3.33", ioh_version="1", plan="card",
        plan_text="", command="ioh bench /mnt/data", size_bytes=1 << 30,
    )  # fmt: skip
    spec = TestSpec("randread-8k-1u", "randread", "randread", 8192)
    figures = Figures(ops=7, bytes=57344, mean_us=10.5, hist=(7,) + (0,) * 15)
    run = Run(
        1.0, 2.0, {"read": figures}, BenchVerdict(ok=True), "randread-8k-1u", "randread-8k-1u.json",
        layers=(LayerFigures("block", "Disk", "read", figures, "sda"),),
    )  # fmt: skip
    return Results(1, conditions, (spec, spec), (Test(spec, (run,), 0, run.verdict),))


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    results = made()
    save(results, str(tmp_path))
    assert load(str(tmp_path)) == results == load(str(tmp_path / FILE_NAME))
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert not results.is_complete
    assert len(results.tests[0].run.fio["read"].hist) == len(HIST_COLUMNS)


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"version": 1, "planned": 3}'])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(IohError, match=r"results\.json cannot be read: ."):
        load(str(tmp_path))


def test_results_of_a_later_ioh_are_refused(tmp_path: Path) -> None:
    save(made(), str(tmp_path))
    file = tmp_path / FILE_NAME
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(IohError, match="has version 9, and this ioh reads 1"):
        load(str(tmp_path))
