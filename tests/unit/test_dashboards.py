"""contrib/grafana is what tests/make_dashboards.py writes, and its panels do not overlap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.make_dashboards import WIDTH, dashboards


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.name)
def test_each_dashboard_is_up_to_date(path: Path) -> None:
    assert path.read_text() == dashboards()[path], "run: python -m tests.make_dashboards"


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.name)
def test_panels_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(path.read_text())["panels"]
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < WIDTH
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
