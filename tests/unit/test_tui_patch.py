"""Pieces of a line as they are written: the same bytes as textual's own way would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ioh.tui.patch import cropped

STYLES = [None, Style(), Style(bold=True), Style(color="red", bgcolor="blue")]
SEGMENTS = st.lists(
    st.tuples(st.text("ab ▁█数é", min_size=1, max_size=9), st.sampled_from(STYLES)),
    min_size=1,
    max_size=6,
)


@given(SEGMENTS, st.integers(0, 40), st.integers(1, 40))
def test_a_piece_is_what_a_strip_of_it_renders(
    spans: list[tuple[str, Style | None]], first: int, columns: int
) -> None:
    strip = Strip([Segment(text, style) for text, style in spans])
    first = min(first, strip.cell_length - 1)
    last = min(first + columns, strip.cell_length)
    console = Console(color_system="truecolor", force_terminal=True)
    assert cropped(strip, first, last, console) == strip.crop(first, last).render(console)
