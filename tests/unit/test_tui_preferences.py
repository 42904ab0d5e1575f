"""Choices made on the screen are there the next time; an invalid file is not used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.tui.options import ScreenOptions
from ioh.tui.preferences import FILE_NAME, MAX_BYTES, Preferences, read, save
from ioh.tui.state import TableState, ViewState
from tests.support.screen_player import FakePlayer, Stage, on_screen, stage
from tests.support.screens import FINDINGS, minute

CHOSEN = Preferences("light", "heat", {"block": TableState("device", "write_bytes_per_s", True)})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "ioh"


def test_what_was_chosen_is_remembered(folder: Path) -> None:
    assert read() == (Preferences(), "")
    assert save(Preferences(), CHOSEN) == ""
    assert read() == (CHOSEN, "")
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]
    assert CHOSEN.state().panel == "heat"
    assert CHOSEN.state().table_of("block").sort == "write_bytes_per_s"


def test_only_choices_are_remembered() -> None:
    """Neither the place of a cursor nor a filter."""
    state = ViewState(screen="help", layer="block", scroll=7, pattern="sda")
    state = state.with_table("block", cursor=3, offset=2)
    assert Preferences.of(state, None) == Preferences()


def test_nothing_is_written_if_nothing_changed(folder: Path) -> None:
    assert save(CHOSEN, CHOSEN) == ""
    assert not folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\xff",
        "[" * 60_000,
        " " * (MAX_BYTES + 1),
        json.dumps({"theme": "pink", "panel": "hist", "tables": {}}),
        json.dumps({"theme": None, "panel": "hist", "tables": {"block": ["\x1b[2J", "", 0]}}),
        json.dumps({"theme": [], "panel": {}, "tables": 3}),
    ],
)
def test_an_invalid_file_is_reported_and_replaced(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / FILE_NAME).write_text(text, encoding="latin-1")
    found, wrong = read()
    assert found == Preferences()
    assert FILE_NAME in wrong
    assert wrong.isprintable()
    assert save(found, CHOSEN) == ""
    assert read() == (CHOSEN, "")


def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (tmp_path / "victim").write_text("whole")
    (folder / f".{FILE_NAME}.{os.getpid()}").symlink_to(tmp_path / "victim")
    assert "cannot save the screen's settings" in save(Preferences(), CHOSEN)
    assert (tmp_path / "victim").read_text() == "whole"


def test_a_failed_save_is_reported(folder: Path) -> None:
    folder.write_text("a file where the directory should be")
    assert "cannot save the screen's settings" in save(Preferences(), CHOSEN)


@pytest.mark.parametrize("rings", [True, False])
def test_a_new_critical_finding_rings_once_if_enabled(
    rings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bells: list[int] = []
    calm = minute()[0]
    bad = replace(calm, findings=(replace(FINDINGS[0], severity="critical"),))
    warned = replace(calm, findings=(replace(FINDINGS[0], severity="warning"),))
    feed = FakePlayer([calm, warned, bad, bad, calm, bad])
    monkeypatch.setattr("ioh.tui.app.IohApp.bell", lambda _: bells.append(feed.told))

    async def flow(on: Stage) -> None:
        for _ in feed.intervals:
            await on.push()

    stage(flow, feed, options=ScreenOptions(bell=rings))
    assert bells == ([3, 6] if rings else [])


@on_screen(lambda: FakePlayer(minute()), remembered=CHOSEN, told=2)
async def test_a_screen_begins_as_the_last_one_ended(on: Stage) -> None:
    assert Preferences.of(on.app.state, on.app.chosen_theme) == CHOSEN
    await on.press("h")
    assert on.app.state.panel == "hist"


@on_screen(lambda: FakePlayer(minute()), remembered=CHOSEN, told=0)
async def test_help_before_the_first_interval_forgets_no_choice(on: Stage) -> None:
    await on.press("question_mark")
    assert "pause / resume" in on.text
    await on.press("escape")
    assert Preferences.of(on.app.state, on.app.chosen_theme) == CHOSEN
