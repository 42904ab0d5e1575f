"""The help screen: keys, columns, and each layer's numbers and how to check them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ioh.model.metric import LayerSpec
from ioh.sinks import words as meanings
from ioh.sinks.cells import display_width, safe_name
from ioh.terminal.line import Line, ScreenFrame
from ioh.tui.keys import KEYS
from ioh.tui.palette import found
from ioh.tui.render.breakdown import column_title
from ioh.tui.rows import metric_title

COLUMNS_HELP = (
    ("MB/s", "completed throughput, in 1,000,000 bytes per second"),
    ("ops/s", "completed operations per second; an app read may be 8 READs"),
    ("size", "mean size of an operation"),
    ("avg ms", "mean latency in this layer, start to end, in milliseconds"),
    ("ms/call share", "a step's part of the mean call's time; p99: of the layer's operations"),
    ("queue", "part of avg ms until the layer below has it (block: until issued; NFS: RPC)"),
    ("service", "the rest of avg ms (block: from issued to completed)"),
    ("p50 … p99.9", "latency percentiles (within 6.25 %); need 2, 20, 100, 1,000 operations"),
    ("max ms (size)", "slowest operation of the interval, and its size"),
    ("in-fl", "in flight at the interval's end; avg-fl: mean of the interval"),
    ("err/s", "failed operations per second"),
    ("retrans retr %", "share of the segments that were sent again"),
    ("rtt, min rtt", "round trip of segments: mean of the connections, and the shortest so far"),
    ("stmt ckpt", "statements, checkpoints"),
    ("READ WRITE SYNC", "the mean call that waited for a lower layer, and its steps; docs/path.md"),
    ("META COPY", "calls about files (open, stat …); copies from file to file by the kernel"),
    ("page fault", "FAULT: disk reads of mapped files, of programs and of swap; no calls"),
    ("2 ms × 90/s = .18 at a time", "mean, rate, and their product: the mean number in progress"),
    ("90% of I/O time", "this kind's part of all calls' time, also of those that memory served"),
    ("6% from cache", "of the bytes read; then the calls that memory served"),
    ("60s ago, now, peak", "trend over that time, newest at the right; highest interval"),
    ("busiest", "first file, device, mount and client by MB/s; t shows their tables"),
    ("since ▼", "mean of as many intervals before the newest mark → since it"),
    ("waiting, oldest", "begun and not ended, by layer; age of the oldest"),
    ("all R, all W", "trend of all reads or writes, as the title: none reached a lower layer now"),
    ("+8", "in a box: eight more sizes, which do not fit"),
    ("1µs … >17s", "a column per latency up to that; fuller: more operations"),
    ("1 read→8 READs", "operations in the next layer per operation; segments: TCP"),
    ("312µs .1ms 2s", "microseconds (0.001 ms), milliseconds, seconds"),
    ("990 1.04k", "three digits; k, M and G are powers of 1,000"),
    ("512 64K 1M", "sizes in bytes; K, M and G are powers of 1,024"),
    (".  -", "none; not measured, or too few operations"),
    ("cached", "share of the bytes read that came from memory; measured, not estimated"),
)  # fmt: skip
HEADER_HELP = (
    ("IOPS", "reads and writes per second, in the lowest layer with counts"),
    ("cpu", "share of all CPU time spent working"),
    ("iowait", "share of time idle while a task waited for I/O; only a hint"),
    ("steal", "share of CPU time that the hypervisor gave to others"),
    ("load", "1-minute load average"),
    ("dirty", "data in the page cache not yet written to disk"),
    ("io psi", "share of time that some task waited for I/O (/proc/pressure/io, some)"),
)  # fmt: skip
CHECKS = {
    "syscall": "raw tracepoints sys_enter and sys_exit; check with fio's JSON, strace -c",
    "nfs_client": "tracepoints nfs_initiate_* to nfs_*_done; check with /proc/self/mountstats",
    "tcp": "sock_diag and tcp_* tracepoints; check with ss -ti, /proc/net/snmp",
    "nfs_server": "nfsd and sunrpc tracepoints; check with /proc/net/rpc/nfsd",
    "block": "tracepoints block_rq_*; check with /proc/diskstats, iostat -x",
}


_SIGNS_HELP = (
    ("█", "on the time line: the interval shown"),
    ("▼", "a mark"),
    ("i !", "a finding begins: i informs, ! warns, in red it is critical"),
    ("over 5 s", "the time that numbers are of: a finding's, and of the rows below one interval"),
    ("+1 (f)", "one more finding"),
    ("╳", "a gap: nothing was measured"),
    ("·", "not searched for findings yet"),
)
_COLOURS = "blue: reads; orange: writes; warmer, fuller cells: more operations"
_INDENT = 18  # of meanings


def render_help(specs: Sequence[LayerSpec], width: int, wanted: str = "") -> ScreenFrame:
    """The whole help as one page, or only the entries that match ``wanted``."""
    lines: list[Line] = []
    headings: list[Line] = []  # added with the first matching entry below them
    for style, name, meaning, words in _entries(specs):
        if style == "title":
            headings = [Line(" ").add(name, style)]
        elif style == "head":
            headings = [*headings[:1], Line(f"  {name}", style)]
        elif found(wanted, f"{name} {meaning}", words):
            for line in headings:
                lines += [Line(), line] if lines and "title" in line.spans[-1] else [line]
            headings = []
            lines += _entry(name, meaning, style, width)
    lines = lines or [Line(f' no match for "{safe_name(wanted)}"', "dim")]
    return ScreenFrame([line.fitted(width) for line in lines])


def _entry(name: str, meaning: str, style: str, width: int) -> Iterator[Line]:
    indent = _INDENT
    if name and (width < 2 * indent or display_width(name) > indent - 3):  # no room next to it
        yield Line("  ").add(name, style)
        name, indent = "", 4
    for part in textwrap.wrap(meaning, max(8, width - indent - 1)) or [""]:
        yield Line("  ").left(name, indent - 3, style).add(" ").add(part)
        name = ""


def _entries(specs: Sequence[LayerSpec]) -> Iterator[tuple[str, str, str, str]]:
    """Style (a heading's is ``title`` or ``head``), name, meaning, other words to search for."""
    group = ""
    for key in KEYS:
        if key.group != group:
            group = key.group
            yield "title", group, "", ""
        if key.action != "layer":
            yield "key", key.label, key.help, key.words
        elif key.argument == 1:
            many = f"1-{len(specs)}" if specs else "1"
            yield "key", many, "zoom into that layer of the path; again: zoom out", "layer"
    sections = (
        ("First lines", HEADER_HELP + _SIGNS_HELP),
        ("Columns", COLUMNS_HELP),
        ("Steps of the path", tuple(meanings.STEPS.items())),
        ("Names of rows", tuple(meanings.NAMES.items())),
        ("Events not measured", tuple(meanings.LOST.items())),
    )
    for title, entries in sections:
        yield "title", title, "", ""
        for name, meaning in entries:
            yield "key", name, meaning, ""
    for spec in specs:
        yield from _of_layer(spec)
    yield "title", "Colours", "", ""
    yield "key", "", _COLOURS, "color theme"


def _of_layer(spec: LayerSpec) -> Iterator[tuple[str, str, str, str]]:
    yield "title", f"Layer {safe_name(spec.title)}", "", ""
    if spec.name in CHECKS:
        yield "dim", "source", CHECKS[spec.name], ""
    for metric in spec.metrics:
        if metric.title:
            yield "strong", safe_name(metric_title(metric)), safe_name(metric.help), ""
    for op in [*spec.groups, *spec.ops]:
        if op in meanings.OPS:
            yield "strong", op.replace("_", " "), meanings.OPS[op], ""
    for table in spec.tables:
        yield "head", f"by {safe_name(table.title)}", "", ""
        for column in table.columns:
            if column.title:
                yield "strong", safe_name(column_title(column)), safe_name(column.help), ""
