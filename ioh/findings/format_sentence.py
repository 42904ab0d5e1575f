"""Format numbers and programs in sentences: sizes, rates, times, ratios, with units."""

from __future__ import annotations

from ioh.model.digits import three_digits
from ioh.model.sample import OTHERS


def size(bytes_: float) -> str:
    """A size of I/O with KB = 1,024 bytes: ``512 B``, ``64 KB``, ``1 MB``, ``1.25 MB``."""
    for divisor, unit in ((1, "B"), (1 << 10, "KB"), (1 << 20, "MB")):
        if bytes_ < divisor << 10:
            return f"{_digits(bytes_ / divisor)} {unit}"
    return f"{_digits(bytes_ / (1 << 30))} GB"


def rate(bytes_per_s: float) -> str:
    """A rate in 1,000,000 bytes per second, as in all tables of ioh."""
    return f"{_digits(bytes_per_s / 1e6)} MB/s"


def duration(us: float) -> str:
    """A time: ``83 µs``, ``91.0 ms``, as on the screen, or ``5 s``: ages are rarely more exact."""
    if us < 999.5:
        return f"{us:.0f} µs" if us >= 1 else f"{_digits(us)} µs"
    return f"{three_digits(us / 1e3)} ms" if us < 999_500 else f"{_digits(us / 1e6)} s"


def times(ratio: float) -> str:
    """A number or ratio: ``16``, ``7.8``, ``1.25``."""
    return _digits(ratio)


def percent(share: float) -> str:
    """A share of 0 to 1: ``93 %``."""
    return f"{_digits(share * 100)} %"


def per_s(number: float) -> str:
    """A rate of events: ``12,400``, ``31``, ``0.5``."""
    return f"{number:,.0f}" if number >= 100 else _digits(number)


def program(key: tuple[str, ...], others: str) -> str:
    """The process of a row: ``fio[4121]``, or ``others`` for the row that sums up the others."""
    pid, comm = key
    return others if pid == OTHERS else f"{comm}[{pid}]"


def _digits(value: float) -> str:
    """About three digits, without trailing zeros."""
    text = three_digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
