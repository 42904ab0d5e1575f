"""Samples as records: whole, or as changes since the sample before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ioh.model.sample import READ_STEP_US, LayerSample, Sample, Value
from ioh.session.cells import (
    MAX_INC,
    MIN_INC,
    Counts,
    diff_cells,
    diff_values,
    gaps_of,
    pack_cells,
)
from ioh.session.folding import Folding, Layout, fitting_members
from ioh.session.layerstate import (
    HOST_FIELDS,
    hists_of,
    shape_of,
    values_of,
    zero_hists,
    zero_values,
)
from ioh.session.records import (
    Changes,
    Delta,
    Full,
    LayerShape,
    Rows,
    encode_plain,
    to_bytes,
)
from ioh.session.tables import TablesWriter, table_shapes, tables_of


def _host_values(sample: Sample) -> list[Value]:
    values: list[Value] = [getattr(sample.host, name) for name in HOST_FIELDS]
    return [*values, sample.self_cpu_ns_total, sample.bpf_ns_total]


class _Flat:
    """A sample as vectors: the host's values, then each layer's."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.shapes = [shape_of(name, layer) for name, layer in sample.layers.items()]
        self.values = [_host_values(sample), *map(values_of, sample.layers.values())]
        self.hists = [hists_of(layer) for layer in sample.layers.values()]
        self.table_shapes = table_shapes(sample)

    def layout(self) -> Layout:
        """What lies where in it."""
        sizes = [len(values) for values in self.values[1:]]
        return Layout(self.shapes, sizes, len(self.values[0]))

    def read_after(self) -> list[int]:
        """When each layer was read, for a record."""
        layers = self.sample.layers.values()
        steps = [x.read_after_us if isinstance(x, LayerSample) else 0 for x in layers]
        return [step // READ_STEP_US for step in steps] if any(steps) else []

    def continues(self, older: _Flat) -> bool:
        """Whether a delta can tell this sample: the same host, layers and tables as before."""
        return (
            [shape.name for shape in self.shapes] == [shape.name for shape in older.shapes]
            and self.table_shapes == older.table_shapes
            and self.sample.hostname == older.sample.hostname
            and self.sample.kernel == older.sample.kernel
            and self.sample.mono_ns > older.sample.mono_ns
        )


def changes_between(
    values: Sequence[Value],
    hists: Sequence[Counts],
    flat: _Flat,
    folding: Folding,
    *,
    is_free: bool,
) -> tuple[Changes, Folding]:
    """From what was before to a sample; with the folding that a reader will know then."""
    newer = [hist for layer in flat.hists for hist in layer]
    numbers = diff_values(values, [value for part in flat.values for value in part])
    cells = diff_cells(hists, newer)
    if is_free:
        members = fitting_members(folding.layout, folding.members, numbers.incs, cells)
        if members != folding.members:
            folding = Folding(folding.layout, members)
    explicit = dict(numbers.incs), {hist: dict(incs) for hist, incs in cells.items()}
    folding.fold(numbers, cells, hists)
    is_folded = all(
        MIN_INC <= inc <= MAX_INC
        for incs in (numbers.incs, *cells.values())
        for inc in incs.values()
    )
    if not is_folded:
        numbers.incs, cells = explicit
    places = sorted(numbers.incs)
    changes = Changes(
        gaps_of(places),
        [numbers.incs[at] for at in places],
        gaps_of(numbers.sets),
        list(numbers.sets.values()),
        *pack_cells(cells, newer),
        is_folded,
    )
    return changes, folding


class Encoder:
    """Turns Samples into the plain bytes of FULL, DELTA and CHECKPOINT records.

    Each method leaves the encoder as it was when it raises:

    Raises:
        ValueError: An integer beyond 64 bits, a histogram of another size, or a text that is
            no Unicode: bugs in the source.
    """

    def __init__(self) -> None:
        self._last: _Flat | None = None
        self._folding: Folding | None = None
        self._tables = TablesWriter(0)
        self.tick = -1

    def encode(self, sample: Sample, *, whole: bool = False) -> tuple[bytes, bool]:
        """The next sample; True where the record needs no other one."""
        flat, last = _Flat(sample), self._last
        if whole or last is None or self._folding is None or not flat.continues(last):
            tables = TablesWriter(len(flat.table_shapes))
            rows, knowing = tables.changes(tables_of(sample, flat.table_shapes))
            layout = flat.layout()
            start = Folding(layout, layout.everyone())
            plain, folding = self._full(flat, start, rows, is_free=True)
            self._tables, is_whole = tables, True
        else:
            rows, knowing = self._tables.changes(tables_of(sample, flat.table_shapes))
            plain, folding = self._delta(last, self._folding, flat, rows)
            is_whole = False
        self._tables.adopt(knowing)
        self._last, self._folding = flat, folding
        self.tick += 1
        return plain, is_whole

    def checkpoint(self) -> bytes:
        """The last sample once more, by itself, as a reader now knows it."""
        if self._last is None or self._folding is None:
            msg = "no sample yet"
            raise ValueError(msg)
        return self._full(self._last, self._folding, self._tables.whole(), is_free=False)[0]

    @staticmethod
    def _full(flat: _Flat, folding: Folding, rows: Rows, *, is_free: bool) -> tuple[bytes, Folding]:
        """A whole record; ``is_free``: other members may be chosen, since the chain begins here."""
        sample = flat.sample
        none: list[Value] = [0] * len(flat.values[0])
        for shape in flat.shapes:
            none += zero_values(shape)
        hists = [hist for shape in flat.shapes for hist in zero_hists(shape)]
        changes, folding = changes_between(none, hists, flat, folding, is_free=is_free)
        changes.members = list(enumerate(sorted(parts) for parts in folding.members))
        record = Full(
            mono_ns=sample.mono_ns,
            hostname=to_bytes(sample.hostname),
            kernel=to_bytes(sample.kernel),
            layers=flat.shapes,
            tables=flat.table_shapes,
            changes=changes,
            rows=msgspec.Raw(encode_plain(rows)),
            read_after=flat.read_after(),
        )
        return encode_plain(record), folding

    @staticmethod
    def _delta(last: _Flat, folding: Folding, flat: _Flat, rows: Rows) -> tuple[bytes, Folding]:
        values, hists = list(last.values), list(last.hists)
        reshaped: list[tuple[int, LayerShape]] = []
        for at, (old, new) in enumerate(zip(last.shapes, flat.shapes, strict=True)):
            if old != new:
                reshaped.append((at, new))
                values[at + 1], hists[at] = zero_values(new), zero_hists(new)
        if reshaped:
            folding = folding.reshaped(flat.layout(), [at for at, _ in reshaped])
        changes, chosen = changes_between(
            [value for part in values for value in part],
            [hist for part in hists for hist in part],
            flat,
            folding,
            is_free=True,
        )
        changes.members = [
            (at, sorted(new))
            for at, (old, new) in enumerate(zip(folding.members, chosen.members, strict=True))
            if old != new
        ]
        record = Delta(
            mono_inc_ns=flat.sample.mono_ns - last.sample.mono_ns,
            reshaped=reshaped,
            changes=changes,
            rows=msgspec.Raw(encode_plain(rows)),
            read_after=flat.read_after(),
        )
        return encode_plain(record), chosen
