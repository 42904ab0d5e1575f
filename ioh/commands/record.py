"""``ioh record``: this machine into a file or a pipe, without a screen."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ioh.commands.options import (
    add_shown_arguments,
    add_when_arguments,
    add_whose_arguments,
    filters_from,
    layers_from,
)
from ioh.commands.progress import Progress
from ioh.commands.run import Ending, Signalled
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.session.filename import default_name, part_name

if TYPE_CHECKING:
    from ioh.session.output import Output
    from ioh.session.rotation import Recorder
    from ioh.sources.live import LiveSource

MIN_PART_BYTES = 64_000
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}
_ENDING = (signal.SIGINT, signal.SIGTERM)


def size_bytes(text: str) -> int:
    """An argparse type: ``100M``, ``2G``, ``500000``; k, M, G are thousands, as in MB/s."""
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.lower())
    value = int(found[1]) * _UNITS[found[2]] if found else 0
    if value < MIN_PART_BYTES:
        msg = f'must be a size such as 100M, and at least 64k, not "{printable(text)}"'
        raise argparse.ArgumentTypeError(msg)
    return value


def keep_count(text: str) -> int:
    """An argparse type: how many files to keep."""
    value = int(text) if re.fullmatch(r"[0-9]{1,6}", text) else 0
    if value < 1:
        msg = f'must be a number of files, 1 or more, not "{printable(text)}"'
        raise argparse.ArgumentTypeError(msg)
    return value


class RecordCommand:
    """``ioh record``."""

    name = "record"
    summary = "record this machine into a file or a pipe"
    examples = """\
  sudo ioh record                                 until Ctrl-C or kill, into ioh-HOST-DATE.ioh
  sudo ioh record -o run.ioh -t 3600 --note "fio, 8 jobs"
  sudo ioh record --max-size 100M --keep 24 &     for ever, in at most 2.4 GB
  sudo ioh mark "fio run 3 starts"                a mark in the recording under way
  ssh db01 sudo ioh record -o - | ioh replay -    watch another machine live

Goes on when the terminal is closed, and when the disk is full: what was written stays, and as
soon as there is room it goes on, the gap recorded. SIGTERM and Ctrl-C end it in order."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("-o", dest="output", metavar="FILE", help="a new file, or - for stdout")
        parser.add_argument(
            "--max-size", type=size_bytes, metavar="SIZE", help="begin a new file at this size"
        )
        parser.add_argument(
            "--keep",
            type=keep_count,
            metavar="N",
            help="with --max-size: keep the newest N files, those of before counted",
        )
        parser.add_argument("--note", default="", metavar="TEXT", help="what this recording is")
        add_when_arguments(parser, cycle_s=1.0)
        add_whose_arguments(parser)
        add_shown_arguments(parser, top=None)

    def run(self, args: argparse.Namespace) -> int:
        """Record until asked to end."""
        path = args.output or default_name(os.uname().nodename, time.time())
        _check_arguments(args, path)
        filters, layers = filters_from(args), layers_from(args)
        from ioh.sources.live import LiveSource

        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with contextlib.ExitStack() as stack:
            ending = stack.enter_context(Ending(_ENDING))
            stack.enter_context(contextlib.suppress(Signalled))
            # Made while ioh may still write where only root can, and given to who called sudo.
            recorder = stack.enter_context(_recorder(args, path, ending))
            source = stack.enter_context(
                LiveSource(layers, filters, args.cycle_s, not args.proc, preload=_import_rest)
            )
            _check_rotation(args, path)
            ending.stop = source.stop
            # From now on `ioh mark` knows of it, and waits for the first sample.
            stack.enter_context(_marks(source, recorder))
            source.attach()
            if ending.received is None:
                _record(args, source, recorder, ending)
        return ending.code


def _check_arguments(args: argparse.Namespace, path: str) -> None:
    cause = hint = ""
    if args.keep and not args.max_size:
        cause, hint = "--keep needs --max-size", "Say at which size a new file begins"
    elif path == "-" and args.max_size:
        cause, hint = "--max-size is for files, not for a pipe", "Give -o FILE"
    elif path == "-" and sys.stdout.isatty():
        cause, hint = "a recording is not for a terminal", "Give -o FILE, or pipe it somewhere"
    if cause:
        raise IohError(cause, hint, ExitCode.USAGE)


def _caller() -> tuple[int, int] | None:
    """Who called sudo; None without sudo."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (uid.isdigit() and gid.isdigit()):
        return None
    return int(uid), int(gid)


def _outputs(args: argparse.Namespace, path: str) -> Callable[[int], Output]:
    from ioh.session.output import FileOutput, PipeOutput

    def make(part: int) -> Output:
        if path == "-":
            return PipeOutput(sys.stdout.fileno())
        return FileOutput(part_name(path, part) if args.max_size else path, _caller())

    return make


@contextlib.contextmanager
def _recorder(args: argparse.Namespace, path: str, ending: Ending) -> Iterator[Recorder]:
    from ioh.session.parts import Earlier, earlier_parts
    from ioh.session.rotation import Recorder

    made = Recorder(
        _outputs(args, path),
        earlier=earlier_parts(path) if args.max_size else Earlier(),
        max_bytes=args.max_size,
        keep=args.keep,
        note=args.note,
        cycle_s=args.cycle_s,
    )
    is_stuck = False
    try:
        yield made
    except Signalled:
        is_stuck = path == "-"  # nobody reads: the end cannot be told either
        raise
    except BrokenPipeError:
        return
    except OSError as error:
        cause = f"cannot write {printable(made.name)}: {error.strerror}"
        raise IohError(cause, "What was written before is whole: ioh verify") from error
    finally:
        if not is_stuck:
            with contextlib.suppress(OSError), ending.writing():
                made.close()
        if path != "-" and not made.size_bytes:
            with contextlib.suppress(OSError):  # nothing came of it: leave no empty file
                os.unlink(made.name)  # noqa: PTH108


def _check_rotation(args: argparse.Namespace, path: str) -> None:
    """After root is given up the next files must still be possible.

    Raises:
        IohError: They are not.
    """
    folder = os.path.dirname(path) or "."  # noqa: PTH120
    if args.max_size and not os.access(folder, os.W_OK | os.X_OK):
        cause = f"ioh gives root up, and then cannot make more files in {printable(folder)}"
        raise IohError(cause, "Give a directory of your own with -o")


def _import_rest() -> None:
    """What is needed later on: once root is given up, ioh's own files may be out of reach."""
    import ioh.model.derive
    import ioh.session.marks
    import ioh.sinks.rows  # noqa: F401


@contextlib.contextmanager
def _marks(source: LiveSource, recorder: Recorder) -> Iterator[None]:
    from ioh.session.marks import MarkServer

    made = MarkServer(
        lambda: os.path.abspath(recorder.name),  # noqa: PTH100
        lambda text: recorder.mark_at_sample(text, source.sample_soon),
        lambda: bool(recorder.size_bytes),
    )
    try:
        yield
    finally:
        made.close()


def _record(
    args: argparse.Namespace, source: LiveSource, recorder: Recorder, ending: Ending
) -> None:
    is_pipe = recorder.name == "-"
    progress = Progress(sys.stderr, recorder)
    try:
        if not is_pipe:
            progress.say(f"recording into {printable(recorder.name)}")
        first_ns = last_ns = None
        for sample in source:
            with ending.writing() if is_pipe else contextlib.nullcontext():
                recorder.write(sample)
            progress.tick(sample)
            first_ns, last_ns = first_ns or sample.mono_ns, sample.mono_ns
            interval_s = args.cycle_s / 10
            if args.run_s is not None and (last_ns - first_ns) / 1e9 >= args.run_s - interval_s:
                break
            if ending.received is not None:
                break
    finally:
        progress.end()
