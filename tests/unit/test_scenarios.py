"""The rules over recordings of scenarios that were played on a real kernel.

``python -m tests.scenarios.make`` and ``python -m tests.vm.make_scenarios`` make them anew, as
root.
"""

from __future__ import annotations

import pytest

from tests.programs.catalogue import DB_SCENARIOS, PROGRAMS
from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.table import PAGE, page
from tests.scenarios.verdict import RECORDINGS, complaint, judge_recorded
from tests.vm.catalogue import VM_SCENARIOS

EVERY = {**SCENARIOS, **VM_SCENARIOS, **DB_SCENARIOS, **PROGRAMS}


@pytest.mark.parametrize("name", EVERY)
def test_the_rules_say_what_is_wrong_and_no_more(name: str) -> None:
    assert complaint(EVERY[name], judge_recorded(name, EVERY[name].sign)) == ""


_WRONG = [("sync_log", "sync_writes"), ("misaligned_writes", "read_before_write")]


@pytest.mark.parametrize(("name", "rule"), _WRONG)
def test_what_is_wrong_is_a_warning(name: str, rule: str) -> None:
    assert judge_recorded(name, EVERY[name].sign).last[rule].severity == "warning"


def test_every_recording_has_its_scenario() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.ioh")} == set(EVERY)


def test_the_page_of_findings_is_current() -> None:
    """``python -m tests.scenarios.table`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
