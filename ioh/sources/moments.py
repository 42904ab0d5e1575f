"""Moments on a recording's time line as a user names them: seconds, a clock time, a mark."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import time
from dataclasses import dataclass

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.session.reader import Session

_CLOCK = re.compile(r"(?:(\d{4})-(\d\d?)-(\d\d?)[T ])?(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class When:
    """A moment as written.

    Shape:
        ``offset_s`` from the start of the recording, or ``clock`` as (year, month, day or
        None, seconds into the day), or else the ``text`` of a mark.
    """

    text: str
    offset_s: float | None = None
    clock: tuple[tuple[int, int, int] | None, float] | None = None


def parse_when(text: str) -> When:
    """Tell seconds (``90``, ``+1.5``), clock times (``14:44``, ``2026-11-21 14:44:47``) and marks.

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
    return When(text, clock=(date, int(hour) * 3600 + int(minute) * 60 + float(second or 0)))


def clock_unix_s(when: When, start_unix_s: float, *, utc: bool = False) -> float:
    """Unix time of a clock time: on the day of the start, or the next one if it was over then.

    Raises:
        ValueError: The date is none, or ``when`` is no clock time.
    """
    if when.clock is None:
        msg = "no clock time"
        raise ValueError(msg)
    date, seconds = when.clock
    start = time.gmtime(start_unix_s) if utc else time.localtime(start_unix_s)
    year, month, day = date or start[:3]
    whole = (year, month, day, 0, 0, int(seconds), 0, 0, -1)
    made = calendar.timegm(whole) if utc else time.mktime(whole)
    found = made + seconds % 1
    if date is None and found < int(start_unix_s):
        found += _DAY_S
    return found


def unix_s_of(when: When, session: Session, *, utc: bool = False) -> float:
    """Unix time of a moment of a session.

    Raises:
        IohError: No mark has that text, or several have.
    """
    start = session.start_unix_s
    if when.offset_s is not None:
        return start + when.offset_s
    if when.clock is not None:
        return clock_unix_s(when, start, utc=utc)
    marks = session.marks()
    found = [mark for mark in marks if mark.text == when.text]
    found = found or [mark for mark in marks if when.text in mark.text]
    shown = printable(when.text)
    if not found:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in marks[:8]) or "none"
        cause = f'no mark "{shown}" in {printable(session.path)}'
        raise IohError(cause, f"Its marks: {listed}", ExitCode.USAGE)
    if len({mark.text for mark in found}) > 1:
        listed = ", ".join(f'"{printable(mark.text, 40)}"' for mark in found[:8])
        cause = f'"{shown}" fits several marks: {listed}'
        raise IohError(cause, "Say more of it", ExitCode.USAGE)
    return found[0].time_unix_s


def span_unix_s(
    begin: When | None, end: When | None, session: Session, *, utc: bool = False
) -> tuple[float | None, float | None]:
    """Unix times of both ends of a part of a session; None where it has no such end.

    Raises:
        IohError: As unix_s_of(), or the end is not after the begin.
    """
    begin_s = None if begin is None else unix_s_of(begin, session, utc=utc)
    end_s = None if end is None else unix_s_of(end, session, utc=utc)
    check_order(begin, end, begin_s, end_s)
    return begin_s, end_s


def check_order(
    begin: When | None, end: When | None, begin_s: float | None, end_s: float | None
) -> None:
    """Refuse a part that ends before it begins.

    Raises:
        IohError: It does.
    """
    if begin is None or end is None or begin_s is None or end_s is None or begin_s < end_s:
        return
    cause = f'"{printable(end.text)}" is not after "{printable(begin.text)}"'
    raise IohError(cause, "Give --from the earlier one", ExitCode.USAGE)
