"""The command line: arguments, exit codes, pipes, signals; only data on stdout, one-line errors."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ioh import __version__
from ioh.commands import build_parser, commands, main, with_command
from ioh.commands.arguments import ShowOptions, cgroup_id, interval_options, options_of
from ioh.model.errors import ExitCode, IohError
from tests.support.sessions import Shown, await_full_pipe

ROOT = Path(__file__).parent.parent.parent
# Run in a real process: the tests are of pipes, signals and the interpreter's shutdown.
PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from tests.support import fakes
fakes.install(kind={kind!r}, delay_s={delay_s})
from ioh.commands import main
sys.exit(main())
"""


def start(*args: str, kind: str = "seeded", delay_s: float = 0.0, **options: Any) -> Any:
    program = PROGRAM.format(kind=kind, delay_s=delay_s)
    how: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "cwd": ROOT,
    } | options
    return subprocess.Popen([sys.executable, "-c", program, *args], **how)


def wait_until_it_heeds(process: Any) -> None:
    """Wait for the program's own signal handlers, which can take long on a busy machine."""
    deadline = time.monotonic() + 20
    status = Path(f"/proc/{process.pid}/status")
    # SIGALRM's is the last that it installs; Python itself has one for SIGINT.
    while not _caught(status.read_text()) >> (signal.SIGALRM - 1) & 1:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _caught(status: str) -> int:
    return next(int(line.split()[1], 16) for line in status.splitlines() if "SigCgt" in line)


def run(*args: str, **how: Any) -> tuple[int, str, str]:
    process = start(*args, **how)
    out, err = process.communicate(timeout=30)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def parse(*args: str) -> argparse.Namespace:
    return build_parser().parse_args(with_command(args))


def test_ioh_without_a_command_is_live_with_its_options() -> None:
    assert with_command([]) == ["live"]
    assert with_command(["-c", "5"]) == ["live", "-c", "5"]
    assert with_command(["json", "-c", "5"]) == ["json", "-c", "5"]
    assert with_command(["--help"]) == ["--help"]
    assert (parse("-t", "60").run_s, parse("-t", "-1").run_s, parse().run_s) == (60.0, None, None)


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_each_command_has_help_with_examples(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == ExitCode.OK
    shown = capfd.readouterr().out
    assert "examples:" in shown
    assert f"usage: ioh {name}" in shown


def test_help_has_commands_and_exit_codes(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == ExitCode.OK
    assert capfd.readouterr().out == f"ioh {__version__}\n"
    assert main(["--help"]) == ExitCode.OK
    shown = capfd.readouterr().out
    assert all(f"\n  {code.value} " in shown for code in ExitCode)
    assert all(command.summary in " ".join(shown.split()) for command in commands())


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["nonsense"], "nonsense"),
        (["-c", "0"], "0.1"),
        (["-c", "nan"], "0.1"),
        (["-t", "-2"], "-1 forever"),
        (["text", "-d", "hits"], "hits"),
        (["json", "-d", "hist"], "-d"),
        (["text", "--pid", "0"], "process id"),
        (["text", ""], "name of the recording is empty"),
        (["text", "--pid", str((1 << 22) - 1)], "there is no process 4194303"),
        (["text", "--port", "65536"], "65535"),
        (["text", "--top", "-1"], "rows"),
        (["text", "--comm", ""], "--comm"),
        (["text", "--no-layer", "nosuch"], "nosuch"),
        (["text", "--layers", ","], "nothing to show"),
        (["text", "--cgroup", "/no/such/group"], "/no/such/group"),
        (["report", "a.ioh", "b.ioh"], "b.ioh. See: ioh report --help"),
        (["--dev", "sda"], "--dev sda. See: ioh live --help"),
        (["-c", "2", "text"], "arguments: text. The command comes first: ioh text ..."),
        (["text", "--pid", "\x1b[31m[/b]"], "\\x1b[31m[/b]"),
        (["text", "--layers", "a\x9bb"], "a\\x9bb"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line_with_status_2(
    args: list[str], cause: str, refused: Shown
) -> None:
    assert cause in refused(*args)


def test_cwidth_and_pad_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CWIDTH", "9")
    monkeypatch.setenv("PAD", "|\x1b")
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((100, 24)))
    options = options_of(
        ShowOptions, parse("text", "-d", "hist topfile", "-d", "histsz,top")
    ).text()
    assert options.sections == {"hist", "topfile", "histsz", "top"}
    assert (options.hist.column_width, options.hist.pad) == (9, "|\\x1b")
    assert options.hist.width == 100


@pytest.mark.parametrize("width", ["0", "-4", "99999999999999999999", "6.5", "²"])
def test_an_invalid_cwidth_is_refused(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CWIDTH", width)
    with pytest.raises(IohError, match="CWIDTH"):
        ShowOptions().text()


def test_filters_reach_the_source() -> None:
    given = parse("--pid", "1", "--comm", "a-very-long-process-name", "--port", "22")
    found = interval_options(given).measure.filters()
    assert (found.pid, found.port) == (1, 22)
    assert found.comm == "a-very-long-pro"
    cut = interval_options(parse("--comm", "Größe-日本語テスト")).measure.filters().comm or ""
    assert cut.encode("utf-8", "surrogateescape") == "Größe-日本".encode() + b"\xe8"
    assert (found.device, found.cgroup_id) == (None, None)


def test_chosen_layers_are_in_the_order_of_the_io_path() -> None:
    from ioh.layers import all_layers

    known = tuple(name for name, layer in all_layers().items() if not layer.needs_login)
    assert interval_options(parse()).layers_here() is None
    assert interval_options(parse("--layers", "block,syscall")).layers_here() == (
        "syscall",
        "block",
    )
    without = interval_options(parse("--no-layer", "syscall")).layers_here()
    assert without == tuple(name for name in known if name != "syscall")


def test_the_id_of_a_cgroup_is_the_inode_of_its_directory(tmp_path: Path) -> None:
    group = tmp_path / "user.slice" / "a.scope"
    group.mkdir(parents=True)
    with pytest.raises(IohError, match="not a version 2"):
        cgroup_id(str(group), tmp_path)
    (group / "cgroup.controllers").touch()
    assert cgroup_id(str(group), tmp_path) == group.stat().st_ino
    assert cgroup_id("/user.slice/a.scope", tmp_path) == group.stat().st_ino
    for missing in ("nosuch", "nul\0byte"):
        with pytest.raises(IohError, match="control group"):
            cgroup_id(missing, tmp_path)


@pytest.mark.parametrize("command", [[], ["text"]])
def test_text_stops_after_its_run_time(command: list[str]) -> None:
    code, out, err = run(*command, "-t", "3")
    assert (code, err) == (0, "")
    assert out.count("\ndate: ") == 3


def test_json_prints_one_object_per_line() -> None:
    code, out, err = run("json", "-t", "1", "-c", "0.25", "--top", "1")
    assert (code, err) == (0, "")
    ticks = [json.loads(line) for line in out.splitlines()]
    assert [tick["interval_s"] for tick in ticks] == [0.25] * 4
    assert all(len(rows) <= 1 for tick in ticks for rows in tick["layers"]["wire"]["top"].values())


@pytest.mark.parametrize(("command", "read_first"), [("text", 0), ("json", 3)])
def test_a_closed_pipe_ends_it_silently(command: str, read_first: int) -> None:
    with start(command, delay_s=0.01) as process:
        for _ in range(read_first):
            assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=10) == ExitCode.OK
        assert process.stderr.read() == b""


def test_help_into_a_closed_pipe_is_silent_too() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = run("--help", stdout=writer)
    os.close(writer)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("args", [["text"], ["--help"]])
def test_a_full_disk_ends_it_with_a_one_line_error(args: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = run(*args, stdout=full)
    assert code == ExitCode.FAILED
    assert err.startswith("ioh: cannot write")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
@pytest.mark.parametrize("command", ["text", "json"])
def test_a_signal_ends_it_soon_after_a_whole_line(
    command: str, number: signal.Signals, code: int
) -> None:
    process = start(command, delay_s=3600 if command == "text" else 0.001)
    wait_until_it_heeds(process)
    if command == "json":
        select.select([process.stdout], [], [], 20)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)  # it does not wait for the next interval
    assert process.returncode == code
    assert err == b""
    assert out == b"" or out.endswith(b"\n")
    for line in out.splitlines() if command == "json" else ():
        json.loads(line)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_while_nobody_reads_the_pipe(number: signal.Signals, code: int) -> None:
    with start("json") as process:
        wait_until_it_heeds(process)
        await_full_pipe(process.stdout)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=30) == code
        assert process.stderr.read() == b""


def test_characters_that_the_locale_lacks_are_escaped() -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code, out, err = run("text", "-d", "top", "-t", "1", "--top", "all", env=env)
    assert (code, err) == (0, "")
    assert out.isascii()
    assert "\\u6570" in out


def test_an_error_of_the_source_is_printed_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.support import fakes

    class Refusing(fakes.FakeLiveSource):
        def __enter__(self) -> Refusing:  # noqa: PYI034 (Self came with Python 3.11)
            raise IohError("no layer works here", "Run: ioh doctor", ExitCode.UNAVAILABLE)  # noqa: EM101, TRY003

    monkeypatch.setitem(sys.modules, "ioh.live.source", argparse.Namespace(LiveSource=Refusing))
    assert main(["text"]) == ExitCode.UNAVAILABLE
    assert capfd.readouterr() == ("", "ioh: no layer works here. Run: ioh doctor\n")


_IMPORTED = (
    "print(*{m.split('.')[0] for m in sys.modules} - {*sys.stdlib_module_names, 'ioh', '__main__'})"
)


@pytest.mark.parametrize(
    ("use", "shown"),
    [
        (
            """from ioh.commands import build_parser; build_parser('text')
print(*{f'ioh.commands.{m}' for m in ('text', 'bench')} & {*sys.modules})""",
            "ioh.commands.text",
        ),
        # datetime, which msgspec imports, is imported before ioh handles signals; msgspec is not.
        ("import ioh.commands.run; print(*{'datetime', 'msgspec'} & {*sys.modules})", "datetime"),
        (f"from ioh.commands import build_parser; build_parser(); {_IMPORTED}", ""),
        (f"import ioh.commands.run, ioh.sinks.text, ioh.sinks.json; {_IMPORTED}", ""),
    ],
)
def test_no_more_is_imported_than_is_needed(use: str, shown: str) -> None:
    command = [sys.executable, "-S", "-c", f"import sys\n{use}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == shown
