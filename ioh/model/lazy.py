"""Values that are computed on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_A = TypeVar("_A")
_D = TypeVar("_D")
_MAX_KNOWN = 1024


class LazyMapping(Mapping[_K, _V]):
    """A mapping that makes each value on first access.

    The inputs must never change; they are released once the value is made.  Several threads may
    use it: making a value twice does no harm.
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
        """As in Mapping, without raising an exception for a missing key."""
        return self[key] if key in self._makers else default

    def but(self, key: _K, value: _V) -> LazyMapping[_K, _V]:
        """The same with another value."""
        copy: LazyMapping[_K, _V] = LazyMapping({**self._makers, key: None})
        copy._values = {**self._values, key: value}
        return copy

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __iter__(self) -> Iterator[_K]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return repr(dict(self))


def by_identity(make: Callable[[_A], _V]) -> Callable[[_A], _V]:
    """Like functools.cache for a large immutable argument, such as a LayerSpec.

    Hashing it would cost as much as the cache saves, so its identity is the key.
    """
    values: dict[int, tuple[_A, _V]] = {}  # by id(), which stays unique while the object is here

    @wraps(make)
    def look_up(of: _A) -> _V:
        value = values.get(id(of))
        if value is None:
            if len(values) >= _MAX_KNOWN:
                values.clear()
            value = values[id(of)] = (of, make(of))
        return value[1]

    return look_up
