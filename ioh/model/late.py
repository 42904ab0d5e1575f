"""Values that are computed when somebody looks at them, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TypeVar

from ioh.model.hist import LatencyHist, SizeLatencyHist

_K = TypeVar("_K")
_V = TypeVar("_V")
_A = TypeVar("_A")
_D = TypeVar("_D")
_MISSING = object()
_MAX_KNOWN = 1024
_QUANTILES = 4


class LateMapping(Mapping[_K, _V]):
    """A mapping whose keys are found out at the first look, and each value at its own.

    What it is made of must never change; computing a value twice does no harm, so that several
    threads may look.

    Args:
        make: Makes for each key what makes its value.
    """

    __slots__ = ("_make", "_makers", "_values")

    def __init__(self, make: Callable[[], Mapping[_K, Callable[[], _V]]]) -> None:
        self._make = make
        self._makers: Mapping[_K, Callable[[], _V]] | None = None
        self._values: dict[_K, _V] = {}

    def _known(self) -> Mapping[_K, Callable[[], _V]]:
        makers = self._makers
        if makers is None:
            makers = self._makers = self._make()
        return makers

    def __getitem__(self, key: _K) -> _V:
        found = self._values.get(key, _MISSING)
        if found is _MISSING:
            found = self._values[key] = self._known()[key]()
        return found  # type: ignore[return-value]

    def get(self, key: _K, default: _D | None = None) -> _V | _D | None:  # type: ignore[override]
        """As of any mapping, without an exception for what is not there."""
        found = self._values.get(key, _MISSING)
        if found is _MISSING:
            return self[key] if key in self._known() else default
        return found  # type: ignore[return-value]

    def __contains__(self, key: object) -> bool:
        return key in self._known()

    def __iter__(self) -> Iterator[_K]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __repr__(self) -> str:
        return repr(dict(self))


class Distribution:
    """What an op's histograms tell of one interval; this one: nothing is known."""

    __slots__ = ()

    def latency(self) -> LatencyHist | None:
        """By latency."""
        return None

    def size_lat(self) -> SizeLatencyHist | None:
        """By size and latency."""
        return None

    def total(self) -> int:
        """How many operations its latency histogram counts, which is told sooner than by it."""
        return 0

    def percentiles_us(self, latency: LatencyHist | None) -> tuple[float | None, ...]:
        """p50, p95, p99 and p99.9 of that histogram."""
        del latency
        return (None,) * _QUANTILES


class _Nothing(Distribution):
    """Of an op that has histograms, and did nothing."""

    __slots__ = ()

    def latency(self) -> LatencyHist | None:
        return LatencyHist()

    def size_lat(self) -> SizeLatencyHist | None:
        return SizeLatencyHist()


NO_DISTRIBUTION = Distribution()
NOTHING_DONE = _Nothing()


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
