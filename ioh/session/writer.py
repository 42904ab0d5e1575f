"""Writes one session: samples, marks and gaps as records, one write for each tick."""

from __future__ import annotations

import threading
import time

from ioh import __version__
from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample
from ioh.session.encoder import Encoder
from ioh.session.frame import HEAD_BYTES, UNCOVERED, Kind, make_frame
from ioh.session.output import FULL_ERRNOS, Output
from ioh.session.packing import FILE_LEVEL, Packer, StreamPacker
from ioh.session.parity import GROUP_RECORDS, make_parity
from ioh.session.records import (
    FORMAT_VERSION,
    MAX_TEXT_BYTES,
    End,
    Gap,
    Header,
    Index,
    IndexEntry,
    Mark,
    Moment,
    Specs,
    encode_moment,
    encode_plain,
    our_edges,
    to_bytes,
)

CHECKPOINT_TICKS = 50  # less than a group: it has a header and marks among them
MAX_CHECKPOINT_TICKS = 110
# A checkpoint larger than this share of the deltas since the last one waits for more of them,
# unless those are so many bytes that a reader takes 20 ms for them.
CHECKPOINT_SHARE = 0.25
CHECKPOINT_BYTES = 16 << 10
# So many that a reader takes 30 ms for them: then the group of parity ends early, unless a
# checkpoint is so large that this would be most of the recording.
SEEK_BYTES = 40 << 10
SEEK_CHECKPOINTS = 2
INDEX_CHECKPOINTS = 4


class _Batch:
    """The records of one tick, numbered but not yet written."""

    def __init__(self, offset: int, seq: int, group: list[bytes]) -> None:
        self.start = offset
        self.seq = seq
        self.group = list(group)
        self.group_seq = seq - len(group)
        self.entries: list[IndexEntry] = []
        self.data = bytearray()

    @property
    def offset(self) -> int:
        """Where the next record will lie."""
        return self.start + len(self.data)

    def add(self, kind: Kind, flags: int, payload: bytes) -> int:
        """Append a record; returns its length."""
        raw = make_frame(kind, flags, self.seq, payload)
        self.data += raw
        if kind not in UNCOVERED:
            if not self.group:
                self.group_seq = self.seq
            self.group.append(raw)
            self.seq += 1
        return len(raw)

    def close_group(self) -> None:
        """Append the parity record of the group under way, if there is one."""
        if self.group:
            self.add(Kind.PARITY, 0, make_parity(self.group_seq, self.group))
            self.group.clear()


class SessionWriter:
    """One session into one output; a recording tap takes Samples by write().

    Safe to call from several threads (marks come from another one).  Where the output is full,
    what was written stays, nothing is raised, and ``paused_why`` says so until a later sample
    fits; the gap is then part of the recording.

    Args:
        output: Where to; belongs to the writer from now on.
        note: Kept in the header.
        cycle_s: The period asked for, for the header.
        part: Counts the files of an endless recording, from 1.
        marks_note: Whether the note is the first mark, too.
        level: Of the compression.
    """

    def __init__(  # noqa: PLR0913
        self,
        output: Output,
        *,
        note: str = "",
        cycle_s: float = 1.0,
        part: int = 1,
        marks_note: bool = True,
        level: int = FILE_LEVEL,
    ) -> None:
        self.output = output
        self.paused_why = ""
        self.lost_ticks = 0
        self._note, self._cycle_s, self._part = note, cycle_s, part
        self._marks_note = marks_note
        self._lock = threading.Lock()
        self._packer, self._stream = Packer(level), StreamPacker(level)
        self._encoder = Encoder()
        self._specs: dict[str, LayerSpec] = {}
        self._seq = 0
        self._group: list[bytes] = []
        self._entries: list[IndexEntry] = []
        self._last_index = -1
        self._checkpoint_bytes = self._delta_bytes = self._delta_ticks = 0
        self._checkpoints = 0
        self._waiting: list[Mark] = []
        self._gap: Gap | None = None
        self._last_unix_s: float | None = None
        self._whole_next = True
        self._closed = False

    @property
    def ticks(self) -> int:
        """Samples written."""
        return self._encoder.tick + 1

    def write(self, sample: Sample) -> bool:
        """Write one sample, and what has gathered with it.

        Returns:
            False when the output is full: the sample is lost, later ones are tried.

        Raises:
            OSError: The output failed otherwise, as a pipe whose reader went away does.
            ValueError: A sample that cannot be told, which is a bug in its source.
        """
        with self._lock:
            tick = self._encoder.tick
            saved = (
                self._delta_bytes,
                self._delta_ticks,
                self._checkpoints,
                self._checkpoint_bytes,
            )
            batch = _Batch(self.output.size_bytes, self._seq, self._group)
            try:
                specs = self._add_sample(batch, sample)
                index_at = self._add_upkeep(batch, sample.time_unix_s)
                self.output.write(bytes(batch.data))
            except (OSError, ValueError) as error:
                self._encoder.tick = tick
                self._delta_bytes, self._delta_ticks = saved[:2]
                self._checkpoints, self._checkpoint_bytes = saved[2:]
                self._whole_next = True
                if isinstance(error, OSError) and error.errno in FULL_ERRNOS:
                    self.paused_why = error.strerror or "the disk is full"
                    self.lost_ticks += 1
                    return False
                raise
            self._commit(batch, index_at)
            self._specs = specs
            self._waiting.clear()
            self._gap = None
            self._last_unix_s = sample.time_unix_s
            self.paused_why = ""
            self._whole_next = False
            return True

    def mark(self, text: str, time_unix_s: float | None = None) -> bool:
        """Put a named moment on the time line; now, unless a time is given.

        Returns:
            False when it will only be written with the next sample that fits.

        Raises:
            OSError: The output failed otherwise than by being full.
        """
        when = time.time() if time_unix_s is None else time_unix_s
        mark = Mark(when, to_bytes(text)[:MAX_TEXT_BYTES])
        with self._lock:
            if self._last_unix_s is None or self.paused_why:
                self._waiting.append(mark)
                return False
            batch = _Batch(self.output.size_bytes, self._seq, self._group)
            self._add_mark(batch, mark, self.ticks)
            try:
                self.output.write(bytes(batch.data))
            except OSError as error:
                if error.errno not in FULL_ERRNOS:
                    raise
                self._waiting.append(mark)
                self.paused_why = error.strerror or "the disk is full"
                return False
            self._commit(batch, None)
            return True

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
                    batch = _Batch(self.output.size_bytes, self._seq, self._group)
                    batch.close_group()
                    self._add_index(batch, self._last_unix_s)
                    self._add(batch, Kind.END, End(self.ticks, self._last_unix_s))
                    self.output.write(bytes(batch.data))
            except OSError as error:
                if error.errno not in FULL_ERRNOS:
                    raise
            finally:
                self.output.close()

    def _commit(self, batch: _Batch, index_at: int | None) -> None:
        self._seq, self._group = batch.seq, batch.group
        if index_at is None:
            self._entries += batch.entries
        else:
            self._last_index, self._entries = index_at, []

    def _add(self, batch: _Batch, kind: Kind, record: object) -> int:
        return batch.add(kind, *self._packer.pack(encode_plain(record)))

    def _note_entry(self, batch: _Batch, kind: Kind, tick: int, time_unix_s: float) -> None:
        batch.entries.append(IndexEntry(batch.offset, kind, tick, time_unix_s))

    def _add_mark(self, batch: _Batch, mark: Mark, tick: int) -> None:
        self._note_entry(batch, Kind.MARK, tick, mark.time_unix_s)
        self._add(batch, Kind.MARK, mark)

    def _add_sample(self, batch: _Batch, sample: Sample) -> dict[str, LayerSpec]:
        """The sample, before it whatever a reader needs for it; returns the specs now known."""
        now = sample.time_unix_s
        tick = self._encoder.tick + 1
        changed = [s for name, s in sample.specs.items() if self._specs.get(name) != s]
        plain, is_whole = self._encoder.encode(sample, whole=self._whole_next or bool(changed))
        if is_whole:
            batch.close_group()  # so that reading can begin here
        if not self.output.size_bytes:
            self._add_header(batch, sample)
        gap = self._gap
        if gap is None and self.paused_why and self._last_unix_s is not None:
            why = to_bytes(self.paused_why)[:MAX_TEXT_BYTES]
            gap = Gap(self._last_unix_s, now, why)
        if gap is not None:
            self._note_entry(batch, Kind.GAP, tick, now)
            self._add(batch, Kind.GAP, gap)
        for mark in self._waiting:
            self._add_mark(batch, mark, tick)
        if changed:
            self._note_entry(batch, Kind.SPECS, tick, now)
            self._add(batch, Kind.SPECS, Specs(changed))
        moment = encode_moment(Moment(tick, now))
        if is_whole:
            self._stream.begin()
            flags, payload = self._packer.pack(plain)
            self._note_entry(batch, Kind.FULL, tick, now)
            self._checkpoint_bytes = len(payload)
            self._delta_bytes = self._delta_ticks = 0
        else:
            flags, payload = self._stream.pack(plain)
            self._delta_bytes += len(payload) + HEAD_BYTES
            self._delta_ticks += 1
        batch.add(Kind.FULL if is_whole else Kind.DELTA, flags, moment + payload)
        return {**self._specs, **dict(sample.specs)}

    def _add_header(self, batch: _Batch, sample: Sample) -> None:
        edges = our_edges()
        header = Header(
            format_version=FORMAT_VERSION,
            ioh_version=__version__,
            hostname=to_bytes(sample.hostname),
            kernel=to_bytes(sample.kernel),
            started_unix_s=sample.time_unix_s,
            cycle_s=self._cycle_s,
            note=to_bytes(self._note)[:MAX_TEXT_BYTES],
            part=self._part,
            fine_edges=edges["fine_edges"],
            size_edges_bytes=edges["size_edges_bytes"],
            table_edges_us=edges["table_edges_us"],
        )
        self._add(batch, Kind.HEADER, header)
        if self._note and self._marks_note:
            self._add_mark(batch, Mark(sample.time_unix_s, header.note), 0)

    def _add_upkeep(self, batch: _Batch, now: float) -> int | None:
        """Parity, checkpoint and index where they are due; the index record's place if one is."""
        far_bytes = max(SEEK_BYTES, SEEK_CHECKPOINTS * self._checkpoint_bytes)
        is_far = self._delta_bytes >= far_bytes
        if len(batch.group) < GROUP_RECORDS and not is_far:
            return None
        batch.close_group()
        due = is_far or (
            self._delta_ticks >= CHECKPOINT_TICKS
            and (
                self._delta_ticks >= MAX_CHECKPOINT_TICKS
                or self._delta_bytes >= CHECKPOINT_BYTES
                or self._checkpoint_bytes <= CHECKPOINT_SHARE * self._delta_bytes
            )
        )
        if not due:
            return None
        try:
            flags, payload = self._packer.pack(self._encoder.checkpoint())
        except ValueError:  # too many rows for one record: go on without
            self._delta_bytes = self._delta_ticks = 0
            return None
        self._stream.begin()
        self._note_entry(batch, Kind.CHECKPOINT, self._encoder.tick, now)
        moment = encode_moment(Moment(self._encoder.tick, now))
        batch.add(Kind.CHECKPOINT, flags, moment + payload)
        self._checkpoint_bytes = len(payload)
        self._delta_bytes = self._delta_ticks = 0
        self._checkpoints += 1
        if self._checkpoints % INDEX_CHECKPOINTS:
            return None
        return self._add_index(batch, now)

    def _add_index(self, batch: _Batch, now: float) -> int:
        at = batch.offset
        entries = [*self._entries, *batch.entries]
        self._add(batch, Kind.INDEX, Index(self._last_index, self.ticks, now, entries))
        return at
