"""A picture is self-contained: it refers to nothing outside; each run of text has its position."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from ioh.sinks.cells import display_width
from ioh.terminal.line import Line, ScreenFrame
from ioh.terminal.picture import COLUMN_PX, LEFT_PX, svg
from ioh.tui.theme import styles_for
from tests.support.hostile import NAMES, raw_chars

STYLES = styles_for("dark", "truecolor")
NAMESPACE = "{http://www.w3.org/2000/svg}"


def shown(picture: str) -> list[tuple[int, int, str]]:
    """Each run of text but the title: its column, its width in columns, its text."""
    found = []
    for text in ET.fromstring(picture).iter(f"{NAMESPACE}text"):
        if text.get("class") != "title":
            at, width = int(text.attrib["x"]) - LEFT_PX, int(text.attrib["textLength"])
            assert at % COLUMN_PX == width % COLUMN_PX == 0
            found.append((at // COLUMN_PX, width // COLUMN_PX, text.text or ""))
    return found


def test_nothing_is_fetched_from_elsewhere() -> None:
    picture = svg(ScreenFrame([Line("http://example.org url(x) @import", "read")]), STYLES, "t")
    parsed = ET.fromstring(picture)
    style = parsed.find(f"{NAMESPACE}style")
    assert style is not None
    assert style.text is not None
    assert "monospace" in style.text
    for word in ("url", "@", "http"):
        assert word not in style.text
    attributes = [name for element in parsed.iter() for name in element.attrib]
    assert not any("href" in name or name.startswith("on") for name in attributes)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_and_titles_stay_text(name: str) -> None:
    line = Line(f"a {name} b", "crit")
    picture = svg(ScreenFrame([line]), STYLES, line.text)
    assert not raw_chars(picture)
    words = " ".join(text for _, _, text in shown(picture))
    assert words == re.sub(" +", " ", line.text)
    tags = {element.tag.removeprefix(NAMESPACE) for element in ET.fromstring(picture).iter()}
    assert tags <= {"svg", "style", "rect", "circle", "text"}
    last, width, _ = shown(picture)[-1]
    assert last + width == display_width(line.text)
