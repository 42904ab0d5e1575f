"""How much a thing remembers, whatever it keeps it in."""

from __future__ import annotations

import gc
import types

_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def count_held(root: object) -> int:
    """How many objects are reached from this one, code and classes aside."""
    seen: set[int] = set()
    left = [root]
    while left:
        found = left.pop()
        if id(found) not in seen and not isinstance(found, _SHARED):
            seen.add(id(found))
            left += gc.get_referents(found)
    return len(seen)
