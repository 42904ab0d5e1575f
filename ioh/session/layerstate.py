"""One layer's numbers as flat vectors beside the shape that gives them their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from ioh.model.hist import FINE_BUCKETS, LATENCY_BUCKETS, SIZE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.sample import HostSample, LayerSample, OpTotals, Table, Unavailable, Value
from ioh.session.cells import Counts
from ioh.session.records import LayerShape, OpShape, RecordError, to_bytes, to_text

OP_SCALARS = tuple(f.name for f in fields(OpTotals) if f.name not in {"latency", "size_lat"})
_SCALARS = len(OP_SCALARS)
HOST_FIELDS = tuple(f.name for f in fields(HostSample))
HOST_NUMBERS = len(HOST_FIELDS) + 2  # and self_cpu_ns_total, bpf_ns_total
_CELLS = SIZE_BUCKETS * LATENCY_BUCKETS
_ZERO_FINE: Counts = (0,) * FINE_BUCKETS
_ZERO_CELLS: Counts = (0,) * _CELLS


def _hist_code(counts: Counts | None, buckets: int) -> int:
    """0 no histogram, 1 the empty one, 2 a counted one.

    Raises:
        ValueError: Another number of buckets, which is a bug in the source.
    """
    if counts is None:
        return 0
    if not counts:
        return 1
    if len(counts) != buckets:
        msg = f"a histogram of {len(counts)} buckets"
        raise ValueError(msg)
    return 2


def _op_shapes(ops: Mapping[str, OpTotals]) -> list[OpShape]:
    return [
        OpShape(
            to_bytes(name),
            _hist_code(op.latency.counts if op.latency is not None else None, FINE_BUCKETS),
            _hist_code(op.size_lat.counts if op.size_lat is not None else None, _CELLS),
        )
        for name, op in ops.items()
    ]


def shape_of(name: str, layer: LayerSample | Unavailable) -> LayerShape:
    """The shape of a layer's sample.

    Raises:
        ValueError: A histogram of another size, which is a bug in the source.
    """
    if isinstance(layer, Unavailable):
        reason, hint = to_bytes(layer.reason), to_bytes(layer.hint)
        return LayerShape(to_bytes(name), b"", reason, hint, is_idle=layer.is_idle)
    return LayerShape(
        name=to_bytes(name),
        source=to_bytes(layer.source),
        ops=_op_shapes(layer.ops),
        parts=[(to_bytes(part), _op_shapes(ops)) for part, ops in layer.parts.items()],
        metrics=[to_bytes(metric) for metric in layer.metrics],
        lost=[to_bytes(reason) for reason in layer.lost],
        gauge_hists=[to_bytes(hist) for hist in layer.gauge_hists],
        notes=[to_bytes(note) for note in layer.notes],
    )


def _all_ops(layer: LayerSample) -> Iterator[OpTotals]:
    yield from layer.ops.values()
    for ops in layer.parts.values():
        yield from ops.values()


def values_of(layer: LayerSample | Unavailable) -> list[Value]:
    """A layer's plain numbers, in the order of its shape.

    Raises:
        ValueError: A distribution of another size, which is a bug in the source.
    """
    values: list[Value] = []
    if isinstance(layer, Unavailable):
        return values
    for op in _all_ops(layer):
        values += (
            op.count_total, op.bytes_total, op.errors_total, op.latency_ns_total,
            op.queue_ns_total, op.queued_total, op.started_total, op.max_ns, op.max_bytes,
            op.inflight, op.weighted_ns_total,
        )  # fmt: skip
    values += layer.metrics.values()
    values += layer.lost.values()
    for counts in layer.gauge_hists.values():
        if len(counts) != LATENCY_BUCKETS:
            msg = f"a distribution of {len(counts)} buckets"
            raise ValueError(msg)
        values += counts
    return values


def hists_of(layer: LayerSample | Unavailable) -> list[Counts]:
    """A layer's counted histograms, in the order of its shape."""
    if isinstance(layer, Unavailable):
        return []
    found: list[Counts] = []
    for op in _all_ops(layer):
        if op.latency is not None and op.latency.counts:
            found.append(op.latency.counts)
        if op.size_lat is not None and op.size_lat.counts:
            found.append(op.size_lat.counts)
    return found


def zero_values(shape: LayerShape) -> list[Value]:
    """Where a layer that starts anew counts from."""
    if shape.reason is not None:
        return []
    ops = len(shape.ops) + sum(len(ops) for _, ops in shape.parts)
    plain = len(shape.metrics) + len(shape.lost)
    return [0] * (ops * _SCALARS + plain + len(shape.gauge_hists) * LATENCY_BUCKETS)


def zero_hists(shape: LayerShape) -> list[Counts]:
    """The same for its histograms."""
    zeros: list[Counts] = []
    for ops in (shape.ops, *(ops for _, ops in shape.parts)):
        for op in ops:
            zeros += [_ZERO_FINE] * (op.latency == 2) + [_ZERO_CELLS] * (op.size_lat == 2)
    return zeros if shape.reason is None else []


class LayerState:
    """One layer while it is being read back: its shape, its numbers, and what was built of them.

    Raises:
        RecordError: The shape names something twice.
    """

    def __init__(self, shape: LayerShape) -> None:
        self.shape = shape
        self.name = to_text(shape.name)
        self.values = zero_values(shape)
        self.hists = [list(counts) for counts in zero_hists(shape)]
        self._built: list[OpTotals | None] = []
        self._hists_of_op: list[tuple[int | None, int | None]] = []
        self._op_of_hist: list[int] = []
        every = [*shape.ops, *(op for _, ops in shape.parts for op in ops)]
        for number, op in enumerate(every):
            places: list[int | None] = []
            for code in (op.latency, op.size_lat):
                places.append(len(self._op_of_hist) if code == 2 else None)
                self._op_of_hist += [number] * (code == 2)
            self._hists_of_op.append((places[0], places[1]))
            self._built.append(None)
        # Whose ops changed since they were put together: 0 the layer's own, then its parts.
        self._stale = set(range(1 + len(shape.parts)))
        self._owner_of_op = [0] * len(shape.ops)
        for owner, (_, ops) in enumerate(shape.parts, 1):
            self._owner_of_op += [owner] * len(ops)
        self._ops: Mapping[str, OpTotals] = {}
        self._parts: Mapping[str, Mapping[str, OpTotals]] = {}
        self._every = every
        self._frozen: list[Counts | None] = [None] * len(self.hists)
        # Those of the layer's own ops, which come before those of its parts.
        self.own_hists = sum(number < len(shape.ops) for number in self._op_of_hist)
        self._names = _Names(shape)
        if any(len(set(names)) != len(names) for names in self._names.lists()):
            msg = "a layer that names something twice"
            raise RecordError(msg)

    def touch(self, values: Iterable[int], hists: Iterable[int]) -> None:
        """Note which numbers changed, so that only their ops are built anew."""
        built, count = self._built, len(self._built)
        changed = {at // _SCALARS for at in values}
        for hist in hists:
            changed.add(self._op_of_hist[hist])
            self._frozen[hist] = None
        for op in changed:
            if op < count:
                built[op] = None
                self._stale.add(self._owner_of_op[op])

    def check(self, at: int, value: float | None) -> None:
        """Counts must be integers, or unknown: formulas rely on it.

        Args:
            at: Position of a number that is set.
            value: What it is set to; no integer.

        Raises:
            RecordError: It is a count.
        """
        counts = len(self._built) * _SCALARS
        is_plain = at >= counts + len(self.shape.metrics)
        if is_plain or (at < counts and value is not None):
            msg = "a count that is no integer"
            raise RecordError(msg)

    def _op(self, number: int) -> OpTotals:
        found = self._built[number]
        if found is None:
            shape, at = self._every[number], number * _SCALARS
            fine, cells = self._hists_of_op[number]
            found = self._built[number] = OpTotals(
                *self.values[at : at + _SCALARS],  # type: ignore[arg-type,call-arg]
                LatencyHist(self._counts(fine)) if shape.latency else None,
                SizeLatencyHist(self._counts(cells)) if shape.size_lat else None,
            )
        return found

    def _counts(self, hist: int | None) -> Counts:
        if hist is None:
            return ()
        found = self._frozen[hist]
        if found is None:
            found = self._frozen[hist] = tuple(self.hists[hist])
        return found

    def _put_together(self, *, with_parts: bool) -> None:
        """Make the mappings anew in which something changed; what was returned never changes."""
        stale, names, number = self._stale, self._names, len(self._names.ops)
        if 0 in stale:
            self._ops = dict(zip(names.ops, map(self._op, range(number)), strict=True))
            stale.discard(0)
        if not with_parts or not stale:
            return
        parts = dict(self._parts)
        for owner, (part, op_names) in enumerate(names.parts, 1):
            end = number + len(op_names)
            if owner in stale:
                parts[part] = dict(zip(op_names, map(self._op, range(number, end)), strict=True))
            number = end
        self._parts = parts
        stale.clear()

    def layer(
        self, tables: Mapping[str, Table], *, with_parts: bool = True, read_after_us: int = 0
    ) -> LayerSample | Unavailable:
        """The layer's sample as it now is."""
        shape, names = self.shape, self._names
        if shape.reason is not None:
            return Unavailable(to_text(shape.reason), to_text(shape.hint), shape.is_idle)
        self._put_together(with_parts=with_parts)
        at = len(self._every) * _SCALARS
        plain = self.values
        metrics = dict(zip(names.metrics, plain[at:], strict=False))
        at += len(metrics)
        lost = {name: plain[at + i] or 0 for i, name in enumerate(names.lost)}
        at += len(lost)
        gauges = {}
        for name in names.gauge_hists:
            gauges[name] = tuple(plain[at : at + LATENCY_BUCKETS])
            at += LATENCY_BUCKETS
        return LayerSample(
            source=names.source,
            ops=self._ops,
            metrics=metrics,
            tables=tables,
            parts=self._parts,
            lost=lost,  # type: ignore[arg-type]
            gauge_hists=gauges,  # type: ignore[arg-type]
            notes=names.notes,
            read_after_us=read_after_us,
        )


class _Names:
    """A layer's names as text, told once."""

    def __init__(self, shape: LayerShape) -> None:
        self.source = to_text(shape.source)
        self.ops = [to_text(op.name) for op in shape.ops]
        self.parts = [
            (to_text(part), [to_text(op.name) for op in ops]) for part, ops in shape.parts
        ]
        self.metrics, self.lost, self.gauge_hists = (
            [to_text(name) for name in names]
            for names in (shape.metrics, shape.lost, shape.gauge_hists)
        )
        self.notes = tuple(map(to_text, shape.notes))

    def lists(self) -> Iterator[list[str]]:
        """Those that must not name anything twice."""
        yield from (self.ops, self.metrics, self.lost, self.gauge_hists)
        yield [part for part, _ in self.parts]
        yield from (ops for _, ops in self.parts)
