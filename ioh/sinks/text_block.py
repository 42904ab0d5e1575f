"""An interval as text before it is known what was said already, and what was found in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Once(NamedTuple):
    """A line that need not be said twice."""

    text: str


class TextBlock(NamedTuple):
    """One interval as text, but for its findings, which stand between the two.

    Shape:
        ``layer_titles`` by name, for the findings' evidence.
    """

    before: tuple[str | Once, ...]
    after: str
    layer_titles: Mapping[str, str]


def joined(lines: Iterable[str | Once]) -> tuple[str | Once, ...]:
    """The same lines in as few pieces as may be."""
    pieces: list[str | Once] = []
    plain: list[str] = []
    for line in lines:
        if isinstance(line, str):
            plain.append(line)
        else:
            pieces += ["\n".join(plain)] * bool(plain) + [line]
            plain = []
    return (*pieces, *["\n".join(plain)] * bool(plain))
