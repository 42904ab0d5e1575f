"""``ioh bench``: run fio tests, watch every layer during each test, judge each result."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ioh.commands.bench_report import add_bands, card_for, check_bands, write_html
from ioh.commands.bench_screen import BenchScreen
from ioh.commands.options import digits, number
from ioh.commands.output import flush_stdout, write_stdout
from ioh.commands.run import Ending
from ioh.commands.terminal import has_terminal
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.bench.results import Results, Test
    from ioh.bench.start import BenchOptions

_CLEAR = "\r\x1b[K"
_MAX_CHARS = 79
_WEEK_S = 604_800.0
_INTERVALS_S = 3.0  # after this time the recording has intervals to show


def _block(text: str) -> int:
    """An argparse type: a block size; a bare number is KB, as in fio.sh."""
    from ioh.bench.plans import size_of

    try:
        return size_of(f"{text}k" if text.isdecimal() else text.removesuffix("b"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


SUMMARY = "test storage with fio, watch every layer during the tests, judge each result"
EXAMPLES = """\
  sudo ioh bench /mnt/data                  plan "database", in a work file that is then removed
  sudo ioh bench /mnt/data --plan card      only what the report card needs, in 3 minutes
  ioh bench --plans                         all plans, with their durations
  sudo ioh bench /mnt/data -t randread -u 16 -s 30 -m 4096
  sudo ioh bench /mnt/data -t metadata      create, stat, open, rename and unlink small files
  sudo ioh bench -r /dev/sdb -t randread    a raw device, only read
  sudo ioh bench --job my.fio               any fio job, watched and judged
  sudo ioh bench /mnt/data --like run.ioh --span "load begins" "load ends"
  sudo ioh bench --resume bench-db01-2026-11-23-101500

A result is "ok" only if it shows the speed of the storage itself; otherwise its line says why it
does not. Without root, ioh watches only /proc. fio runs with your rights, even under sudo."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = "a directory on the storage to test"
    parser.add_argument("target", nargs="?", default="", metavar="DIRECTORY", help=what)
    add = parser.add_argument_group("what to run").add_argument
    what = "name of a plan, or a TOML file (default: database, or the first that has -t's tests)"
    add("--plan", metavar="PLAN", default="", help=what)
    add("--plans", action="store_true", help="list the plans and exit")
    add("--job", metavar="FILE", help="run this fio job file instead of a plan")
    add("--like", metavar="FILE", help="build the job from the I/O mix of this recording")
    what = "with --like: only from A to B, as for ioh replay (default: all of it)"
    add("--span", nargs=2, metavar=("A", "B"), help=what)
    what = "print text instead of the screen"
    parser.add_argument("--no-tui", action="store_true", help=what)
    add("--resume", metavar="DIRECTORY", help="continue an earlier bench")
    _add_changes(parser)
    add_bands(parser)
    add = parser.add_argument_group("files and devices").add_argument
    add("-o", dest="output", metavar="DIRECTORY", help="write the results to this directory")
    what = "raw devices to test; they are only read"
    add("-r", dest="raw", metavar="DEVICE", nargs="+", default=[], help=what)
    what = "first write the work files or devices in full"
    add("-y", dest="anew", action="store_true", help=what)
    add("-x", "--keep", dest="keep", action="store_true", help="keep the work files")
    add(
        "--destroy-data",
        dest="destroy",
        metavar="NAME",
        action="append",
        default=[],
        help="allow writes to this raw device: sdb, or sdb:ext4 if it holds ext4",
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("changes to the plan (as in fio.sh)").add_argument
    count = number(digits, 1, 999_999_999, "a number above 0")
    what = "only these tests, such as randread,write or metadata"
    add("-t", dest="kinds", metavar="KINDS", default="", help=what)
    add("-s", dest="test_s", metavar="SECONDS", type=count, help="duration of each test")
    add("-m", dest="megabytes", metavar="MEGABYTES", type=count, help="size of the work file")
    add("-u", dest="users", metavar="USERS", type=count, help="only this number of users")
    what = "only this block size; with a unit: 512b, 1m"
    add("-l", dest="block", metavar="KB", type=_block, help=what)
    add("-i", dest="own_files", action="store_true", help="one file per user")
    add("-n", dest="runs", metavar="N", type=count, help="runs of each test")
    watches = ("all", "storage", "proc")
    what = "what to record; default: as much as costs the tests no more than 3 %% of their IOPS"
    add("--watch", choices=watches, default="", help=what)
    what = "only the plan's first test, at this many operations per second, until Ctrl-C"
    add("--endless", metavar="IOPS", type=count, help=what)


def run(args: argparse.Namespace) -> int:
    """Run the tests, print a line for each, return the exit status."""
    if args.plans:
        write_stdout(_plans())
        return ExitCode.OK
    from ioh.bench.runner import Callbacks, StoppedError
    from ioh.bench.start import run_bench

    check_bands(args.bands, args.storage)
    options = _options(args)
    progress = _Progress(with_screen=not args.no_tui and has_terminal(stdin_is_pipe=False))
    with Ending() as ending, contextlib.closing(progress):
        ending.stop = lambda: None  # is_stopped() reads ending.received

        def is_stopped() -> bool:
            progress.tick()
            return progress.is_interrupted or ending.received is not None

        callbacks = Callbacks(
            progress.began, progress.finished, progress.doing, progress.say, is_stopped
        )
        try:
            directory = run_bench(options, callbacks)
        except StoppedError:
            progress.close()
            where = shlex.quote(printable(str(progress.directory)))
            progress.say(f"stopped; continue with: ioh bench --resume {where}")
            return ExitCode.INTERRUPTED if progress.is_interrupted else ending.code
        except OSError as error:
            cause = f"cannot write the results: {error.strerror or str(error)}"
            raise IohError(cause, "Free some space, then continue with --resume") from error
        progress.close()
        _judge(directory, args.bands, args.storage, progress)
    return ExitCode.OK


def _judge(directory: Path, bands: str, storage: str, progress: _Progress) -> None:
    """Print the card, and write the page to the directory."""
    from ioh.bench.card import card_text
    from ioh.bench.page import FILE_NAME
    from ioh.bench.results import load

    results = load(str(directory))
    card = card_for(results, bands, storage)
    if any(cell.grades[0].latency_ms is not None for cell in card.cells):
        write_stdout("\n" + "\n".join(card_text(card, results.conditions.host)) + "\n")
    write_html(results, card, directory / FILE_NAME)
    progress.say(f"all results are in {shlex.quote(printable(str(directory)))}; open {FILE_NAME}")


def _plans() -> str:
    from ioh.bench.plans import BUILT_IN, PlanChanges, read_plan, seconds_of, specs_of

    lines = [f"{'plan':<10} {'tests':>5} {'minutes':>8}  {'file':>5}  description"]
    for name in BUILT_IN:
        plan, _ = read_plan(name)
        specs = specs_of(plan, PlanChanges())
        minutes = seconds_of(specs) / 60
        shown = f"{minutes:.0f}" if minutes >= 1 else "-"
        shown = f"{shown} +" if plan.agree_pct else shown
        lines.append(f"{name:<10} {len(specs):>5} {shown:>8}  {plan.size:>5}  {plan.summary}")
    return "\n".join(lines) + "\n"


def _options(args: argparse.Namespace) -> BenchOptions:
    """What to test.  IohError: options contradict each other."""
    from ioh.bench.plans import PlanChanges, plan_with
    from ioh.bench.start import BenchOptions

    what = (args.target, args.raw, args.job, args.resume)
    for is_wrong, cause in (
        (args.raw and args.target, "give a directory or -r with devices, not both"),
        (not any(what), "give a directory on the storage to test"),
        (args.span and not args.like, "--span needs --like"),
        (
            sum(map(bool, (args.like, args.job, args.resume))) > 1,
            "--job, --like and --resume exclude each other",
        ),
        (args.like and args.raw, "--like needs a directory"),
    ):
        refuse_if(is_wrong, cause, "See: ioh bench --help")
    kinds = tuple(args.kinds.replace(",", " ").split())
    changes = PlanChanges(
        kinds,
        run_s=_WEEK_S if args.endless else args.test_s,
        size_bytes=None if args.megabytes is None else args.megabytes << 20,
        users=args.users,
        block_bytes=args.block,
        own_files=args.own_files,
        rate_iops=args.endless,
        runs=args.runs,
    )
    return BenchOptions(
        args.target,
        tuple(args.raw),
        args.plan or plan_with(kinds),
        job=args.job or "",
        like=(args.like, *(args.span or ("", ""))) if args.like else None,
        changes=changes,
        keep=args.keep,
        anew=args.anew,
        destroy=tuple(args.destroy),
        output=args.output or "",
        resume=args.resume or "",
        watch=args.watch,
        command=shlex.join(["ioh", *sys.argv[1:]]),
    )


class _Progress:
    """Prints one line per test on stdout; shows the progress on a stderr terminal or the screen.

    While the screen is shown, lines are held back.  ``is_interrupted``: Ctrl-C closed the screen.
    """

    def __init__(self, *, with_screen: bool) -> None:
        self.directory = Path()
        self.is_interrupted = False
        self._with_screen = with_screen
        self._screen: BenchScreen | None = None
        self._recording = ""
        self._recorded_since = 0.0
        self._held: list[tuple[IO[str], str]] = []
        self._is_terminal = sys.stderr.isatty()
        self._planned = self._done = 0
        self._left_s = 0.0
        self._name, self._seconds, self._began = "", 0.0, 0.0
        self._last = ""

    def began(self, results: Results, directory: Path) -> None:
        """Print how many tests are left, and where the results go."""
        from ioh.bench.plans import seconds_of

        self.directory = directory
        self._recording = results.recordings[-1]
        self._planned, self._done = len(results.planned), len(results.tests)
        finished = {test.spec.name for test in results.tests}
        left = tuple(spec for spec in results.planned if spec.name not in finished)
        self._left_s = seconds_of(left)
        about = f", about {self._left_s / 60:.0f} min" if self._left_s >= 60 else ""
        tests = "1 test" if len(left) == 1 else f"{len(left)} tests"
        self.say(f"{tests}{about}; results go to {printable(str(directory))}")

    def finished(self, test: Test) -> None:
        """Print the line of a finished test."""
        from ioh.bench.plans import seconds_of
        from ioh.bench.table import HEAD, test_lines

        self._clear()
        self._done += 1
        self._left_s -= seconds_of((test.spec,))
        verdict = "ok" if test.verdict.ok else f"not the storage: {test.verdict.sentence}"
        lines = [] if self._last else [HEAD]
        self._last = f"  |  {test.spec.name}: {verdict}"
        self._put(sys.stdout, "\n".join([*lines, *test_lines(test)]) + "\n")

    def doing(self, name: str, seconds: float) -> None:
        """Note the step that begins, and its expected duration (0: not known)."""
        self._name, self._seconds, self._began = name, seconds, time.monotonic()
        self.tick()

    def tick(self) -> None:
        """Update the progress line; open or close the screen."""
        if not self._name:
            return
        now = time.monotonic()
        if self._with_screen and not self._screen and self._has_intervals(now):
            self._clear()
            self._screen = BenchScreen(self.directory / self._recording)
        took_s = now - self._began
        of = f" of {self._seconds:.0f}" if self._seconds else ""
        left_s = max(0.0, self._left_s - took_s)
        left = f", {left_s / 60:.0f} min left" if left_s >= 60 else ""
        number = min(self._done + 1, self._planned)
        name = printable(self._name)
        text = f"test {number} of {self._planned}: {name}, {took_s:.0f}{of} s{left}"
        if self._screen is not None:
            self._screen.line(text + printable(self._last))
            if (status := self._screen.ended()) is not None:
                self.is_interrupted = status == ExitCode.INTERRUPTED
                self._with_screen = False
                self.close()
        elif self._is_terminal:
            self._write(f"{_CLEAR}{text[:_MAX_CHARS]}")

    def _has_intervals(self, now: float) -> bool:
        if not self._recorded_since and (self.directory / self._recording).exists():
            self._recorded_since = now
        return bool(self._recorded_since) and now > self._recorded_since + _INTERVALS_S

    def say(self, text: str) -> None:
        """Print a message on a separate line of stderr."""
        self._clear()
        self._put(sys.stderr, f"ioh: {text}\n")

    def close(self) -> None:
        """Close the screen, if open, and print the lines held back."""
        if self._screen is None:
            return
        self._screen.close()
        self._screen = None
        held, self._held = self._held, []
        for stream, text in held:
            self._put(stream, text)

    def _put(self, stream: IO[str], text: str) -> None:
        if self._screen is not None:
            self._held.append((stream, text))
        elif stream is sys.stdout:
            write_stdout(text)
            flush_stdout()
        else:
            self._write(text)

    def _clear(self) -> None:
        if self._is_terminal and self._screen is None:
            self._write(_CLEAR)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed terminal must not end the bench
            sys.stderr.write(text)
            sys.stderr.flush()
