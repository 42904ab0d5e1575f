"""Grades: exactly the letters of grade.r, bands from data, none if fio missed the storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ioh.bench.card import card_csv, card_text
from ioh.bench.columns import HEAD, read_columns, to_csv
from ioh.bench.grade import (
    Measured,
    card_of,
    chosen_class,
    class_of,
    measured_of,
    read_bands,
)
from ioh.bench.results import BenchDevice
from ioh.model.errors import IohError
from tests.unit.bench_results import CACHED, results

DATA = Path(__file__).parents[1] / "data" / "report-card"
CLASSIC = read_bands("classic")
TODAY = read_bands("today")


def test_eight_published_systems_get_the_letters_of_grade_r() -> None:
    found = read_columns(str(DATA / "results.csv"))
    cards = {system: card_of(tests, CLASSIC, "any") for system, tests in found.items()}
    assert card_csv(cards) == (DATA / "letters.csv").read_text()
    assert len(cards) == 8


@pytest.mark.parametrize(
    ("ms", "letter"), [(0.059, "A+"), (0.06, "A"), (0.12, "B"), (0.4799, "C-"), (0.48, "D")]
)
def test_a_value_on_a_bound_gets_the_worse_letter(ms: float, letter: str) -> None:
    measured = {("randread", 8192, 16): Measured(dict.fromkeys(("mean", "p95", "p99"), ms))}
    assert card_of(measured, TODAY, "nvme").cells[0].letter == letter


def scaled(factor: float) -> Measured:
    return Measured(dict.fromkeys(("mean", "p95", "p99"), 0.1 * factor))


@pytest.mark.parametrize(
    ("factor", "letter", "why"),
    [
        (1.9, "C-", ""),
        (2.0, "D", ""),
        (0.95, "A+", ""),
        (0.8, "?", "with 32 users it is faster than with 16: a cache was used"),
    ],
)
def test_the_scaling_letter_follows_the_growth_of_latency_with_users(
    factor: float, letter: str, why: str
) -> None:
    measured = {("randread", 8192, 16): scaled(1), ("randread", 8192, 32): scaled(factor)}
    cell = card_of(measured, TODAY, "nvme").cells[0]
    assert (cell.scale_letter, cell.scale_why) == (letter, why)


def test_a_refused_test_gets_a_reason_instead_of_a_letter() -> None:
    card = card_of(measured_of(results()), TODAY, "nvme")
    refused = card.cells[1]
    assert (refused.letter, card.letter) == ("?", "?")
    assert refused.why == f"not the storage: {CACHED.sentence}"
    assert [cell.letter for cell in card.cells] == ["B-", "?", "C", "C"]
    text = "\n".join(card_text(card, "db01"))
    assert f"? {refused.why}" in text
    assert text.startswith("report card of db01: latency ?, scaling ?")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([("nvme0n1", "", "nvme")], "nvme"),
        ([("nvme1n1", "Amazon Elastic Block Store", "nvme")], "cloud"),
        ([("vda", "", "virtio", None, True)], "cloud"),
        ([("sda", "", "sata", None, True)], "hdd"),
        ([("sda", "", "sata", None, False)], "sata_ssd"),
        ([("loop0", "", "loop")], ""),
        ([], "nfs"),
    ],
)
def test_the_storage_class_follows_from_device_and_file_system(
    devices: list[tuple[Any, ...]], expected: str
) -> None:
    file_system = "nfs4" if expected == "nfs" else "ext4"
    made = tuple(BenchDevice(*each) for each in devices)
    conditions = msgspec.structs.replace(
        results().conditions, file_system=file_system, devices=made
    )
    assert class_of(conditions) == expected
    if not expected:
        with pytest.raises(IohError, match="class of storage is unknown"):
            chosen_class(TODAY, "", conditions)
    assert chosen_class(CLASSIC, "", conditions) == "any"
    assert chosen_class(TODAY, "hdd", conditions) == "hdd"
    with pytest.raises(IohError, match='no class "tape"'):
        chosen_class(TODAY, "tape", conditions)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("scale = [0.05,", "scale = [0.5,", "scale must be seven ascending"),
        ("ms = [2, 4,", "ms = [4, 4,", "ms must be seven ascending"),
        ("scale_by = 8", "scale_by = 0", "scale_by must be above 0"),
        ("read_1m_1u", "read_2m_1u", "must have exactly these cells"),
        ("title =", "titles =", "unknown field|required field"),
        ("[classes", "[[classes", "Unclosed|Expected"),
    ],
)
def test_invalid_bands_are_refused_with_the_reason(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    text = (Path(__file__).parents[2] / "ioh/bench/bands/classic.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(IohError, match=why):
        read_bands(str(path))
    with pytest.raises(IohError, match=r"bands nowhere\.toml: cannot be read: No such file"):
        read_bands("nowhere.toml")


def test_valid_tests_are_written_in_fioparses_columns_and_read_back(tmp_path: Path) -> None:
    made = results()
    path = tmp_path / "results.csv"
    path.write_text(to_csv(made))
    lines = path.read_text().splitlines()
    assert lines[0] == (DATA / "results.csv").read_text().splitlines()[0] == ",".join(HEAD)
    assert len(lines) == 1 + 7  # not the cached one: it would be graded
    assert to_csv(results(host="=1+1")).splitlines()[1].startswith("'=1+1,randread,16,8K,")
    again = read_columns(str(path))["db01"]
    expected = measured_of(made)
    for key, measured in again.items():
        assert measured.latency_ms == pytest.approx(expected[key].latency_ms)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("system,name\n", "lacks the columns"),
        ("system,name,users,bs,lat,p95_00,p99_00\n", "has no lines"),
        ("system,name,users,bs,lat,p95_00,p99_00\na,read,1,8X,1,2,3\n", "line 2: .*not a size"),
        ("system,name,users,bs,lat,p95_00,p99_00\na,read,1,8K,1,nan,3\n", "line 2: .*not a number"),
        (
            "system,name,users,bs,lat,p95_00,p99_00,us50\na,randread,16,8K,1,2,3,nan\n",
            "line 2: .*histogram",
        ),
    ],
)
def test_an_invalid_csv_file_is_refused_with_the_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(IohError, match=why):
        read_columns(str(path))
