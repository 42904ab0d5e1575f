"""Options that the live commands share, and what they mean."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ioh.commands.databases import DATABASE_OPTIONS, add_database_arguments
from ioh.commands.output import say
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.findings.engine import Engine
    from ioh.playback.time_range import When

MIN_CYCLE_S = 0.1
MAX_CYCLE_S = 86_400.0
COMM_BYTES = 15  # TASK_COMM_LEN less its terminating zero
CGROUP_ROOT = Path("/sys/fs/cgroup")
_T = TypeVar("_T", int, float)


def _number(kind: Callable[[str], _T], low: float, high: float, what: str) -> Callable[[str], _T]:
    """An argparse type: a number within bounds."""

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
    """Seconds to run; None for ``-1``, which is forever."""
    if text == "-1":
        return None
    value = _number(float, 0, math.inf, "seconds above 0, or -1 forever")(text)
    if value <= 0:
        msg = "must be seconds above 0, or -1 forever, not 0"
        raise argparse.ArgumentTypeError(msg)
    return None if math.isinf(value) else value


def row_count(text: str) -> int | None:
    """Rows of each breakdown; None for ``all``."""
    if text == "all":
        return None
    return _number(int, 0, 1_000_000, "a number of rows, or all")(text)


# What the probes leave out cannot be left out of a recording afterwards.
LIVE_ONLY = ("pid", "comm", "cgroup", "device", "port", "proc", *DATABASE_OPTIONS)


def add_live_arguments(parser: argparse.ArgumentParser, *, top: int) -> None:
    """Declare what to measure, of whom, how often and for how long; how much of it to show."""
    add_when_arguments(parser, cycle_s=1.0)
    add_whose_arguments(parser)
    add_database_arguments(parser)
    add_shown_arguments(parser, top=top)
    add_findings_arguments(parser)


def add_file_arguments(parser: argparse.ArgumentParser, *, top: int) -> None:
    """The same for a command that prints a recording where it is given one."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        type=recording,
        help="a recording instead of this machine; - for stdin",
    )
    add_when_arguments(parser, cycle_s=None)
    add_span_arguments(parser)
    add_whose_arguments(parser)
    add_database_arguments(parser)
    add_shown_arguments(parser, top=top)
    add_findings_arguments(parser)


def moment(text: str) -> When:
    """An argparse type: seconds, a clock time or the text of a mark."""
    from ioh.playback.time_range import parse_when

    try:
        return parse_when(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_span_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--from`` and ``--to``."""
    group = parser.add_argument_group(
        "which part of a recording",
        'A, B: seconds from its start, a clock time such as 14:44 or "2026-11-21 14:44:47", '
        "or the text of a mark",
    )
    group.add_argument("--from", dest="begin", metavar="A", type=moment, help="begin at A")
    group.add_argument("--to", dest="end", metavar="B", type=moment, help="end at B")


def add_when_arguments(parser: argparse.ArgumentParser, *, cycle_s: float | None) -> None:
    """Declare how often and for how long; ``cycle_s`` is the default, None for none."""
    when = parser.add_argument_group("when")
    when.add_argument(
        "-t",
        dest="run_s",
        metavar="SECONDS",
        type=run_time_s,
        default=None,
        help="run at least this long, then stop; -1 (default) forever",
    )
    what = f"seconds from {MIN_CYCLE_S} to {MAX_CYCLE_S:.0f}"
    when.add_argument(
        "-c",
        dest="cycle_s",
        metavar="SECONDS",
        default=cycle_s,
        type=_number(float, MIN_CYCLE_S, MAX_CYCLE_S, what),
        help="length of one interval (default 1; of a recording: as recorded; at least 0.1)",
    )


def add_whose_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare whose I/O to measure, and how."""
    whose = parser.add_argument_group("filters (applied in the kernel, by the probes)")
    whose.add_argument(
        "--pid", type=_number(int, 1, 1 << 22, "a process id"), help="only this process"
    )
    whose.add_argument(
        "--comm", help="only processes of this name, as in ps -o comm (the first 15 bytes)"
    )
    whose.add_argument(
        "--cgroup",
        metavar="PATH",
        help="only this control group: a directory below /sys/fs/cgroup (v2)",
    )
    whose.add_argument("--device", help="only this block device: sda, /dev/sda, 8:0")
    whose.add_argument(
        "--port",
        type=_number(int, 1, 65_535, "a port from 1 to 65535"),
        help="only connections with this TCP port at either end",
    )
    whose.add_argument(
        "--proc",
        action="store_true",
        help="use no BPF: read only /proc and sysfs; needs no root, gives fewer numbers",
    )


def add_shown_arguments(parser: argparse.ArgumentParser, *, top: int | None) -> None:
    """Declare which layers and how many rows; ``top`` None where no rows are shown."""
    shown = parser.add_argument_group("what")
    shown.add_argument("--layers", metavar="A,B", help="only these layers (default: all)")
    shown.add_argument(
        "--no-layer",
        metavar="A,B",
        action="append",
        default=[],
        help="all layers but these; live, their probes are not attached",
    )
    if top is not None:
        add_top_argument(shown, top)


class _Rows(argparse.Action):
    """``--top``, and whether it was given: it means more than its default does."""

    def __call__(
        self, _parser: object, args: argparse.Namespace, value: object, *_: object
    ) -> None:
        args.top, args.has_top = value, True


def add_top_argument(parser: argparse._ActionsContainer, top: int) -> None:
    """Declare ``--top``: ``args.top``, and ``args.has_top`` where it was given."""
    parser.set_defaults(has_top=False)
    parser.add_argument(
        "--top",
        metavar="N",
        type=row_count,
        action=_Rows,
        default=top,
        help=f"rows of each breakdown (default {top}), or all; in text, shows breakdowns",
    )


def add_findings_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how what was measured is judged."""
    group = parser.add_argument_group("findings")
    group.add_argument(
        "--findings-config",
        metavar="FILE",
        help="thresholds and disabled rules (default: ~/.config/ioh/findings.toml)",
    )
    group.add_argument("--no-findings", action="store_true", help="disable the rules")


def engine_from(args: argparse.Namespace) -> Engine | None:
    """What judges; None where that is not wanted.

    Raises:
        IohError: The configuration is wrong.
    """
    if args.no_findings:
        return None
    from ioh.findings.config import read_config
    from ioh.findings.engine import Engine

    return Engine(config=read_config(args.findings_config))


def layers_from(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The layers asked for; None for all.

    Raises:
        IohError: A name is unknown, or nothing is left.
    """
    from ioh.layers import all_layers

    known = [n for n, layer in all_layers().items() if args.pg is not None or not layer.needs_login]
    return select_layers(args, known, 'unknown layer "{}"', "Layers (pg with --pg)")


def select_layers(
    args: argparse.Namespace, known: Sequence[str], no_such: str, are: str
) -> tuple[str, ...] | None:
    """Those asked for, of the layers that there are; None for all.

    Args:
        args: With ``layers`` and ``no_layer``, names separated by commas or spaces.
        known: The layers.
        no_such: What to say of another one.
        are: What comes before their names in a hint.

    Raises:
        IohError: One is not there, or none is left.
    """
    if args.layers is None and not args.no_layer:
        return None
    wanted = known if args.layers is None else args.layers.replace(",", " ").split()
    without = " ".join(args.no_layer).replace(",", " ").split()
    hint = f"{are}: {', '.join(map(printable, known))}"
    for name in (*wanted, *without):
        if name not in known:
            raise IohError(no_such.format(printable(name)), hint, ExitCode.USAGE)
    left = tuple(name for name in known if name in wanted and name not in without)
    if not left:
        cause = "--layers and --no-layer leave nothing to show"
        raise IohError(cause, hint, ExitCode.USAGE)
    return left


def filters_from(args: argparse.Namespace) -> Filters:
    """The narrowing asked for.

    Raises:
        IohError: A device, a control group or a name does not exist.
    """
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
        comm = cut.decode("utf-8", "surrogateescape")  # the kernel, too, cuts a character in two
        if not comm or "\0" in comm:
            cause = "--comm is empty"
            raise IohError(cause, "Give a name as in ps -o comm", ExitCode.USAGE)
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
    """Refuse what no probe would ever see as a process.

    Raises:
        IohError: There is no such process, or it is a thread of one.
    """
    from ioh.procfs.files import read_text

    folder = root / str(pid)
    if not folder.exists():
        cause = f"there is no process {pid}"
        raise IohError(cause, "See: ps -e", ExitCode.USAGE)
    # The kernel does not list threads in /proc, and yet answers for them.
    process = re.search(r"^Tgid:\s*(\d+)$", read_text(f"{folder}/status") or "", re.MULTILINE)
    if process is not None and int(process[1]) != pid:
        name = printable((read_text(f"{root}/{process[1]}/comm") or "?").strip())
        cause = f"{pid} is a thread of process {process[1]} ({name})"
        raise IohError(cause, f"Use --pid {process[1]}", ExitCode.USAGE)


def cgroup_id(path: str, root: Path = CGROUP_ROOT) -> int:
    """The kernel's id of a control group: its directory's inode number in the v2 hierarchy.

    Args:
        path: Below ``root``, absolute or as /proc/PID/cgroup writes it (``/user.slice``).
        root: Where the v2 hierarchy is mounted.

    Raises:
        IohError: It is not a directory of the v2 hierarchy.
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
                hint = f"Give a directory of the v2 hierarchy, usually below {root}"
                break
        except (OSError, ValueError) as error:  # no permission, or a NUL in the path
            cause = f"cannot read control group {shown}: {printable(str(error))}"
    raise IohError(cause, hint, ExitCode.USAGE)
