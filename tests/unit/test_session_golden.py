"""A recording of each released format, read for ever; IOH_REGENERATE_GOLDEN=1 renews the text."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.session.check import check
from ioh.session.reader import Session
from tests import fakes

GOLDEN = Path(__file__).parents[1] / "golden" / "session"


RECORDING = Path(__file__).parents[1] / "data" / "session-v2.ioh"


def test_the_session_holds_what_was_put_in() -> None:
    samples = list(itertools.islice(fakes.seeded(), 70))
    with Session(str(RECORDING)) as session:
        told = [tick.sample for tick in session.ticks(0)]
        assert told == samples[:64] + samples[66:]
        assert session.sample_at(64) == samples[66]
        assert [mark.text for mark in session.marks()] == ["format version 1", "half way \x1b[31m"]
        (gap,) = session.gaps()
        assert (gap.text, gap.tick) == ("No space left on device", 64)
        assert session.is_ended
    found = check(str(RECORDING))
    assert (found.ticks, found.faults, found.is_ended) == (68, [], True)
    assert found.header is not None
    assert found.header.format_version == 2


def test_its_text_is_as_committed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["text", str(RECORDING), "-c", "20", "--utc", "-d", "hist,topfile"]) == 0
    printed = capfdbinary.readouterr().out
    path = GOLDEN / "session.txt"
    if os.environ.get("IOH_REGENERATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(printed)
    assert printed == path.read_bytes()
