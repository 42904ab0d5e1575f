"""Derive a span of a recording as one interval, even if layers restarted in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.model.snapshot import Snapshot
from ioh.model.span import Carried
from ioh.playback.replay import no_interval
from ioh.playback.time_range import Span, excerpt_of
from ioh.session.reader import Moment, Recording, Session
from ioh.session.stream import Tick

MIN_JUMP_S = 1.0  # NTP slews by less
_SMALL_JUMP_S = 10.0  # forward and back by less is NTP after a start
_MAX_JUMPS = 4  # that are named


@dataclass(frozen=True, slots=True)
class AggregateInterval:
    """One span of a recording.

    ``snapshot`` is derived from its first and last sample, with the maxima of all between.
    ``begin_unix_s`` is by the first sample's clock, which may have been set since.  ``remarks``
    name the layers that do not cover all of it, ``notes`` the marks that were chosen.
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
        """Whether a mark is in the interval."""
        if moment.tick == self.first_tick:
            return moment.time_unix_s >= self.begin_unix_s
        return self.first_tick < moment.tick <= self.last_tick


def _ticks(run: Sequence[int]) -> int:
    return run[1] - run[0]


def samples_of(
    session: Session, period: AggregateInterval, *, is_brief: bool = False
) -> Iterator[Sample]:
    """Yield a span's samples, its baseline first; ``is_brief`` as in Session.ticks()."""
    for item in session.ticks(period.first_tick, is_brief=is_brief):
        if item.tick > period.last_tick:
            return
        yield item.sample


class _Layers:
    """Each layer's longest uninterrupted run, and its newest: first and last tick."""

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
    """Whether the totals have not restarted between two samples."""
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
    """Derive a span as one interval, as aggregate() does.

    IohError: the span holds fewer than two samples, or a mark is not found.
    """
    span = span or Span()
    excerpt = excerpt_of(span, session)
    ticks = (i for i in session.items(excerpt.begin_tick, with_tables=False) if isinstance(i, Tick))
    inside = takewhile(lambda i: not excerpt.is_over(i.tick, i.sample.time_unix_s), ticks)
    whole = aggregate(session, inside)
    if whole is None:
        raise no_interval(session.path, span)
    return replace(whole, notes=excerpt.remarks)


def aggregate(recording: Recording, ticks: Iterable[Tick]) -> AggregateInterval | None:
    """Derive a recording's samples as one interval: totals at the end minus totals at the begin.

    If a layer's totals restarted in the span (it was attached later, or switched between BPF and
    /proc), only its longest uninterrupted part is shown, with a remark.  None: there are fewer
    than two samples.
    """
    first: int | None = None
    last, before, jumps_s = 0, None, list[float]()
    layers, carried = _Layers(), Carried()
    for item in ticks:
        sample = item.sample
        if first is None or before is None or sample.mono_ns <= before.mono_ns:
            first, carried, layers, jumps_s = item.tick, Carried(), _Layers(), []
        else:
            carried.take(sample)
            jumps_s.append(_jump_s(before, sample))
        layers.take(item.tick, sample)
        last, before = item.tick, sample
    if first is None or last == first:
        return None
    whole = _derived(recording, first, last, layers, carried)
    jumps = [f"{jump_s:+,.0f} s" for jump_s in jumps_s if jump_s]
    if not jumps or (not round(sum(jumps_s)) and max(map(abs, jumps_s)) < _SMALL_JUMP_S):
        return whole
    more = f" and {len(jumps) - _MAX_JUMPS} more" if len(jumps) > _MAX_JUMPS else ""
    by = ", ".join(jumps[:_MAX_JUMPS]) + more
    remark = f"the clock jumped by {by}: it was set, or the machine was suspended"
    return replace(whole, remarks=(remark, *whole.remarks))


def _jump_s(before: Sample, now: Sample) -> float:
    """By how much the clock was set between two samples; 0 if less than MIN_JUMP_S."""
    passed_s = (now.mono_ns - before.mono_ns) / 1e9
    jump_s = now.time_unix_s - before.time_unix_s - passed_s
    return jump_s if abs(jump_s) >= MIN_JUMP_S else 0.0


def _sample(recording: Recording, tick: int) -> Sample:
    sample = recording.sample_at(tick)
    if sample is None:  # it was there a moment ago
        cause = f"{recording.path} changed while it was read"
        raise IohError(cause, "Try again")
    return sample


def _derived(
    recording: Recording, first: int, last: int, layers: _Layers, carried: Carried
) -> AggregateInterval:
    begin = _sample(recording, first)
    whole = derive(begin, carried.onto(_sample(recording, last)))
    by_name, specs, remarks = dict(whole.layers), dict(whole.specs), []
    for name, runs in layers.runs.items():
        run = max(runs, key=_ticks)
        if not _ticks(run) or run == [first, last]:
            continue
        older, newer = (_sample(recording, tick) for tick in run)
        own = derive(_only(older, name), carried.onto(_only(newer, name)))
        by_name[name], specs[name] = own.layers[name], own.specs[name]
        remarks.append(
            f"{name}: {_ticks(run)} of {last - first} intervals, {own.interval_s:.0f} s; "
            "its totals restarted, or the layer was not always active"
        )
    snapshot = replace(whole, layers=by_name, specs=specs)
    return AggregateInterval(snapshot, first, last, begin.time_unix_s, tuple(remarks))


def _only(sample: Sample, name: str) -> Sample:
    return replace(sample, layers={name: sample.layers[name]}, specs={name: sample.specs[name]})
