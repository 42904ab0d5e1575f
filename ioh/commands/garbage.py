"""How often Python's garbage collector runs in a command."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# Collect after this many net allocations; Python's default is 700.  Live runs last for days, so
# they collect more often.
_EVERY, _EVERY_LIVE = 50_000, 10_000


@contextlib.contextmanager
def few_collections(*, is_live: bool = False) -> Iterator[None]:
    """Collect rarely, and never what exists already: samples have many values and no cycles."""
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
    """Never collect what is allocated in the block, neither now nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
