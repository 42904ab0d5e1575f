"""Encode Samples as records: whole, or as changes since the previous sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import ne

from ioh.model.calls import KEPT_BATCHES
from ioh.model.hist import FINE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.sample import READ_STEP_US, LayerSample, OpTotals, Sample, Table, Unavailable, Value
from ioh.session.records import (
    HOST_FIELDS,
    HOST_NUMBERS,
    MAX_AGO_NS,
    MAX_ALL_OPS,
    MAX_CELLS,
    MAX_PARTS,
    MAX_ROWS,
    SIZE_LAT_CELLS,
    CallRecord,
    LayerShape,
    OpShape,
    SampleRecord,
    Start,
    encode_sample,
    gaps_of,
    to_bytes,
)

# Of all rows; rows beyond are not recorded.
_MAX_ROW_CHARACTERS = 1 << 19
_MAX_ROW_CELLS = MAX_CELLS // 8
_MIN_INC, _MAX_INC = -(1 << 63), (1 << 64) - 1
# Shorter chunks are compared number by number: equal numbers may differ in type.
_LONG_CHUNK = 64
# Without their number, so that the note stays the same from sample to sample.
LEFT_OUT = b"more devices or mounts than a recording holds: the others are in the totals only"
Chunk = Sequence[Value]
Flat = tuple[LayerShape, list[Chunk]]


@dataclass(slots=True)
class _Room:
    """How much of parts one sample may still hold; the rest is not recorded."""

    ops: int = MAX_ALL_OPS // 2
    cells: int = MAX_CELLS // 2


def _flatten(name: str, layer: LayerSample | Unavailable, room: _Room) -> Flat:
    """Split a layer's sample into its shape and its numbers.

    When the room is used up, parts lose their histograms first; then they are left out, with a
    note.
    """
    if isinstance(layer, Unavailable):
        reason, hint = to_bytes(layer.reason), to_bytes(layer.hint)
        return LayerShape(to_bytes(name), b"", reason, hint, is_idle=layer.is_idle), []
    chunks: list[Chunk] = []
    ops = _flatten_ops(layer.ops, chunks, _Room(MAX_CELLS, MAX_CELLS))
    parts: list[tuple[bytes, list[OpShape]]] = []
    for part, its_ops in layer.parts.items():
        if len(parts) < MAX_PARTS and len(its_ops) <= room.ops:
            parts.append((to_bytes(part), _flatten_ops(its_ops, chunks, room)))
    notes = [to_bytes(note) for note in layer.notes]
    if len(parts) < len(layer.parts):
        notes.append(LEFT_OUT)
    chunks += tuple(layer.metrics.values()), tuple(layer.lost.values())
    chunks += layer.gauge_hists.values()
    shape = LayerShape(
        name=to_bytes(name),
        source=to_bytes(layer.source),
        ops=ops,
        parts=parts,
        metrics=[to_bytes(metric) for metric in layer.metrics],
        lost=[to_bytes(reason) for reason in layer.lost],
        gauge_hists=[to_bytes(hist) for hist in layer.gauge_hists],
        notes=notes,
    )
    return shape, chunks


def _flatten_ops(ops: Mapping[str, OpTotals], chunks: list[Chunk], room: _Room) -> list[OpShape]:
    """Return the shapes of ops, and append their numbers to ``chunks``."""
    shapes = []
    room.ops -= len(ops)
    for name, op in ops.items():
        chunks.append((
            op.count_total, op.bytes_total, op.errors_total, op.latency_ns_total,
            op.queue_ns_total, op.queued_total, op.started_total, op.max_ns, op.max_bytes,
            op.inflight, op.weighted_ns_total,
        ))  # fmt: skip
        fine = _add_hist(op.latency, FINE_BUCKETS, chunks, room)
        cells = _add_hist(op.size_lat, SIZE_LAT_CELLS, chunks, room)
        shapes.append(OpShape(to_bytes(name), fine, cells))
    return shapes


def _add_hist(
    hist: LatencyHist | SizeLatencyHist | None, buckets: int, chunks: list[Chunk], room: _Room
) -> int:
    """Return OpShape's code for a histogram, and append its counts to ``chunks``."""
    if hist is None:
        return 0
    if not hist.counts:
        return 1
    if room.cells < buckets:
        return 0
    room.cells -= buckets
    chunks.append(hist.counts)
    return 2


@dataclass(slots=True)
class _Block:
    """Adjacent numbers, as a reader knows them; ``row``: the row's number, if it is one."""

    begin: int
    numbers: Chunk
    row: int = -1


def _tables_of(sample: Sample) -> tuple[list[tuple[int, bytes]], list[Table]]:
    """The tables in their layers' specs: [layer's position, name], and their rows."""
    names: list[tuple[int, bytes]] = []
    tables: list[Table] = []
    for at, (layer_name, layer) in enumerate(sample.layers.items()):
        if isinstance(layer, LayerSample):
            described = {table.name for table in sample.specs[layer_name].tables}
            own = [name for name in layer.tables if name in described]
            names += [(at, to_bytes(name)) for name in own]
            tables += [layer.tables[name] for name in own]
    return names, tables


class Encoder:
    """Encodes Samples as the plain bytes of WHOLE and DELTA records.

    It keeps the state of a reader of the records so far.  If a record was not written, or encode()
    raised, the next one must be whole.
    """

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, start: Start | None) -> None:
        """Reset to a reader's state before a whole sample: the host's numbers, all 0."""
        self._start = start
        self._mono_ns = 0
        self._size = self._live = 0  # numbers, and those still in use
        self._layers: list[tuple[LayerShape, list[_Block]]] = []
        self._host = self._place(HOST_NUMBERS)
        tables = start.tables if start is not None else ()
        self._tables: list[dict[tuple[str, ...], _Block]] = [{} for _ in tables]
        self._rows = 0  # including removed ones
        self._room = _MAX_ROW_CHARACTERS
        self._incs: dict[int, int] = {}  # changes, by place
        self._sets: dict[int, Value] = {}
        self._newest_calls_ns: dict[int, int] = {}  # by layer's position

    def encode(self, sample: Sample, *, whole: bool = False) -> tuple[bytes, bool]:
        """Encode the next sample; return its record, and whether it is whole.

        Raises ValueError for bugs in the source: an integer beyond 64 bits, or invalid Unicode.
        """
        room = _Room()
        flat = [_flatten(name, layer, room) for name, layer in sample.layers.items()]
        names, tables = _tables_of(sample)
        start = Start(to_bytes(sample.hostname), to_bytes(sample.kernel), names)
        if (
            not whole
            and self._start == start
            and self._mono_ns < sample.mono_ns
            and [shape.name for shape, _ in flat] == [shape.name for shape, _ in self._layers]
        ):
            record = self._take(sample, flat, tables)
            # Otherwise make it whole: most numbers are unused, or there are too many.
            most = min(MAX_CELLS, 2 * self._live + MAX_CELLS // 64)
            if self._size <= most and self._rows <= 2 * MAX_ROWS:
                return encode_sample(record), False
        self._begin(start)
        record = self._take(sample, flat, tables)
        record.start = start
        return encode_sample(record), True

    def _place(self, size: int, row: int = -1) -> _Block:
        block = _Block(self._size, (0,) * size, row)
        self._size += size
        self._live += size
        return block

    def _take(self, sample: Sample, flat: list[Flat], tables: list[Table]) -> SampleRecord:
        """Make the record that leads a reader to this sample."""
        incs, sets = self._incs, self._sets
        incs.clear()
        sets.clear()
        record = SampleRecord(sample.mono_ns - self._mono_ns)
        self._mono_ns = sample.mono_ns
        host = (getattr(sample.host, name) for name in HOST_FIELDS)
        self._change(self._host, (*host, sample.self_cpu_ns_total, sample.bpf_ns_total))
        record.layers = self._take_layers(flat)
        record.removed = gaps_of(self._remove(tables))
        record.added = self._take_rows(tables)
        places, set_places = sorted(incs), sorted(sets)
        record.gaps, record.incs = gaps_of(places), [incs[at] for at in places]
        record.set_gaps, record.sets = gaps_of(set_places), [sets[at] for at in set_places]
        after = [getattr(layer, "read_after_us", 0) for layer in sample.layers.values()]
        record.read_after = [us // READ_STEP_US for us in after] if any(after) else []
        record.calls = self._take_calls(sample)
        return record

    def _change(self, block: _Block, newer: Chunk) -> None:
        """Note the changes in a block."""
        older, block.numbers = block.numbers, newer
        if older is newer:
            return
        every: Iterable[int] = range(len(newer))
        if len(newer) >= _LONG_CHUNK:
            every = compress(every, map(ne, older, newer)) if older != newer else ()
        for at in every:
            a, b = older[at], newer[at]
            if a is b or (a == b and type(a) is type(b)):
                continue
            if isinstance(a, int) and isinstance(b, int) and _MIN_INC <= b - a <= _MAX_INC:
                self._incs[block.begin + at] = b - a
            else:
                self._sets[block.begin + at] = b

    def _take_layers(self, flat: list[Flat]) -> list[tuple[int, LayerShape]]:
        new = []
        for at, (shape, chunks) in enumerate(flat):
            layer = self._layers[at] if at < len(self._layers) else None
            if layer is None or layer[0] != shape:
                new.append((at, shape))
                if layer is not None:
                    self._live -= sum(len(block.numbers) for block in layer[1])
                layer = (shape, [self._place(len(chunk)) for chunk in chunks])
                self._layers[at : at + 1] = [layer]
            for block, chunk in zip(layer[1], chunks, strict=True):
                self._change(block, chunk)
        return new

    def _remove(self, tables: list[Table]) -> list[int]:
        """Forget the rows that are gone; return their numbers."""
        removed = []
        for blocks, table in zip(self._tables, tables, strict=True):
            for key, block in list(blocks.items()):
                if key not in table or len(table[key]) != len(block.numbers):
                    del blocks[key]
                    removed.append(block.row)
                    self._live -= len(block.numbers)
                    self._room += sum(map(len, key))
        return sorted(removed)

    def _take_rows(self, tables: list[Table]) -> list[tuple[int, list[bytes]]]:
        new = []
        rows = sum(map(len, self._tables))
        for number, (blocks, table) in enumerate(zip(self._tables, tables, strict=True)):
            for key, columns in table.items():
                block = blocks.get(key)
                if block is None:
                    characters = sum(map(len, key))
                    cells = (rows + 1) * len(columns)
                    if rows >= MAX_ROWS or characters > self._room or cells > _MAX_ROW_CELLS:
                        continue
                    rows += 1
                    self._room -= characters
                    new.append((number, [to_bytes(part) for part in key]))
                    block = blocks[key] = self._place(len(columns), self._rows)
                    self._rows += 1
                self._change(block, columns)
        return new

    def _take_calls(self, sample: Sample) -> list[CallRecord]:
        """The calls that a reader does not have yet."""
        calls = []
        for at, layer in enumerate(sample.layers.values()):
            for batch in layer.calls[-KEPT_BATCHES:] if isinstance(layer, LayerSample) else ():
                if batch.mono_ns > self._newest_calls_ns.get(at, -MAX_AGO_NS):
                    self._newest_calls_ns[at] = batch.mono_ns
                    peers = list(map(to_bytes, batch.peers))
                    after_ns = batch.mono_ns - sample.mono_ns
                    calls.append(CallRecord(at, after_ns, peers, list(batch.numbers)))
        return calls
