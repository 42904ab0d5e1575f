"""Options that several commands share, and their meaning."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ioh.commands.databases import DATABASE_OPTIONS, add_database_arguments
from ioh.commands.output import say
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.filters import Filters
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.findings.engine import Engine
    from ioh.playback.time_range import When
    from ioh.sinks.histogram import HistStyle
    from ioh.sinks.text import TextOptions

MIN_CYCLE_S = 0.1
MAX_CYCLE_S = 86_400.0
MAX_SPEED = 1e6
DEFAULT_WIDTH, MAX_COLUMN_WIDTH = 80, 40
COMM_BYTES = 15  # TASK_COMM_LEN less its terminating zero
CGROUP_ROOT = Path("/sys/fs/cgroup")
_ABOVE_0 = math.ulp(0.0)
# The probes apply these; they cannot be applied to a recording afterwards.
LIVE_ONLY = ("pid", "comm", "cgroup", "device", "port", "proc", *DATABASE_OPTIONS)
# Parts of an interval as text.
SECTIONS = {
    "hist": "latency histogram of each layer's reads and writes",
    "histsz": "latency of reads by size",
    "histszw": "latency of writes by size",
    "topfile": "the busiest files",
    "top": "the busiest processes, files, mounts, connections and devices",
    "path": "where a read, a write and a sync spend their time, layer by layer",
    "parts": "each device or mount separately, with every kind of operation",
    "findings": "the evidence for each finding, and rules that could not be evaluated",
    "all": "all of these",
}
_T = TypeVar("_T", int, float)


def digits(text: str) -> int:
    """Parse a count of decimal digits only; int() also takes signs, spaces and underscores."""
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(text)
    return int(text)


def number(kind: Callable[[str], _T], low: float, high: float, what: str) -> Callable[[str], _T]:
    """Return an argparse type for numbers from ``low`` to ``high``; ``what`` describes them."""

    def parse(text: str) -> _T:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            msg = f'must be {what}, not "{printable(text)}"'
            raise argparse.ArgumentTypeError(msg)
        return value

    return parse


def run_time_s(text: str) -> float | None:
    """Seconds to run; None for ``-1`` (forever)."""
    if text == "-1":
        return None
    value = number(float, _ABOVE_0, math.inf, "seconds above 0, or -1 forever")(text)
    return None if math.isinf(value) else value


def row_count(text: str) -> int | None:
    """Rows per breakdown; None for ``all``."""
    return None if text == "all" else number(int, 0, 1e6, "a number of rows, or all")(text)


def moment(text: str) -> When:
    """An argparse type: seconds, a clock time or the text of a mark."""
    from ioh.playback.time_range import parse_when

    try:
        return parse_when(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_interval_arguments(
    parser: argparse.ArgumentParser,
    *,
    top: int | None,
    live: bool = False,
    recorded: bool = False,
    prints: bool = True,
) -> None:
    """Declare the options that choose intervals, whose I/O to measure, and what to show.

    ``live`` for this machine, ``recorded`` for part of a recording; with both, FILE decides.
    ``top`` is the default of ``--top``; None for a command that shows and judges nothing.
    ``prints`` is whether it can print text, in which ``--top`` shows the breakdowns.
    """
    if live and recorded:
        what = "read this recording instead of this machine; - is stdin"
        parser.add_argument("file", nargs="?", metavar="FILE", type=recording, help=what)
    add = parser.add_argument_group("when").add_argument
    ends = ["forever"] * live + ["to the end of the recording"] * (recorded or not live)
    what = f"run for at least this long; -1 (default): {', or '.join(ends)}"
    add("-t", dest="run_s", metavar="SECONDS", type=run_time_s, help=what)
    limits = f"seconds from {MIN_CYCLE_S} to {MAX_CYCLE_S:.0f}"
    kind = number(float, MIN_CYCLE_S, MAX_CYCLE_S, limits)
    lengths = ["1"] * live + ["as recorded"] * (recorded or not live)
    what = f"length of one interval (default: {', or '.join(lengths)}; minimum {MIN_CYCLE_S})"
    default = 1.0 if live and not recorded else None
    add("-c", dest="cycle_s", metavar="SECONDS", default=default, type=kind, help=what)
    if recorded:
        add_span_arguments(parser)
    if live:
        _add_whose_arguments(parser)
        add_database_arguments(parser)
    shown = parser.add_argument_group("what")
    shown.add_argument("--layers", metavar="A,B", help="only these layers (default: all)")
    what = "all layers except these"
    if live:
        what += f"; {'when measuring, ' if recorded else ''}their probes are not attached"
    shown.add_argument("--no-layer", metavar="A,B", action="append", default=[], help=what)
    if top is not None:
        add_top_argument(shown, top, prints=prints)
        add_findings_arguments(parser)


def add_span_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--from`` and ``--to``."""
    add = parser.add_argument_group(
        "which part of a recording",
        "A and B: seconds from its start, a clock time such as 14:44 or\n"
        '"2026-11-21 14:44:47", or the text of a mark',
    ).add_argument
    add("--from", dest="begin", metavar="A", type=moment, help="start at A")
    add("--to", dest="end", metavar="B", type=moment, help="stop at B")


def add_speed_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--speed``."""
    what = "replay speed, as a multiple of the original (default 1)"
    limits = "a number above 0, such as 0.5 or 10"
    kind = number(lambda text: float(text.removesuffix("x")), _ABOVE_0, MAX_SPEED, limits)
    parser.add_argument("--speed", type=kind, default=1.0, help=what)


def _add_whose_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the filters and ``--proc``."""
    add = parser.add_argument_group("filters (applied in the kernel, by the probes)").add_argument
    add("--pid", type=number(int, 1, 1 << 22, "a process id"), help="only this process")
    add("--comm", help="only processes with this name, as in ps -o comm (first 15 bytes)")
    what = "only this control group: a directory below /sys/fs/cgroup (v2)"
    add("--cgroup", metavar="PATH", help=what)
    add("--device", help="only this block device: sda, /dev/sda, 8:0")
    port = number(int, 1, 65_535, "a port from 1 to 65535")
    add("--port", type=port, help="only connections with this TCP port at either end")
    what = "do not use BPF: read only /proc and sysfs; needs no root, reports fewer numbers"
    add("--proc", action="store_true", help=what)


class _Rows(argparse.Action):
    """Store ``--top`` and that it was given: in text output it then shows the breakdowns."""

    def __call__(
        self, _parser: object, args: argparse.Namespace, value: object, *_: object
    ) -> None:
        args.top, args.has_top = value, True


def add_top_argument(parser: argparse._ActionsContainer, top: int, *, prints: bool = True) -> None:
    """Declare ``--top``: ``args.top``, and ``args.has_top`` where it was given."""
    parser.set_defaults(has_top=False)
    shows = "; in text output, shows the breakdowns" if prints else ""
    what = f"rows per breakdown (default {top}), or all{shows}"
    parser.add_argument("--top", metavar="N", type=row_count, action=_Rows, default=top, help=what)


def add_findings_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--findings-config`` and ``--no-findings``."""
    add = parser.add_argument_group("findings").add_argument
    what = "file with thresholds and disabled rules (default: ~/.config/ioh/findings.toml)"
    add("--findings-config", metavar="FILE", help=what)
    add("--no-findings", action="store_true", help="disable all rules")


def sections(text: str) -> frozenset[str]:
    """An argparse type: names of SECTIONS, as in ``hist,topfile`` or ``"hist topfile"``."""
    names = text.replace(",", " ").split()
    for name in names:
        if name not in SECTIONS:
            msg = f'"{printable(name)}" is not one of {", ".join(SECTIONS)}'
            raise argparse.ArgumentTypeError(msg)
    return frozenset(names)


def add_section_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``-d`` and ``--utc``."""
    listed = "; ".join(f"{name}: {what}" for name, what in SECTIONS.items())
    parser.add_argument(
        "-d",
        dest="sections",
        metavar="SECTIONS",
        type=sections,
        action="append",
        default=[],
        help=f"more sections to print; {listed}",
    )
    parser.add_argument("--utc", action="store_true", help="show times in UTC, not local time")


def text_options(args: argparse.Namespace) -> TextOptions:
    """What to print.  IohError: contradicting arguments, or as hist_style()."""
    from ioh.sinks.text import TextOptions

    chosen = frozenset[str]().union(*args.sections)
    is_both = "findings" in chosen and args.no_findings
    refuse_if(is_both, "-d findings and --no-findings contradict each other", "Give one of them")
    if args.has_top and args.top != 0 and not chosen & {"top", "topfile", "all"}:
        chosen |= {"top"}
    return TextOptions(sections=chosen, top=args.top, hist=hist_style(), utc=args.utc)


def hist_style() -> HistStyle:
    """Layout of histograms, from ioh.sh's variables CWIDTH and PAD.  IohError: a wrong CWIDTH.

    As wide as the terminal; DEFAULT_WIDTH if stdout is not one, as in ioh.sh.
    """
    from ioh.sinks.histogram import HistStyle

    width = DEFAULT_WIDTH
    with contextlib.suppress(OSError):
        width = max(width, os.get_terminal_size(sys.stdout.fileno()).columns)
    column_width: int | None = None
    if text := os.environ.get("CWIDTH"):
        is_width = text.isascii() and text.isdigit() and 2 <= int(text[:6]) <= MAX_COLUMN_WIDTH
        hint = f"Set it to a number from 2 to {MAX_COLUMN_WIDTH}, or unset it"
        refuse_if(not is_width, f'CWIDTH="{text}" is not a column width', hint)
        column_width = int(text)
    return HistStyle(
        width=width, column_width=column_width, pad=printable(os.environ.get("PAD", ""))
    )


def engine_from(args: argparse.Namespace) -> Engine | None:
    """The rules' engine; None with ``--no-findings``.  IohError: the configuration is wrong."""
    if args.no_findings:
        return None
    from ioh.findings.config import read_config
    from ioh.findings.engine import Engine

    return Engine(config=read_config(args.findings_config))


def layers_from(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The layers to measure on this machine, as select_layers() returns them."""
    if args.layers is None and not args.no_layer:
        return None  # the loader would keep what is imported before the fork
    from ioh.layers import all_layers

    known = [n for n, layer in all_layers().items() if args.pg is not None or not layer.needs_login]
    return select_layers(args, known, 'unknown layer "{}"', "Layers (pg with --pg)")


def select_layers(
    args: argparse.Namespace, known: Sequence[str], no_such: str, are: str
) -> tuple[str, ...] | None:
    """The requested layers of ``known``; None for all.

    IohError: one is not known (``no_such`` is the message), or none is left.  ``are`` introduces
    the known layers in the hint.
    """
    if args.layers is None and not args.no_layer:
        return None
    wanted = known if args.layers is None else args.layers.replace(",", " ").split()
    without = " ".join(args.no_layer).replace(",", " ").split()
    hint = f"{are}: {', '.join(map(printable, known))}"
    for name in (*wanted, *without):
        refuse_if(name not in known, no_such.format(name), hint)
    left = tuple(name for name in known if name in wanted and name not in without)
    refuse_if(not left, "--layers and --no-layer leave nothing to show", hint)
    return left


def filters_from(args: argparse.Namespace) -> Filters:
    """The requested filters.  IohError: a device, a control group or a process does not exist."""
    device, device_name = None, None
    if args.device is not None:
        from ioh.procfs.devices import resolve_device

        found = resolve_device(args.device)
        device, device_name = found.dev, found.name
        for note in found.notes:
            say(note)
    comm = args.comm
    if comm is not None:
        cut = comm.encode("utf-8", "surrogateescape")[:COMM_BYTES]
        comm = cut.decode("utf-8", "surrogateescape")  # the kernel cuts inside characters too
        is_wrong = not comm or "\0" in comm
        refuse_if(is_wrong, "--comm is empty", "Give a name as in ps -o comm")
    if args.pid is not None:
        check_process(args.pid)
    return Filters(
        pid=args.pid,
        comm=comm,
        cgroup_id=None if args.cgroup is None else cgroup_id(args.cgroup),
        device=device,
        device_name=device_name,
        port=args.port,
        sample_calls=getattr(args, "sample_calls", False),
    )


def check_process(pid: int, root: Path = Path("/proc")) -> None:
    """Raise IohError if ``pid`` is not a process, or is a thread: no probe would match it."""
    from ioh.procfs.files import read_text

    folder = root / str(pid)
    refuse_if(not folder.exists(), f"there is no process {pid}", "See: ps -e")
    # The kernel does not list threads in /proc, but opens their directories.
    process = re.search(r"^Tgid:\s*(\d+)$", read_text(f"{folder}/status") or "", re.MULTILINE)
    if process is not None and int(process[1]) != pid:
        name = printable((read_text(f"{root}/{process[1]}/comm") or "?").strip())
        cause = f"{pid} is a thread of process {process[1]} ({name})"
        raise IohError(cause, f"Use --pid {process[1]}", ExitCode.USAGE)


def cgroup_id(path: str, root: Path = CGROUP_ROOT) -> int:
    """The kernel's id of a control group: the inode number of its directory in the v2 hierarchy.

    ``path`` may be relative to ``root``, absolute, or as in /proc/PID/cgroup (``/user.slice``).
    IohError: it is not a directory of the v2 hierarchy.
    """
    shown = printable(path)
    cause, hint = f"no control group {shown}", f"List them with: find {root} -type d"
    for tried in (Path(path), root / path.lstrip("/")):
        try:
            # cgroup.controllers exists in every directory of a v2 hierarchy and in none of v1.
            if (tried / "cgroup.controllers").is_file():
                return tried.stat().st_ino
            if tried.is_dir():
                cause = f"{shown} is not a version 2 control group"
                hint = f"Give a directory in the v2 hierarchy, usually below {root}"
                break
        except (OSError, ValueError) as error:  # no permission, or a NUL in the path
            cause = f"cannot read control group {shown}: {error}"
    raise IohError(cause, hint, ExitCode.USAGE)
