"""The help screen: keys, columns, and for each layer what is counted and where to check it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ioh.model.metric import LayerSpec
from ioh.sinks.cells import safe_name
from ioh.tui.keys import KEYS
from ioh.tui.render.facts import metric_title
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Frame, Line
from ioh.tui.render.top import column_title

COLUMNS_HELP = (
    ("MB/s", "1,000,000 bytes a second, completed in the interval"),
    ("ops/s", "operations completed a second; at each layer its own: one app read may be 8 READs"),
    ("avg KB", "mean size of an operation, KB = 1,024 bytes"),
    ("avg ms", "mean time from the layer's start to its end, milliseconds"),
    ("queue", "of it, ms before the layer below had it (block: until issued; NFS: RPC queue)"),
    ("service", "of it, ms after that (block: issued until completed)"),
    ("p50 … p99.9", "so many percent took at most this long (to 6.25 %); needs 2, 20, 100, 1,000"),
    ("max ms (KB)", "the slowest operation of the interval, and the size of that very one"),
    ("in-fl", "begun and not ended at this moment; avg-fl is the mean over the interval"),
    ("err/s", "operations that ended with an error, a second"),
    ("MB/s, 60s", "the last minute, newest at the right, the highest bar the largest value in it"),
    ("312u 2.1m 1s", "times: u microseconds (.001 ms), m milliseconds (.1m is 0.1 ms), s seconds"),
    ("64K 1M", "sizes in K, M and G of 1,024"),
    (".  -", "none; not known, or too few operations to tell"),
    ("cached", "share of the calls, or READs, that touched no lower layer; measured, not guessed"),
)  # fmt: skip
HEADER_HELP = (
    ("IOPS", "reads and writes a second of the lowest layer that counts them, which it names"),
    ("cpu", "share of the time of all CPUs in which they worked"),
    ("iowait", "share in which they had nothing to do and a task waited for I/O; a hint only"),
    ("steal", "share that the hypervisor gave to others"),
    ("load", "the load average of a minute"),
    ("dirty", "written by programs and not yet on its way to the disk"),
    ("io psi", "share of the time in which some task waited for I/O (/proc/pressure/io, some)"),
)  # fmt: skip
CHECKS = {
    "syscall": "raw tracepoints sys_enter and sys_exit; check with fio's JSON, strace -c",
    "nfs_client": "tracepoints nfs_initiate_* to nfs_*_done; check with /proc/self/mountstats",
    "tcp": "sock_diag and tcp_* tracepoints; check with ss -ti, /proc/net/snmp",
    "nfs_server": "nfsd and sunrpc tracepoints; check with /proc/net/rpc/nfsd",
    "block": "tracepoints block_rq_*; check with /proc/diskstats, iostat -x",
}


def render_help(specs: Sequence[LayerSpec], width: int, glyphs: Glyphs) -> Frame:
    """Everything a user can look up, as one long page."""
    frame = Frame()
    _keys(frame, width)
    _heading(frame, "First lines")
    for name, meaning in HEADER_HELP:
        _entry(frame, name, meaning, width)
    _entry(frame, glyphs.position, "on the time line: the interval shown", width)
    _entry(frame, glyphs.mark, "a mark", width)
    _entry(frame, glyphs.finding, "a finding begins", width)
    _entry(frame, glyphs.gap, "a gap: nothing was measured", width)
    _entry(frame, glyphs.ahead, "not looked through for findings yet", width)
    _heading(frame, "Columns")
    for name, meaning in COLUMNS_HELP:
        _entry(frame, name, meaning, width)
    for spec in specs:
        _layer(frame, spec, width)
    _heading(frame, "Colours")
    text = "blue: reads; orange: writes; the warmer and fuller a cell, the more operations in it"
    _entry(frame, "", text, width)
    return frame


def _keys(frame: Frame, width: int) -> None:
    group = ""
    for key in KEYS:
        if key.action == "layer":
            if key.argument == 1:
                _heading(frame, key.group)
                group = key.group
                _entry(frame, "1-9", "zoom into that layer of the path; again: back", width)
            continue
        if key.group != group:
            group = key.group
            _heading(frame, group)
        _entry(frame, key.label, key.help, width)
    _entry(frame, "Ctrl-P", "all of these by name, and the themes", width)


def _heading(frame: Frame, title: str) -> None:
    if frame.lines:
        frame.add(Line())
    frame.add(Line(" ").add(title, "title"))


def _entry(frame: Frame, name: str, meaning: str, width: int, style: str = "key") -> None:
    indent = 18
    if width < 2 * indent and name:  # no room beside it
        frame.add(Line("  ").add(name, style).fitted(width))
        name, indent = "", 4
    parts = textwrap.wrap(meaning, max(8, width - indent - 1)) or [""]
    for at, part in enumerate(parts):
        line = Line("  ").left(name if at == 0 else "", indent - 3, style).add(" ").add(part)
        frame.add(line.fitted(width))


def _layer(frame: Frame, spec: LayerSpec, width: int) -> None:
    _heading(frame, f"Layer {safe_name(spec.title)}")
    if spec.name in CHECKS:
        _entry(frame, "source", CHECKS[spec.name], width, "dim")
    for metric in spec.metrics:
        if metric.title:
            _entry(frame, safe_name(metric_title(metric)), safe_name(metric.help), width, "strong")
    for table in spec.tables:
        frame.add(Line(f"  by {safe_name(table.title)}", "head").fitted(width))
        for column in table.columns:
            if column.title:
                _entry(
                    frame, safe_name(column_title(column)), safe_name(column.help), width, "strong"
                )
