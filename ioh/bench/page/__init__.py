"""report.html of a bench."""

from __future__ import annotations

from pathlib import Path

from ioh.bench.families import families, page_data, rate_unit, stack_of, worst_test
from ioh.bench.grade import Card
from ioh.bench.results import HIST_COLUMNS, Results
from ioh.bench.table import conditions_of, layers_of, show_ms
from ioh.pages import render

_TEMPLATE = Path(__file__).parent / "report.html.j2"
FILE_NAME = "report.html"


def render_page(results: Results, card: Card) -> str:
    """The page as HTML; every name from outside is text in it."""
    worst = worst_test(results, card)
    return render(
        _TEMPLATE,
        "page.js",
        page_data(results, card),
        {"ms": show_ms},
        results=results,
        card=card,
        tests=results.tests,
        conditions=conditions_of(results.conditions),
        layers_of=layers_of,
        families=families(results),
        rate_unit=rate_unit,
        worst=worst,
        stack=stack_of(worst),
        columns=HIST_COLUMNS,
    )
