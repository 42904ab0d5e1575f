"""Plays each scenario on this machine's kernel, recorded by one ioh, and judges its findings.

Nothing is kept.  A scenario takes half a minute, and ioh one minute to start: CI plays some.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.verdict import complaint, judge
from tests.vm.catalogue import VM_SCENARIOS
from tests.vm.make_scenarios import play, recorder
from tests.vm.recorder import Recorder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    with recorder(tmp_path_factory.mktemp("recording")) as started:
        yield started


@pytest.mark.parametrize("name", VM_SCENARIOS)
def test_the_rules_say_what_is_wrong_and_no_more(
    running: Recorder, tmp_path: Path, name: str
) -> None:
    scenario, recording = VM_SCENARIOS[name], tmp_path / "s.ioh"
    play(scenario, running, recording)
    assert complaint(scenario, judge(recording, scenario.sign)) == ""
