"""What the screen keeps (recordings, pictures, numbers, copies), the mouse, and the palette."""

from __future__ import annotations

import os
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from textual import events
from textual.command import CommandPalette

from ioh.tui import keeping
from ioh.tui.keeping import stem_of, writable_folder, write_new
from ioh.tui.options import ScreenOptions
from tests.demo_samples import START_S
from tests.screen_feed import FakeFeed, Stage, stage
from tests.screens import MOMENTS, judged, minute

Wheel = type[events.MouseScrollDown] | type[events.MouseScrollUp]


def live() -> FakeFeed:
    return FakeFeed(minute(), moments=MOMENTS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_r_starts_and_ends_a_recording() -> None:
    async def flow(on: Stage) -> None:
        await on.push(2)
        await on.press("R")
        assert "recording into a.ioh" in on.lines[-1]
        assert "● REC 00:00:0" in on.lines[0]
        assert "1.2 MB" in on.lines[0]
        await on.press("R")
        assert "recording ended: a.ioh" in on.lines[-1]
        assert "REC" not in on.lines[0]

    feed = live()
    stage(flow, feed)
    assert feed.calls == ["record", "record"]


def test_a_message_goes_away_by_itself_and_with_the_next_key() -> None:
    async def flow(on: Stage) -> None:
        await on.push(2)
        await on.press("R")
        on.app._message_until_s -= 3600
        on.app._check()
        assert "recording" not in on.lines[-1]
        await on.press("R", "down")
        assert "recording" not in on.lines[-1]

    stage(flow, live())


def test_s_writes_a_picture_and_the_numbers_for_their_owner_alone(folder: Path) -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        shown = on.text
        await on.press("S")
        stem = stem_of(minute()[4].time_unix_s)
        assert f"saved {stem}.svg and {stem}.txt" in on.lines[-1]
        assert {p.name for p in folder.iterdir()} == {f"{stem}.svg", f"{stem}.txt"}
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = (folder / f"{stem}.txt").read_text("utf-8")
        assert text.startswith(shown)
        assert "date: " in text
        assert "latency" in text
        root = ET.fromstring((folder / f"{stem}.svg").read_text("utf-8"))
        drawn = "".join(root.itertext()).replace("\xa0", " ")
        for line in shown.splitlines():
            for word in line.split()[:3]:
                assert word in drawn

    stage(flow, live())


def test_s_never_writes_over_anything(folder: Path) -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        stem = stem_of(minute()[4].time_unix_s)
        (folder / f"{stem}.svg").write_text("mine")
        (folder / f"{stem}.txt").symlink_to(folder / "elsewhere")
        await on.press("S", "S")
        assert (folder / f"{stem}.svg").read_text() == "mine"
        assert not (folder / "elsewhere").exists()
        assert {p.name for p in folder.iterdir()} == {
            f"{stem}{n}.{kind}" for n in ("", "-2", "-3") for kind in ("svg", "txt")
        }

    stage(flow, live())


def test_what_cannot_be_saved_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "writable_folder", lambda: "/proc/1/nowhere")

    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.press("S")
        assert "cannot save: " in on.lines[-1]
        await on.push(1)
        assert "R app" in on.text

    stage(flow, live())


def test_a_text_that_is_no_unicode_is_written_all_the_same(folder: Path) -> None:
    assert Path(write_new("a.txt", "\ud800")).read_text("utf-8") == "\\ud800"


def test_where_nothing_may_be_written_the_temporary_folder_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert writable_folder() == "."
    assert write_new("a.txt", "x") == "a.txt"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert writable_folder() not in {"", "."}


@pytest.mark.parametrize("term", ["xterm", "tmux-256color", "screen"])
def test_c_copies_the_whole_breakdown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)

    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.press("c")
        assert "sent to the terminal's clipboard (OSC 52)" in on.lines[-1]
        assert ("tmux" in on.lines[-1]) == (term != "xterm")
        text = on.app.clipboard
        assert "R MB/s" in text
        assert "4121 dbserver" in text
        assert not any(line.endswith(" ") for line in text.splitlines())
        await on.press("slash", "w", "r", "i", "enter", "c")
        assert "dbwriter" in on.app.clipboard
        assert "dbserver" not in on.app.clipboard

    stage(flow, live(), size=(80, 24))


def test_the_palette_finds_and_runs_every_key_by_its_name() -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, CommandPalette))
        await on.press(*"zoom into block")
        await on.pilot.pause(0.4)
        await on.press("enter")
        await on.until(lambda: on.app.state.layer == "block")
        assert "── block" in on.text

    stage(flow, live())


def test_letters_typed_into_the_palette_are_not_keys_and_esc_leaves_it() -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, CommandPalette))
        await on.press("q", "R", "S", "5", "down", "up", "escape")
        await on.until(lambda: not isinstance(on.app.screen, CommandPalette))
        assert on.feed.calls == []
        assert on.app.state.layer == ""
        await on.push(1)
        assert on.app.return_value is None

    stage(flow, live())


def test_themes_are_chosen_from_the_palette() -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        by_name = {c.title: c.callback for c in on.app.get_system_commands(on.app.screen)}
        for theme in ("light", "mono", "dark"):
            by_name[f"Colours: {theme}"]()
            await on.pilot.pause()
        styles = on.app._canvas.styles_by_name
        by_name["Colours: light"]()
        assert on.app._canvas.styles_by_name != styles

    stage(flow, live())


def test_every_command_of_the_palette_does_something_harmless(folder: Path) -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        for command in on.app.get_system_commands(on.app.screen):
            if command.title != "End":
                command.callback()
                await on.pilot.pause()
        await on.push(1)
        assert on.app.return_value is None

    stage(flow, live())


def test_the_mouse_chooses_lines_rows_headings_and_breakdowns() -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.click("W block")
        assert on.app.state.chosen == ("block", "write")
        await on.click("R app")
        assert on.app.state.chosen == ("syscall", "read")
        await on.click("W MB/s", into=1)
        assert "W MB/s↓" in on.text
        await on.click("files", into=1)
        assert on.app.state.table_of("syscall").name == "file"
        await on.click("processes", into=1)
        row = next(line for line in on.lines if "dbwriter" in line)
        await on.click(row.strip()[-30:], into=20)
        assert on.app.state.focus == "top"
        row = next(line for line in on.lines if "dbwriter" in line)
        await on.click(row.strip()[-30:], into=20)
        assert "only 4110 dbwriter" in on.lines[0]

    stage(flow, live())


def test_the_mouse_presses_the_keys_of_the_footer() -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.click("l heat")
        panels = [on.app.state.panel]
        await on.click("g graph", into=3)
        panels.append(on.app.state.panel)
        assert panels == ["heat", "graph"]
        await on.click("? help")
        assert on.app.state.screen == "help"
        await on.press("escape")
        await on.click("Space pause")
        assert "PAUSED" in on.lines[0]
        await on.pilot.click(offset=(60, 25))  # where nothing is
        assert "PAUSED" in on.lines[0]

    stage(flow, live())


def test_the_wheel_moves_what_it_is_turned_over() -> None:
    async def turn(on: Stage, over: str, kind: Wheel) -> None:
        y = next(y for y, line in enumerate(on.app.frame().lines) if over in line.text)
        x = on.lines[y].index(over)
        on.app._canvas.post_message(kind(None, x, y, 0, 0, 0, False, False, False, x, y))
        await on.pilot.pause()

    async def flow(on: Stage) -> None:
        await on.push(5)
        down, up = events.MouseScrollDown, events.MouseScrollUp
        await turn(on, "R app", down)
        assert on.app.state.chosen != ("syscall", "read")
        await turn(on, "Layers", up)
        assert on.app.state.chosen == ("syscall", "read")
        await turn(on, "4122 dbserver", down)
        state = on.app.state
        assert (state.focus, state.chosen) == ("top", ("syscall", "read"))
        assert state.table_of("syscall").cursor == 1
        await turn(on, "R block", down)
        assert on.app.state.focus != state.focus
        await on.press("question_mark")
        await turn(on, "Esc", down)
        assert on.app.state.scroll == 1

    stage(flow, live())


def test_a_finding_is_clicked_and_its_begin_is_shown() -> None:
    async def flow(on: Stage) -> None:
        feed.intervals[49] = judged()
        await on.push(50)
        await on.click("A critical thing", into=3)
        assert "go there" in on.text
        await on.click("go there", into=1)
        await on.until(lambda: on.app.travel.position.tick in {33, 34})
        assert "── Layers ──" in on.text, "to look at what was done then"
        await on.press("end", "f")
        await on.until(lambda: on.app.travel.position.tick == 50)
        assert "Enter go to the first" in on.lines[-1]
        await on.press("enter")
        await on.until(lambda: on.app.travel.position.tick in {33, 34})
        assert "── Layers ──" in on.text

    feed = live()
    stage(flow, feed)


def test_pictures_of_a_light_screen_are_light(folder: Path) -> None:
    async def flow(on: Stage) -> None:
        await on.push(5)
        await on.press("S")
        picture = next(folder.glob("*.svg")).read_text("utf-8")
        assert 'fill="#ffffff"' in picture
        assert 'fill="#121212"' not in picture

    stage(flow, live(), options=ScreenOptions(theme="light", utc=True))


def test_names_of_files_say_when() -> None:
    assert stem_of(START_S).startswith("ioh-202611")
