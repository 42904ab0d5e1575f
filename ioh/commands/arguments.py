"""What the command line requests, typed: each command makes these once, from its arguments."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ioh.commands.output import say
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.filters import Filters
from ioh.model.printable import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ioh.findings.engine import Engine
    from ioh.model.intervals import Intervals
    from ioh.model.sample import Sample
    from ioh.playback.time_range import Span, When
    from ioh.sinks.histogram import HistStyle
    from ioh.sinks.text import TextOptions
    from ioh.tui.options import ThemeName

DEFAULT_WIDTH, MAX_COLUMN_WIDTH = 80, 40
COMM_BYTES = 15  # TASK_COMM_LEN less its terminating zero
CGROUP_ROOT = Path("/sys/fs/cgroup")
FILTERS = ("pid", "comm", "cgroup", "device", "port")
DATABASE_OPTIONS = ("pg", "pg_parameters", "functions", "function", "db_all")
# The probes apply these; they cannot be applied to a recording afterwards.
LIVE_ONLY = (*FILTERS, "proc", *DATABASE_OPTIONS)
_Options = TypeVar("_Options", bound="DataclassInstance")


def options_of(kind: type[_Options], args: argparse.Namespace) -> _Options:
    """``kind`` with the options that the command has; defaults for the others."""
    given = vars(args)
    return kind(**{f.name: given[f.name] for f in fields(kind) if f.name in given})


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What to measure on this machine; each field is the option of that name."""

    pid: int | None = None
    comm: str | None = None
    cgroup: str | None = None
    device: str | None = None
    port: int | None = None
    proc: bool = False
    sample_calls: bool = False
    pg: str | None = None
    pg_parameters: bool = False
    function: Sequence[str] = ()
    functions: Sequence[str] = ()
    db_all: bool = False

    def given(self, names: Sequence[str]) -> dict[str, object]:
        """Name and value of those options that were given."""
        values = {name.replace("_", "-"): getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value or value == ""}

    def filters_text(self) -> str:
        """The probes' filters, printable, for the header."""
        given = [f"--{n} {printable(str(value))}" for n, value in self.given(FILTERS).items()]
        return f"only {' '.join(given)}" if given else ""

    def filters(self) -> Filters:
        """The probes' filters.  IohError: a device, a control group or a process does not exist."""
        device, device_name = None, None
        if self.device is not None:
            from ioh.procfs.devices import resolve_device

            found = resolve_device(self.device)
            device, device_name = found.dev, found.name
            for note in found.notes:
                say(note)
        comm = self.comm
        if comm is not None:
            cut = comm.encode("utf-8", "surrogateescape")[:COMM_BYTES]
            comm = cut.decode("utf-8", "surrogateescape")  # the kernel cuts inside characters too
            is_wrong = not comm or "\0" in comm
            refuse_if(is_wrong, "--comm is empty", "Give a name as in ps -o comm")
        if self.pid is not None:
            check_process(self.pid)
        return Filters(
            pid=self.pid,
            comm=comm,
            cgroup_id=None if self.cgroup is None else cgroup_id(self.cgroup),
            device=device,
            device_name=device_name,
            port=self.port,
            sample_calls=self.sample_calls,
        )


@dataclass(frozen=True, slots=True)
class IntervalOptions:
    """Which intervals to show, where they come from, and whether rules judge them.

    Shape:
        ``file`` is the recording, of which ``begin``, ``end`` and ``utc`` choose a part; "" for
        ``hosts``, or for this machine if there are none.  ``speed`` is a multiple of the original;
        None is as fast as possible.  ``follows``: until a growing recording is complete.
    """

    measure: MeasureOptions = MeasureOptions()
    hosts: Sequence[str] = ()
    remote_command: str | None = None
    file: str = ""
    begin: When | None = None
    end: When | None = None
    utc: bool = False
    speed: float | None = None
    follows: bool = False
    run_s: float | None = None
    cycle_s: float | None = None
    layers: str | None = None
    no_layer: Sequence[str] = ()
    findings_config: str | None = None
    no_findings: bool = False

    @property
    def span(self) -> Span:
        """The requested part of the recording."""
        from ioh.playback.time_range import Span

        return Span(self.begin, self.end, self.utc)

    def engine(self) -> Engine | None:
        """The rules' engine; None with ``--no-findings``.  IohError: the configuration is wrong."""
        if self.no_findings:
            return None
        from ioh.findings.config import read_config
        from ioh.findings.engine import Engine

        return Engine(config=read_config(self.findings_config))

    def layers_here(self) -> tuple[str, ...] | None:
        """The layers to measure on this machine, in order; None for all.  IohError: unknown."""
        if self.layers is None and not self.no_layer:
            return None  # the loader would keep what is imported before the fork
        from ioh.layers import all_layers

        has_login = self.measure.pg is not None
        known = [n for n, layer in all_layers().items() if has_login or not layer.needs_login]
        return self._chosen(known, 'unknown layer "{}"', "Layers (pg with --pg)")

    def layers_of(self, sample: Sample) -> frozenset[str] | None:
        """The requested layers of a recording; None for all.  IohError: it lacks one."""
        if self.layers is None and not self.no_layer:
            return None
        no_such = 'no layer "{}" in this recording'
        return frozenset(self._chosen(list(sample.layers), no_such, "Its layers"))

    def _chosen(self, known: Sequence[str], no_such: str, are: str) -> tuple[str, ...]:
        """The requested layers of ``known``, which ``are`` introduces in the hint."""
        wanted = known if self.layers is None else self.layers.replace(",", " ").split()
        without = " ".join(self.no_layer).replace(",", " ").split()
        hint = f"{are}: {', '.join(map(printable, known))}"
        for name in (*wanted, *without):
            refuse_if(name not in known, no_such.format(name), hint)
        left = tuple(name for name in known if name in wanted and name not in without)
        refuse_if(not left, "--layers and --no-layer leave nothing to show", hint)
        return left

    def intervals(self) -> Intervals:
        """Intervals with the requested layers and length."""
        from ioh.model.intervals import Intervals

        return Intervals(self.layers_of, self.cycle_s)


def interval_options(args: argparse.Namespace) -> IntervalOptions:
    """The intervals that a command requests.  IohError: options contradict each other."""
    options = replace(options_of(IntervalOptions, args), measure=options_of(MeasureOptions, args))
    is_alone = options.remote_command is not None and not options.hosts
    refuse_if(is_alone, "--remote-command needs --host", "Give --host HOST too")
    if not options.file:
        is_part = options.begin is not None or options.end is not None
        refuse_if(is_part, "--from and --to need a recording", "Give its file too")
        return options
    refuse_if(options.hosts, "a recording and --host exclude each other", "Give one of them")
    for name in options.measure.given(LIVE_ONLY):
        cause = f"--{name} works only when measuring, not with a recording"
        hint = "Give it to ioh record; recordings can be narrowed by --layers and --no-layer"
        raise IohError(cause, hint, ExitCode.USAGE)
    return options


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """How to show intervals; each field is the option of that name.

    Shape:
        ``top`` is a number of rows, None for all; ``has_top``: it was given.  ``line`` is the
        descriptor from which to read the line below the screen's header.
    """

    sections: Sequence[frozenset[str]] = ()
    top: int | None = None
    has_top: bool = False
    utc: bool = False
    no_findings: bool = False
    no_tui: bool = False
    theme: ThemeName | None = None
    bell: bool = False
    ascii: bool = False
    no_mouse: bool = False
    line: int | None = None

    def text(self) -> TextOptions:
        """What to print.  IohError: contradicting arguments, or as hist_style()."""
        from ioh.sinks.text import TextOptions

        chosen = frozenset[str]().union(*self.sections)
        is_both = "findings" in chosen and self.no_findings
        cause = "-d findings and --no-findings contradict each other"
        refuse_if(is_both, cause, "Give one of them")
        if self.has_top and self.top != 0 and not chosen & {"top", "topfile", "all"}:
            chosen |= {"top"}
        return TextOptions(sections=chosen, top=self.top, hist=hist_style(), utc=self.utc)


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
