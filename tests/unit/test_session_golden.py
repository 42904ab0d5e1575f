"""A recording of each released format, read for ever; IOH_REGENERATE_GOLDEN=1 renews the text."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.model.errors import IohError
from ioh.session.check import check
from ioh.session.reader import Session
from ioh.session.stream import Tick
from tests import fakes

DATA = Path(__file__).parents[1] / "data"
GOLDEN = Path(__file__).parents[1] / "golden" / "session"


@pytest.fixture(params=["session-v1", "session-v2"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of each format, as this ioh reads it: of an older one, what it is converted to."""
    path = DATA / f"{request.param}.ioh"
    if request.param == "session-v2":
        return path
    converted = tmp_path / "converted.ioh"
    found = check(str(path), str(converted))
    assert (found.ticks, found.lost_ticks, found.faults) == (68, 0, [])
    return converted


def test_the_session_of_each_format_holds_what_was_put_in(recording: Path) -> None:
    samples = list(itertools.islice(fakes.seeded(), 70))
    with Session(str(recording)) as session:
        told = [item.sample for item in session.items() if isinstance(item, Tick)]
        assert told == samples[:64] + samples[66:]
        assert session.sample_at(64) == samples[66]
        assert [mark.text for mark in session.marks()] == ["format version 1", "half way \x1b[31m"]
        (gap,) = session.gaps()
        assert (gap.text, gap.tick) == ("No space left on device", 64)
        assert session.is_ended
    found = check(str(recording))
    assert (found.ticks, found.faults, found.is_ended) == (68, [], True)
    assert found.header is not None
    assert found.header.format_version == 2


def test_of_format_1_all_before_a_cut_or_damage_is_converted(tmp_path: Path) -> None:
    data = (DATA / "session-v1.ioh").read_bytes()
    hurt = data[:30_000] + bytes([data[30_000] ^ 1]) + data[30_001:]
    copies = []
    for name, piece in (("cut", data[:30_000]), ("hurt", hurt)):
        path, new = tmp_path / f"{name}.ioh", tmp_path / f"{name}-new.ioh"
        path.write_bytes(piece)
        if name == "cut":
            found = check(str(path), str(new))
            assert (found.is_torn, found.is_ended, len(found.faults)) == (True, False, 1)
        else:
            with pytest.raises(IohError, match=r"byte \d+ of a recording of format 1 is damaged"):
                check(str(path), str(new))
        with Session(str(new)) as session:
            copies.append([item.sample for item in session.ticks(0)])
    assert copies[0] == copies[1]
    samples = list(itertools.islice(fakes.seeded(), 64))
    assert copies[0] == samples[: len(copies[0])]
    assert 10 < len(copies[0]) < 64


def test_its_text_is_as_committed(
    recording: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["text", str(recording), "-c", "20", "--utc", "-d", "hist,topfile"]) == 0
    printed = capfdbinary.readouterr().out
    path = GOLDEN / "session.txt"
    if os.environ.get("IOH_REGENERATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(printed)
    assert printed == path.read_bytes()
