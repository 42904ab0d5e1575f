"""The login that ``--pg`` gives, and what of it may be seen: nothing."""

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
    """Where to log in, and what of statements to show.

    Shape:
        ``dsn`` as libpq takes it: ``service=shop``, ``host=… user=…`` or a URI; it may hold a
        password, so it is in no ``repr``.  ``with_parameters``: statements are shown with their
        string and number constants.
    """

    dsn: str = field(repr=False)
    with_parameters: bool = False


def hide_passwords(text: str) -> str:
    """A text with what looks like the password of a connection string taken out."""
    return _IN_URI.sub(rf"\1{_HIDDEN}@", _IN_PAIRS.sub(rf"\1{_HIDDEN}", text))
