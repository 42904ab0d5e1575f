"""Any text at all: a parser answers, and never raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ioh.procfs.block_fallback import add_totals, increase
from ioh.procfs.blockdev import parse_scheduler
from ioh.procfs.diskstats import make_dev, parse_dev, parse_diskstats, split_dev
from ioh.procfs.mountinfo import decode_octal, parse_mountinfo

DATA = Path(__file__).parents[1] / "data"
PARSERS: list[Callable[[str], object]] = [
    parse_dev,
    parse_diskstats,
    parse_mountinfo,
    parse_scheduler,
    decode_octal,
]
FILES = [
    path.read_text()
    for kernel in ("proc-5.10", "proc-6.18")
    for path in sorted((DATA / kernel / "proc").rglob("*"))
    if path.is_file()
]
# Words that look like what the kernel writes, so that most lines get past the first check.
WORDS = st.sampled_from(
    ["cpu", "cpu0", "1", "-1", "8:1", "9" * 5000, "²", "٣", "1_0", "-", ":", "Tcp:", "(a)", "/", ""]
) | st.text(max_size=8)
LINES = st.lists(st.lists(WORDS, max_size=24).map(" ".join), max_size=6).map("\n".join)


@given(st.text() | LINES)
def test_any_text(text: str) -> None:
    for parse in PARSERS:
        parse(text)


@given(st.data())
def test_a_real_file_cut_and_joined_anywhere(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(FILES))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for parse in PARSERS:
        parse(text[:start] + text[end:])


@given(st.integers(0, (1 << 12) - 1), st.integers(0, (1 << 20) - 1))
def test_device_numbers_come_back(major: int, minor: int) -> None:
    assert split_dev(make_dev(major, minor)) == (major, minor)
    assert parse_dev(f"{major}:{minor}") == make_dev(major, minor)


TOTALS = st.tuples(*[st.integers(0, (1 << 32) - 1)] * 16)


@given(TOTALS, TOTALS)
def test_growth_is_never_negative(older: tuple[int, ...], newer: tuple[int, ...]) -> None:
    growth = increase(older, newer)
    assert min(growth) >= 0
    assert len(add_totals(older, growth)) == len(older)
