"""Writes one session: samples, marks and gaps as records, one write for each tick."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ioh import __version__
from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample
from ioh.session.encoder import Encoder
from ioh.session.frame import Kind, make_frame
from ioh.session.index import NOTED
from ioh.session.output import FULL_ERRNOS, Output
from ioh.session.packing import FOR_MEMORY, Packer
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


class _Batch:
    """The records of one tick, not yet written; ``offset`` is where they will lie."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.data = bytearray()
        self.entries: list[IndexEntry] = []
        self.index_at: int | None = None
        self.specs: dict[str, LayerSpec] | None = None  # those of the head in it

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def add(self, kind: Kind, number: int, time_unix_s: float, payload: bytes) -> None:
        if kind in NOTED:
            self.entries.append(IndexEntry(self.end, kind, number, time_unix_s))
        self.data += make_frame(kind, number, time_unix_s, payload)


class SessionWriter:
    """One session into one output, which is its own from now on; a tap takes Samples by write().

    Safe to call from several threads (marks come from another one).  Where the output is full, what
    was written stays, nothing is raised, and ``paused_why`` says so until a later sample fits; the
    gap is then part of the recording.  ``part`` counts the files of an endless recording, from 1;
    ``stream``, another session's that has ended, spares its memory.
    """

    def __init__(  # noqa: PLR0913
        self,
        output: Output,
        *,
        note: str = "",
        cycle_s: float = 1.0,
        part: int = 1,
        marks_note: bool = True,
        stream: Packer | None = None,
        addresses: Sequence[str] = (),
    ) -> None:
        self.output = output
        self.paused_why = ""
        self._marks_note = marks_note
        self._lock = threading.Lock()
        self._packer, self._stream = Packer(FOR_MEMORY), stream or Packer()
        self._encoder = Encoder()
        self._header = Header(
            format_version=FORMAT_VERSION,
            ioh_version=__version__,
            cycle_s=cycle_s,
            note=to_bytes(note)[:MAX_TEXT_BYTES],
            part=part,
            addresses=[to_bytes(address) for address in addresses[:MAX_ADDRESSES]],
            **our_edges(),  # type: ignore[arg-type]
        )
        self._specs: dict[str, LayerSpec] = {}
        self._heads = 0  # written so far with these specs
        self._entries: list[IndexEntry] = []  # since the last index
        self._last_index = -1
        self._whole_bytes = self._delta_bytes = self._delta_ticks = 0
        self._waiting: list[Mark] = []
        self._gap: Gap | None = None
        self._last_unix_s: float | None = None
        self._whole_next = True
        self._closed = False
        self.ticks = 0  # samples written

    def write(self, sample: Sample) -> bool:
        """Write one sample, and what has gathered with it.

        False when the output is full: the sample is lost, later ones are tried.  Raises OSError
        where it failed otherwise, as a pipe whose reader went away does, and ValueError for a
        sample that cannot be encoded, which is a bug in its source.
        """
        with self._lock:
            whole, self._whole_next = self._whole_next, True  # should it not get there
            batch = self._batch_of(sample, whole=whole)
            if not self._put(batch):
                return False
            self.ticks += 1
            self._waiting.clear()
            self._gap = None
            self._last_unix_s = sample.time_unix_s
            self.paused_why = ""
            self._whole_next = False
            return True

    def mark(self, text: str, time_unix_s: float | None = None) -> bool:
        """Put a named moment on the time line; now, unless a time is given.

        False when it will only be written with the next sample that fits.  Raises OSError where the
        output failed otherwise than by being full.
        """
        when = time.time() if time_unix_s is None else time_unix_s
        mark = Mark(when, to_bytes(text)[:MAX_TEXT_BYTES])
        with self._lock:
            if self._last_unix_s is None or self.paused_why:
                self._waiting.append(mark)
                return False
            batch = _Batch(self.output.size_bytes)
            self._add(batch, Kind.MARK, self._last_unix_s, mark)
            is_written = self._put(batch)
            if not is_written:
                self._waiting.append(mark)
            return is_written

    def gap(self, gap: Gap) -> None:
        """Record, before the next sample, that time was not recorded."""
        with self._lock:
            self._gap, self._whole_next = gap, True

    def take_marks(self) -> list[Mark]:
        """Marks that still wait for a sample that fits; they are no longer this session's."""
        with self._lock:
            found, self._waiting = self._waiting, []
            return found

    def close(self) -> None:
        """End the session in order; where the output is full, without a last index."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._last_unix_s is not None:
                    batch = _Batch(self.output.size_bytes)
                    if self._heads == 1:
                        self._add_head(batch, self._last_unix_s, self._specs)
                    self._add_index(batch, self._last_unix_s)
                    batch.add(Kind.END, self.ticks, self._last_unix_s, b"")
                    self._put(batch)
            finally:
                self.output.close()

    def _put(self, batch: _Batch) -> bool:
        """Write a batch; False where the output is full, which ``paused_why`` then says."""
        try:
            self.output.write(bytes(batch.data))
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            self.paused_why = error.strerror or "the disk is full"
            return False
        if batch.index_at is not None:
            self._last_index, self._entries = batch.index_at, []
        if batch.specs is not None:
            self._heads = self._heads + 1 if batch.specs == self._specs else 1
            self._specs = batch.specs
        self._entries += batch.entries
        return True

    def _add(self, batch: _Batch, kind: Kind, time_unix_s: float, record: object) -> None:
        batch.add(kind, self.ticks, time_unix_s, self._packer.pack(encode_plain(record)))

    def _batch_of(self, sample: Sample, *, whole: bool) -> _Batch:
        """The sample, and before it whatever a reader needs for it."""
        batch, now = _Batch(self.output.size_bytes), sample.time_unix_s
        specs = {**self._specs, **dict(sample.specs)}
        is_due = self._delta_ticks >= MAX_DELTA_TICKS or self._delta_bytes >= max(
            MAX_DELTA_BYTES, DELTAS_TO_WHOLE * self._whole_bytes
        )
        whole = whole or is_due or specs != self._specs
        plain, is_whole = self._encoder.encode(sample, whole=whole)
        if is_whole:
            self._add_heads(batch, sample, specs)
        gap = self._gap
        if gap is None and self.paused_why and self._last_unix_s is not None:
            why = to_bytes(self.paused_why)[:MAX_TEXT_BYTES]
            gap = Gap(self._last_unix_s, now, why)
        if gap is not None:
            self._add(batch, Kind.GAP, now, gap)
        for mark in self._waiting:
            self._add(batch, Kind.MARK, now, mark)
        payload = self._stream.pack(plain, begins=is_whole)
        batch.add(Kind.WHOLE if is_whole else Kind.DELTA, self.ticks, now, payload)
        if is_whole:
            self._whole_bytes, self._delta_bytes, self._delta_ticks = len(payload), 0, 0
        else:
            self._delta_bytes += len(payload)
            self._delta_ticks += 1
        return batch

    def _add_heads(self, batch: _Batch, sample: Sample, specs: dict[str, LayerSpec]) -> None:
        """Before a whole sample: the index where it is due, the head with it or where it is new."""
        wholes = sum(entry.kind == Kind.WHOLE for entry in self._entries)
        is_due = wholes >= INDEX_WHOLES or (wholes > 0 and self._last_index < 0)
        if is_due and self._last_unix_s is not None:
            self._add_index(batch, self._last_unix_s)
        if is_due or specs != self._specs or not self._heads:
            is_first = not self.ticks
            if is_first:
                self._header.hostname = to_bytes(sample.hostname)
                self._header.kernel = to_bytes(sample.kernel)
                self._header.started_unix_s = sample.time_unix_s
            self._add_head(batch, sample.time_unix_s, specs)
            if is_first and self._header.note and self._marks_note:
                note = Mark(sample.time_unix_s, self._header.note)
                self._add(batch, Kind.MARK, sample.time_unix_s, note)

    def _add_head(self, batch: _Batch, time_unix_s: float, specs: dict[str, LayerSpec]) -> None:
        batch.specs = specs
        self._add(batch, Kind.HEAD, time_unix_s, Head(self._header, list(specs.values())))

    def _add_index(self, batch: _Batch, last_unix_s: float) -> None:
        batch.index_at = batch.end
        entries = [*self._entries, *batch.entries]
        index = Index(batch.end, self._last_index, entries)
        self._add(batch, Kind.INDEX, last_unix_s, index)
