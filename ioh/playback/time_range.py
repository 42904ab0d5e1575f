"""Parse and find moments of a recording as users name them: seconds, a clock time, a mark."""

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

_CLOCK = re.compile(r"(?:(\d{4})-(\d\d?)-(\d\d?)[T ])?(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class When:
    """A moment as written.

    ``offset_s`` from the start of the recording; or ``clock``, with ``date`` (year, month, day) if
    given; otherwise ``text`` is that of a mark.
    """

    text: str
    offset_s: float | None = None
    clock: tuple[int, int, float] | None = None  # hour, minute, second
    date: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a session; None: from its first sample, to its last, including future ones.

    The first interval begins with the last sample not later than ``begin``.  ``utc``: clock times
    are UTC instead of local.
    """

    begin: When | None = None
    end: When | None = None
    utc: bool = False

    @property
    def ends(self) -> tuple[When, ...]:
        """The ends that were given."""
        return tuple(when for when in (self.begin, self.end) if when is not None)


def parse_when(text: str) -> When:
    """Parse seconds (``90``, ``+1.5``), clock times (``14:44``, ``2026-11-21 14:44:47``) and marks.

    ValueError: it is empty, or an invalid clock time or date.
    """
    if not text.strip():
        msg = "must be seconds, a clock time or the text of a mark"
        raise ValueError(msg)
    if re.fullmatch(r"\+?\d{1,12}(\.\d*)?s?", text):
        return When(text, offset_s=float(text.strip("+s")))
    match = _CLOCK.fullmatch(text)
    if match is None:
        return When(text)
    year, month, day, hour, minute, second = match.groups()
    if int(hour) > 23 or int(minute) > 59 or float(second or 0) >= 61:
        msg = f'"{printable(text)}" is not a time of day'
        raise ValueError(msg)
    date = (int(year), int(month), int(day)) if year else None
    if date is not None:
        dt.date(*date)
    return When(text, clock=(int(hour), int(minute), float(second or 0)), date=date)


def unmarked_unix_s(
    when: When | None,
    start_unix_s: float,
    after_unix_s: float | None = None,
    end_unix_s: float | None = None,
    *,
    utc: bool = False,
) -> float | None:
    """Unix time of a moment; None if there is none, or if it is a mark.

    A clock time without a date is on the day of ``after_unix_s``, by default that on which the
    recording starts.  If that is before it, it may be on the next day, whichever is nearer to the
    recording: ``14:31`` for a recording that began at 14:31:38 is not tomorrow.  ``end_unix_s`` is
    None if unknown.
    """
    if when is not None and when.offset_s is not None:
        return start_unix_s + when.offset_s
    if when is None or when.clock is None:
        return None
    since = start_unix_s if after_unix_s is None else max(start_unix_s, after_unix_s)
    since_fields = time.gmtime(since) if utc else time.localtime(since)
    year, month, day = when.date or since_fields[:3]
    unix_s = _unix_s(year, month, day, when.clock, utc=utc)
    if when.date is None and unix_s < int(since):
        end = since if end_unix_s is None else end_unix_s
        tomorrow = _unix_s(year, month, day + 1, when.clock, utc=utc)
        if tomorrow - end < since - unix_s:
            return tomorrow
    return unix_s


def _unix_s(year: int, month: int, day: int, clock: tuple[int, int, float], *, utc: bool) -> float:
    """Unix time of a time of day; ``day`` may be one more than the month has."""
    hour, minute, second = clock
    # As separate fields: seconds since midnight are an hour off when daylight saving time changes.
    whole = (year, month, day, hour, minute, int(second), 0, 0, -1)
    return (calendar.timegm(whole) if utc else time.mktime(whole)) + second % 1


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a session.

    ``begin_tick`` is the sample with which its first interval begins.  It ends before the first
    sample later than ``end_unix_s``, and after ``end_tick`` if given.  ``remarks`` are for the
    user.
    """

    begin_tick: int = 0
    begin_unix_s: float = -inf
    end_unix_s: float = inf
    end_tick: int | None = None
    remarks: tuple[str, ...] = ()

    def is_over(self, tick: int, time_unix_s: float) -> bool:
        """Whether a sample is after the part."""
        return time_unix_s > self.end_unix_s or (self.end_tick is not None and tick > self.end_tick)

    def last_tick(self, session: Session) -> int:
        """Its last sample recorded so far."""
        last = session.tick_at(self.end_unix_s)
        return last if self.end_tick is None else min(last, self.end_tick)


def excerpt_of(span: Span, session: Session) -> Excerpt:
    """Find a span in a session.

    IohError: no mark has such a text, several have, or the end is not after the begin.
    """
    begin, end, utc = span.begin, span.end, span.utc
    begin_s = unix_s_of(begin, session, utc=utc)
    end_s = unix_s_of(end, session, utc=utc, after_unix_s=begin_s)
    from_tick, to_tick = _tick_of(begin, session), _tick_of(end, session)
    by_time = from_tick is None and to_tick is None
    if from_tick is None:
        from_tick = 0 if begin_s is None else session.tick_at(begin_s)
    if by_time:
        check_order(span, begin_s, end_s)
    elif begin is not None and end is not None and end_s is not None and is_mark(end):
        check_order(span, from_tick, session.tick_at(end_s) if to_tick is None else to_tick)
    return Excerpt(
        from_tick,
        -inf if begin_s is None else begin_s,
        inf if end_s is None or to_tick is not None else end_s,
        to_tick,
        tuple(text for when in span.ends if (text := _remark(when, session, utc=utc))),
    )


def unix_s_of(
    when: When | None, session: Session, *, utc: bool = False, after_unix_s: float | None = None
) -> float | None:
    """Unix time of a moment of a session, as unmarked_unix_s(), or of a mark; None if not given.

    IohError: no mark has that text, or several have.
    """
    if when is not None and is_mark(when):
        return _marks_of(when, session)[0].time_unix_s
    start_unix_s, end_unix_s = session.start_unix_s, session.end_unix_s
    return unmarked_unix_s(when, start_unix_s, after_unix_s, end_unix_s, utc=utc)


def _tick_of(when: When | None, session: Session) -> int | None:
    """The last sample before a mark, if its time leads elsewhere because the clock was set."""
    if when is None or not is_mark(when):
        return None
    mark = _marks_of(when, session)[0]
    before = max(0, mark.tick - 1)
    # A mark made while a sample was taken may be on either side of it.
    return None if abs(session.tick_at(mark.time_unix_s) - before) <= 1 else before


def is_mark(when: When) -> bool:
    """Whether a moment is the text of a mark."""
    return when.offset_s is None and when.clock is None


def _remark(when: When, session: Session, *, utc: bool) -> str:
    """Say which of several marks with the same text is used; "" if there is only one."""
    if not is_mark(when) or len(marks := _marks_of(when, session)) < 2:
        return ""
    to_fields = time.gmtime if utc else time.localtime
    clocks = ", ".join(time.strftime("%H:%M:%S", to_fields(m.time_unix_s)) for m in marks[:8])
    text = printable(marks[0].text)
    return f'{len(marks)} marks "{text}" ({clocks}): using the first; the next is "{text}#2"'


def _marks_of(when: When, session: Session) -> list[Moment]:
    """Find the marks, all of equal text, that a text means; ``start#2``: the second ``start``."""
    marks = session.marks()
    matches = [mark for mark in marks if mark.text == when.text]
    text, _, number = when.text.rpartition("#")
    if not matches and text and re.fullmatch(r"[1-9]\d{0,5}", number):
        matches = [mark for mark in marks if mark.text == text][int(number) - 1 :][:1]
    matches = matches or [mark for mark in marks if when.text in mark.text]
    name = printable(when.text)
    if not matches:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in marks[:8]) or "none"
        cause = f'no mark "{name}" in {session.path}'
        raise IohError(cause, f"Its marks: {listed}", ExitCode.USAGE)
    if len({mark.text for mark in matches}) > 1:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in matches[:8])
        cause = f'"{name}" matches several marks: {listed}'
        raise IohError(cause, "Give more of its text", ExitCode.USAGE)
    return matches


def check_order(span: Span, begin_s: float | None, end_s: float | None) -> None:
    """Raise an IohError if a span ends before it begins."""
    if begin_s is None or end_s is None or begin_s < end_s:
        return
    begin, end = (printable(when.text) for when in span.ends)
    cause = f'"{end}" is not after "{begin}"'
    raise IohError(cause, "Give --from the earlier one", ExitCode.USAGE)
