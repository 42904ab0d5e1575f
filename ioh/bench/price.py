"""What watching costs on this storage: fio alone and watched, in turns.

Where it costs too much, less is watched: a bench must not change what it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ioh.bench.plans import seconds_of
from ioh.bench.results import TestSpec, WatchName
from ioh.findings.format_sentence import percent

TURNS, TURN_S = 3, 3.0
MOST_TURNS = 5  # if they disagree: others disturb the storage, or this machine
LIMIT_PCT = 3.0
LEAST_S = 60.0  # of all tests; less is not worth the time of measuring it


@dataclass(frozen=True, slots=True)
class Watch:
    """What a bench's recording watches.

    ``options`` are those of ``ioh record``; ``blind`` is what the bench then cannot see.
    """

    name: WatchName
    what: str
    options: tuple[str, ...] = ()
    blind: str = ""


WATCHES = (
    Watch("all", "all layers"),
    Watch(
        "storage",
        "no system calls",
        ("--no-layer", "syscall,db"),
        "holes, compression and reads from memory are noticed by missing bytes, but not named",
    ),
    Watch(
        "proc",
        "/proc only",
        ("--proc",),
        "there are no percentiles of devices, and others are not known by process",
    ),
)
# Makes a recording of a Watch and waits for its first sample.
Recording = Callable[[Watch], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Price:
    """Operations a second of fio alone and watched, a number for each turn."""

    watch: Watch
    alone: tuple[float, ...]
    watched: tuple[float, ...]

    @property
    def losses_pct(self) -> tuple[float, ...]:
        """How much slower each watched run is than the one before it; negative if it is faster.

        Neighbours: what else the machine does changes slowly.
        """
        return tuple(map(_loss_pct, self.alone, self.watched))

    @property
    def median_turn(self) -> tuple[float, float]:
        """Operations/s alone and watched of the turn with the median loss; of two, the greater."""
        turns = sorted(
            zip(self.alone, self.watched, strict=True), key=lambda turn: _loss_pct(*turn)
        )
        return turns[len(turns) // 2]

    @property
    def is_too_high(self) -> bool:
        """Whether the median loss exceeds LIMIT_PCT."""
        return _loss_pct(*self.median_turn) > LIMIT_PCT

    @property
    def is_clear(self) -> bool:
        """Whether all turns say the same, or all but one of four or more."""
        too_high = sum(loss > LIMIT_PCT for loss in self.losses_pct)
        exceptions = min(too_high, len(self.losses_pct) - too_high)
        return exceptions <= (len(self.losses_pct) > TURNS)

    def __str__(self) -> str:
        alone, watched = self.median_turn
        loss_pct = _loss_pct(alone, watched)
        loss = "no less" if loss_pct < 0.05 else f"{percent(loss_pct / 100)} less"
        rates = f"{watched:,.0f} operations/s with {self.watch.what}, {alone:,.0f} alone"
        return f"{rates}: {loss}, the median of {len(self.alone)} turns"


def _loss_pct(alone: float, watched: float) -> float:
    return 100 - 100 * watched / alone if alone else 0.0


def measured(rate: Callable[[], float], recording: Recording) -> tuple[WatchName, tuple[str, ...]]:
    """Measure what watching costs, first with all layers; return a Watch's name, and remarks.

    ``rate`` runs fio for TURN_S and returns its operations a second.
    """
    remarks: list[str] = []
    *most, least = WATCHES
    for watch in most:
        price = _price(watch, rate, recording)
        remarks.append(f"price of watching: {price}")
        if not price.is_too_high:
            return watch.name, (*remarks, *blind_remarks(watch.name))
    return least.name, (*remarks, *blind_remarks(least.name))


def blind_remarks(name: WatchName) -> Iterator[str]:
    """What the bench cannot see with a Watch."""
    for watch in WATCHES:
        if watch.name == name and watch.blind:
            yield f"watched with {watch.what}: {watch.blind}"


def _price(watch: Watch, rate: Callable[[], float], recording: Recording) -> Price:
    price = Price(watch, (), ())
    while len(price.alone) < TURNS or not (price.is_clear or len(price.alone) == MOST_TURNS):
        alone = rate()
        with recording(watch):
            price = Price(watch, (*price.alone, alone), (*price.watched, rate()))
    return price


def spec_for_price(specs: tuple[TestSpec, ...]) -> TestSpec | None:
    """The test that probes slow down most: many small operations, reads if there are any.

    None if all together take less than LEAST_S, or they are only a job, a recording or small files.
    Of metadata tests it is the one that reads: stat is memory's, compared with which all is dear.
    """

    def weight(spec: TestSpec) -> tuple[bool, float]:
        return spec.rw in {"read", "randread", "open_read"}, spec.depth_all / spec.block_bytes

    def is_timed(spec: TestSpec) -> bool:
        return bool(spec.rw) and not spec.job and (not spec.files or spec.rw == "open_read")

    is_long = seconds_of(specs) >= LEAST_S
    return max(filter(is_timed, specs if is_long else ()), key=weight, default=None)
