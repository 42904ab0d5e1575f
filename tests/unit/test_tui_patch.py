"""Pieces of a line as they are written: the same bytes as textual's own way would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style

from ioh.tui.patch import Paint, Runs, pieces_of, strip_of
from ioh.tui.render.line import Line

STYLES = {"": Style(), "strong": Style(bold=True), "warn": Style(color="red", bgcolor="blue")}
SPANS = st.lists(
    st.tuples(st.text("ab ▁█数é", min_size=1, max_size=9), st.sampled_from(sorted(STYLES))),
    min_size=1,
    max_size=6,
)


def cut(points: list[int], width: int) -> Runs:
    """Runs of a line, apart from each other, that begin and end at some of these columns."""
    inside = sorted({min(point, width) for point in points})
    return list(zip(inside[::2], inside[1::2], strict=False))


@given(SPANS, st.lists(st.integers(0, 54), min_size=2, max_size=8), st.integers(0, 39))
def test_pieces_are_what_a_strip_of_them_renders(
    spans: list[tuple[str, str]], points: list[int], y: int
) -> None:
    line = Line()
    for text, style in spans:
        line.add(text, style)
    console = Console(color_system="truecolor", force_terminal=True)
    runs, strip = cut(points, line.width), strip_of(line, STYLES)
    wanted = [
        f"\x1b[{y + 1};{first + 1}H" + strip.crop(first, last).render(console)
        for first, last in runs
    ]
    assert "".join(pieces_of(line, y, runs, Paint(STYLES, console))) == "".join(wanted)
