"""The help screen: keys, columns, and for each layer what is counted and where to check it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ioh.model.metric import LayerSpec
from ioh.sinks.cells import safe_name
from ioh.tui.keys import KEYS
from ioh.tui.render.line import Frame, Line

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
    (".  -", "none; not known, or too few operations to tell"),
    ("cached", "share of the calls, or READs, that touched no lower layer; measured, not guessed"),
)  # fmt: skip
CHECKS = {
    "syscall": "raw tracepoints sys_enter and sys_exit; check with fio's JSON, strace -c",
    "nfs_client": "tracepoints nfs_initiate_* to nfs_*_done; check with /proc/self/mountstats",
    "tcp": "sock_diag and tcp_* tracepoints; check with ss -ti, /proc/net/snmp",
    "nfs_server": "nfsd and sunrpc tracepoints; check with /proc/net/rpc/nfsd",
    "block": "tracepoints block_rq_*; check with /proc/diskstats, iostat -x",
}


def render_help(specs: Sequence[LayerSpec], width: int) -> Frame:
    """Everything a user can look up, as one long page."""
    frame = Frame()
    _keys(frame, width)
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
            _entry(frame, safe_name(metric.title), safe_name(metric.help), width, "strong")
    for table in spec.tables:
        frame.add(Line(f"  by {safe_name(table.title)}", "head").fitted(width))
        for column in table.columns:
            if column.title:
                _entry(frame, safe_name(column.title), safe_name(column.help), width, "strong")
