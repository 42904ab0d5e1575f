"""A session in a file: open it, know its time range, jump anywhere, follow it as it grows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.session.filename import is_part_of
from ioh.session.frame import Frame, FrameScanner, Kind
from ioh.session.index import last_tick_until, look_on, read_places
from ioh.session.packing import decompress
from ioh.session.records import (
    Gap,
    Header,
    IndexEntry,
    Mark,
    RecordError,
    Specs,
    decode_plain,
    to_text,
)
from ioh.session.specs import check_spec
from ioh.session.stream import Item, ItemReader, Tick

STDIN = "stdin"  # what errors call it
_CHUNK_BYTES = 1 << 16
_WHOLE = (Kind.FULL, Kind.CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Moment:
    """A mark or a gap on the time line.

    Shape:
        ``text`` as recorded: printable() it.  ``until_unix_s`` only for a gap; ``tick`` is the
        number of the first sample behind it.
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
        parts = sorted(name for name in os.listdir(folder or ".") if is_part_of(name, base))  # noqa: PTH208
        if parts:
            cause += f", but {printable(parts[0])} to {printable(parts[-1])}"
            stem, extension = map(shlex.quote, os.path.splitext(path))  # noqa: PTH122
            files = printable(f"{stem}-*{extension}")
            hint = f"Give one of them, or all: cat {files} | ioh replay -"
    return IohError(cause, hint, ExitCode.USAGE)


def open_for_reading(path: str) -> int:
    """A descriptor of a file or a pipe, for reading only.

    Raises:
        IohError: It cannot be opened, or is a directory.
    """
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


class Session(Closing):
    """A recorded session in a file that allows seeking; a context manager.

    Nothing is ever written, and only what is asked for is read.

    Args:
        path: The file.
        fd: An open descriptor of it, which belongs to the session from now on; see from_fd().

    Raises:
        IohError: It is no recording, or one that this ioh cannot read.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        self._fd = open_for_reading(path) if fd is None else fd
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                cause = f"{printable(path)} allows no seeking"
                raise IohError(cause, "Read it as a stream: ioh replay -", ExitCode.USAGE)  # noqa: TRY301
            self.header = self._read_header()
            self._places = read_places(self._read, self.size_bytes)
            if self._places.has_others:
                cause = f"{printable(path)} holds several recordings, one behind the other"
                hint = f"Make one of them: ioh verify {shlex.quote(printable(path))} --repair NEW"
                raise IohError(cause, hint, ExitCode.USAGE)  # noqa: TRY301
        except BaseException:
            os.close(self._fd)
            raise

    @classmethod
    def from_fd(cls, fd: int, name: str) -> Session:
        """The session in a descriptor that can be read, such as a memfd.

        Args:
            fd: Stays the caller's.
            name: For people, as ``path``.

        Raises:
            IohError: It is no recording, or one that this ioh cannot read.
        """
        return cls(name, os.dup(fd))

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
        """How large the file is now."""
        return os.fstat(self._fd).st_size

    @property
    def is_ended(self) -> bool:
        """Whether the recording ended in order, so that nothing more will come."""
        return self._places.is_ended

    @property
    def is_growing(self) -> bool:
        """Whether somebody is still recording into this file."""
        if self.is_ended:
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
        whole = self._whole_entries()
        return whole[0].time_unix_s if whole else self.header.started_unix_s

    @property
    def end_unix_s(self) -> float:
        """Time of the last sample known, or of an earlier one where the clock was set back."""
        if not len(self):
            return self.start_unix_s
        return max([self._places.last_unix_s, *(e.time_unix_s for e in self._whole_entries())])

    def refresh(self) -> int:
        """Look for what was appended since; returns the number of samples now known."""
        if not self.is_ended:
            look_on(self._places, self._read, self.size_bytes)
        return len(self)

    def marks(self) -> list[Moment]:
        """Every mark, in the order in which it was made."""
        return [
            Moment(mark.time_unix_s, to_text(mark.text), entry.tick)
            for entry in self._entries(Kind.MARK)
            if isinstance(mark := self._record(entry, Mark), Mark)
        ]

    def gaps(self) -> list[Moment]:
        """Every span of time that could not be recorded, with its reason."""
        return [
            Moment(gap.from_unix_s, to_text(gap.reason), entry.tick, gap.to_unix_s)
            for entry in self._entries(Kind.GAP)
            if isinstance(gap := self._record(entry, Gap), Gap)
        ]

    def items(
        self,
        from_tick: int = 0,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        begin: int | None = None,
    ) -> Iterator[Item]:
        """Everything from a sample on, in order, to the present end of the file.

        Args:
            from_tick: The first sample wanted.
            with_tables: False leaves tables out, which is much faster.
            with_parts: False leaves single devices and mounts out.
            begin: Read from the last whole record up to this sample instead of ``from_tick``.
        """
        reader, at = self.reader(
            from_tick, with_tables=with_tables, with_parts=with_parts, begin=begin
        )
        while piece := self._read(at, _CHUNK_BYTES):
            at += len(piece)
            reader.feed(piece)
            yield from reader.items()
        yield from reader.items(at_end=True)

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Samples that can be told from one on, to the present end of the file.

        Args:
            from_tick: The first one.
            is_brief: Leave tables and parts out, which is much faster.
        """
        items = self.items(from_tick, with_tables=not is_brief, with_parts=not is_brief)
        return (item for item in items if isinstance(item, Tick))

    def reader(
        self,
        from_tick: int = 0,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        begin: int | None = None,
    ) -> tuple[ItemReader, int]:
        """A reader for a sample and what follows, and the offset to feed it from."""
        entry = self._whole_before(from_tick if begin is None else begin)
        if entry is None or entry.tick == 0:
            made = ItemReader(
                with_tables=with_tables,
                with_parts=with_parts,
                from_tick=from_tick,
                name=self.path,
            )
            return made, 0
        made = ItemReader(
            entry.offset,
            self._specs_before(entry.offset),
            with_tables=with_tables,
            with_parts=with_parts,
            from_tick=from_tick,
        )
        return made, entry.offset

    def read_chunk(self, offset: int) -> bytes:
        """The next bytes for such a reader; none at the present end of the file."""
        return self._read(offset, _CHUNK_BYTES)

    def sample_at(self, tick: int) -> Sample | None:
        """One sample by its number; None where it is lost or not there (yet)."""
        if not 0 <= tick < len(self):
            return None
        before = tick
        while before >= 0:
            for item in self.items(tick, begin=before):
                if isinstance(item, Tick):
                    if item.tick == tick:
                        return item.sample
                    break
            # Where a checkpoint is damaged, the one before it leads there too.
            entry = self._whole_before(before)
            before = entry.tick - 1 if entry is not None else -1
        return None

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last sample before the first that is later than a time; 0 for any earlier.

        Where the clock was set back, samples behind that count as being of the time it was then.
        """
        whole = self._whole_entries()
        times = list(accumulate((entry.time_unix_s for entry in whole), max))
        behind = bisect_right(times, time_unix_s)
        if behind == 0:
            return 0
        # The first record of that time: before those that a clock set back gave none of their own.
        begin = whole[bisect_left(times, times[behind - 1])]
        end = whole[behind].offset if behind < len(whole) else self.size_bytes
        return last_tick_until(self._read, begin, end, time_unix_s)

    def _read(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._fd, length, offset)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _read_header(self) -> Header:
        reader = ItemReader(name=self.path)
        at = 0
        while True:
            piece = self._read(at, _CHUNK_BYTES)
            at += len(piece)
            reader.feed(piece)
            for item in reader.items(at_end=not piece):  # raises where there is none
                if isinstance(item, Header):
                    return item

    def _entries(self, *kinds: Kind) -> list[IndexEntry]:
        return [entry for entry in self._places.entries if entry.kind in kinds]

    def _whole_entries(self) -> list[IndexEntry]:
        return self._entries(*_WHOLE)

    def _whole_before(self, tick: int) -> IndexEntry | None:
        found = None
        for entry in self._whole_entries():
            if entry.tick > tick:
                break
            found = entry
        return found

    def _record(self, entry: IndexEntry, kind: type[Mark | Gap | Specs]) -> object:
        """The record that an entry points at; None where it is damaged."""
        scanner = FrameScanner(entry.offset)
        scanner.feed(self._read(entry.offset, _CHUNK_BYTES))
        frame = next(scanner.events(), None)
        try:
            if isinstance(frame, Frame) and frame.kind == entry.kind:
                return decode_plain(decompress(frame.flags, frame.payload), kind)
        except RecordError:
            return None
        return None

    def _specs_before(self, offset: int) -> dict[str, LayerSpec]:
        """Every layer description recorded before an offset; later ones replace earlier ones."""
        found: dict[str, LayerSpec] = {}
        for entry in self._entries(Kind.SPECS):
            if entry.offset >= offset:
                break
            record = self._record(entry, Specs)
            if isinstance(record, Specs):
                for spec in record.specs:
                    try:
                        check_spec(spec)
                    except RecordError:
                        continue
                    found[spec.name] = spec
        return found
