"""Text and JSON byte for byte, and a recording of each released format, readable for ever.

IOH_REGENERATE_GOLDEN=1 rewrites the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.model.sample import Sample
from ioh.pipeline import snapshots
from ioh.session.check import check
from ioh.session.reader import Session
from ioh.sinks.histogram import HistStyle
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from tests.support import fakes

GOLDEN = Path(__file__).parent.parent / "golden"


def text(*sections: str, style: HistStyle | None = None) -> Callable[[], TextSink | JsonSink]:
    options = TextOptions(frozenset(sections), hist=style or HistStyle(), utc=True)
    return lambda: TextSink(options)


CASES: dict[str, tuple[Callable[[], TextSink | JsonSink], Callable[[], Iterable[Sample]]]] = {
    "text/plain.golden": (text(), lambda: fakes.first(4)),
    "text/all.golden": (text("all"), lambda: fakes.first(3)),
    "text/hist_cwidth_pad.golden": (
        text("hist", "histsz", style=HistStyle(column_width=8, pad="|")),
        lambda: fakes.first(2),
    ),
    "text/topfile_wide.golden": (
        text("topfile", "top", style=HistStyle(width=132)),
        lambda: fakes.first(2),
    ),
    "text/quiet.golden": (text("all"), lambda: fakes.quiet(3)),
    "json/top2.golden": (lambda: JsonSink(top=2), lambda: fakes.first(3)),
    "json/all_rows.golden": (lambda: JsonSink(top=None), lambda: fakes.first(2)),
    "json/quiet.golden": (JsonSink, lambda: fakes.quiet(2)),
}


def assert_as_committed(name: str, printed: bytes) -> None:
    path = GOLDEN / name
    if os.environ.get("IOH_REGENERATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(printed)
    assert printed == path.read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_committed(name: str) -> None:
    make_sink, samples = CASES[name]
    sink = make_sink()
    printed = "".join(map(sink.render, snapshots(samples()))).encode("utf-8")
    assert_as_committed(name, printed)


def test_every_golden_file_has_its_case() -> None:
    assert {str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*.golden")} == set(CASES)


RECORDING = Path(__file__).parents[1] / "data" / "session-v2.ioh"


def test_the_recording_holds_what_was_recorded() -> None:
    samples = fakes.first(70)
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


def test_text_of_the_recording_is_as_committed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["text", str(RECORDING), "-c", "20", "--utc", "-d", "hist,topfile"]) == 0
    printed = capfdbinary.readouterr().out
    assert_as_committed("session/session.txt", printed)
