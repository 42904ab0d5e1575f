"""The recordings that a bench may need, made before ioh gives up root."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from ioh.bench.price import MOST_TURNS, WATCHES, Watch
from ioh.bench.watch import BenchRecorder


class Recorders:
    """One recording of the tests for each Watch, and MOST_TURNS short ones to measure its price.

    ``chosen`` names the Watch, "" if it is to be measured.  None records before it is told to.
    ``is_stopped``: whether the user has ended the bench.
    """

    def __init__(
        self, directory: Path, name: str, chosen: str, is_stopped: Callable[[], bool]
    ) -> None:
        self._is_stopped = is_stopped
        self._of_tests: dict[str, BenchRecorder] = {}
        self._short: dict[str, list[BenchRecorder]] = {}
        for watch in WATCHES:
            if chosen in {"", watch.name}:
                self._of_tests[watch.name] = BenchRecorder(directory / name, watch.options)
            if not chosen and watch is not WATCHES[-1]:
                paths = [directory / f"price-{watch.name}-{turn}.ioh" for turn in range(MOST_TURNS)]
                self._short[watch.name] = [BenchRecorder(path, watch.options) for path in paths]

    def begin(self, name: str) -> BenchRecorder:
        """Begin the recording of the tests; raises as BenchRecorder.begin()."""
        self._of_tests[name].begin(self._is_stopped)
        return self._of_tests[name]

    @contextlib.contextmanager
    def short(self, watch: Watch) -> Iterator[None]:
        """Record until the end of the block, and remove the file."""
        recorder = self._short[watch.name].pop()
        try:
            recorder.begin(self._is_stopped)
            yield
        finally:
            recorder.close()
            recorder.path.unlink(missing_ok=True)

    def close(self) -> None:
        """End them all."""
        for recorder in chain(self._of_tests.values(), *self._short.values()):
            recorder.close()
