"""Moments on a recording's time line as a user names them: seconds, a clock time, a mark."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import time
from dataclasses import dataclass
from math import inf

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.session.reader import Moment, Session

_MAX_CYCLE_S = 1e6
_CLOCK = re.compile(r"(?:(\d{4})-(\d\d?)-(\d\d?)[T ])?(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class When:
    """A moment as written.

    Shape:
        ``offset_s`` from the start of the recording, or ``clock`` with the ``date`` (year,
        month, day) where one was written, or else the ``text`` of a mark.
    """

    text: str
    offset_s: float | None = None
    clock: tuple[int, int, float] | None = None  # hour, minute, second
    date: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a session; None: from its first sample, to its last or what will come.

    Shape:
        The interval that begins with the last sample not later than ``begin`` comes first.
        ``utc``: whether clock times are UTC, else local.
    """

    begin: When | None = None
    end: When | None = None
    utc: bool = False

    @property
    def ends(self) -> tuple[When, ...]:
        """Those that were given."""
        return tuple(when for when in (self.begin, self.end) if when is not None)


def parse_when(text: str) -> When:
    """Parse seconds (``90``, ``+1.5``), clock times (``14:44``, ``2026-11-21 14:44:47``) and marks.

    Raises:
        ValueError: It is empty, or a clock time that no clock shows.
    """
    if not text.strip():
        msg = "must be seconds, a clock time or the text of a mark"
        raise ValueError(msg)
    if re.fullmatch(r"\+?\d{1,12}(\.\d*)?s?", text):
        return When(text, offset_s=float(text.strip("+s")))
    found = _CLOCK.fullmatch(text)
    if found is None:
        return When(text)
    year, month, day, hour, minute, second = found.groups()
    if int(hour) > 23 or int(minute) > 59 or float(second or 0) >= 61:
        msg = f'"{printable(text)}" is no time of day'
        raise ValueError(msg)
    date = (int(year), int(month), int(day)) if year else None
    if date is not None:
        dt.date(*date)
    return When(text, clock=(int(hour), int(minute), float(second or 0)), date=date)


def clock_unix_s(
    when: When, start_unix_s: float, end_unix_s: float | None = None, *, utc: bool = False
) -> float:
    """Unix time of a clock time, which without a date is one of two.

    It is on the day on which the recording starts, or where it was over then on the next one,
    whichever is nearer to the recording: ``14:31`` of one that began at 14:31:38 is no time of
    tomorrow.  ``end_unix_s`` is None where that is not known.

    Raises:
        ValueError: The date is none, or ``when`` is no clock time.
    """
    if when.clock is None:
        msg = "not a clock time"
        raise ValueError(msg)
    start = time.gmtime(start_unix_s) if utc else time.localtime(start_unix_s)
    year, month, day = when.date or start[:3]
    found = _unix_s(year, month, day, when.clock, utc=utc)
    if when.date is None and found < int(start_unix_s):
        end = start_unix_s if end_unix_s is None else end_unix_s
        tomorrow = _unix_s(year, month, day + 1, when.clock, utc=utc)
        if tomorrow - end < start_unix_s - found:
            return tomorrow
    return found


def _unix_s(year: int, month: int, day: int, clock: tuple[int, int, float], *, utc: bool) -> float:
    """Unix time of a time of day; ``day`` may be the one behind the month's last."""
    hour, minute, second = clock
    # In fields of their own: seconds since midnight are an hour off where clocks were changed.
    whole = (year, month, day, hour, minute, int(second), 0, 0, -1)
    return (calendar.timegm(whole) if utc else time.mktime(whole)) + second % 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a session.

    Shape:
        ``begin_tick`` is the sample that its first interval begins with.  It ends before the first
        sample later than ``end_unix_s``, and behind ``end_tick`` where it has one.  ``remarks``
        are for whoever asked for it.
    """

    begin_tick: int = 0
    begin_unix_s: float = -inf
    end_unix_s: float = inf
    end_tick: int | None = None
    remarks: tuple[str, ...] = ()

    def is_over(self, tick: int, time_unix_s: float) -> bool:
        """Whether a sample lies behind it."""
        return time_unix_s > self.end_unix_s or (self.end_tick is not None and tick > self.end_tick)

    def last_tick(self, session: Session) -> int:
        """Its last sample, of those that are there."""
        last = session.tick_at(self.end_unix_s)
        return last if self.end_tick is None else min(last, self.end_tick)


def part_of(span: Span, session: Session) -> Part:
    """What of a session a span is.

    Raises:
        IohError: No mark has such a text, several have, or the end is not after the begin.
    """
    begin, end, utc = span.begin, span.end, span.utc
    begin_s = None if begin is None else unix_s_of(begin, session, utc=utc)
    end_s = None if end is None else unix_s_of(end, session, utc=utc, after_unix_s=begin_s)
    from_tick, to_tick = _tick_of(begin, session), _tick_of(end, session)
    by_time = from_tick is None and to_tick is None
    if from_tick is None:
        from_tick = 0 if begin_s is None else session.tick_at(begin_s)
    if by_time:
        check_order(span, begin_s, end_s)
    elif begin is not None and end is not None and end_s is not None and is_mark(end):
        check_order(span, from_tick, session.tick_at(end_s) if to_tick is None else to_tick)
    return Part(
        from_tick,
        -inf if begin_s is None else begin_s,
        inf if end_s is None or to_tick is not None else end_s,
        to_tick,
        tuple(text for when in span.ends if (text := _remark(when, session, utc=utc))),
    )


def unix_s_of(
    when: When, session: Session, *, utc: bool = False, after_unix_s: float | None = None
) -> float:
    """Unix time of a moment of a session.

    A clock time without a date is the next one after ``after_unix_s``, None: of the session.

    Raises:
        IohError: No mark has that text, or several have.
    """
    if is_mark(when):
        return _marks_of(when, session)[0].time_unix_s
    start_unix_s, end_unix_s = session.start_unix_s, session.end_unix_s
    return unmarked_unix_s(when, start_unix_s, after_unix_s, end_unix_s, utc=utc)


def unmarked_unix_s(
    when: When,
    start_unix_s: float,
    after_unix_s: float | None = None,
    end_unix_s: float | None = None,
    *,
    utc: bool = False,
) -> float:
    """Unix time of a moment that is no mark; times as of unix_s_of() and clock_unix_s()."""
    if when.offset_s is not None:
        return start_unix_s + when.offset_s
    since = start_unix_s if after_unix_s is None else max(start_unix_s, after_unix_s)
    return clock_unix_s(when, since, end_unix_s, utc=utc)


def _tick_of(when: When | None, session: Session) -> int | None:
    """The last sample before a mark, where its time leads elsewhere since the clock was set."""
    if when is None or not is_mark(when):
        return None
    mark = _marks_of(when, session)[0]
    before = max(0, mark.tick - 1)
    # A mark made while a sample is taken may be on either side of it.
    return None if abs(session.tick_at(mark.time_unix_s) - before) <= 1 else before


def is_mark(when: When) -> bool:
    """Whether it is the text of one."""
    return when.offset_s is None and when.clock is None


def _remark(when: When, session: Session, *, utc: bool) -> str:
    """Which of several marks of one text is taken."""
    if not is_mark(when) or len(found := _marks_of(when, session)) < 2:
        return ""
    to_fields = time.gmtime if utc else time.localtime
    times = (m.time_unix_s if 0 <= m.time_unix_s < 1e11 else 0.0 for m in found[:8])
    clocks = ", ".join(time.strftime("%H:%M:%S", to_fields(unix_s)) for unix_s in times)
    text = printable(found[0].text)
    return f'{len(found)} marks "{text}": the first is taken ({clocks}); the next is "{text}#2"'


def _marks_of(when: When, session: Session) -> list[Moment]:
    """The marks that a text means, all of the same text; ``start#2`` is the second ``start``."""
    marks = session.marks()
    found = [mark for mark in marks if mark.text == when.text]
    text, _, number = when.text.rpartition("#")
    if not found and text and re.fullmatch(r"[1-9]\d{0,5}", number):
        found = [mark for mark in marks if mark.text == text][int(number) - 1 :][:1]
    found = found or [mark for mark in marks if when.text in mark.text]
    shown = printable(when.text)
    if not found:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in marks[:8]) or "none"
        cause = f'no mark "{shown}" in {printable(session.path)}'
        raise IohError(cause, f"Its marks: {listed}", ExitCode.USAGE)
    if len({mark.text for mark in found}) > 1:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in found[:8])
        cause = f'"{shown}" matches several marks: {listed}'
        raise IohError(cause, "Give more of its text", ExitCode.USAGE)
    return found


def check_order(span: Span, begin_s: float | None, end_s: float | None) -> None:
    """Raise an IohError where a span ends before it begins."""
    if begin_s is None or end_s is None or begin_s < end_s:
        return
    begin, end = (printable(when.text) for when in span.ends)
    cause = f'"{end}" is not after "{begin}"'
    raise IohError(cause, "Give --from the earlier one", ExitCode.USAGE)


def sane_cycle_s(cycle_s: float) -> float:
    """A recording's own period; 1 where it is none."""
    return cycle_s if 0 < cycle_s < _MAX_CYCLE_S else 1.0
