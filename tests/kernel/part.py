"""One ioh for many tests: what it printed during one of them, and the disk that it watches.

Starting ioh takes a second, and half a minute in an emulated machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ioh.bpf.host import are_probes_preempted
from tests.kernel.rig import Ioh, Volume


class Part(Ioh):
    """What a running `ioh json` printed between two moments."""

    def __init__(self, whole: Ioh) -> None:
        self._whole = whole
        self._first = len(whole.intervals)
        self._end: int | None = None

    @property
    def intervals(self) -> list[dict[str, Any]]:
        return self._whole.intervals[self._first : self._end]

    def settle(self) -> None:
        self._whole.settle()

    def close(self) -> None:
        self._whole.settle()
        self._end = len(self._whole.intervals)


@contextlib.contextmanager
def part_of(whole: Ioh) -> Iterator[Part]:
    """The intervals of a workload: nothing from before it, and all of it."""
    whole.settle()
    part = Part(whole)
    yield part
    part.close()


@dataclass(frozen=True)
class WatchedVolume:
    """A file system on a disk of its own, and the ioh that watches its calls and requests."""

    volume: Volume
    ioh: Ioh

    @contextlib.contextmanager
    def part(self) -> Iterator[Part]:
        """What happens on the volume, once all that the test wrote before is on disk."""
        self.volume.sync()
        with part_of(self.ioh) as part:
            yield part

    def forget_read_ahead(self) -> None:
        """Wait until what earlier tests fetched ahead, and never read, is forgotten."""
        for _ in range(6):  # each is two readings or more, and each reading halves it
            self.ioh.settle()


def remarks(ioh: Ioh) -> list[Any]:
    """What ioh has noted on its layers, or on why they are unavailable, each once."""
    said: list[Any] = []
    for interval in ioh.intervals:
        for layer in interval["layers"].values():
            said += [note for note in layer["notes"] if note not in said]
        said += [why for why in interval["unavailable"].values() if why not in said]
    return said


def assert_calls(ioh: Ioh, done: Mapping[str, int], size: int | None = None) -> None:
    """Exactly these calls, by op, were seen, each of ``size`` bytes."""
    seen = ioh.counts("syscall")
    assert_seen(ioh, seen, done)
    if size is not None:
        for op, count in seen.items():
            assert ioh.total("syscall", op, "bytes") == count * size


def assert_seen(ioh: Ioh, seen: Mapping[str, int], done: Mapping[str, int]) -> None:
    """All was seen, except for what ioh reports as lost where the kernel preempts probes."""
    lost = ioh.lost("syscall")
    if are_probes_preempted() and lost:
        told = lost.pop("recursion")
        print(f"{done} done, {seen} seen, {told} told to be lost")
        assert seen.keys() <= done.keys()
        assert all(0 <= count - seen.get(op, 0) <= told for op, count in done.items())
    else:
        assert seen == done
    assert lost == {}
