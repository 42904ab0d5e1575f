"""What rules call things in their sentences."""

from __future__ import annotations

import pytest

from ioh.findings.format_sentence import program
from ioh.model.sample import others_key


@pytest.mark.parametrize(
    ("key", "wanted"), [(("4121", "fio"), "fio[4121]"), (others_key(2), "many programs")]
)
def test_a_program_is_named_and_the_row_of_the_others_is_none(
    key: tuple[str, ...], wanted: str
) -> None:
    assert program(key, "many programs") == wanted
