"""Names that a process, file or host can have, and that must never reach a terminal unescaped."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ioh.model.sample import LayerSample, Row, Sample, Unavailable
from tests.support.demo_samples import samples

_TERMINAL = (
    "\x1b[31mred\x1b[0m",
    "\x1b[2J\x1b[1;1H",
    "\x1b]0;a title\x07",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\",
    "\x1bP1$q\x1b\\",
    "\x9b31mred",
    "\x90q\x9c",
    "a\0b",
    "\b\b\b\x7f",
    "a\nb",
    "a\r\nb",
    "\rover",
    "a\x0b\x0c\x1c\x85b",
    "a\u2028b\u2029c",
    "a\tb",
)
_MARKUP = (
    "[/b]x[red]y",
    "[/]",
    "[",
    "]",
    "[[",
    "[bold",
    "\\[bold]",
    "\\",
    "[@click=app.quit]x[/]",
    "[link=http://example.org]x",
    "$var {0} %s %n",
    "&amp;<script>",
)
_LETTERS = (
    "\u202egnp.exe",
    "\u2066a\u2069",
    "\u200bzero\u200c\u200d\ufeff",
    "\u05e9\u05dc\u05d5\u05dd",
    "数据库.dbf",
    "ファイル",
    "👩\u200d👩\u200d👧\u200d👦",
    "🇩🇪👍🏽",
    "Z\u0351\u036b\u0343a\u0301" + "\u0300" * 60,
    "\u0301",  # a combining mark without a base character
    "\u3164\u2800\u00a0",  # invisible
    "\U000e0041\ue000\u0378",  # a tag, private use, not assigned
)
_BYTES = (
    "\ud800",  # from a recording: no decoder produces it
    *(
        raw.decode("utf-8", "surrogateescape")
        for raw in (b"\xff\xfe", b"a\x80b", b"\xc3(", b"\xed\xa0\x80", b"\xe2\x80")
    ),
)
_PATHS = ("/" + "d" * 4095, "/" + "深" * 4095, "/" + "a/" * 2047, "/\x1b[7m" * 800)
_WORDS = ("", " ", "-", ".", "0", '"a","b"', 'a="b"} 1 2\n# EOF')
_FORMULAS = ("=cmd()|'x'!A0", "+1", "-2+3", "@SUM(A1)", "＝1+1", "＋1", "－1", "＠SUM(A1)", "\t=1")
# Literal text that looks like another name as ioh escapes it.
_ALIKE = ("\\x1b[2J\\x1b[1;1H", "a\\x0ab", "\\\x1b", "\\\\x1b")

NAMES: tuple[str, ...] = (
    *(*_TERMINAL, *_MARKUP, *_LETTERS, *_BYTES, *_PATHS, *_WORDS, *_FORMULAS, *_ALIKE),
)

# Cc control (except newline), Cf bidi and zero width, Cs not UTF-8, Co private use, Cn unassigned,
# Zl and Zp line and paragraph separators.
_RAW = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def raw_chars(text: str) -> set[str]:
    """Characters of ``text``, newlines aside, that should have been escaped."""
    return {c for c in set(text) if c != "\n" and unicodedata.category(c) in _RAW}


def hostile_samples(count: int = 3, *, names: tuple[str, ...] = NAMES) -> list[Sample]:
    """The demo's samples with every one of ``names`` as a row of every table, a part, a note.

    Shape:
        The host and the kernel have a different name in each sample.  All parts of a row's key
        are the same name; its values are those of the demo's rows in turn, so that it is active
        whenever they are.  Tables that are empty in the demo stay empty.
    """
    return [
        replace(
            sample,
            hostname=names[at % len(names)],
            kernel=names[-1 - at % len(names)],
            layers={name: _hostile(layer, names) for name, layer in sample.layers.items()},
        )
        for at, sample in enumerate(samples()[10 : 10 + count])
    ]


def without_layer(samples: list[Sample], layer: str, name: str) -> list[Sample]:
    """The same samples with one layer unavailable, for a reason called ``name``."""
    missing = Unavailable(name, f"{name}!")
    return [replace(s, layers={**s.layers, layer: missing}) for s in samples]


def _hostile(layer: LayerSample | Unavailable, names: tuple[str, ...]) -> LayerSample | Unavailable:
    assert isinstance(layer, LayerSample)
    parts = itertools.cycle(layer.parts.values()) if layer.parts else None
    return replace(
        layer,
        tables={name: dict(_rows(table, names)) for name, table in layer.tables.items()},
        parts={name: next(parts) for name in names} if parts else {},
        notes=names,
    )


def _rows(
    table: Mapping[tuple[str, ...], Row], names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Row]]:
    rows = itertools.cycle(table.items())
    for name in names if table else ():
        key, row = next(rows)
        yield (name,) * len(key), row
