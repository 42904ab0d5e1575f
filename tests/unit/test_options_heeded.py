"""Every option does something, or is refused in one line: none is silently ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.commands import main
from ioh.model.errors import ExitCode
from tests.sessions import Shown


@pytest.mark.parametrize("command", [["text"], ["replay", "--as-text"], ["report"]])
def test_a_number_of_rows_shows_them(command: list[str], session_file: Path, shown: Shown) -> None:
    assert "---- top " not in shown(*command, session_file)
    assert "---- top " not in shown(*command, session_file, "--top", "0")
    for rows in ("1", "5", "all"):
        told = shown(*command, session_file, "--top", rows)
        assert told == shown(*command, session_file, "--top", rows, "-d", _with_top(command))
        assert "---- top platter queues ----" in told
    files = shown(*command, session_file, "--top", "3", "-d", "topfile")
    assert "---- top platter queues ----" not in files


def _with_top(command: list[str]) -> str:
    return "hist,top" if command[0] == "report" else "top"


@pytest.mark.parametrize("command", ["report", "compare", "text"])
def test_histograms_have_the_width_that_is_asked_for(
    command: str, session_file: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(session_file)
    words = [command, path, *([path] if command == "compare" else ["-d", "hist"])]
    plain = shown(*words)
    monkeypatch.setenv("CWIDTH", "9")
    wide = shown(*words)
    monkeypatch.setenv("PAD", "|")
    padded = shown(*words)
    assert len({plain, wide, padded}) == 3
    monkeypatch.setenv("CWIDTH", "x")
    assert main(words) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["report", "FILE", "--top", "-3"], "--top: must be a number of rows, or all"),
        (["text", "FILE", "--layers", "wire", "--no-layer", "wire"], "leave nothing to show"),
        (["json", "FILE", "--layers", ","], "leave nothing to show. Its layers: program, "),
        (["export", "FILE", "--layers", "wire", "--no-layer", "wire"], "leave nothing to show"),
        (["export", "FILE", "--format=openmetrics", "--from=99999"], "no interval in that part"),
        (["export", "FILE", "--top", "3"], "csv has no breakdowns. Give --format jsonl"),
        (["export", "FILE", "--top", "10", "--format=openmetrics"], "openmetrics has no breakdown"),
        (["export", "FILE", "--findings-config", "x"], "--findings-config has no effect: csv"),
        (["text", "FILE", "-d", "hist,findings", "--no-findings"], "--no-findings contradict"),
        (["report", "FILE", "-d", "findings", "--no-findings"], "--no-findings contradict"),
        (["demo", "--json", "-d", "hist"], "-d works only with text: JSON has everything"),
    ],
)
def test_what_has_no_meaning_is_refused(
    words: list[str], cause: str, session_file: Path, refused: Shown
) -> None:
    assert cause in refused(*(session_file if word == "FILE" else word for word in words))
