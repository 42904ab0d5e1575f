"""Any text at all: a parser answers, and never raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioh.procfs.block_fallback import add_totals, increase
from ioh.procfs.blockdev import parse_loop_file, parse_scheduler
from ioh.procfs.diskstats import make_dev, parse_dev, parse_diskstats, split_dev
from ioh.procfs.host import (
    parse_loadavg,
    parse_meminfo,
    parse_pressure,
    parse_stat,
    parse_vmstat,
)
from ioh.procfs.interfaces import parse_net_dev, parse_speed
from ioh.procfs.mountinfo import decode_octal, parse_mountinfo
from ioh.procfs.netstat import parse_netstat, parse_snmp6
from ioh.procfs.processes import (
    parse_cgroup,
    parse_cmdline,
    parse_process_io,
    parse_process_stat,
)

DATA = Path(__file__).parents[1] / "data"
PARSERS: list[Callable[[str], object]] = [
    parse_cgroup,
    parse_dev,
    parse_diskstats,
    parse_loadavg,
    parse_loop_file,
    parse_meminfo,
    parse_mountinfo,
    parse_net_dev,
    parse_netstat,
    parse_pressure,
    parse_process_io,
    parse_process_stat,
    parse_scheduler,
    parse_snmp6,
    parse_speed,
    parse_stat,
    parse_vmstat,
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


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text() | LINES)
def test_any_text(parse: Callable[[str], object], text: str) -> None:
    parse(text)


@pytest.mark.parametrize("parse", PARSERS)
@settings(max_examples=50)
@given(data=st.data())
def test_a_real_file_cut_and_joined_anywhere(
    parse: Callable[[str], object], data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from(FILES))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    parse(text[:start] + text[end:])


@given(st.binary())
@example("one\u00a0word".encode())
def test_any_command_line_is_printable(data: bytes) -> None:
    """A space of any width is no danger to a terminal, though str.isprintable() knows one only."""
    cmdline = parse_cmdline(data) or ""
    assert all(char.isprintable() or category(char) == "Zs" for char in cmdline)


@given(st.integers(0, (1 << 12) - 1), st.integers(0, (1 << 20) - 1))
def test_device_numbers_come_back(major: int, minor: int) -> None:
    assert split_dev(make_dev(major, minor)) == (major, minor)
    assert parse_dev(f"{major}:{minor}") == make_dev(major, minor)


TOTALS = st.tuples(*[st.none() | st.integers(0, (1 << 32) - 1)] * 16)


@given(TOTALS, TOTALS)
def test_growth_is_never_negative(
    older: tuple[int | None, ...], newer: tuple[int | None, ...]
) -> None:
    growth = increase(older, newer)
    assert all(value is None or value >= 0 for value in growth)
    assert len(add_totals(older, growth)) == len(older)
