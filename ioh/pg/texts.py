"""Make the server's names safe to show, and remove constants from statements."""

from __future__ import annotations

import re

from ioh.model.printable import printable

# In this order; each token begins where the previous one ends.  If the end of a constant is not
# certain, all the rest is hidden: the text may be cut off, a backslash before a quote depends on
# the session's settings, and comments may be nested.
_TOKENS = re.compile(
    r"""
      (?P<gone> --[^\n]* | /\*(?:(?!/\*).)*?\*/ )
    | (?P<rest> /\*.* )
    | (?P<constant>
          [eE]'(?:[^'\\]|\\.|'')*'
        | (?:[bBxXnN]|[uU]&)?'(?:[^'\\]|''|\\(?!'))*'
        | (?:[eEbBxXnN]|[uU]&)?'.*
        | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z)
        | 0[xXoObB][\da-fA-F_]+
        | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?
      )
    | (?P<kept> "(?:[^"]|"")*"? | \$\d+ | [^\W\d][\w$]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_NEGATIVE = re.compile(r"(?<=[(,=<>+*/%|-])(\s*)-\s*\?")
_NAME_CHARS = 100
_LIST = re.compile(r"(?:\?\s*,\s*)+\?")


def as_sent(value: bytes | str | None) -> str:
    """Decode a text of any encoding; the result is not safe to show."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value or ""


def name_of(value: bytes | str | None) -> str:
    """Make a name safe to show."""
    return printable(as_sent(value), _NAME_CHARS)


def hide_constants(statement: str) -> str:
    """Replace each string and number by ``?``, and remove comments and line breaks.

    ``a IN (1, 2, 3)`` becomes ``a IN (?, …)``, so that statements that differ only in their data
    are equal.  In doubt, more than the constants is hidden, never less.
    """
    hidden = _NEGATIVE.sub(r"\1?", _TOKENS.sub(_replaced, statement))
    return _LIST.sub("?, …", on_one_line(hidden))


def on_one_line(statement: str) -> str:
    """Replace each run of white space by one space."""
    return " ".join(statement.split())


def _replaced(match: re.Match[str]) -> str:
    if match["kept"] is not None:
        return match["kept"]
    return " " if match["gone"] is not None else "?"
