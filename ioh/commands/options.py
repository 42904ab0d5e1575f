"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ioh.commands.databases import add_database_arguments
from ioh.commands.sample import recording
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.playback.time_range import When

MIN_CYCLE_S = 0.1
MAX_CYCLE_S = 86_400.0
MAX_SPEED = 1e6
_ABOVE_0 = math.ulp(0.0)
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
