"""The login of ``--pg``, which must never be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_IN_PAIRS = re.compile(
    r"((?:password|sslpassword)\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]+)", re.IGNORECASE
)
_IN_URI = re.compile(r"(postgres(?:ql)?://)[^\s@]*@", re.IGNORECASE)
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Login:
    """Where to log in, and how to show statements.

    ``dsn`` in libpq's syntax: ``service=shop``, ``host=… user=…`` or a URI.  It may hold a
    password, so ``repr`` omits it.  ``with_parameters``: show statements with their string and
    number constants.
    """

    dsn: str = field(repr=False)
    with_parameters: bool = False


def hide_passwords(text: str) -> str:
    """Replace whatever looks like the password of a connection string."""
    return _IN_URI.sub(rf"\1{_HIDDEN}@", _IN_PAIRS.sub(rf"\1{_HIDDEN}", text))
