"""The commands that show the screen: when they do, how they end, and what they leave behind."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ioh.commands import build_parser, screen, terminal, with_command
from ioh.commands.arguments import MeasureOptions, ShowOptions, options_of
from ioh.commands.terminal import shows_unicode
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.pty_screen import ESC, LEFT, ROOT, PtyScreen
from tests.support.sessions import recorded
from tests.unit.test_sample import NOTHING_TO_SHOW

LIVE = [sys.executable, "-m", "ioh", "--proc"]
PRELOADED = """
import sys
from ioh.commands import build_parser, main
from ioh.layers import all_layers
import ioh.commands.screen, ioh.findings.engine, ioh.live.source, ioh.player.live
import ioh.commands.this_machine, ioh.player.recorder, ioh.live.attached, ioh.procfs.host
import ioh.bpf.libbpf, ioh.bpf.totals
import ioh.bpf.server_files
from ioh.tui.preload import preload_screen
build_parser(), all_layers(), preload_screen(), ioh.findings.engine.Engine()
import ioh.rights.user
ioh.rights.user._import_what_is_out_of_reach_of = lambda user: None  # of a checkout below /root
late = []
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names:
            late.append(name)
sys.meta_path.insert(0, Hook())
code = main(["--proc"])
print("late:", *late, "end")
sys.exit(code)
"""


def parsed(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(with_command(words))


def recordings(folder: Path) -> list[bool]:
    """For each recording that has begun, whether it was closed properly."""
    found = []
    for path in folder.glob("*.ioh"):
        if path.stat().st_size:
            with Session(str(path)) as session:
                found.append(session.is_ended)
    return found


def start_recording(shown: PtyScreen, folder: Path) -> None:
    shown.press("R")
    shown.wait_until(lambda: bool(recordings(folder)))


def leave(shown: PtyScreen) -> None:
    shown.press("q")
    assert shown.wait() == 0


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), True),
        (("-c", "5", "--pid", "7", "--theme", "mono", "--ascii"), True),
        (("--no-tui",), False),
        (("-d", "hist"), False),
        (("--top", "all"), False),
        (("--top", "5"), False),  # the default, but given
        (("replay", "x", "--top=5"), False),
        (("replay", "x"), True),
        (("replay", "x", "--no-tui"), False),
        (("demo",), True),
        (("demo", "-d", "all"), False),
    ],
)
def test_options_of_text_print_text(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], shown: bool
) -> None:
    monkeypatch.setattr(screen, "has_terminal", lambda **_: True)
    assert screen.wants_screen(options_of(ShowOptions, parsed(*words))) == shown


@pytest.mark.parametrize(
    ("term", "ttys", "is_pipe", "found"),
    [
        ("xterm", {0, 1}, False, True),
        ("dumb", {0, 1}, False, False),
        ("", {0, 1}, False, False),
        ("xterm", {0}, False, False),
        ("xterm", {1}, False, False),
        ("xterm", {0}, True, False),
    ],
)
def test_what_counts_as_a_terminal(
    monkeypatch: pytest.MonkeyPatch, term: str, ttys: set[int], is_pipe: bool, found: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(os, "isatty", ttys.__contains__)
    assert terminal.has_terminal(stdin_is_pipe=is_pipe) == found


def test_the_filters_shown_are_printable() -> None:
    args = parsed("--pid", "7", "--comm", "a\x1b", "--device", "sda")
    assert (
        options_of(MeasureOptions, args).filters_text() == "only --pid 7 --comm a\\x1b --device sda"
    )


def test_little_is_imported_before_the_loader_is_forked() -> None:
    """Each import is in memory three times: in the screen, the loader, and what attaches for it."""
    program = (
        "import sys, ioh.commands.live, ioh.commands.screen, ioh.live.source, ioh.bpf.loader\n"
        "import ioh.tui.first_picture\n"
        "print(*{'platform', 'subprocess', 'shutil', 'tempfile', 'textual'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout.split() == []


def test_text_never_imports_textual_or_rich(tmp_path: Path) -> None:
    (tmp_path / "run.ioh").write_bytes(recorded(fakes.first(3)))
    commands = [
        "text -t 1 -c 0.1", "json -t 1 -c 0.1", "record -t 1 -c 0.1 -o r.ioh",
        "demo --as-text -t 1", "replay run.ioh --as-text",
    ]  # fmt: skip
    program = (
        "import sys; from tests.support import fakes; fakes.install(); "
        "from ioh.commands import main; "
        f"code = max(main(words.split()) for words in {commands!r}); "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('textual', 'rich')), "
        "file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_dumb_terminal_gets_text(tmp_path: Path) -> None:
    words = [*LIVE, "-c", "0.2", "-t", "0.4"]
    with PtyScreen(words, tmp_path, env={"TERM": "dumb"}) as shown:
        assert shown.wait() == 0
        assert "avg_ms" in shown.text
        assert b"\x1b" not in shown.shown


def test_a_key_ends_it_wherever_stderr_goes(tmp_path: Path) -> None:
    command = ["sh", "-c", f"exec {' '.join(LIVE)} 2>log"]
    with PtyScreen(command, tmp_path) as shown:
        shown.wait_for("nfs client", "block")
        leave(shown)
        assert LEFT in shown.shown
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_end_it_and_the_terminal_is_restored(
    tmp_path: Path, number: int, status: int
) -> None:
    with PtyScreen(LIVE, tmp_path) as shown:
        shown.wait_for("block")
        start_recording(shown, tmp_path)
        os.kill(shown.pid, number)
        assert shown.wait() == status
        assert LEFT in shown.shown
        assert "Traceback" not in shown.text
    assert recordings(tmp_path) == [True]


def test_the_first_picture_comes_before_the_imports_and_t_ends_it(
    tmp_path: Path,
) -> None:
    program = (
        "import sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('textual', 'rich', 'numpy', 'ioh.findings.rules'):\n"
        "            print('[import]', end='', flush=True)\n"
        "sys.meta_path.insert(0, Hook())\n"
        "from ioh.commands import main\n"
        "sys.exit(main(['live', '--proc', '--layers', 'block', '-c', '0.5', '-t', '1']))\n"
    )
    with PtyScreen([sys.executable, "-c", program], tmp_path) as shown:
        assert shown.wait() == 0
        assert LEFT in shown.shown
        text = shown.text
    assert "LIVE 0.5s" in text.partition("[import]")[0]
    assert "starting" in text.partition("[import]")[0]
    assert text.count("[import]") >= 3


def test_a_failed_start_restores_the_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ioh", "live", "--proc", "--findings-config", "no.toml"]
    with PtyScreen(command, tmp_path) as shown:
        assert shown.wait() == 2
        before, left, after = shown.shown.partition(LEFT)
    assert left
    assert b"\x1b[?25h" in after
    assert b"no.toml" not in before
    assert b"no.toml" in after


def test_a_closed_terminal_ends_it_and_the_recording_properly(tmp_path: Path) -> None:
    with PtyScreen(LIVE, tmp_path) as shown:
        shown.wait_for("block")
        start_recording(shown, tmp_path)
        shown.close()
        assert shown.wait() == 0
    assert recordings(tmp_path) == [True]


def test_a_closed_terminal_ends_it_even_if_sighup_is_ignored(tmp_path: Path) -> None:
    """As with nohup."""
    program = (
        "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "from ioh.commands import main; sys.exit(main(['demo']))"
    )
    with PtyScreen([sys.executable, "-c", program], tmp_path) as shown:
        shown.wait_for("block")
        shown.close()
        assert shown.wait() == 0


def test_a_hanging_screen_is_abandoned_and_the_terminal_restored(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time, tty; from ioh.commands import terminal; "
        "terminal.GRACE_S = 0.1; "
        "watch = terminal.TerminalWatch(lambda: None, lambda: print('closed'), lambda: 7); "
        "watch.__enter__(); tty.setraw(0); "
        "signal.signal(signal.SIGTERM, lambda *_: watch.end()); print('begun', flush=True); "
        "time.sleep(100)"
    )
    with PtyScreen([sys.executable, "-u", "-c", program], tmp_path) as shown:
        shown.wait_for("begun")
        before = termios.tcgetattr(shown.fd)[3]
        assert not before & termios.ECHO
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 7
        assert termios.tcgetattr(shown.fd)[3] & termios.ECHO
        assert "closed" in shown.text
        assert LEFT in shown.shown


def test_the_screen_says_when_there_is_nothing_to_show(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NOTHING_TO_SHOW, "live", "-c", "0.1"]
    with PtyScreen(command, tmp_path) as shown:
        shown.wait_for("nothing to show for this machine")
        leave(shown)


def test_what_cannot_be_shown_prints_one_line(tmp_path: Path) -> None:
    with PtyScreen([sys.executable, "-m", "ioh", "replay", "nothing.ioh"], tmp_path) as shown:
        assert shown.wait() == 2
        assert LEFT not in shown.shown
        assert shown.shown.strip().count(b"\n") == 0


def test_nothing_is_imported_after_root_is_given_up(tmp_path: Path) -> None:
    """Not for any screen or panel, the palette, a picture, a recording or moving in time."""
    with PtyScreen([sys.executable, "-c", PRELOADED], tmp_path) as shown:
        shown.wait_for("block")
        shown.press("\x10")
        shown.wait_for("command:")
        shown.press("zoo", ESC, "m", "a mark\r", "?", "/", "mouse\r", ESC, ESC, "2", "\r", ESC)
        shown.press(*"0hlgt")
        shown.press("/", "abc", "\r", ESC, "f", ESC, "c", " ", "\x1b[D", "\x1b[H", "\x1b[F")
        shown.press("\x1b[<35;20;10M\x1b[<0;20;10M\x1b[<0;20;10m")
        start_recording(shown, tmp_path)
        shown.press("R")
        shown.wait_until(lambda: recordings(tmp_path) == [True])
        shown.press("S")
        shown.wait_until(lambda: bool(list(tmp_path.glob("*.svg"))))
        leave(shown)
        assert shown.text.rpartition("late:")[2].split() == ["end"]


@pytest.mark.parametrize(
    ("environment", "is_unicode"),
    [
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, True),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "ca_ES.UTF-8@valencia"}, True),
        ({"LANG": "de_DE@euro"}, False),
        ({"LANG": "de_DE.UTF-8", "TERM": "linux"}, False),
        ({}, False),
    ],
)
def test_ascii_is_drawn_unless_unicode_is_sure_to_work(
    environment: dict[str, str], *, is_unicode: bool
) -> None:
    assert shows_unicode(environment) == is_unicode
