"""Makes untrusted names (process, file, mount, host) safe to print."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

MAX_CHARS = 4096

# Cc control, Cf format (bidi, zero width), Cs surrogate (invalid UTF-8), Co private, Cn unassigned,
# Zl and Zp line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: the original byte was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def printable_keys(names: Iterable[str]) -> dict[str, str]:
    """Printable forms by name; the second of two equal ones ends in ``~2``."""
    names_by_text: dict[str, str] = {}
    for name in names:
        plain = text = printable(name)
        number = 1
        while text in names_by_text:
            number += 1
            text = f"{plain}~{number}"
        names_by_text[text] = name
    return {name: text for text, name in names_by_text.items()}


def printable(name: str | bytes, max_chars: int = MAX_CHARS) -> str:
    """Return ``name`` with everything that a terminal could interpret escaped.

    Control characters, escapes, bidirectional and zero-width marks, and bytes that are not
    UTF-8 become ``\\xNN`` or ``\\uNNNN``; a backslash stays as it is.  The result has no line break
    and at most ``max_chars`` characters; if it was cut, the last one is ``…``.  Markup such as
    ``[/b]`` stays: sinks never interpret text as markup.
    """
    text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
    if not (text.isascii() and text.isprintable()):
        text = "".join(_escape(c) if unicodedata.category(c) in _UNSAFE else c for c in text)
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
