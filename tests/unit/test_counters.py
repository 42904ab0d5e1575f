"""Per-CPU counters are added up the same way on small machines and, by numpy, on large ones."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.bpf import counters

WORDS = 5


def rows(largest: int) -> st.SearchStrategy[list[list[int]]]:
    row = st.lists(st.integers(0, largest), min_size=WORDS, max_size=WORDS)
    return st.lists(row, min_size=12, max_size=12)


def packed(cpus: list[list[int]]) -> bytes:
    return b"".join(struct.pack(f"={WORDS}Q", *row) for row in cpus)


def summed(cpus: list[list[int]]) -> list[int]:
    return [sum(column) % 2**64 for column in zip(*cpus, strict=True)]


@pytest.mark.parametrize("few", [0, 12])
@given(cpus=rows(2**60 - 1))
def test_counts_of_events(few: int, cpus: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "FEW_CPUS", few)
        assert list(counters.sum_counts(packed(cpus), WORDS, 2)) == summed(cpus)[2:]


@given(cpus=rows(2**64 - 1))
def test_the_first_counters_of_a_value(cpus: list[list[int]]) -> None:
    assert counters.sum_columns(packed(cpus), WORDS, 3) == summed(cpus)[:3]


@pytest.mark.parametrize("few", [0, 12])
@pytest.mark.parametrize("cpu_count", [1, 3])
@given(cpus=rows(2**62 - 1))
def test_the_first_counters_of_many_values(few: int, cpu_count: int, cpus: list[list[int]]) -> None:
    entries = [cpus[at : at + cpu_count] for at in range(0, len(cpus), cpu_count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "FEW_CPUS", few)
        found = counters.sum_entries(packed(cpus), WORDS, cpu_count, 3)
    assert found == [tuple(summed(entry)[:3]) for entry in entries]


@pytest.mark.parametrize("few", [0, 12])
def test_of_no_values_there_is_nothing(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(counters, "FEW_CPUS", few)
    assert counters.sum_entries(b"", WORDS, 2, 3) == []


@pytest.mark.parametrize(("cpus", "is_imported"), [(4, "False"), (5, "True")])
def test_a_small_machine_does_without_numpy(cpus: int, is_imported: str) -> None:
    program = (
        "import sys; from ioh.bpf import maps\n"
        f"maps.possible_cpus = lambda: {cpus}\n"
        "maps.preload(); print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (is_imported, "")
