"""results.json: what is kept comes back, and what is no such file is refused in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ioh.bench.results import FILE_NAME, load, save
from ioh.model.errors import IohError
from tests.unit.bench_results import results


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    made = results()
    made = msgspec.structs.replace(made, tests=made.tests[1:])
    save(made, str(tmp_path))
    assert load(str(tmp_path)) == made == load(str(tmp_path / FILE_NAME))
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert not made.is_complete


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"version": 1, "planned": 3}'])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(IohError, match=r"results\.json cannot be read: ."):
        load(str(tmp_path))


def test_results_of_a_later_ioh_are_refused(tmp_path: Path) -> None:
    save(results(), str(tmp_path))
    file = tmp_path / FILE_NAME
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(IohError, match="has version 9, this ioh reads 1"):
        load(str(tmp_path))
