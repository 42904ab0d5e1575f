"""What the server says: names safe to show, statements without the data that is in them."""

from __future__ import annotations

import re

from ioh.model.printable import printable

# In this order; each begins where the one before ends.  Where it cannot be known where a constant
# ends (the text was cut off, a backslash before a quote means what the session's settings say, a
# comment within a comment), all the rest is taken for it.
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
    """A text as it is, whatever its encoding: not to be shown."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value or ""


def name_of(value: bytes | str | None) -> str:
    """A name, safe to show."""
    return printable(as_sent(value), _NAME_CHARS)


def hide_constants(statement: str) -> str:
    """A statement with ``?`` for each string and number, without comments, on one line.

    ``a IN (1, 2, 3)`` becomes ``a IN (?, …)``, so that statements that differ in their data alone
    are the same.  What is hidden in doubt is more than the constants, never less.
    """
    found = _NEGATIVE.sub(r"\1?", _TOKENS.sub(_replaced, statement))
    return _LIST.sub("?, …", on_one_line(found))


def on_one_line(statement: str) -> str:
    """A statement with each run of white space as one space."""
    return " ".join(statement.split())


def _replaced(match: re.Match[str]) -> str:
    if match["kept"] is not None:
        return match["kept"]
    return " " if match["gone"] is not None else "?"
