"""Untrusted names are made safe to print, and ordinary names stay as they are."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.printable import MAX_CHARS, printable


@given(st.text() | st.binary())
def test_control_characters_are_escaped_and_printable_text_stays(
    name: str | bytes,
) -> None:
    shown = printable(name)
    assert not any(unicodedata.category(c).startswith("C") for c in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("fio", "fio"),
        ("数据库.dbf", "数据库.dbf"),
        ("\x1b[31m[/b]", "\\x1b[31m[/b]"),
        ("a\nb\tc\0", "a\\x0ab\\x09c\\x00"),
        ("a\u200bb", "a\\u200bb"),
        ("line\u2028end", "line\\u2028end"),
        (b"caf\xe9", "caf\\xe9"),
        (b"caf\xc3\xa9", "café"),
        ("C:\\dir", "C:\\dir"),
        ("\U000e0001", "\\U000e0001"),
        ("", ""),
    ],
)
def test_known_names(name: str | bytes, shown: str) -> None:
    assert printable(name) == shown


def test_a_long_name_is_cut_and_says_so() -> None:
    shown = printable("x" * (MAX_CHARS + 1))
    assert len(shown) == MAX_CHARS
    assert shown.endswith("x…")
    assert printable("x" * MAX_CHARS) == "x" * MAX_CHARS
    assert printable("\x1b" * 10, max_chars=8) == "\\x1b\\x1…"
