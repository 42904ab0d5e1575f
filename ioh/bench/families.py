"""Charts of a bench: families of tests that differ in one parameter, sorted by it.

As plain values for JSON (latencies in ms, rates per second, shares 0 to 1; None if unknown), and as
fiop.r's panels for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ioh.bench.grade import LETTERS, Card
from ioh.bench.plans import show_size
from ioh.bench.results import HIST_COLUMNS, HIST_EDGES_US, Figures, LayerFigures, Results, Test
from ioh.bench.table import is_of, show_ms
from ioh.model.printable import printable

_BAR = 14
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_TITLES = {
    "randread": "Random reads",
    "seqread": "Sequential reads",
    "write": "Writes",
    "randrw": "Random reads and writes",
    "commit": "Commits",
    "seeks": "Seeks",
    "files": "Small files",
    "create": "Files created",
    "stat": "Files' attributes",
    "open_read": "Files opened and read",
    "rename": "Files renamed",
    "unlink": "Files removed",
    "mix": "Transactions of small files",
    "job": "fio job",
    "like": "As the recording",
}


def page_data(results: Results, card: Card) -> dict[str, Any]:
    """The numbers drawn by report.html.

    ``edges_ms``: upper edges of the histograms' columns, except the last.  ``axis`` of a family:
    users, block, test.  ``rate``: see rate_unit().
    """
    return {
        "edges_ms": [edge / 1000 for edge in HIST_EDGES_US.values()][:-1],
        "letters": LETTERS,
        "cells": [
            {
                "title": cell.cell.title,
                "hist": cell.hist,
                "bounds_ms": cell.ladder.ms,
                "mean_ms": cell.grades[0].latency_ms,
                "p95_ms": cell.grades[1].latency_ms,
                "p99_ms": cell.grades[2].latency_ms,
            }
            for cell in card.cells
        ],
        "families": [
            {"title": title, "axis": axis, "points": [_point(test, axis) for test in tests]}
            for title, axis, tests in families(results)
        ],
        "stack": [
            {"name": each.title, "op": each.op, "mean_ms": _ms(each.figures.mean_us)}
            for each in stack_of(worst_test(results, card))
        ],
    }


def families(results: Results) -> list[tuple[str, str, list[Test]]]:
    """Group tests into charts: printable title, the parameter that differs, and the tests."""
    kinds: dict[tuple[str, str], list[Test]] = {}
    for test in results.tests:
        kind = test.spec.rw if test.spec.kind == "metadata" else test.spec.kind
        kinds.setdefault((kind, test.spec.sync), []).append(test)
    charts: list[tuple[str, str, list[Test]]] = []
    for (kind, sync), tests in kinds.items():
        title = printable(_TITLES.get(kind, kind))
        title = f"Synchronous {title.lower()}" if sync in {"sync", "dsync"} else title
        rest: list[Test] = []
        for block_bytes in dict.fromkeys(test.spec.block_bytes for test in tests):
            same = [test for test in tests if test.spec.block_bytes == block_bytes]
            if len({test.spec.users for test in same}) == len(same) > 1:
                same.sort(key=lambda test: test.spec.users)
                charts.append((f"{title} of {show_size(block_bytes).upper()}", "users", same))
            else:
                rest += same
        users = {test.spec.users for test in rest}
        if len(users) == 1 and len({test.spec.block_bytes for test in rest}) == len(rest) > 1:
            charts.append((f"{title} by size", "block", _with_others(rest, tests)))
        elif rest:
            charts.append((title, "test", rest))
    return charts


def _with_others(rest: list[Test], tests: Iterable[Test]) -> list[Test]:
    """Add tests of other block sizes, which also have their own chart."""
    by_size = {test.spec.block_bytes: test for test in rest}
    for test in tests:
        if test.spec.users == rest[0].spec.users:
            by_size.setdefault(test.spec.block_bytes, test)
    return [by_size[size] for size in sorted(by_size)]


def _point(test: Test, axis: str) -> dict[str, Any]:
    spec, figures = test.spec, main_figures(test)
    labels = {"users": str(spec.users), "block": show_size(spec.block_bytes).upper()}
    return {
        "label": labels.get(axis, spec.name),
        "ok": test.verdict.ok,
        "load": spec.users if axis == "users" else None,
        "mean_ms": _ms(figures.mean_us),
        "p95_ms": _ms(figures.p95_us),
        "p99_ms": _ms(figures.p99_us),
        "max_ms": _ms(figures.max_us),
        "hist": figures.hist,
        "rate": _rate(test),
    }


def main_figures(test: Test) -> Figures:
    """The main direction of a test: its syncs, else its reads, else the first one."""
    fio = test.run.fio
    first = next(iter(fio.values()), Figures())
    return fio.get("sync") or fio.get("read") or first


def worst_test(results: Results, card: Card) -> Test | None:
    """The test of the card's worst cell, or the slowest test if no cell is graded."""
    graded = [cell for cell in card.cells if cell.letter in LETTERS]
    for cell in sorted(graded, key=lambda cell: LETTERS.index(cell.letter), reverse=True):
        key = (cell.cell.kind, cell.cell.block_bytes, cell.cell.users)
        for test in results.tests:
            if (test.spec.kind, test.spec.block_bytes, test.spec.users) == key:
                return test
    return max(results.tests, key=lambda test: main_figures(test).mean_us or 0.0, default=None)


def stack_of(test: Test | None) -> list[LayerFigures]:
    """The layers active during a test, as a whole, in the order of an I/O's path."""
    if test is None:
        return []
    return [
        each
        for each in test.run.layers
        if not each.part and is_of(test, each.op) and each.figures.ops and each.figures.mean_us
    ]


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000


def rate_unit(tests: Iterable[Test]) -> str:
    """What the rate of these tests counts: ops/s of small files, else MB/s."""
    return "ops/s" if any(test.spec.kind == "metadata" for test in tests) else "MB/s"


def _rate(test: Test) -> float | None:
    """The rate in that unit; None if fio reported none."""
    if rate_unit([test]) == "ops/s":
        return test.run.ops_per_s if test.run.fio else None
    known = [f.bytes_per_s for f in test.run.fio.values() if f.bytes_per_s is not None]
    return sum(known) / 1e6 if known else None


def panels_text(results: Results) -> Iterator[str]:
    """Format a panel for each family of tests, at most 110 columns wide."""
    for title, axis, tests in families(results):
        if axis == "test" and len(tests) == 1:
            continue
        yield title
        yield (
            f"  {axis:>9} {rate_unit(tests):>9} {'':<{_BAR}} {'mean ms':>8} {'p95':>8} {'p99':>8} "
            f"{'max':>8}  50 µs{'':<{len(HIST_COLUMNS) - 7}}5 s"
        )
        rates = [_rate(test) for test in tests]
        for test, rate in zip(tests, rates, strict=True):
            yield _row(test, axis, rate, max(each or 0.0 for each in rates))
        yield ""


def _row(test: Test, axis: str, rate: float | None, top: float) -> str:
    spec, figures = test.spec, main_figures(test)
    labels = {"users": str(spec.users), "block": f"{spec.block_bytes / 1024:g} KB"}
    us = (figures.mean_us, figures.p95_us, figures.p99_us, figures.max_us)
    cells = " ".join(f"{show_ms(each and each / 1000):>8}" for each in us)
    bar = _bar(rate / top if rate and top else 0.0)
    name = printable(labels.get(axis, spec.name))
    shown = "-" if rate is None else f"{rate:,.1f}"
    refused = "" if test.verdict.ok else "  not the storage"
    line = f"  {name:>9} {shown:>9} {bar:<{_BAR}} {cells}  {_histogram(figures.hist)}{refused}"
    return line.rstrip()


def _bar(share: float) -> str:
    whole, part = divmod(round(share * _BAR * 8), 8)
    return ("█" * whole + _EIGHTHS[part]).rstrip()


def _histogram(hist: tuple[int, ...]) -> str:
    """A character for each of HIST_COLUMNS; any count is visible."""
    top = max(hist, default=0)
    if not top:
        return ""
    return "".join(_HEIGHTS[-(-count * (len(_HEIGHTS) - 1) // top)] for count in hist)
