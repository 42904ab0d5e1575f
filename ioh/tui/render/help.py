"""The help screen: keys, columns, and for each layer what is counted and where to check it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ioh.model.metric import LayerSpec
from ioh.sinks.cells import safe_name
from ioh.tui.keys import KEYS
from ioh.tui.palette import found
from ioh.tui.render.facts import metric_title
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.top import column_title

COLUMNS_HELP = (
    ("MB/s", "1,000,000 bytes a second, completed in the interval"),
    ("ops/s", "operations completed a second; at each layer its own: one app read may be 8 READs"),
    ("avg KB", "mean size of an operation, KB = 1,024 bytes"),
    ("avg ms", "mean time from the layer's start to its end, milliseconds"),
    ("queue", "part of avg ms: until the layer below had it (block: until issued; NFS: RPC)"),
    ("service", "part of avg ms: after that (block: issued until completed)"),
    ("p50 … p99.9", "that share took at most this long (within 6.25 %); needs 2, 20, 100, 1,000"),
    ("max ms (KB)", "the slowest operation of the interval, and its size"),
    ("in-fl", "begun and not completed at this moment; avg-fl is the mean over the interval"),
    ("err/s", "operations that ended with an error, a second"),
    ("READ WRITE SYNC", "the mean operation's time, divided among the layers; docs/path.md"),
    ("MB/s 60s, peak", "the last minute, newest at the right; the highest bar's value"),
    ("1µs … >17s", "a column for each latency, up to that; the fuller, the more operations"),
    ("1 read→8 READs", "what an operation became in the next layer; segments are TCP's"),
    ("312µs .1ms 2s", "microseconds (0.001 ms), milliseconds, seconds"),
    ("64K 1M", "sizes in K, M and G of 1,024"),
    (".  -", "none; not measured, or too few operations to tell"),
    ("cached", "share of the calls, or READs, that touched no lower layer; measured, not guessed"),
)  # fmt: skip
HEADER_HELP = (
    ("IOPS", "reads and writes a second of the lowest layer that counts them, which it names"),
    ("cpu", "share of all CPUs' time spent working"),
    ("iowait", "share spent idle while a task waited for I/O; only a hint"),
    ("steal", "share that the hypervisor gave to others"),
    ("load", "the load average of a minute"),
    ("dirty", "written by programs, not yet sent to the disk"),
    ("io psi", "share of the time in which some task waited for I/O (/proc/pressure/io, some)"),
)  # fmt: skip
CHECKS = {
    "syscall": "raw tracepoints sys_enter and sys_exit; check with fio's JSON, strace -c",
    "nfs_client": "tracepoints nfs_initiate_* to nfs_*_done; check with /proc/self/mountstats",
    "tcp": "sock_diag and tcp_* tracepoints; check with ss -ti, /proc/net/snmp",
    "nfs_server": "nfsd and sunrpc tracepoints; check with /proc/net/rpc/nfsd",
    "block": "tracepoints block_rq_*; check with /proc/diskstats, iostat -x",
}


def render_help(
    specs: Sequence[LayerSpec], width: int, glyphs: Glyphs, wanted: str = ""
) -> ScreenFrame:
    """Everything a user can look up, as one long page; of it, what fits the words wanted."""
    page = _Page(width, wanted)
    group = ""
    for key in KEYS:
        if key.group != group:
            group = key.group
            page.heading(group)
        if key.action != "layer":
            page.entry(key.label, key.help, words=key.words)
        elif key.argument == 1:
            many = f"1-{len(specs)}" if specs else "1"
            page.entry(many, "zoom into that layer of the path; again: back", words="layer")
    page.heading("First lines")
    for name, meaning in HEADER_HELP:
        page.entry(name, meaning)
    page.entry(glyphs.position, "on the time line: the interval shown")
    page.entry(glyphs.mark, "a mark")
    page.entry(glyphs.finding, "a finding begins")
    page.entry(glyphs.gap, "a gap: nothing was measured")
    page.entry(glyphs.ahead, "not searched for findings yet")
    page.heading("Columns")
    for name, meaning in COLUMNS_HELP:
        page.entry(name, meaning)
    for spec in specs:
        _layer(page, spec)
    page.heading("Colours")
    text = "blue: reads; orange: writes; the warmer and fuller a cell, the more operations in it"
    page.entry("", text, words="color theme")
    if not page.frame.lines:
        page.frame.add(Line(f' nothing about "{safe_name(wanted)}"', "warn").fitted(width))
    return page.frame


class _Page:
    """The page so far: a heading is added with the first of its entries that is wanted."""

    def __init__(self, width: int, wanted: str) -> None:
        self.frame = ScreenFrame()
        self._width, self._wanted = width, wanted
        self._headings: list[Line] = []

    def heading(self, title: str) -> None:
        self._headings = [Line(" ").add(title, "title")]

    def subheading(self, title: str) -> None:
        self._headings = [*self._headings[:1], Line(f"  {title}", "head")]

    def entry(self, name: str, meaning: str, style: str = "key", words: str = "") -> None:
        if not found(self._wanted, f"{name} {meaning}", words):
            return
        for line in self._headings:
            if self.frame.lines and "title" in line.spans[-1]:
                self.frame.add(Line())
            self.frame.add(line.fitted(self._width))
        self._headings = []
        indent = 18
        if self._width < 2 * indent and name:  # no room beside it
            self.frame.add(Line("  ").add(name, style).fitted(self._width))
            name, indent = "", 4
        parts = textwrap.wrap(meaning, max(8, self._width - indent - 1)) or [""]
        for at, part in enumerate(parts):
            line = Line("  ").left(name if at == 0 else "", indent - 3, style).add(" ").add(part)
            self.frame.add(line.fitted(self._width))


def _layer(page: _Page, spec: LayerSpec) -> None:
    page.heading(f"Layer {safe_name(spec.title)}")
    if spec.name in CHECKS:
        page.entry("source", CHECKS[spec.name], "dim")
    for metric in spec.metrics:
        if metric.title:
            page.entry(safe_name(metric_title(metric)), safe_name(metric.help), "strong")
    for table in spec.tables:
        page.subheading(f"by {safe_name(table.title)}")
        for column in table.columns:
            if column.title:
                page.entry(safe_name(column_title(column)), safe_name(column.help), "strong")
