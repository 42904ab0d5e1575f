"""Numbers and names as fixed-width text: ``.`` is zero, ``-`` unknown; no control characters."""

from __future__ import annotations

import time
import unicodedata
from functools import lru_cache
from math import isfinite

from ioh.model.digits import three_digits
from ioh.model.printable import printable
from ioh.model.sample import Value

ZERO = "."
UNKNOWN = "-"
_BINARY = ("", "K", "M", "G", "T", "P")
_DECIMAL = ("", "k", "M", "G", "T", "P")


def display_width(text: str) -> int:
    """Columns that ``text`` takes on a terminal: two for wide characters, none for marks."""
    return len(text) if is_narrow(text) else sum(map(char_width, text))


def is_narrow(text: str) -> bool:
    """Whether each character takes exactly one column."""
    return text.isascii() or all(char_width(char) == 1 for char in set(text))


@lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    """Columns that one character takes on a terminal."""
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad_right(text: str, width: int) -> str:
    """Pad ``text`` with spaces on the right; longer text is unchanged."""
    return text + " " * max(0, width - display_width(text))


def pad_left(text: str, width: int) -> str:
    """Pad ``text`` with spaces on the left; longer text is unchanged."""
    return " " * max(0, width - display_width(text)) + text


def safe_name(text: str, max_width: int = 0) -> str:
    """A name from outside, made printable and cut in the middle to ``max_width`` (0: uncut).

    Both ends stay, because the end of a path matters more than its middle.
    """
    safe = printable(text)
    return cut_middle(safe, max_width) if max_width else safe


def cut_middle(text: str, width: int) -> str:
    """Cut ``text`` to ``width`` columns, with ``~`` instead of its middle."""
    if display_width(text) <= width:
        return text
    head = _take(text, (width - 1) // 2)
    tail = _take(text[::-1], width - 1 - display_width(head))[::-1]
    return f"{head}~{tail}"


def cut_to(text: str, width: int) -> str:
    """Cut ``text`` to ``width`` columns; the last one is ``~`` if it was cut."""
    if display_width(text) <= width:
        return text
    return _take(text, width - 1) + "~" if width > 0 else ""


def _take(text: str, width: int) -> str:
    columns = 0
    for index, char in enumerate(text):
        columns += char_width(char)
        if columns > width:
            return text[:index]
    return text


def format_fixed(value: Value, width: int, decimals: int) -> str:
    """A number with up to ``decimals`` decimals, as many as fit ``width``; unpadded.

    ``.`` for zero, ``-`` for unknown; numbers wider than ``width`` get a suffix (``12M``).
    """
    if not value or not isfinite(value):
        return ZERO if value == 0 else UNKNOWN
    text = f"{value:.{decimals}f}"
    while len(text) > width and decimals:
        decimals = max(0, decimals - (len(text) - width))
        text = f"{value:.{decimals}f}"
    return text if len(text) <= width else format_scaled(value, 1000)


def fixed_ms(value_us: float | None) -> str:
    """Microseconds as milliseconds, in at most 8 columns."""
    return format_fixed(None if value_us is None else value_us / 1e3, 8, 3)


def format_scaled(value: Value, base: int = 1000) -> str:
    """Three digits in at most five columns: ``0.042``, ``0.940``, ``12.0``, ``990``, ``1.04k``.

    With base 1024 a size, without trailing zeros: ``64K``, ``1.25M``.  A count, which is an int,
    stays whole below 1,000.
    """
    if not value or not isfinite(value):
        return ZERO if value == 0 else UNKNOWN
    if 0 < value < 0.0005:
        return "<.001"
    scaled, step = float(value), 0
    while abs(scaled) >= base - 0.5 and step < len(_DECIMAL) - 1:
        scaled /= base
        step += 1
    if base == 1024:
        return _trimmed(scaled) + _BINARY[step]
    text = str(value) if isinstance(value, int) and not step else three_digits(scaled)
    return text + _DECIMAL[step]


def _trimmed(value: float) -> str:
    return three_digits(value).removesuffix(".00").removesuffix(".0")


def format_share(pct: Value) -> str:
    """A share, whole, as its decimals are noise: ``84%``, ``<1%``, ``0%``, ``-`` if unknown."""
    if pct is None or not 0 < pct < 1:
        return UNKNOWN if pct is None else f"{pct:.0f}%"
    return "<1%"


def format_ms(value_us: Value) -> str:
    """Microseconds as milliseconds, where a title says ``ms``: ``0.003``, ``12.0``, ``1.04k``."""
    return format_scaled(value_us / 1e3 if value_us else value_us)


def format_duration(value_us: Value) -> str:
    """A time with its unit: ``450 ns``, ``83 µs``, ``1.21 ms``, ``2.10 s``."""
    if not value_us or not isfinite(value_us):
        return ZERO if value_us == 0 else UNKNOWN
    for limit, factor, unit in ((0.9995, 1e3, "ns"), (999.5, 1.0, "µs")):
        if value_us < limit:
            return f"{value_us * factor:.0f} {unit}"
    if value_us < 999_500:
        return f"{three_digits(value_us / 1e3)} ms"
    return f"{three_digits(value_us / 1e6)} s"


def format_unit(metric: str, title: str, value: Value) -> str:
    """A number with the unit that its name ends in, unless ``title`` has the unit."""
    if not value or not isfinite(value):
        return ZERO if value == 0 else UNKNOWN
    if metric.endswith(("_bytes_per_s", "_bytes")):
        return format_scaled(value, 1024 if metric.endswith("_bytes") else 1000)
    if metric.endswith("_us") and "µs" not in title:
        return _unit_time(value)
    if metric.endswith("_pct"):
        return format_fixed(value, 6, 1 if value >= 1 else 3) + ("" if "%" in title else "%")
    if isinstance(value, int):
        return str(value) if value < 10**7 else format_scaled(value)
    return format_fixed(value, 7, 3) if value < 1 else format_fixed(value, 7, 1)


def _unit_time(value_us: float) -> str:
    """A time in at most six columns, unit included: ``2.94µs``, ``1.21ms``."""
    for limit, factor, suffix in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if value_us < limit:
            return _trimmed(value_us * factor) + suffix
    return _trimmed(value_us / 1e6) + "s"


def clock(unix_s: float, *, utc: bool, with_date: bool = False) -> str:
    """The time of day."""
    when = time.gmtime(unix_s) if utc else time.localtime(unix_s)
    return time.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", when)


def latency_label(edge_us: int, micro: str = "u", milli: str = "m") -> str:
    """A latency column's heading, as in ioh.sh: 64u, .1m, 2m, 33m, .5s, 4s."""
    for scale, unit in ((1, micro), (1_000, milli), (1_000_000, "s")):
        if edge_us < scale:
            return f".{edge_us * 10 // scale}{unit}"
        if edge_us < scale * 100:
            return f"{round(edge_us / scale)}{unit}"
    return f"{round(edge_us / 1_000_000)}s"
