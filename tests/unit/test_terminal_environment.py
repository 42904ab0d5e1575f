"""What textual would misread from the environment."""

from __future__ import annotations

import os

import pytest

from ioh.commands.terminal import screen_size
from ioh.terminal.driver import correct_environment


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
    size = os.terminal_size((columns, lines))
    monkeypatch.setattr(os, "get_terminal_size", lambda _=1: size)


def test_a_terminal_that_says_its_size_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 80, 24)
    correct_environment()
    assert not {"COLUMNS", "LINES"} & set(os.environ)
    assert screen_size() == (80, 24)


def test_a_terminal_without_a_size_is_as_large_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal(monkeypatch, 0, 0)
    correct_environment()
    assert (os.environ["COLUMNS"], os.environ["LINES"]) == ("120", "40")
    assert screen_size() == (120, 40), "the first picture is as large as the screen"
    monkeypatch.delenv("COLUMNS")
    assert screen_size() == (80, 40)


def test_without_a_terminal_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int = 1) -> os.terminal_size:
        raise OSError(fd)

    monkeypatch.setattr(os, "get_terminal_size", fail)
    correct_environment()
    assert (os.environ["COLUMNS"], os.environ["LINES"]) == ("120", "40")
