"""``ioh doctor``: what works on this host, what does not and why, and what ioh costs now."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from ioh import __version__
from ioh.commands.output import write_stdout
from ioh.model.errors import ExitCode
from ioh.model.filters import Filters
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.commands.doctor_verdicts import HostCheck
    from ioh.live.source import LiveSource

_COST_S = 3.0
_MARK = {"ok": "ok  ", "no": "NO  ", "wait": "... ", "note": "note"}


SUMMARY = "check what works on this host, what does not and why, and what ioh costs now"
EXAMPLES = """\
  sudo ioh doctor

Exit status 0: all layers are measured by BPF; 3: at least one is not, or not yet (see the lines
that begin with NO or "...")."""


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Doctor has no options."""


def run(_: argparse.Namespace) -> int:
    """Check the host, attach all layers, measure for 3 s; return the exit status."""
    from ioh.live.source import LiveSource

    uname = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    kernel = printable(f"{uname.sysname} {uname.release} {uname.machine}")
    write_stdout(f"ioh {__version__} on {kernel}, Python {python}\n")
    source = LiveSource(None, Filters(), 1.0)
    # First: this needs the privileges that the source drops when it starts.
    from ioh.bpf.checkup import read_bpf_facts
    from ioh.commands.doctor_verdicts import judge_bpf, judge_host, judge_layers
    from ioh.rights.sandbox import held

    facts = read_bpf_facts()
    _print(judge_bpf(facts))
    with source:
        source.attach()
        layers = list(source.attached.values())
        verdicts = judge_layers(layers)
        _print(verdicts)
        _print(judge_host(source.read().host))
        write_stdout(f"ok    ioh keeps    {source.kept.value}\n")
        write_stdout(f"ok    ioh runs as  {printable(held())}\n")
        write_stdout(_cost(source))
    missing = any(v.state in {"no", "wait"} for v in verdicts)
    return ExitCode.UNAVAILABLE if missing else ExitCode.OK


def _print(verdicts: list[HostCheck]) -> None:
    for verdict in verdicts:
        line = f"{_MARK[verdict.state]}  {verdict.subject:<12} {printable(verdict.detail)}"
        write_stdout(line + (f"\n      fix:         {verdict.fix}\n" if verdict.fix else "\n"))


def _cost(source: LiveSource) -> str:
    """The line with the CPU time and memory of ioh and its probes, measured over _COST_S."""
    with source.counting_run_time() as run_times_ns:
        wall, own, probes = time.monotonic(), time.process_time(), run_times_ns()
        while time.monotonic() - wall < _COST_S:
            time.sleep(1.0)
            source.read()
        seconds = time.monotonic() - wall
        own_pct = (time.process_time() - own) / seconds * 100
        now = run_times_ns()
    spent_ns = sum(now.values()) - sum(probes.values())
    probes_pct = f"{spent_ns / seconds / 1e7:.2f} %" if probes else "not counted"
    return (
        f"ok    cost now     ioh {own_pct:.2f} % of a core, its probes {probes_pct} "
        f"(at the current load), {_resident_mb():.0f} MB resident\n"
    )


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
