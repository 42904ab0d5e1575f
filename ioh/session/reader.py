"""A session in a file: open it, know its time range, jump anywhere, follow it as it grows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.session.frame import Kind
from ioh.session.index import frame_at, last_tick_until, look_on, read_places
from ioh.session.joined import Member, member_of, members_in, split_name
from ioh.session.packing import Unpacker
from ioh.session.records import (
    MAX_TEXT_BYTES,
    Gap,
    Head,
    IndexEntry,
    Mark,
    RecordError,
    decode_head,
    decode_plain,
    refuse,
    to_text,
)
from ioh.session.rotated_files import part_of_name
from ioh.session.stream import BEGIN_BYTES, Item, ItemReader, Tick, no_recording

STDIN = "stdin"  # what errors call it
_CHUNK_BYTES, _COPY_BYTES = 1 << 16, 1 << 20
_MAX_MOMENT_BYTES = 2 * MAX_TEXT_BYTES  # of a mark or a gap, before compression
_MAX_STRETCH_BYTES = 16 << 20  # more than there is from one whole sample to the next
_MAX_HEADS = 50  # looked at: as many as that are not damaged in one place
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Moment:
    """A mark or a gap on the time line; ``tick`` is the number of the first sample behind it.

    ``text`` as recorded: printable() it.  ``until_unix_s`` only for a gap.
    """

    time_unix_s: float
    text: str
    tick: int
    until_unix_s: float | None = None


def _not_there(path: str) -> IohError:
    if path == "-":
        cause, hint = "this reads files only, no pipe", "Save it to a file first"
        return IohError(cause, hint, ExitCode.USAGE)
    cause, hint = f"no recording {printable(path)}", "Make one with: ioh record"
    folder, base = os.path.split(path)
    with contextlib.suppress(OSError, ValueError):
        parts = sorted(n for n in os.listdir(folder or ".") if part_of_name(n, base) is not None)  # noqa: PTH208
        if parts:
            cause += f", but {printable(parts[0])} to {printable(parts[-1])}"
            stem, extension = map(shlex.quote, os.path.splitext(path))  # noqa: PTH122
            files = printable(f"{stem}-*{extension}")
            hint = f"Give one of them, or all: cat {files} | ioh replay -"
    return IohError(cause, hint, ExitCode.USAGE)


def open_for_reading(path: str) -> int:
    """A descriptor for reading only; IohError where it cannot be opened, or is a directory."""
    shown = printable(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, ValueError) as error:
        raise _not_there(path) from error
    except OSError as error:
        cause = f"cannot open {shown}: {error.strerror}"
        hint = "It belongs to whoever recorded it" if isinstance(error, PermissionError) else ""
        raise IohError(cause, hint) from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        cause = f"{shown} is a directory"
        raise IohError(cause, "Give the recording itself", ExitCode.USAGE)
    return fd


def unreadable(path: str, error: OSError) -> IohError:
    """What to raise where reading fails."""
    cause = f"cannot read {printable(path)}: {error.strerror}"
    return IohError(cause, "See what the kernel says of it with: dmesg")


def hosts_of(path: str) -> tuple[str, ...]:
    """The hosts of a file that holds several, as they come; () of anything else."""
    try:
        if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return ()
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            fd = file.fileno()
            return tuple(each.name for each in members_in(fd))
    except (OSError, ValueError):  # said when it is read
        return ()


def member_in(fd: int, path: str, host: str) -> Member | None:
    """Which part of a file is meant; None for all of it.  IohError as member_of()."""
    try:
        return member_of(members_in(fd), host, path)
    except OSError as error:
        raise unreadable(path, error) from error


class Session(Closing):
    """A recorded session in a file that allows seeking; a context manager.

    Nothing is ever written, and only what is asked for is read.  ``path`` may be ``FILE#HOST`` of a
    file that holds several hosts; ``fd``, as of a memfd, belongs to the session from now on.
    Raises IohError where it is no recording, or one that this ioh cannot read.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        file, host = split_name(path) if fd is None else (path, "")
        self._fd = open_for_reading(file) if fd is None else fd
        self._member: Member | None = None
        self._head: tuple[bytes, Head] | None = None  # the payload last decoded, and what it held
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                cause = f"{printable(path)} allows no seeking"
                raise IohError(cause, "Read it as a stream: ioh replay -", ExitCode.USAGE)  # noqa: TRY301
            self._member = member_in(self._fd, file, host)
            self._places = read_places(self._read, self.size_bytes)
            head = self._head_before(0)
            if head is None:
                raise no_recording(path, self._read(0, BEGIN_BYTES))  # noqa: TRY301
            self.header = head.header
            if self._places.has_others:
                cause = f"{printable(path)} holds several recordings, one behind the other"
                hint = f"Make one of them: ioh verify {shlex.quote(printable(path))} --repair NEW"
                raise IohError(cause, hint, ExitCode.USAGE)  # noqa: TRY301
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __len__(self) -> int:
        """Samples known so far; see refresh()."""
        return self._places.ticks

    @property
    def first_tick(self) -> int:
        """Number of the first sample that is there."""
        return 0

    @property
    def size_bytes(self) -> int:
        """How large the recording is now."""
        member = self._member
        return os.fstat(self._fd).st_size if member is None else member.size_bytes

    @property
    def is_ended(self) -> bool:
        """Whether the recording ended in order, so that nothing more will come."""
        return self._places.is_ended

    @property
    def is_growing(self) -> bool:
        """Whether somebody is still recording into this file."""
        if self.is_ended or self._member is not None:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    @property
    def start_unix_s(self) -> float:
        """Time of the first sample."""
        whole = self._entries(Kind.WHOLE)
        return whole[0].time_unix_s if whole else self.header.started_unix_s

    @property
    def end_unix_s(self) -> float:
        """Time of the last sample known, or of an earlier one where the clock was set back."""
        if not len(self):
            return self.start_unix_s
        return max([self._places.last_unix_s, *(e.time_unix_s for e in self._entries(Kind.WHOLE))])

    def refresh(self) -> int:
        """Look for what was appended since; returns the number of samples now known."""
        if not self.is_ended:
            look_on(self._places, self._read, self.size_bytes)
        return len(self)

    def marks(self) -> list[Moment]:
        """Every mark, in the order in which it was made."""
        return [
            Moment(mark.time_unix_s, to_text(mark.text), entry.number)
            for entry, mark in self._records(Kind.MARK, Mark)
        ]

    def gaps(self) -> list[Moment]:
        """Every span of time that could not be recorded, with its reason."""
        return [
            Moment(gap.from_unix_s, to_text(gap.reason), entry.number, gap.to_unix_s)
            for entry, gap in self._records(Kind.GAP, Gap)
        ]

    def items(
        self,
        from_tick: int = 0,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        awaits_more: Callable[[int], bool] = lambda _: False,
        most_bytes: int = sys.maxsize,
    ) -> Iterator[Item]:
        """Everything from a sample on, in order, to the end of the file.

        Without tables it is much faster; without parts, single devices and mounts are left out.
        ``awaits_more`` is asked at the present end of the file, with its offset: False ends it.
        ``most_bytes``: look no further than this from where the sample must be.
        """
        at = 0
        for entry in self._entries(Kind.WHOLE):
            if entry.number > from_tick:
                break
            at = entry.offset if entry.number else 0
        reader = ItemReader(
            at,
            self.specs_before(at),
            with_tables=with_tables,
            with_parts=with_parts,
            from_tick=from_tick,
            name=self.path,
        )
        is_over, end = False, at + most_bytes
        while not is_over and at < end:
            piece = self._read(at, _CHUNK_BYTES)
            at += len(piece)
            reader.feed(piece)
            is_over = not piece and not awaits_more(at)
            yield from reader.items(at_end=is_over)
            is_over = is_over or reader.ended

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Samples from one on; brief ones, without tables and parts, are read much faster."""
        items = self.items(from_tick, with_tables=not is_brief, with_parts=not is_brief)
        return (item for item in items if isinstance(item, Tick))

    def specs_before(self, offset: int) -> dict[str, LayerSpec] | None:
        """What is known of the layers before an offset, or else anywhere."""
        head = self._head_before(offset)
        return {spec.name: spec for spec in head.specs} if head is not None else None

    def sample_at(self, tick: int) -> Sample | None:
        """One sample by its number; None where it is lost or not there (yet)."""
        if not 0 <= tick < len(self):
            return None
        items = self.items(tick, most_bytes=_MAX_STRETCH_BYTES)
        found = next((item for item in items if isinstance(item, Tick)), None)
        return found.sample if found is not None and found.tick == tick else None

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last sample before the first that is later than a time; 0 for any earlier.

        Where the clock was set back, samples behind that count as being of the time it was then.
        """
        whole = self._entries(Kind.WHOLE)
        times = list(accumulate((entry.time_unix_s for entry in whole), max))
        behind = bisect_right(times, time_unix_s)
        if behind == 0:
            return 0
        # The first record of that time: before those that a clock set back gave none of their own.
        begin = whole[bisect_left(times, times[behind - 1])]
        end = whole[behind].offset if behind < len(whole) else self.size_bytes
        return last_tick_until(self._read, begin, end, time_unix_s)

    def pieces(self) -> Iterator[bytes]:
        """All bytes of it as they lie in the file."""
        at = 0
        while piece := self._read(at, _COPY_BYTES):
            yield piece
            at += len(piece)

    def _read(self, offset: int, length: int) -> bytes:
        if (member := self._member) is not None:
            length = max(0, min(length, member.size_bytes - offset))
            offset += member.offset
        try:
            return os.pread(self._fd, length, offset)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _entries(self, *kinds: Kind) -> list[IndexEntry]:
        return [entry for entry in self._places.entries if entry.kind in kinds]

    def _records(self, kind: Kind, made: type[_T]) -> Iterator[tuple[IndexEntry, _T]]:
        """Marks or gaps with what points at them, without those that are damaged."""
        unpacker = Unpacker()  # one for all: to make it takes longer than to use it
        for entry in self._entries(kind):
            with contextlib.suppress(RecordError):
                plain = unpacker.unpack(self._payload(entry), most_bytes=_MAX_MOMENT_BYTES)
                yield entry, decode_plain(plain, made)

    def _payload(self, entry: IndexEntry) -> bytes:
        frame = frame_at(self._read, entry.offset)
        if frame is None or frame.kind != entry.kind:
            refuse("damaged")
        return frame.payload

    def _head_before(self, offset: int) -> Head | None:
        """The last head before an offset, or where that is damaged one that is not.

        One that is repeated is not decoded again: who derives from samples plans once for a
        LayerSpec.
        """
        entries = self._entries(Kind.HEAD)
        at = bisect_right([entry.offset for entry in entries], offset)
        for entry in (*reversed(entries[:at]), *entries[at:])[:_MAX_HEADS]:
            with contextlib.suppress(RecordError):
                payload = self._payload(entry)
                if self._head is None or self._head[0] != payload:
                    self._head = (payload, decode_head(Unpacker().unpack(payload)))
                return self._head[1]
        return None
