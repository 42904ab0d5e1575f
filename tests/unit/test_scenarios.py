"""The rules over recordings of scenarios that were played on a real kernel.

``python -m tests.scenarios.make`` and ``python -m tests.vm.make_scenarios`` make them anew, as
root.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.table import render_table
from tests.scenarios.verdict import RECORDINGS, complaint, judge
from tests.vm.catalogue import VM_SCENARIOS

EVERY = {**SCENARIOS, **VM_SCENARIOS}
README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("name", EVERY)
def test_the_rules_say_what_is_wrong_and_no_more(name: str) -> None:
    assert complaint(EVERY[name], judge(RECORDINGS / f"{name}.ioh", EVERY[name].sign)) == ""


def test_every_recording_has_its_scenario() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.ioh")} == set(EVERY)


def test_the_readme_has_the_table_of_these_recordings() -> None:
    """``python -m tests.scenarios.table`` prints it."""
    assert render_table() in README.read_text(encoding="utf-8")
