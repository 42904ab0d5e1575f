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
from ioh.session.frame import Kind, make_frame
from ioh.session.index import NOTED
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
    IndexEntry,
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


@dataclass(slots=True)
class _Contents:
    """What a reader of one output finds there, with ``data`` that is not written yet at its end."""

    end: int = 0  # offset of what comes next
    ticks: int = 0
    last_unix_s: float = 0.0
    specs: dict[str, LayerSpec] = field(default_factory=dict)
    heads: int = 0  # with these specs
    entries: list[IndexEntry] = field(default_factory=list)  # since the last index
    last_index: int = -1
    whole_bytes: int = 0  # of the last whole sample
    delta_bytes: int = 0  # of those since
    delta_ticks: int = 0
    data: bytearray = field(default_factory=bytearray)

    def add(self, kind: Kind, time_unix_s: float, payload: bytes) -> None:
        if kind in NOTED:
            self.entries.append(IndexEntry(self.end, kind, self.ticks, time_unix_s))
        frame = make_frame(kind, self.ticks, time_unix_s, payload)
        self.data += frame
        self.end += len(frame)


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
        self._marks_note = marks_note
        self._lock = threading.RLock()
        self._packer, self._stream = Packer(FOR_MEMORY), Packer(effort)
        self._encoder = Encoder()
        self._header = Header(
            format_version=FORMAT_VERSION,
            ioh_version=__version__,
            cycle_s=cycle_s,
            note=to_bytes(note)[:MAX_TEXT_BYTES],
            addresses=[to_bytes(address) for address in addresses[:MAX_ADDRESSES]],
            **our_edges(),  # type: ignore[arg-type]
        )
        self._waiting: list[Mark] = []
        self._gap: Gap | None = None
        self._last: Sample | None = None  # written, into whatever output
        self._closed = False
        self._begin(output, part)

    def _begin(self, output: Output, part: int) -> None:
        """Write what comes next into an output that is empty."""
        self.output, self._header.part = output, part
        self._written = _Contents()
        self._whole_next = True

    @property
    def ticks(self) -> int:
        """Samples written into this output."""
        return self._written.ticks

    def write(self, sample: Sample) -> bool:
        """Write one sample, and what has gathered with it.

        False when the output is full: the sample is lost, later ones are tried.  Raises OSError
        where it failed otherwise, as a pipe whose reader went away does, and ValueError for a
        sample that cannot be encoded, which is a bug in its source.
        """
        with self._lock:
            contents, gap, last = self._contents(), self._gap, self._last
            before: list[Mark | Gap] = [*self._waiting]
            whole, self._whole_next = self._whole_next, True  # should it not get there
            if gap is None and self.paused_why and last is not None:
                why = to_bytes(self.paused_why)[:MAX_TEXT_BYTES]
                gap = Gap(last.time_unix_s, sample.time_unix_s, why)
            if last is not None and not contents.ticks:
                # A later part begins with it: else the interval would be in neither file.
                self._add_sample(contents, last, before, whole=True)
                before, whole = [], gap is not None
            if gap is not None:
                before.insert(0, gap)
            self._add_sample(contents, sample, before, whole=whole)
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
                contents = self._contents()
                self._add(contents, contents.last_unix_s, mark)
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
            self._written.heads, self._whole_next = 0, True

    def close(self) -> None:
        """End the session in order; where the output is full, without a last index."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()

    def _end(self) -> None:
        """Write what a session ends with, and close its output."""
        contents = self._contents()
        try:
            if contents.ticks:
                if contents.heads == 1:
                    self._add_head(contents, contents.last_unix_s, contents.specs)
                self._add_index(contents)
                contents.add(Kind.END, contents.last_unix_s, b"")
                self._put(contents)
        finally:
            self.output.close()

    def _contents(self) -> _Contents:
        """What was written, to be added to: it counts when that gets there."""
        return replace(self._written, entries=self._written.entries.copy(), data=bytearray())

    def _put(self, contents: _Contents) -> str:
        """Write what was added; why the output is full, "" where it is not."""
        try:
            self.output.write(bytes(contents.data))
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            return error.strerror or "the disk is full"
        self._written = contents
        return ""

    def _add(
        self, contents: _Contents, time_unix_s: float, record: Head | Mark | Gap | Index
    ) -> None:
        payload = self._packer.pack(encode_plain(record))
        contents.add(_KINDS[type(record)], time_unix_s, payload)

    def _add_sample(
        self, contents: _Contents, sample: Sample, before: Sequence[Mark | Gap], *, whole: bool
    ) -> None:
        """The sample, and before it whatever a reader needs for it."""
        now, specs = sample.time_unix_s, {**contents.specs, **sample.specs}
        most_bytes = max(MAX_DELTA_BYTES, DELTAS_TO_WHOLE * contents.whole_bytes)
        is_due = contents.delta_ticks >= MAX_DELTA_TICKS or contents.delta_bytes >= most_bytes
        whole = whole or is_due or specs != contents.specs
        plain, is_whole = self._encoder.encode(sample, whole=whole)
        if is_whole:
            self._add_heads(contents, sample, specs)
        for record in before:
            self._add(contents, now, record)
        payload = self._stream.pack(plain, begins=is_whole)
        contents.add(Kind.WHOLE if is_whole else Kind.DELTA, now, payload)
        if is_whole:
            contents.whole_bytes, contents.delta_bytes, contents.delta_ticks = len(payload), 0, 0
        else:
            contents.delta_bytes += len(payload)
            contents.delta_ticks += 1
        contents.ticks, contents.last_unix_s = contents.ticks + 1, now

    def _add_heads(self, contents: _Contents, sample: Sample, specs: dict[str, LayerSpec]) -> None:
        """Before a whole sample: the index where it is due, the head with it or where it is new."""
        wholes = sum(entry.kind == Kind.WHOLE for entry in contents.entries)
        is_due = wholes >= INDEX_WHOLES or (wholes > 0 and contents.last_index < 0)
        if is_due:
            self._add_index(contents)
        if is_due or specs != contents.specs or not contents.heads:
            now, header = sample.time_unix_s, self._header
            if not contents.ticks:
                header.hostname, header.kernel = to_bytes(sample.hostname), to_bytes(sample.kernel)
                header.started_unix_s = now
            self._add_head(contents, now, specs)
            if header.note and self._marks_note and self._last is None:
                self._add(contents, now, Mark(now, header.note))

    def _add_head(
        self, contents: _Contents, time_unix_s: float, specs: dict[str, LayerSpec]
    ) -> None:
        contents.heads = contents.heads + 1 if specs == contents.specs else 1
        contents.specs = specs
        self._add(contents, time_unix_s, Head(self._header, list(specs.values())))

    def _add_index(self, contents: _Contents) -> None:
        begin = contents.end
        index = Index(begin, contents.last_index, contents.entries)
        self._add(contents, contents.last_unix_s, index)
        contents.last_index, contents.entries = begin, []
