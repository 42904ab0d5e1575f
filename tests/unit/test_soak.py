"""The soak's judgement of memory: a leak is found, what fills up and steps is not one."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp

import pytest

from tests.soak import GROWTH_BYTES, Flatness

READINGS = 360  # of half an hour

SHAPES: dict[str, tuple[Callable[[int], float], bool]] = {
    "flat": (lambda _: 0, True),
    "a cache fills in ten minutes": (lambda n: 8e6 * (1 - exp(-n / 30)), True),
    "a module is loaded": (lambda n: 4e6 * (n > 230), True),
    "a load comes and goes": (lambda n: 5e6 * (n % 48 < 16), True),
    "200 bytes an interval": (lambda n: 200 * 50 * n, False),
    "the same, and a load comes and goes": (lambda n: 200 * 50 * n + 5e6 * (n % 48 < 16), False),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_only_a_steady_growth_of_memory_is_a_leak(shape: str) -> None:
    rng, (grown_bytes, is_flat) = random.Random(shape), SHAPES[shape]
    seen = Flatness("text", 1)
    for n in range(READINGS):
        seen.rss_bytes.append(int(40e6 + grown_bytes(n) + rng.gauss(0, GROWTH_BYTES / 5)))
        seen.descriptors.append(60 + n % 2)
    assert seen.verdict() is is_flat


def test_a_descriptor_that_stays_open_is_found() -> None:
    seen = Flatness("text", 1, [40_000_000] * READINGS, [60 + n // 200 for n in range(READINGS)])
    assert not seen.verdict()
