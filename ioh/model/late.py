"""Values that are computed when somebody looks at them, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_A = TypeVar("_A")
_D = TypeVar("_D")
_MAX_KNOWN = 1024


class LateMapping(Mapping[_K, _V]):
    """A mapping that makes each value when it is first looked at.

    What they are made of must never change, and is let go once they are made; making a value twice
    does no harm, so that several threads may look.
    """

    __slots__ = ("_makers", "_values")

    def __init__(self, makers: Mapping[_K, Callable[[], _V] | None]) -> None:
        self._makers = dict(makers)
        self._values: dict[_K, _V] = {}

    def __getitem__(self, key: _K) -> _V:
        if key not in self._values and (make := self._makers[key]) is not None:
            self._values[key], self._makers[key] = make(), None
        return self._values[key]

    def get(self, key: _K, default: _D | None = None) -> _V | _D | None:  # type: ignore[override]
        """As of any mapping, without an exception for what is not there."""
        return self[key] if key in self._makers else default

    def but(self, key: _K, value: _V) -> LateMapping[_K, _V]:
        """The same with another value."""
        made: LateMapping[_K, _V] = LateMapping({**self._makers, key: None})
        made._values = {**self._values, key: value}
        return made

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __iter__(self) -> Iterator[_K]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return repr(dict(self))


def by_identity(make: Callable[[_A], _V]) -> Callable[[_A], _V]:
    """Like functools.cache for a large argument that never changes, such as a LayerSpec.

    To hash one takes as long as what is to be saved, so the object itself is the key.
    """
    known: dict[int, tuple[_A, _V]] = {}  # by id(), which stays taken as long as it is here

    @wraps(make)
    def look_up(of: _A) -> _V:
        found = known.get(id(of))
        if found is None:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            found = known[id(of)] = (of, make(of))
        return found[1]

    return look_up
