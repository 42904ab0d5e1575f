"""Write a session: samples, marks and gaps as records, with one write() per tick."""

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
from ioh.session.index import Contents
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

# When the next whole sample is due.  Readers need 30 ms for that many deltas on the way to a
# sample.  It comes later if it is so large that it would be most of the recording.
MAX_DELTA_TICKS = 110
MAX_DELTA_BYTES = 64 << 10
DELTAS_TO_WHOLE = 2
# An index and the head again come before the second whole sample, and before every fourth after it.
INDEX_WHOLES = 4
_KINDS = {Head: Kind.HEAD, Mark: Kind.MARK, Gap: Kind.GAP, Index: Kind.INDEX}


@dataclass(slots=True, kw_only=True)
class _OutputContents(Contents):
    """What one output holds, and the records to be written next.

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

    def draft(self) -> _OutputContents:
        """Copy this, to be added to; the copy counts once its ``data`` is written."""
        return replace(self, entries=self.entries.copy(), data=bytearray())

    def add(self, kind: Kind, time_unix_s: float, payload: bytes) -> None:
        """Add any record."""
        self.data += make_frame(kind, self.ticks, time_unix_s, payload)
        self.take(Frame(self.scanned_bytes, kind, self.ticks, time_unix_s, payload))

    def add_plain(self, time_unix_s: float, record: Head | Mark | Gap | Index) -> None:
        """Add a record other than a sample."""
        self.add(_KINDS[type(record)], time_unix_s, self.packer.pack(encode_plain(record)))

    def add_sample(self, sample: Sample, before: Sequence[Mark | Gap], *, whole: bool) -> None:
        """Add a sample, and first the index and head if they are due."""
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
        """Before a whole sample, add the index if due; the head with it, or if it is new."""
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
        """Add the last records of a session: head if only one was written, index and end."""
        if self.heads == 1:
            self._add_head(self.last_unix_s, self.specs)
        self._add_index()
        self.add(Kind.END, self.last_unix_s, b"")


class SessionWriter:
    """Writes one session into one output, which it owns.

    Thread-safe: marks come from another thread.  If the output is full, nothing is raised and what
    was written stays.  ``paused_why`` is set until a later sample fits; the gap is then recorded.
    ``part`` is the number of the file, from 1; ``effort`` is the Packer's.
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
        self._waiting: list[Mark | Gap] = []  # for the next sample
        self._last: Sample | None = None  # written, to this output or an earlier one
        self._closed = False
        self._begin(output, part)

    def _begin(self, output: Output, part: int) -> None:
        """Continue in an empty output."""
        self.output, self._header.part = output, part
        self._contents = _OutputContents(
            header=self._header, encoder=Encoder(), stream=self._stream, packer=self._packer
        )
        self._whole_next = True

    @property
    def ticks(self) -> int:
        """Samples written into this output."""
        return self._contents.ticks

    def write(self, sample: Sample) -> bool:
        """Write one sample, and the marks and gaps that wait for it.

        False if the output is full: the sample is lost, later ones are tried.  Raises OSError for
        other failures, e.g. a pipe without a reader, and ValueError for a sample that cannot be
        encoded, which is a bug in its source.
        """
        with self._lock:
            contents, last = self._contents.draft(), self._last
            before, gaps = self._waiting.copy(), list[Gap]()
            if last is None and self._marks_note:
                before.insert(0, Mark(sample.time_unix_s, self._header.note))
            whole, self._whole_next = self._whole_next, True  # in case writing fails
            if self.paused_why and last is not None:
                why = to_bytes(self.paused_why)[:MAX_TEXT_BYTES]
                gaps = [Gap(last.time_unix_s, sample.time_unix_s, why)]
            if last is not None and not contents.ticks:
                # A later part repeats it: otherwise neither file would hold the interval.
                contents.add_sample(last, before, whole=True)
                before, whole = [], bool(gaps)
            contents.add_sample(sample, [*gaps, *before], whole=whole)
            self.paused_why = self._put(contents)
            if self.paused_why:
                return False
            self._waiting.clear()
            self._last, self._whole_next = sample, False
            return True

    def mark(self, text: str, time_unix_s: float | None = None) -> bool:
        """Record a mark, by default at the present time.

        False if it waits for the next sample that fits.  Raises OSError if writing fails for
        another reason than a full output.
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
        """Record a gap before the next sample."""
        with self._lock:
            self._waiting.append(gap)
            self._whole_next = True

    def begin_anew(self) -> None:
        """Make the next sample readable without anything before it."""
        with self._lock:
            self._contents.heads, self._whole_next = 0, True

    def close(self) -> None:
        """Close the session properly; if the output is full, without a last index."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()

    def _end(self) -> None:
        """Write the last records, and close the output."""
        contents = self._contents.draft()
        try:
            if contents.ticks:
                contents.add_end()
                self._put(contents)
        finally:
            self.output.close()

    def _put(self, contents: _OutputContents) -> str:
        """Write what was added; return why the output is full, or ""."""
        try:
            self.output.write(bytes(contents.data))
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            return error.strerror or "the disk is full"
        self._contents = contents
        return ""
