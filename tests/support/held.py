"""Measure how much an object keeps in memory, in whatever attributes."""

from __future__ import annotations

import gc
import types

_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def count_held(root: object) -> int:
    """Number of objects reachable from this one, without code and classes."""
    seen: set[int] = set()
    left = [root]
    while left:
        found = left.pop()
        if id(found) not in seen and not isinstance(found, _SHARED):
            seen.add(id(found))
            left += gc.get_referents(found)
    return len(seen)
