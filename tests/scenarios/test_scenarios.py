"""Play each scenario on this machine's kernel, record and judge it; nothing is kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.make import play
from tests.scenarios.verdict import complaint


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_rules_say_what_is_wrong_and_no_more(name: str) -> None:
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder:
        assert complaint(scenario, play(scenario, Path(folder) / "s.ioh")) == ""
