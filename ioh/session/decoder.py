"""Decode records into Samples."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ioh.model.calls import CALL_NUMBERS, CALL_OPS, KEPT_BATCHES, MOST_CALLS, CallBatch, Calls
from ioh.model.hist import LATENCY_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.metric import LayerSpec, TableSpec
from ioh.model.sample import (
    READ_STEP_US,
    HostSample,
    LayerSample,
    OpTotals,
    Sample,
    Table,
    Unavailable,
    Value,
)
from ioh.session.records import (
    HOST_FIELDS,
    HOST_NUMBERS,
    MAX_ALL_OPS,
    MAX_CELLS,
    MAX_ROWS,
    OP_NUMBERS,
    LayerShape,
    OpShape,
    SampleRecord,
    Start,
    hist_sizes,
    places_of,
    refuse,
    to_text,
)


@dataclass(slots=True, eq=False)
class _Block:
    """Adjacent numbers: of an op, a row, the host, or the rest of a layer.

    Only the first ``nils`` may be None, only the first ``floats`` may be floats: formulas rely on
    that.  ``built`` is the object made of the present numbers.
    """

    begin: int
    size: int
    nils: int
    floats: int
    op: OpShape | None = None
    built: Any = None

    def build(self, values: list[Value]) -> Any:  # noqa: ANN401 (a row, or an op's totals)
        numbers: Any = tuple(values[self.begin : self.begin + self.size])
        if (op := self.op) is not None:
            behind = OP_NUMBERS + hist_sizes(op)[0]
            numbers = OpTotals(  # type: ignore[call-arg]
                *numbers[:OP_NUMBERS],
                LatencyHist(numbers[OP_NUMBERS:behind]) if op.latency else None,
                SizeLatencyHist(numbers[behind:]) if op.size_lat else None,
            )
        self.built = numbers
        return numbers


@dataclass(slots=True, eq=False)
class _Group:
    """The blocks of one mapping in a Sample: ops of a layer or part, or rows of a table."""

    blocks: dict[Any, _Block] = field(default_factory=dict)
    cache: dict[Any, Any] | None = None

    def mapping(self, values: list[Value]) -> dict[Any, Any]:
        """The present mapping; mappings returned before never change."""
        if self.cache is None:
            self.cache = {
                key: block.build(values) if block.built is None else block.built
                for key, block in self.blocks.items()
            }
        return self.cache


@dataclass(slots=True, eq=False)
class _Layer:
    """A layer's shape, and the places of its numbers: its ops', its parts' ops', the rest."""

    shape: LayerShape
    names: list[list[str]]  # of parts, metrics, lost, gauge_hists
    work: int  # for the sample's user, see WorkBudget
    groups: list[_Group] = field(default_factory=list)
    rest: int = 0  # the place where the rest begins

    def sample(
        self, values: list[Any], rows: dict[str, Table], calls: Calls, us: int, *, with_parts: bool
    ) -> LayerSample | Unavailable:
        shape, (parts, metrics, lost, gauges) = self.shape, self.names
        if shape.reason is not None:
            return Unavailable(to_text(shape.reason), to_text(shape.hint), shape.is_idle)
        own, *part_ops = [
            group.mapping(values) for group in self.groups[: None if with_parts else 1]
        ]
        rest: Any = values[self.rest : self.rest + rest_of(shape)]
        counts = rest[len(metrics) :]
        hists = range(len(lost), len(counts), LATENCY_BUCKETS)
        return LayerSample(
            source=to_text(shape.source),
            ops=own,
            metrics=dict(zip(metrics, rest, strict=False)),
            tables=rows,
            parts=dict(zip(parts, part_ops, strict=False)),
            lost=dict(zip(lost, counts, strict=False)),
            gauge_hists={
                name: tuple(counts[at : at + LATENCY_BUCKETS])
                for name, at in zip(gauges, hists, strict=True)
            },
            notes=tuple(map(to_text, shape.notes)),
            read_after_us=us,
            calls=calls,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class _Table(_Group):
    """The rows of a table."""

    layer: int
    spec: TableSpec
    columns: int
    row_work: int


_MAX_CALL_NUMBERS = 2 * KEPT_BATCHES * MOST_CALLS * CALL_NUMBERS  # of client and server
# An object built of a block costs as much memory as 64 more numbers, and so much work.
_BLOCK_NUMBERS, _BLOCK_WORK = 64, 16
# Rows without a counter are shown and judged even if they did not change.
_ROW_WORK, _GAUGES_WORK = 1, 8


class ReadCalls:
    """The newest calls, by their layer's position."""

    def __init__(self) -> None:
        self._batches: dict[int, deque[CallBatch]] = {}

    def take(self, record: SampleRecord, mono_ns: int) -> None:
        """Add a record's calls; RecordError if they are invalid."""
        for each in record.calls:
            batches = self._batches.setdefault(each.layer, deque(maxlen=KEPT_BATCHES))
            batch = CallBatch(
                mono_ns + each.after_ns, tuple(map(to_text, each.peers)), tuple(each.numbers)
            )
            kinds, peers = batch.numbers[1::CALL_NUMBERS], batch.numbers[2::CALL_NUMBERS]
            if (
                len(batch.numbers) % CALL_NUMBERS
                or max(kinds, default=0) >= len(CALL_OPS)
                or max(peers, default=-1) >= len(batch.peers)
                or (batches and batch.mono_ns <= batches[-1].mono_ns)
            ):
                refuse("invalid calls")
            batches.append(batch)
        if self.numbers > _MAX_CALL_NUMBERS:
            refuse("more calls than ioh keeps")

    @property
    def numbers(self) -> int:
        """How many numbers all calls have."""
        return sum(len(batch.numbers) for batches in self._batches.values() for batch in batches)

    def of(self, layer: int) -> Calls:
        """The calls of the layer at a position."""
        return tuple(self._batches.get(layer, ()))


class Decoder:
    """Decodes one WHOLE record and the DELTAs after it into Samples.

    All numbers are in one list.  Up to a hundred samples precede the requested one, so objects are
    built only when a sample is requested.
    """

    def __init__(
        self, start: Start, specs: Mapping[str, LayerSpec], *, with_tables: bool, with_parts: bool
    ) -> None:
        self.start, self.specs = start, specs
        self._with_tables, self._with_parts = with_tables, with_parts
        self._time_unix_s = 0.0
        self.mono_ns = 0
        self.read_after: Sequence[int] = ()
        self._calls = ReadCalls()
        self.layers: dict[str, _Layer] = {}
        self.tables: list[_Table] = []
        self._rows: list[tuple[_Table, tuple[str, ...]] | None] = []  # by number; None: removed
        self.values: list[Value] = []
        # Beside their groups: a reference from block to group would be a cycle.
        self._blocks: list[tuple[_Block, _Group]] = []
        self._begins: list[int] = []  # of blocks
        self._changed: set[int] = set()  # places
        self._fresh_blocks = self._fresh_numbers = 0  # since the last sample was built
        self.work = 0  # for the user of the last sample, see WorkBudget
        self._place(_Group(), HOST_NUMBERS, HOST_NUMBERS, HOST_NUMBERS)

    def _place(
        self, group: _Group, size: int, nils: int, floats: int, op: OpShape | None = None
    ) -> _Block:
        """Append a block of zeros to the numbers."""
        block = _Block(len(self.values), size, nils, floats, op)
        if block.begin + size > MAX_CELLS:
            refuse("more numbers than a sample may have")
        self.values += [0] * size
        self._blocks.append((block, group))
        self._begins.append(block.begin)
        self._fresh_blocks += 1
        self._fresh_numbers += size + _BLOCK_NUMBERS
        return block

    @property
    def moment(self) -> tuple[bytes, int, float]:
        """The last record's host, monotonic clock in ns, and unix time."""
        return self.start.hostname, self.mono_ns, self._time_unix_s

    def take(self, record: SampleRecord, time_unix_s: float) -> int:
        """Apply a record's changes; return how many numbers it added.

        After a RecordError the decoder is useless.
        """
        before = len(self.values)
        for at, shape in record.layers:
            self._take_layer(at, shape)
        if record.start is not None:
            self._begin_tables(record.start)
        for number in places_of(record.removed):
            row = self._rows[number] if number < len(self._rows) else None
            if row is None:
                refuse(f"no row {number}")
            table, key = row
            del table.blocks[key]
            table.cache = self._rows[number] = None
        if len(record.added) + sum(len(table.blocks) for table in self.tables) > MAX_ROWS:
            refuse("too many rows")
        for at, names in record.added:
            self._add_row(at, tuple(map(to_text, names)))
        self._change(record)
        self.mono_ns += record.mono_ns
        self.read_after = record.read_after
        self._calls.take(record, self.mono_ns)
        self._time_unix_s = time_unix_s
        return len(self.values) - before

    def _take_layer(self, at: int, shape: LayerShape) -> None:
        name = to_text(shape.name)
        names = list(self.layers)
        is_new = at == len(names) and name in self.specs and name not in self.layers
        if not is_new and names[at : at + 1] != [name]:
            refuse(f"no layer {at}, or one that comes twice or is not in the head")
        others = [layer.shape for other, layer in self.layers.items() if other != name]
        if sum(len(ops) for each in (shape, *others) for ops in owners_of(each)) > MAX_ALL_OPS:
            refuse("more ops than a sample may have")
        parts = [part for part, _ in shape.parts]
        lists = (parts, shape.metrics, shape.lost, shape.gauge_hists)
        work = sum(map(len, owners_of(shape))) + len(shape.metrics) + len(shape.lost)
        layer = _Layer(shape, [list(map(to_text, each)) for each in lists], work)
        for ops in owners_of(shape):
            group = _Group()
            for op in ops:
                size = OP_NUMBERS + sum(hist_sizes(op))
                group.blocks[to_text(op.name)] = self._place(group, size, OP_NUMBERS, 0, op)
            layer.groups.append(group)
            if len(group.blocks) != len(ops):
                refuse("a layer has an op twice")
        if any(len(set(each)) != len(each) for each in layer.names):
            refuse("a layer has a name twice")
        metrics = len(shape.metrics)
        layer.rest = self._place(_Group(), rest_of(shape), metrics, metrics).begin
        self.layers[name] = layer

    def _begin_tables(self, start: Start) -> None:
        """Begin the tables, which must be in the specs: sinks rely on that."""
        if len(set(start.tables)) != len(start.tables):
            refuse("a table comes twice")
        names = list(self.layers)
        for at, raw in start.tables:
            spec = self.specs[names[at]] if at < len(names) else None
            tables = [each for each in spec.tables if each.name == to_text(raw)] if spec else []
            if not tables:
                refuse("a table that is not in the head")
            table = tables[0]
            is_counted = any(column.kind == "counter" for column in table.columns)
            work = _ROW_WORK if is_counted else _GAUGES_WORK
            columns = len(table.raw_columns)
            self.tables.append(_Table(layer=at, spec=table, columns=columns, row_work=work))

    def _add_row(self, at: int, key: tuple[str, ...]) -> None:
        table = self.tables[at] if at < len(self.tables) else None
        if table is None or len(key) != len(table.spec.keys) or key in table.blocks:
            refuse("a row does not match its table, or comes twice")
        size = table.columns
        table.blocks[key] = self._place(table, size, size, size)
        table.cache = None
        self._rows.append((table, key))

    def _change(self, record: SampleRecord) -> None:
        values, at = self.values, -1
        places, set_places = places_of(record.gaps), places_of(record.set_gaps)
        if len(places) != len(record.incs) or len(set_places) != len(record.sets):
            refuse("not as many gaps as changes")
        try:
            for at, inc in zip(places, record.incs, strict=True):
                values[at] += inc  # type: ignore[operator]
            for at, value in zip(set_places, record.sets, strict=True):
                if not isinstance(value, int):
                    self._check(at, value)
                values[at] = value
        except (IndexError, TypeError):
            refuse(f"no integer at position {at}")
        self._changed.update(places, set_places)

    def _check(self, at: int, value: float | None) -> None:
        """Refuse None or a float where an integer is required."""
        block, _ = self._blocks[bisect_right(self._begins, at) - 1]
        if at - block.begin >= (block.nils if value is None else block.floats):
            refuse("a count is not an integer")
        if at < HOST_NUMBERS and value is not None and not isfinite(value):
            refuse("a host's number is not finite")

    def sample(self) -> Sample:
        """Build the present sample; samples returned before never change."""
        end = 0
        for at in sorted(self._changed):
            if at >= end:
                block, group = self._blocks[bisect_right(self._begins, at) - 1]
                block.built = group.cache = None
                end = block.begin + block.size
                self._fresh_blocks += 1
                self._fresh_numbers += block.size + _BLOCK_NUMBERS
        self._changed.clear()
        fresh, self._fresh_numbers = self._fresh_numbers, 0
        self.work = self._fresh_blocks * _BLOCK_WORK + fresh // 8 + self._calls.numbers
        self._fresh_blocks = 0
        self.work += sum(layer.work for layer in self.layers.values())
        self.work += sum(table.row_work * len(table.blocks) for table in self.tables)
        values: list[Any] = self.values
        tables: list[dict[str, Any]] = [{} for _ in self.layers]
        for table in self.tables if self._with_tables else ():
            tables[table.layer][table.spec.name] = table.mapping(values)
        after = [*self.read_after, *[0] * len(self.layers)]
        layers = {
            name: layer.sample(
                values,
                tables[at],
                self._calls.of(at) if self._with_tables else (),
                after[at] * READ_STEP_US,
                with_parts=self._with_parts,
            )
            for at, (name, layer) in enumerate(self.layers.items())
        }
        return Sample(
            time_unix_s=self._time_unix_s,
            mono_ns=self.mono_ns,
            hostname=to_text(self.start.hostname),
            kernel=to_text(self.start.kernel),
            host=HostSample(*values[: len(HOST_FIELDS)]),
            layers=layers,
            specs={name: self.specs[name] for name in self.layers},
            self_cpu_ns_total=values[len(HOST_FIELDS)],
            bpf_ns_total=values[len(HOST_FIELDS) + 1],
            fresh_numbers=fresh,
        )


def owners_of(shape: LayerShape) -> list[list[OpShape]]:
    """The ops of a layer, then of each of its parts."""
    return [shape.ops, *(ops for _, ops in shape.parts)]


def rest_of(shape: LayerShape) -> int:
    """How many numbers of a layer do not belong to an op."""
    return len(shape.metrics) + len(shape.lost) + len(shape.gauge_hists) * LATENCY_BUCKETS
