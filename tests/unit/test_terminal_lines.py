"""Lines, frames and columns: what every panel is made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ioh.sinks.cells import display_width
from ioh.terminal.line import Line
from ioh.terminal.patch import Paint, changed_runs, pieces_of

TEXT = st.text(st.sampled_from("ab .数据é\u0301👍"), max_size=12) | st.just("  ")
SPANS = st.lists(st.tuples(TEXT, st.sampled_from(["", "dim", "sel", "read"])), max_size=6)


def line_of(spans: list[tuple[str, str]]) -> Line:
    line = Line()
    for text, style in spans:
        line.add(text, style)
    return line


def styles_by_column(line: Line) -> list[tuple[str, str]]:
    """Each visible character, with its style."""
    return [(char, style) for text, style in line.spans for char in text if char != " "]


@given(SPANS)
def test_text_keeps_its_style_whatever_is_added_after_it(spans: list[tuple[str, str]]) -> None:
    wanted = [(char, style) for text, style in spans for char in text if char != " "]
    assert styles_by_column(line_of(spans)) == wanted
    assert line_of(spans).text == "".join(text for text, _ in spans)


def test_spaces_between_words_neither_take_nor_give_a_style() -> None:
    line = Line("bad", "crit").add("  ").add("good", "good").to(12)
    assert line.spans == [("bad  ", "crit"), ("good   ", "good")]
    marked = Line("chosen", "sel").to(10)
    assert marked.spans == [("chosen", "sel"), ("    ", "")]


@given(SPANS, st.integers(0, 30))
def test_a_fitted_line_has_exactly_the_requested_width(
    spans: list[tuple[str, str]], width: int
) -> None:
    line = line_of(spans).fitted(width)
    assert line.width == width == display_width(line.text)


def test_cut_text_ends_with_a_tilde() -> None:
    assert Line("12345678").fitted(5).text == "1234~"
    assert Line().left("12345678", 5).text == "1234~"
    assert Line("数据库").fitted(4).text == "数~ "
    assert Line("数据库").fitted(0).text == ""


@given(SPANS, SPANS, st.integers(1, 30))
def test_changed_runs_cover_every_change_and_nothing_before_the_first(
    old: list[tuple[str, str]], new: list[tuple[str, str]], width: int
) -> None:
    was, now = line_of(old).fitted(width), line_of(new).fitted(width)
    runs = changed_runs(was, now)
    covered = {x for first, end in runs for x in range(first, end)}
    before, after = columns_of(was), columns_of(now)
    changed = {x for x in range(width) if before[x] != after[x]}
    assert changed <= covered
    assert all(first in changed and end - 1 in changed for first, end in runs)
    assert all(0 <= first < end <= width for first, end in runs)
    assert [end for _, end in runs[:-1]] < [first for first, _ in runs[1:]] or len(runs) < 2


def columns_of(line: Line) -> list[tuple[str, str]]:
    """What is seen in each column: both columns of a wide character show one half of it."""
    found: list[tuple[str, str]] = []
    halves = 0
    for text, style in line.spans:
        for char in text:
            seen = style if char != " " or style == "sel" else ""
            if display_width(char) == 0:
                for at in range(len(found) - halves, len(found)):
                    found[at] = (found[at][0] + char, style)
                continue
            halves = display_width(char)
            found += [(char, seen), ("right half of " + char, seen)][:halves]
    return found


def test_a_wide_character_in_place_of_another_is_written_as_a_whole() -> None:
    was, now = Line("ab数c"), Line("ab据c")
    styles = {"": Style()}
    written = pieces_of(now, 0, changed_runs(was, now), Paint(styles, Console()))
    assert "".join(written) == "\x1b[1;3H据"
    row = changed_runs(Line("数" * 20), Line("a").add("数" * 19).add("b"))
    assert row == [(0, 40)], "each stands a column further: no half stays"


WRITTEN = {"": Style(), "strong": Style(bold=True), "warn": Style(color="red", bgcolor="blue")}
PIECES = st.lists(
    st.tuples(st.text("ab ▁█数é", min_size=1, max_size=9), st.sampled_from(sorted(WRITTEN))),
    min_size=1,
    max_size=6,
)


@given(PIECES, PIECES, st.integers(1, 54), st.integers(0, 39))
def test_pieces_are_what_a_strip_of_them_renders(
    old: list[tuple[str, str]], new: list[tuple[str, str]], width: int, y: int
) -> None:
    """The bytes are those that textual itself would write."""
    was, line = line_of(old).fitted(width), line_of(new).fitted(width)
    console = Console(color_system="truecolor", force_terminal=True)
    strip = Strip([Segment(text, WRITTEN[style]) for text, style in line.spans], width)
    runs = changed_runs(was, line)
    for first, last in [*runs, (0, width)]:
        wanted = f"\x1b[{y + 1};{first + 1}H" + strip.crop(first, last).render(console)
        assert "".join(pieces_of(line, y, [(first, last)], Paint(WRITTEN, console))) == wanted
