"""contrib/grafana is what tests/make_dashboards.py makes, and its panels lie side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.make_dashboards import WIDTH, dashboards


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.name)
def test_the_file_is_what_is_made(path: Path) -> None:
    assert path.read_text() == dashboards()[path], "run: python -m tests.make_dashboards"


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.name)
def test_panels_lie_side_by_side(path: Path) -> None:
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
