"""``ioh record``: record this machine to a file or a pipe."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioh.commands.arguments import IntervalOptions, interval_options, options_of
from ioh.commands.garbage import few_collections
from ioh.commands.options import add_interval_arguments, digits, number
from ioh.commands.progress import Progress
from ioh.commands.run import Ending, Signalled, live_source
from ioh.model.errors import IohError, refuse_if
from ioh.model.intervals import is_over
from ioh.model.limits import lack_behind
from ioh.model.printable import printable
from ioh.recorder.rotated_files import default_names

if TYPE_CHECKING:
    from ioh.live.source import LiveSource
    from ioh.recorder.rotation import Recorder

MIN_PART_BYTES = 64_000
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}
_ENDING = (signal.SIGINT, signal.SIGTERM)


SUMMARY = "record this machine to a file or a pipe"
EXAMPLES = """\
  sudo ioh record                                 until Ctrl-C or kill, to ioh-HOST-DATE.ioh
  sudo ioh record -o run.ioh -t 3600 --note "fio, 8 jobs"
  sudo ioh record --max-size 100M --keep 24 &     forever, in at most 2.4 GB
  sudo ioh mark "fio run 3 starts"                add a mark to the running recording
  ssh db01 sudo ioh record -o - | ioh replay -    watch another machine live

A recording survives a closed terminal and a full disk: it keeps what it has, resumes as soon as
there is space, and records the gap. SIGTERM and Ctrl-C close the file properly."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Where to record; each field is the option of that name."""

    output: str | None
    max_size: int | None
    keep: int | None
    note: str
    cycle_s: float


def size_bytes(text: str) -> int:
    """An argparse type: ``100M``, ``2G``, ``500000``; k, M, G are powers of 1000, as in MB/s."""
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.lower())
    value = int(found[1]) * _UNITS[found[2]] if found else 0
    if value < MIN_PART_BYTES:
        msg = f'must be a size such as 100M, at least 64k, not "{printable(text)}"'
        raise argparse.ArgumentTypeError(msg)
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("-o", dest="output", metavar="FILE", help="write to this new file; - is stdout")
    what = "start a new file at this size"
    add("--max-size", type=size_bytes, metavar="SIZE", help=what)
    what = "with --max-size: keep only the newest N files, counting earlier ones of this name"
    count = number(digits, 1, 999_999, "a number of files, 1 or more")
    add("--keep", type=count, metavar="N", help=what)
    add("--note", default="", metavar="TEXT", help="a description, stored in the recording")
    add_interval_arguments(parser, top=None, live=True)
    what = "record the times of some NFS calls; from them ioh join measures the network's time"
    add("--sample-calls", action="store_true", help=what)


def run(args: argparse.Namespace) -> int:
    """Record until a signal or the end of ``-t``; return the exit status."""
    options, where = interval_options(args), options_of(RecordOptions, args)
    is_pipe = where.output == "-"
    hint = "Give --max-size too, such as --max-size 100M"
    refuse_if(where.keep and not where.max_size, "--keep needs --max-size", hint)
    cause = "--max-size works only with files, not with a pipe"
    refuse_if(is_pipe and where.max_size, cause, "Give -o FILE")
    cause = "a recording is binary data and stdout is a terminal"
    refuse_if(is_pipe and sys.stdout.isatty(), cause, "Give -o FILE, or pipe it somewhere")
    source = live_source(options, _import_rest)
    with contextlib.ExitStack() as stack:
        # A recording outlives its terminal.
        stack.callback(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        ending = stack.enter_context(Ending(_ENDING))
        stack.enter_context(_kept(where))
        recorder = stack.enter_context(_recorder(where, ending))
        stack.enter_context(source)
        ending.stop = source.stop
        # From now on `ioh mark` finds the recording, and waits for the first sample.
        stack.enter_context(_marks(source, recorder))
        source.attach()
        stack.enter_context(few_collections(is_live=True))
        if ending.received is None:
            _record(options, source, recorder, ending)
    return ending.code


def _kept(where: RecordOptions) -> contextlib.AbstractContextManager[None]:
    """If root itself records: keep creating later parts possible after root is dropped."""
    from ioh.recorder.rotated_files import earlier_files
    from ioh.rights.files import SCREEN_FILES, kept

    if where.output is None:
        return kept(".", SCREEN_FILES)
    if where.output == "-":
        return contextlib.nullcontext()
    folder, base = os.path.split(where.output)
    stem, extension = map(re.escape, os.path.splitext(base))  # noqa: PTH122
    names = re.compile(rf"{stem}(-[0-9]{{4,9}})?{extension}")
    earlier = earlier_files(where.output).names if where.max_size else ()
    return kept(folder, names, map(os.path.basename, earlier))


def _new_recorder(where: RecordOptions) -> Recorder:
    """Open the recording named by ``-o``, else the first unused default name."""
    from ioh.procfs.network import read_addresses
    from ioh.recorder.rotated_files import EarlierFiles, earlier_files, parts_of
    from ioh.recorder.rotation import Recorder
    from ioh.session.output import Output, first_free

    def stdout(_: int) -> Output:
        return Output(sys.stdout.fileno())

    def make(path: str) -> Recorder:
        return Recorder(
            stdout if path == "-" else parts_of(path, is_numbered=where.max_size is not None),
            earlier=earlier_files(path) if where.max_size else EarlierFiles(),
            max_bytes=where.max_size,
            keep=where.keep,
            note=where.note,
            cycle_s=where.cycle_s,
            addresses=read_addresses(),
        )

    if where.output:
        return make(where.output)
    return first_free(default_names(os.uname().nodename, time.time()), make)


@contextlib.contextmanager
def _recorder(where: RecordOptions, ending: Ending) -> Iterator[Recorder]:
    made = _new_recorder(where)
    is_stuck = False
    try:
        yield made
    except Signalled:
        is_stuck = made.name == "-"  # nobody reads the pipe: its end cannot be written either
        raise
    except BrokenPipeError:
        return
    except OSError as error:
        if lack := lack_behind(error):
            raise lack.as_error() from error
        cause = f"cannot write {made.name}: {error.strerror or str(error)}"
        raise IohError(cause, "Check what was written with: ioh verify") from error
    finally:
        if not is_stuck:
            with contextlib.suppress(OSError, IohError), ending.writing():
                made.close()


def _import_rest() -> None:
    """Import what is needed later: without root, ioh's own files may not be readable."""
    import ioh.model.derive
    import ioh.recorder.marks
    import ioh.sinks.rows  # noqa: F401


def _marks(source: LiveSource, recorder: Recorder) -> contextlib.AbstractContextManager[object]:
    from ioh.recorder.marks import PRIVATE, PRIVATE_WAIT_S, MarkServer

    wait_s = PRIVATE_WAIT_S if PRIVATE in os.environ else None
    made = MarkServer(
        lambda: "" if recorder.name == "-" else os.path.abspath(recorder.name),  # noqa: PTH100
        lambda text: recorder.mark_at_sample(text, source.sample_soon, wait_s),
        lambda: bool(recorder.size_bytes),
        lambda: recorder.paused_why,
    )
    return contextlib.closing(made)


def _record(
    options: IntervalOptions, source: LiveSource, recorder: Recorder, ending: Ending
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
            if first_ns is None and not (
                is_pipe or options.measure.proc
            ):  # a pipe's reader shows the notes
                progress.say_what_is_from_proc(sample)
            progress.tick(sample)
            first_ns, last_ns = first_ns or sample.mono_ns, sample.mono_ns
            if is_over(options.run_s, (last_ns - first_ns) / 1e9, options.cycle_s or 1.0):
                break
            if ending.received is not None:
                break
        with ending.writing() if is_pipe else contextlib.nullcontext():
            recorder.close()  # so that its size is final
    finally:
        progress.end()
    if progress.has_nothing:
        cause = f"nothing was recorded: {recorder.paused_why}"
        raise IohError(cause, "Free some space, or choose another place with -o")
