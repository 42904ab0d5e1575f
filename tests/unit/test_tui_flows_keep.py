"""What the screen keeps (recordings, pictures, numbers, copies), the mouse, and the palette."""

from __future__ import annotations

import os
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from textual import events

from ioh.model.errors import ExitCode
from ioh.rights.files import dated_names, writable_folder, write_new
from ioh.terminal.keyboard import NO_ESCAPE
from ioh.tui import effects
from ioh.tui.app import IohApp
from ioh.tui.options import ScreenOptions
from ioh.tui.palette import commands
from ioh.tui.render.text_screens import render_commands
from ioh.tui.run import run_screen
from ioh.tui.state import ViewState
from tests.support.demo_samples import START_S
from tests.support.screen_player import FakePlayer, Stage, on_screen
from tests.support.screens import MOMENTS, judged, minute

Wheel = type[events.MouseScrollDown] | type[events.MouseScrollUp]


STEM = next(dated_names("DEMO (made-up load)", minute()[4].time_unix_s, "")).rstrip(".")


def live() -> FakePlayer:
    return FakePlayer(minute(), moments=MOMENTS)


@on_screen(live, told=2)
async def test_r_starts_and_ends_a_recording(on: Stage) -> None:
    await on.press("R")
    assert "recording into a.ioh" in on.lines[-1]
    assert "● REC 00:00:0" in on.lines[0]
    assert "1.14M" in on.lines[0]
    await on.press("R")
    assert "recording ended: a.ioh" in on.lines[-1]
    assert "REC" not in on.lines[0]
    assert on.player.calls == ["record", "record"]
    await on.later(3600)
    assert "recording" not in on.lines[-1], "a message goes by itself, and with the next key"
    await on.press("R", "down")
    assert "recording" not in on.lines[-1]


@on_screen(live, told=5)
async def test_s_writes_a_picture_and_the_numbers_for_their_owner_alone(
    on: Stage, here: Path
) -> None:
    shown = on.text
    await on.press("S")
    assert f"saved {STEM}.svg and {STEM}.txt" in on.lines[-1]
    assert {p.name for p in here.iterdir()} == {f"{STEM}.svg", f"{STEM}.txt"}
    for path in here.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = (here / f"{STEM}.txt").read_text("utf-8")
    assert text.startswith(shown)
    assert "date: " in text
    assert "latency" in text
    root = ET.fromstring((here / f"{STEM}.svg").read_text("utf-8"))
    # A word of two colours is two elements.
    drawn = "".join(run.text or "" for run in root.iter("{http://www.w3.org/2000/svg}text"))
    for line in shown.splitlines():
        for word in line.split()[:3]:
            assert word in drawn


@on_screen(live, told=5)
async def test_s_never_overwrites_anything(on: Stage, here: Path) -> None:
    (here / f"{STEM}.svg").write_text("mine")
    (here / f"{STEM}.txt").symlink_to(here / "elsewhere")
    await on.press("S", "S")
    assert (here / f"{STEM}.svg").read_text() == "mine"
    assert not (here / "elsewhere").exists()
    assert {p.name for p in here.iterdir()} == {
        f"{STEM}{n}.{kind}" for n in ("", "-2", "-3") for kind in ("svg", "txt")
    }


@on_screen(live, told=5)
async def test_a_failed_save_is_reported(
    on: Stage, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "writable_folder", lambda: "/proc/1/nowhere")
    await on.press("S")
    assert "cannot save: " in on.lines[-1]
    await on.push()
    assert "1 app " in on.text


def test_text_that_is_not_valid_unicode_is_written_escaped(here: Path) -> None:
    assert Path(write_new(".", ["a.txt"], "\ud800")).read_text("utf-8") == "\\ud800"


def test_if_the_current_folder_is_not_writable_another_is_used(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert writable_folder() == "."
    assert write_new(".", ["a.txt"], "x") == "a.txt"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert writable_folder() not in {"", "."}


@pytest.mark.parametrize("term", ["xterm", "tmux-256color"])
@on_screen(live, size=(80, 24), told=5)
async def test_c_copies_the_whole_breakdown(
    on: Stage, here: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
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


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("zoom into block", "zoom into block"),
        ("exit", "quit"),
        ("search", "filter the rows of all breakdowns"),
        ("freeze", "pause / resume"),
        ("theme", "colours: dark"),
    ],
)
def test_the_palette_finds_commands_by_other_names_too(typed: str, first: str) -> None:
    helps = [key.help for key in commands(typed, ("syscall", "block"))]
    assert first in helps[:3]
    assert len(helps) < 10
    assert not commands("no such thing", ())


def test_the_palette_has_groups_with_what_has_no_key_on_top() -> None:
    lines = [line.text for line in render_commands(ViewState(), ("app", "block"), 80).frame.lines]
    heads = [line.strip() for line in lines if not line.startswith("  ") and "▸" not in line]
    assert heads == ["Colours", "Where", "What", "Table", "Screens", "Time", "Keep"]
    assert [line[10:].strip() for line in lines[1:5]] == [
        f"Colours: {theme}" for theme in ("dark", "light", "mono", "auto")
    ]
    matching = render_commands(ViewState(typed="colours"), (), 80).frame.lines
    assert [line.text[:3] for line in matching] == [" ▸ ", "   ", "   ", "   "]


@on_screen(live, told=5)
async def test_the_palette_does_what_is_chosen(on: Stage) -> None:
    await on.press("ctrl+p")
    assert "command: _" in on.lines[-1]
    await on.press(*"zoom into", "down", "down", "up")
    assert "▸ 2      Zoom into nfs client" in on.text
    await on.press("enter")
    assert on.app.state.layer == "nfs_client"
    await on.press("ctrl+p", *"zoom into b")
    await on.click("Zoom into block", into=3)
    assert on.app.state.layer == "block"
    assert "── block" in on.text


@on_screen(live, told=5)
async def test_letters_typed_into_the_palette_are_not_keys_and_esc_leaves_it(on: Stage) -> None:
    await on.press("ctrl+p", "q", "R", "S", "5", "down", "up", "enter")
    assert "no command matches" not in on.text
    await on.press("ctrl+p", *"qRS5")
    assert "no command matches" in on.text
    await on.press("down", "pageup", "escape")
    await on.press("ctrl+p", *"qu")
    assert "▸ q      Quit" in on.text, "q is a letter while something matches"
    await on.press(*"xq")
    assert "command:" not in on.lines[-1], "else it leaves the palette, not ioh"
    assert on.player.calls == []
    assert (on.app.state.screen, on.app.state.layer) == ("main", "")
    await on.push(1)
    assert on.app.return_value is None


@on_screen(live, told=5)
async def test_arrows_move_the_cursor_while_a_filter_is_typed(on: Stage) -> None:
    await on.press("slash", "down")
    name = on.app.state.chosen[0]
    assert on.app.state.table_of(name).cursor == 1
    await on.press("w", "enter")
    state = on.app.state
    assert (state.pattern, state.table_of(name).cursor, state.prompt) == ("w", 0, "")


@on_screen(live, told=5)
async def test_every_command_of_the_palette_does_something_harmless(on: Stage, here: Path) -> None:
    for key in commands("", ("syscall", "block")):
        if key.action != "quit":
            on.app.do(key.action, key.argument)
            await on.press("escape")
    assert on.app.chosen_theme == "auto", "themes are among them"
    await on.push(1)
    assert on.app.return_value is None


@on_screen(live, told=5)
async def test_m_marks_this_moment_or_the_one_shown(on: Stage) -> None:
    await on.press("m", *"fio q", "backspace", "R", "enter")
    assert on.app.state.screen == "main"
    assert "marked" in on.lines[-1]
    await on.press("m", "enter")
    assert "a mark needs a text" in on.lines[-1]
    await on.press("m", *"no", "escape", "space", "m", *"then", "enter")
    marked = [call for call in on.player.calls if call.startswith("mark")]
    assert marked == ["mark fio R None", f"mark then {minute()[4].time_unix_s}"]


@on_screen(live, told=5)
async def test_an_esc_that_began_a_sequence_is_taken_back(on: Stage) -> None:
    await on.press("2", "escape", NO_ESCAPE, "down")
    assert on.app.state.layer == "nfs_client"


@pytest.mark.parametrize("typing", ["slash", "ctrl+p"])
@on_screen(live, told=2)
async def test_ctrl_z_suspends_whatever_is_being_typed(on: Stage, typing: str) -> None:
    await on.press(typing, "x", "ctrl+z", "escape")
    assert "no job control here" in on.text


@on_screen(live, told=5)
async def test_the_mouse_chooses_lines_rows_headings_and_breakdowns(on: Stage) -> None:
    await on.click("5 device")
    assert (on.app.state.layer, on.app.state.chosen) == ("block", ("block", "read"))
    await on.press("escape")
    await on.click("╭ 1 app")
    assert (on.app.state.layer, on.app.state.chosen) == ("", ("syscall", "read"))
    await on.click("W MB/s    r/s", into=1)
    assert "W MB/s↓" in on.text
    await on.click("app: processes  files", into=17)
    assert on.app.state.table_of("syscall").name == "file"
    on.app.do("table", "syscall/process")
    await on.click("4122 dbserver")
    assert (on.app.state.focus, on.app.state.narrow) == ("top", None)
    await on.click("4122 dbserver")
    assert "only 4122 dbserver" in on.lines[0]


@on_screen(live, told=5)
async def test_the_mouse_presses_the_keys_of_the_footer(on: Stage) -> None:
    for text, panel in (("l heat", "heat"), ("g graph", "graph")):
        await on.click(text)
        assert on.app.state.panel == panel
    await on.click("? help")
    assert on.app.state.screen == "help"
    await on.press("escape")
    await on.click("Space pause")
    await on.pilot.click(offset=(60, 25))  # where nothing is
    assert "PAUSED" in on.lines[0]


async def turn(on: Stage, over: str, kind: Wheel) -> None:
    y = next(y for y, line in enumerate(on.app.frame().lines) if over in line.text)
    x = on.lines[y].index(over)
    on.canvas.post_message(kind(None, x, y, 0, 0, 0, False, False, False, x, y))
    await on.pilot.pause()


@on_screen(live, told=5)
async def test_the_wheel_moves_what_it_is_turned_over(on: Stage) -> None:
    down, up = events.MouseScrollDown, events.MouseScrollUp
    await turn(on, "1 app", down)
    assert on.app.state.chosen != ("syscall", "read")
    await turn(on, "1 app", up)
    assert on.app.state.chosen == ("syscall", "read")
    await turn(on, "4122 dbserver", down)
    state = on.app.state
    assert (state.focus, state.chosen) == ("top", ("syscall", "read"))
    assert state.table_of("syscall").cursor == 1
    await turn(on, "5 device", down)
    assert on.app.state.focus != state.focus
    await on.press("question_mark")
    await turn(on, "Esc", down)
    assert on.app.state.scroll == 1


@on_screen(live)
async def test_clicks_on_a_finding_lead_to_where_it_began(on: Stage) -> None:
    on.player.intervals[49] = judged()
    await on.push(50)
    await on.click("A critical thing", into=3)
    assert "go there" in on.text
    assert "Enter go there" in on.lines[-1]
    await on.click("go there", into=1)
    await on.until(lambda: on.app.view.travel.tick in {33, 34})
    assert " READ " in on.text, "to look at what was done then"
    await on.press("end", "f")
    await on.until(lambda: on.app.view.travel.tick == 50)
    await on.press("down", "enter")
    await on.until(lambda: on.app.view.travel.tick in {20, 21})
    assert " READ " in on.text


def test_file_names_contain_the_host_and_the_date() -> None:
    assert next(dated_names("db 01/x", START_S, "svg")).startswith("ioh-db_01_x-202611")


def test_a_crash_reported_on_the_terminal_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(IohApp, "run", lambda *_, **__: None)
    assert run_screen(live(), ScreenOptions(mouse=False)) == ExitCode.FAILED
