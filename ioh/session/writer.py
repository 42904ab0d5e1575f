"""Writes one session: samples, marks and gaps as records, one write for each tick."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ioh import __version__
from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample
from ioh.session.encoder import Encoder
from ioh.session.frame import Frame, Kind, make_frame
from ioh.session.index import Places
from ioh.session.output import FULL_ERRNOS, Output
from ioh.session.packing import FOR_FILE, FOR_MEMORY, Packer
from ioh.session.records import (
    FORMAT_VERSION,
    MAX_ADDRESSES,
    MAX_TEXT_BYTES,
    Gap,
    Head,
    Header,
    Index,
    Mark,
    encode_plain,
    our_edges,
    to_bytes,
)

# A whole sample comes after so many others or so many bytes of them, for which a reader on its way
# to a sample takes 30 ms; later where it is itself so large that it would be most of the recording.
MAX_DELTA_TICKS = 110
MAX_DELTA_BYTES = 64 << 10
DELTAS_TO_WHOLE = 2
# Index and head are repeated before the second whole sample, and before every fourth one after it.
INDEX_WHOLES = 4
_KINDS = {Head: Kind.HEAD, Mark: Kind.MARK, Gap: Kind.GAP, Index: Kind.INDEX}


@dataclass(slots=True, kw_only=True)
class _Contents(Places):
    """What a reader of one output finds there, and records that are about to be written.

    ``entries`` are those since the last index; ``data`` is not written yet.
    """

    header: Header
    encoder: Encoder
    stream: Packer  # of samples
    packer: Packer  # of all else
    specs: dict[str, LayerSpec] = field(default_factory=dict)
    heads: int = 0  # with these specs
    last_index: int = -1
    whole_bytes: int = 0  # of the last whole sample
    delta_bytes: int = 0  # of those since
    delta_ticks: int = 0
    data: bytearray = field(default_factory=bytearray)

    def draft(self) -> _Contents:
        """The same, to be added to: it holds when that gets there."""
        return replace(self, entries=self.entries.copy(), data=bytearray())

    def add(self, kind: Kind, time_unix_s: float, payload: bytes) -> None:
        """Add any record."""
        self.data += make_frame(kind, self.ticks, time_unix_s, payload)
        self.take(Frame(self.scanned_bytes, kind, self.ticks, time_unix_s, payload))

    def add_plain(self, time_unix_s: float, record: Head | Mark | Gap | Index) -> None:
        """Add a record that is no sample."""
        self.add(_KINDS[type(record)], time_unix_s, self.packer.pack(encode_plain(record)))

    def add_sample(self, sample: Sample, before: Sequence[Mark | Gap], *, whole: bool) -> None:
        """Add a sample, and before it whatever a reader needs for it."""
        now, specs = sample.time_unix_s, {**self.specs, **sample.specs}
        most_bytes = max(MAX_DELTA_BYTES, DELTAS_TO_WHOLE * self.whole_bytes)
        is_due = self.delta_ticks >= MAX_DELTA_TICKS or self.delta_bytes >= most_bytes
        whole = whole or is_due or specs != self.specs
        plain, is_whole = self.encoder.encode(sample, whole=whole)
        if is_whole:
            self._add_heads(sample, specs)
        for record in before:
            self.add_plain(now, record)
        payload = self.stream.pack(plain, begins=is_whole)
        self.add(Kind.WHOLE if is_whole else Kind.DELTA, now, payload)
        if is_whole:
            self.whole_bytes, self.delta_bytes, self.delta_ticks = len(payload), 0, 0
        else:
            self.delta_bytes += len(payload)
            self.delta_ticks += 1

    def _add_heads(self, sample: Sample, specs: dict[str, LayerSpec]) -> None:
        """Before a whole sample: the index where it is due, the head with it or where it is new."""
        wholes = sum(entry.kind == Kind.WHOLE for entry in self.entries)
        is_due = wholes >= INDEX_WHOLES or (wholes > 0 and self.last_index < 0)
        if is_due:
            self._add_index()
        if not self.ticks:
            self.header.hostname = to_bytes(sample.hostname)
            self.header.kernel = to_bytes(sample.kernel)
            self.header.started_unix_s = sample.time_unix_s
        if is_due or specs != self.specs or not self.heads:
            self._add_head(sample.time_unix_s, specs)

    def _add_head(self, time_unix_s: float, specs: dict[str, LayerSpec]) -> None:
        self.heads = self.heads + 1 if specs == self.specs else 1
        self.specs = specs
        self.add_plain(time_unix_s, Head(self.header, list(specs.values())))

    def _add_index(self) -> None:
        begin = self.scanned_bytes
        self.add_plain(self.last_unix_s, Index(begin, self.last_index, self.entries))
        self.last_index, self.entries = begin, []

    def add_end(self) -> None:
        """Add what a session ends with in order."""
        if self.heads == 1:
            self._add_head(self.last_unix_s, self.specs)
        self._add_index()
        self.add(Kind.END, self.last_unix_s, b"")


class SessionWriter:
    """One session into one output, which is its own from now on; a tap takes Samples by write().

    Safe to call from several threads (marks come from another one).  Where the output is full, what
    was written stays, nothing is raised, and ``paused_why`` says so until a later sample fits; the
    gap is then part of the recording.  ``part`` counts the files of an endless recording, from 1;
    ``effort`` is the Packer's.
    """

    def __init__(  # noqa: PLR0913
        self,
        output: Output,
        *,
        note: str = "",
        cycle_s: float = 1.0,
        part: int = 1,
        marks_note: bool = True,
        effort: tuple[int, int] = FOR_FILE,
        addresses: Sequence[str] = (),
    ) -> None:
        self.paused_why = ""
        self._lock = threading.RLock()
        self._header = Header(
            format_version=FORMAT_VERSION,
            ioh_version=__version__,
            cycle_s=cycle_s,
            note=to_bytes(note)[:MAX_TEXT_BYTES],
            addresses=[to_bytes(address) for address in addresses[:MAX_ADDRESSES]],
            **our_edges(),  # type: ignore[arg-type]
        )
        self._marks_note = marks_note and bool(note)
        self._stream, self._packer = Packer(effort), Packer(FOR_MEMORY)
        self._waiting: list[Mark] = []
        self._gap: Gap | None = None
        self._last: Sample | None = None  # written, into whatever output
        self._closed = False
        self._begin(output, part)

    def _begin(self, output: Output, part: int) -> None:
        """Write what comes next into an output that is empty."""
        self.output, self._header.part = output, part
        self._contents = _Contents(
            header=self._header, encoder=Encoder(), stream=self._stream, packer=self._packer
        )
        self._whole_next = True

    @property
    def ticks(self) -> int:
        """Samples written into this output."""
        return self._contents.ticks

    def write(self, sample: Sample) -> bool:
        """Write one sample, and what has gathered with it.

        False when the output is full: the sample is lost, later ones are tried.  Raises OSError
        where it failed otherwise, as a pipe whose reader went away does, and ValueError for a
        sample that cannot be encoded, which is a bug in its source.
        """
        with self._lock:
            contents, gap, last = self._contents.draft(), self._gap, self._last
            before: list[Mark | Gap] = [*self._waiting]
            if last is None and self._marks_note:
                before.insert(0, Mark(sample.time_unix_s, self._header.note))
            whole, self._whole_next = self._whole_next, True  # should it not get there
            if gap is None and self.paused_why and last is not None:
                why = to_bytes(self.paused_why)[:MAX_TEXT_BYTES]
                gap = Gap(last.time_unix_s, sample.time_unix_s, why)
            if last is not None and not contents.ticks:
                # A later part begins with it: else the interval would be in neither file.
                contents.add_sample(last, before, whole=True)
                before, whole = [], gap is not None
            if gap is not None:
                before.insert(0, gap)
            contents.add_sample(sample, before, whole=whole)
            self.paused_why = self._put(contents)
            if self.paused_why:
                return False
            self._waiting.clear()
            self._gap, self._last, self._whole_next = None, sample, False
            return True

    def mark(self, text: str, time_unix_s: float | None = None) -> bool:
        """Put a named moment on the time line; now, unless a time is given.

        False when it will only be written with the next sample that fits.  Raises OSError where the
        output failed otherwise than by being full.
        """
        when = time.time() if time_unix_s is None else time_unix_s
        mark = Mark(when, to_bytes(text)[:MAX_TEXT_BYTES])
        with self._lock:
            if self.ticks and not self.paused_why:
                contents = self._contents.draft()
                contents.add_plain(contents.last_unix_s, mark)
                self.paused_why = self._put(contents)
                if not self.paused_why:
                    return True
            self._waiting.append(mark)
            return False

    def gap(self, gap: Gap) -> None:
        """Record, before the next sample, that time was not recorded."""
        with self._lock:
            self._gap, self._whole_next = gap, True

    def begin_anew(self) -> None:
        """See that nothing before the next sample is needed to read it."""
        with self._lock:
            self._contents.heads, self._whole_next = 0, True

    def close(self) -> None:
        """End the session in order; where the output is full, without a last index."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()

    def _end(self) -> None:
        """Write what a session ends with, and close its output."""
        contents = self._contents.draft()
        try:
            if contents.ticks:
                contents.add_end()
                self._put(contents)
        finally:
            self.output.close()

    def _put(self, contents: _Contents) -> str:
        """Write what was added; why the output is full, "" where it is not."""
        try:
            self.output.write(bytes(contents.data))
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            return error.strerror or "the disk is full"
        self._contents = contents
        return ""
