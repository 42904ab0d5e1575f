"""fiop.r's panels for a terminal: throughput, latency and histogram over users or size."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.bench.families import families, main_figures
from ioh.bench.lines import show_ms
from ioh.bench.results import HIST_COLUMNS, Results, Test
from ioh.model.printable import printable

_BAR = 14
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"


def panels_text(results: Results) -> Iterator[str]:
    """A panel for each family of tests, 110 columns wide at most."""
    for title, axis, tests in families(results):
        if axis == "test" and len(tests) == 1:
            continue
        yield title
        yield (
            f"  {axis:>9} {'MB/s':>9} {'':<{_BAR}} {'mean ms':>8} {'p95':>8} {'p99':>8} {'max':>8}"
            f"  50 µs{'':<{len(HIST_COLUMNS) - 7}}5 s"
        )
        rates = [_bytes_per_s(test) for test in tests]
        for test, rate in zip(tests, rates, strict=True):
            yield _row(test, axis, rate, max(rates))
        yield ""


def _row(test: Test, axis: str, bytes_per_s: float, top: float) -> str:
    spec, figures = test.spec, main_figures(test)
    labels = {"users": str(spec.users), "block": f"{spec.block_bytes / 1024:g} KB"}
    us = (figures.mean_us, figures.p95_us, figures.p99_us, figures.max_us)
    cells = " ".join(f"{show_ms(each and each / 1000):>8}" for each in us)
    bar = _bar(bytes_per_s / top if top else 0.0)
    name = printable(labels.get(axis, spec.name))
    rate = f"{bytes_per_s / 1e6:,.1f}"
    refused = "" if test.verdict.ok else "  not the storage"
    line = f"  {name:>9} {rate:>9} {bar:<{_BAR}} {cells}  {_histogram(figures.hist)}{refused}"
    return line.rstrip()


def _bytes_per_s(test: Test) -> float:
    return sum(figures.bytes_per_s or 0.0 for figures in test.run.fio.values())


def _bar(share: float) -> str:
    whole, part = divmod(round(share * _BAR * 8), 8)
    return ("█" * whole + _EIGHTHS[part]).rstrip()


def _histogram(hist: tuple[int, ...]) -> str:
    """A character for each of HIST_COLUMNS; whatever was counted shows."""
    top = max(hist, default=0)
    if not top:
        return ""
    return "".join(_HEIGHTS[-(-count * (len(_HEIGHTS) - 1) // top)] for count in hist)
