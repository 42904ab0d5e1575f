"""Mount points, escapes and paths as the user sees them; no text makes a parser raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.procfs.block_fallback import add_totals, increase
from ioh.procfs.blockdev import parse_scheduler
from ioh.procfs.diskstats import make_dev, parse_dev, parse_diskstats
from ioh.procfs.mountinfo import (
    Location,
    MountTable,
    decode_octal,
    mount_of_path,
    parse_mountinfo,
    read_mounts,
)

DATA = Path(__file__).parents[1] / "data"
CRYPT = make_dev(253, 1)
BTRFS = make_dev(0, 46)


@pytest.fixture
def debian_11() -> MountTable:
    return MountTable(DATA / "proc-5.10")


def test_malformed_lines_are_left_out(debian_11: MountTable) -> None:
    assert [m.mount_point for m in debian_11.mounts][-3:] == ["/mnt/nfs", "/btr", "/btr/home"]
    assert len(debian_11.mounts) == 11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"/a\040b\011c\012d\134e", "/a b\tc\nd\\e"),
        (r"/a\04", r"/a\04"),
        (r"/a\777", r"/a\777"),
        (r"/a\303\244", "/a\udcc3\udca4"),
        ("/ä", "/ä"),
        ("\\", "\\"),
    ],
)
def test_octal(text: str, expected: str) -> None:
    assert decode_octal(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1 2 8:1 / / rw shared:1 ext4 /dev/sda rw",
        "1 2 8:1 / / rw - ext4",
        "1 2 8-1 / / rw - ext4 /dev/sda rw",
    ],
)
def test_malformed_line(line: str) -> None:
    assert parse_mountinfo(line) == []


def test_only_a_blank_ends_a_field_and_a_dash_can_be_a_path() -> None:
    (mount,) = parse_mountinfo("1 2 8:1 / - rw shared:1 - ext4 - rw more columns")
    assert (mount.mount_point, mount.source) == ("-", "-")
    (mount,) = parse_mountinfo("1 2 8:1 / /a\u2028b\x85\u3000c rw - ext4 x rw")
    assert mount.mount_point == "/a\u2028b\x85\u3000c"


@pytest.mark.parametrize(
    ("dev", "inside", "seen"),
    [
        (CRYPT, "/x", "/srv/my data/x"),
        (CRYPT, "/", "/srv/my data"),
        (CRYPT, "/pub/www/index", "/srv/my data/pub/www/index"),  # the oldest mount, not the bind
        (BTRFS, "/@/x", "/btr/x"),
        (BTRFS, "/@home/x", "/btr/home/x"),
        (make_dev(8, 1), "/etc/passwd", "/etc/passwd"),
        (make_dev(8, 1), "/", "/"),
        (BTRFS, "/@other/x", None),
        (make_dev(99, 1), "/x", None),
    ],
)
def test_path_as_seen(debian_11: MountTable, dev: int, inside: str, seen: str | None) -> None:
    location = debian_11.locate(dev, inside)
    assert (location.path if location else None) == seen


def test_location_is_printable(debian_11: MountTable) -> None:
    assert debian_11.locate(make_dev(0, 45), "/a\nb\x1b") == Location(
        "/mnt/nfs/a\\x0ab\\x1b", "/mnt/nfs", "nfs4"
    )


def test_mount_of_path_takes_the_longest_and_the_last(tmp_path: Path) -> None:
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "mountinfo").write_text(
        "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m rw - ext4 b rw\n3 1 8:3 / /m rw - ext4 c rw\n"
    )
    found = [mount_of_path(path, read_mounts(tmp_path)) for path in ("/m/x", "/mm", "/")]
    assert [mount and mount.source for mount in found] == ["c", "a", "a"]


def test_no_mountinfo(tmp_path: Path) -> None:
    table = MountTable(tmp_path)
    assert (table.mounts, table.refresh(), table.locate(1, "/")) == ((), False, None)
    assert read_mounts(tmp_path) == []


def test_an_nfs_file_system_mounted_twice_has_no_single_mount_point(tmp_path: Path) -> None:
    """Both mounts have the root "/" in mountinfo, so only the file tells which one shows it."""
    lines = [
        f"{number} 1 0:50 / /home/{name} rw - nfs4 srv:/home/{name} rw\n"
        for number, name in ((40, "a"), (41, "b"))
    ]
    (tmp_path / "proc/self").mkdir(parents=True)
    dev = make_dev(0, 50)
    for text, whole in ((lines[0], ("/home/a", "nfs4")), ("".join(lines), None)):
        (tmp_path / "proc/self/mountinfo").write_text(text)
        assert MountTable(tmp_path).of_whole(dev) == whole
    both = MountTable(tmp_path).of_file_system(dev)
    assert [(mount.id, mount.mount_point) for mount in both] == [(40, "/home/a"), (41, "/home/b")]


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


@settings(max_examples=30)
@given(st.text() | LINES)
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in PARSERS:
        parse(text)


@settings(max_examples=25)
@given(st.data())
def test_a_real_file_cut_and_joined_anywhere_raises_nothing(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(FILES))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for parse in PARSERS:
        parse(text[:start] + text[end:])


@settings(max_examples=25)
@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=32, max_size=32))
def test_growth_is_never_negative(numbers: list[int]) -> None:
    older, newer = tuple(numbers[:16]), tuple(numbers[16:])
    growth = increase(older, newer)
    assert min(growth) >= 0
    assert len(add_totals(older, growth)) == len(older)
