"""A span of a recording as one interval, whatever restarts of layers lie within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.model.snapshot import Snapshot
from ioh.model.span import Carried
from ioh.playback.replay import no_interval
from ioh.playback.time_range import Span, part_of
from ioh.session.reader import Moment, Session
from ioh.session.stream import Tick

MIN_JUMP_S = 1.0  # NTP slews by less


@dataclass(frozen=True, slots=True)
class AggregateInterval:
    """One span of a recording.

    Shape:
        ``snapshot`` derived from its first and last sample, with the maxima of all between;
        ``begin_unix_s`` as the first one's clock was, which may have been set since; ``remarks``
        say what does not cover all of it, ``notes`` which moments were taken.
    """

    snapshot: Snapshot
    first_tick: int
    last_tick: int
    begin_unix_s: float
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ticks(self) -> int:
        """Intervals in it."""
        return self.last_tick - self.first_tick

    def holds(self, moment: Moment) -> bool:
        """Whether a mark lies within it."""
        if moment.tick == self.first_tick:
            return moment.time_unix_s >= self.begin_unix_s
        return self.first_tick < moment.tick <= self.last_tick


def _ticks(run: Sequence[int]) -> int:
    return run[1] - run[0]


def samples_of(
    session: Session, period: AggregateInterval, *, is_brief: bool = False
) -> Iterator[Sample]:
    """The samples of a span, the one before it as its baseline; ``is_brief`` as Session.ticks()."""
    for item in session.ticks(period.first_tick, is_brief=is_brief):
        if item.tick > period.last_tick:
            return
        yield item.sample


class _Layers:
    """For each layer the longest of its unbroken runs, and the newest: first and last tick."""

    def __init__(self) -> None:
        self.runs: dict[str, list[list[int]]] = {}
        self._before: Sample | None = None

    def take(self, tick: int, sample: Sample) -> None:
        before, self._before = self._before, sample
        for name, layer in sample.layers.items():
            if not isinstance(layer, LayerSample):
                continue
            runs = self.runs.setdefault(name, [])
            if before is not None and _continues(before.layers.get(name), layer, before, sample):
                runs[-1][1] = tick
            else:
                runs[:] = [*sorted(runs, key=_ticks)[-1:], [tick, tick]]


def _continues(
    older: LayerSample | Unavailable | None, newer: LayerSample, before: Sample, now: Sample
) -> bool:
    """Whether the totals still count from where they began."""
    if not isinstance(older, LayerSample) or older.source != newer.source:
        return False
    if now.mono_ns <= before.mono_ns:
        return False
    return not any(
        a is not None and b is not None and b < a
        for op, totals in newer.ops.items()
        if op in older.ops
        for a, b in (
            (older.ops[op].count_total, totals.count_total),
            (older.ops[op].bytes_total, totals.bytes_total),
        )
    )


def read_aggregate(session: Session, span: Span | None = None) -> AggregateInterval:
    """A span as one interval: totals of its end less totals of its begin, never a mean of means.

    A layer whose totals restarted within the span (it was attached later, or changed between
    BPF and /proc) is shown for its longest unbroken part, and a remark says so.

    Raises:
        IohError: The span holds fewer than two samples, or a moment is not there.
    """
    span = span or Span()
    part = part_of(span, session)
    first: int | None = None
    last, before, jumped_s = 0, None, 0.0
    layers, carried = _Layers(), Carried()
    for item in session.items(part.begin_tick, with_tables=False):
        if not isinstance(item, Tick):
            continue
        sample = item.sample
        if part.is_over(item.tick, sample.time_unix_s):
            break
        if first is None or before is None or sample.mono_ns <= before.mono_ns:
            first, carried, layers, jumped_s = item.tick, Carried(), _Layers(), 0.0
        else:
            carried.take(sample)
            jumped_s += _jump_s(before, sample)
        layers.take(item.tick, sample)
        last, before = item.tick, sample
    if first is None or last == first:
        raise no_interval(session.path, span)
    found = replace(_joined(session, first, last, layers, carried), notes=part.remarks)
    if not round(jumped_s):  # there and back, or too little to report
        return found
    remark = f"the clock jumped by {jumped_s:+,.0f} s: it was set, or the machine slept"
    return replace(found, remarks=(remark, *found.remarks))


def _jump_s(before: Sample, now: Sample) -> float:
    """By how much the clock was set between two samples; 0 where it went as time does."""
    passed_s = (now.mono_ns - before.mono_ns) / 1e9
    found = now.time_unix_s - before.time_unix_s - passed_s
    return found if abs(found) >= MIN_JUMP_S else 0.0


def _sample(session: Session, tick: int) -> Sample:
    found = session.sample_at(tick)
    if found is None:  # it was there a moment ago
        cause = f"{printable(session.path)} changed while it was read"
        raise IohError(cause, "Try again")
    return found


def _joined(
    session: Session, first: int, last: int, layers: _Layers, carried: Carried
) -> AggregateInterval:
    begin = _sample(session, first)
    whole = derive(begin, carried.onto(_sample(session, last)))
    shown, specs, remarks = dict(whole.layers), dict(whole.specs), []
    for name, runs in layers.runs.items():
        run = max(runs, key=_ticks)
        if not _ticks(run) or run == [first, last]:
            continue
        older, newer = (_sample(session, tick) for tick in run)
        part = derive(_only(older, name), carried.onto(_only(newer, name)))
        shown[name], specs[name] = part.layers[name], part.specs[name]
        remarks.append(
            f"{name}: {_ticks(run)} of {last - first} intervals, {part.interval_s:.0f} s; "
            "its totals restarted, or it was not active all the time"
        )
    snapshot = replace(whole, layers=shown, specs=specs)
    return AggregateInterval(snapshot, first, last, begin.time_unix_s, tuple(remarks))


def _only(sample: Sample, name: str) -> Sample:
    return replace(sample, layers={name: sample.layers[name]}, specs={name: sample.specs[name]})
