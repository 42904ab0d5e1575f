"""A number in three digits, in sentences as in tables."""

from __future__ import annotations


def three_digits(value: float) -> str:
    """``0.042``, ``0.940``, ``12.0``, ``990``; more digits only from 1,000 on."""
    for limit, places in ((0.9995, 3), (9.995, 2), (99.95, 1)):
        if abs(value) < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"
