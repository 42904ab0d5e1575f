"""No rule stumbles over numbers that are unknown, zero or absurd, nor says anything unprintable."""

from __future__ import annotations

from random import Random

import pytest

from ioh.findings.engine import Engine
from tests.unit.snapshot_maker import START_S, by_chance


@pytest.mark.parametrize("seed", range(16))
def test_any_snapshot_can_be_judged(seed: int) -> None:
    random, engine = Random(seed), Engine()
    for i in range(60):
        judged = engine.judge(by_chance(random, START_S + i))
        for finding in judged.findings:
            texts = [finding.cause, finding.advice, finding.command, finding.subject]
            texts += [item.text for item in finding.evidence]
            assert all(text.isprintable() for text in texts)
            assert "nan" not in finding.cause.split()
            assert finding.cause.endswith(".")
