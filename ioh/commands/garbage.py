"""How seldom a command looks through its memory for cyclic garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# Objects made and not freed; 700 by default.  Live is for days: less is left lying about.
_EVERY, _EVERY_LIVE = 50_000, 10_000


@contextlib.contextmanager
def few_collections(*, is_live: bool = False) -> Iterator[None]:
    """Look for it seldom: samples and recordings have many values, and no cycles.

    What is there already is never looked through.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_EVERY_LIVE if is_live else _EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def without_garbage() -> Iterator[None]:
    """What is made meanwhile stays: it is never looked through, now or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
