"""Numbers on the screen have three digits in one form, a column has one unit."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from ioh.model.metric import MetricSpec
from ioh.sinks.cells import format_duration, format_ms, format_scaled
from ioh.tui.render.breakdown import cell_text, column_title
from ioh.tui.render.help import render_help
from ioh.tui.render.trends import render_chart
from ioh.tui.rows import percent
from ioh.tui.state import ViewState
from tests.support.screens import drawn, kinds, minute

LAST = minute()[-1]
COLUMNS = [
    column
    for spec in LAST.specs.values()
    for table in spec.tables
    for column in table.columns
    if column.title
]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "."), (0.0, "."), (None, "-"), (math.nan, "-"), (0.0004, "<.001"), (0.003, "0.003"),
        (0.94, "0.940"), (0.9996, "1.00"), (2.0, "2.00"), (9.996, "10.0"), (12.0, "12.0"),
        (99.96, "100"), (990.0, "990"), (999.4, "999"), (999.6, "1.00k"), (1040.0, "1.04k"),
        (2000.0, "2.00k"), (7270.0, "7.27k"), (12_345.6, "12.3k"), (3e9, "3.00G"),
        (5, "5"), (999, "999"), (1280, "1.28k"),
    ],
)  # fmt: skip
def test_a_number_has_three_digits_and_a_count_is_whole(value: float | None, shown: str) -> None:
    assert format_scaled(value) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "."), (512, "512"), (1000, "1000"), (1023.7, "1K"), (65_536, "64K"), (84_700, "82.7K"),
        (1 << 20, "1M"), (1_310_720, "1.25M"),
    ],
)  # fmt: skip
def test_a_size_has_no_trailing_zeros(size: float, shown: str) -> None:
    assert format_scaled(size, 1024) == shown


@pytest.mark.parametrize(
    ("us", "beside_its_unit", "in_ms"),
    [
        (0, ".", "."), (None, "-", "-"), (0.45, "450 ns", "<.001"), (2.94, "3 µs", "0.003"),
        (83.2, "83 µs", "0.083"), (999.6, "1.00 ms", "1.00"), (1210.0, "1.21 ms", "1.21"),
        (91_000.0, "91.0 ms", "91.0"), (999_600.0, "1.00 s", "1.00k"),
        (12_300_000.0, "12.3 s", "12.3k"),
    ],
)  # fmt: skip
def test_a_time_has_its_unit_beside_it_or_in_its_title(
    us: float | None, beside_its_unit: str, in_ms: str
) -> None:
    assert format_duration(us) == beside_its_unit
    assert format_ms(us) == in_ms


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0%"), (None, "-"), (0.027, "0.027%"), (3.1, "3.10%"), (35.0, "35.0%"), (100.0, "100%")],
)
def test_a_share_of_nothing_is_a_number(share: float | None, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.derived_name)
def test_a_column_has_one_unit_and_no_number_of_it_is_wider(column: MetricSpec) -> None:
    """An age, of seconds to days, has its unit in the cell."""
    title = column_title(column)
    texts = [cell_text(column, value) for value in (None, 0, 0.003, 7, 990.0, 2e3, 1.04e6, 8e9)]
    units = {re.sub(r"[-<.\d]|(?<=\d)[kKMGTP]$", "", text) for text in texts}
    assert "µs" not in title
    if title in {"age", "for", "xact"}:
        assert units <= {"", " ns", " µs", " ms", " s"}
    else:
        assert units == {""}, "the unit is in the title"
    assert all(len(text) <= max(7 if " " in text else 6, len(title)) for text in texts)


def test_no_number_on_any_screen_is_in_another_form() -> None:
    """Labels of an axis are short: ``.1ms``, ``2s``."""
    zooms = [ViewState(layer=name, chosen=(name, "read")) for name in LAST.specs]
    for state, snapshot in itertools.product([ViewState(), *zooms], kinds().values()):
        text = drawn(snapshot, (200, 60), state).text()
        assert not re.findall(r"\d us\b|\d\.\d+(?:µs|ms|ns|s)\b", text)
        assert not re.findall(r"(?<![\d.])\d[kG]/s|\b(?:iowait|cpu|IOPS|load|dirty) \.", text)


def test_the_forms_are_explained() -> None:
    text = "\n".join(line.text for line in render_help((), 120).lines)
    assert "1.04k" in text


def test_a_chart_of_nothing_has_one_zero() -> None:
    """Not a dot at its top and a 0 at its bottom."""
    scales = [[line.text[:8].strip() for line in render_chart(v, 20, 3)] for v in ([0.0], [2e3])]
    assert scales == [["", "", "0"], ["2.00k", "", "0"]]
