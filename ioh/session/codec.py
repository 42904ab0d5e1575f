"""Samples to records and back: whole, or as changes since the sample before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields

import msgspec

from ioh.model.metric import LayerSpec
from ioh.model.sample import HostSample, Sample, Value
from ioh.session.cells import Counts, apply_cells, apply_values, diff_cells, diff_values
from ioh.session.layerstate import (
    LayerState,
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
    RecordError,
    Rows,
    TableShape,
    decode_plain,
    encode_plain,
    to_bytes,
    to_text,
)
from ioh.session.tables import TablesState, TablesWriter, table_shapes, tables_of

_HOST_FIELDS = tuple(f.name for f in fields(HostSample))
_OWN = 2  # self_cpu_ns_total, bpf_ns_total
MAX_UNIX_S = 253_402_300_799.0  # the year 9999: what a calendar can show


def _host_values(sample: Sample) -> list[Value]:
    values: list[Value] = [getattr(sample.host, name) for name in _HOST_FIELDS]
    return [*values, sample.self_cpu_ns_total, sample.bpf_ns_total]


class _Flat:
    """A sample as vectors: the host's values, then each layer's."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.shapes = [shape_of(name, layer) for name, layer in sample.layers.items()]
        self.values = [_host_values(sample), *map(values_of, sample.layers.values())]
        self.hists = [hists_of(layer) for layer in sample.layers.values()]
        self.table_shapes = table_shapes(sample)

    def continues(self, older: _Flat) -> bool:
        """Whether a delta can tell this sample: the same host, layers and tables as before."""
        return (
            [shape.name for shape in self.shapes] == [shape.name for shape in older.shapes]
            and self.table_shapes == older.table_shapes
            and self.sample.hostname == older.sample.hostname
            and self.sample.kernel == older.sample.kernel
            and self.sample.mono_ns > older.sample.mono_ns
        )


def _changes(
    older_values: Sequence[Sequence[Value]],
    older_hists: Sequence[Sequence[Counts]],
    newer: _Flat,
) -> Changes:
    old = [value for values in older_values for value in values]
    new = [value for values in newer.values for value in values]
    pairs = (
        pair
        for olds, news in zip(older_hists, newer.hists, strict=True)
        for pair in zip(olds, news, strict=True)
    )
    return Changes(*diff_values(old, new), *diff_cells(pairs))


class Encoder:
    """Turns Samples into the plain bytes of FULL, DELTA and CHECKPOINT records.

    Each method leaves the encoder as it was when it raises:

    Raises:
        ValueError: An integer beyond 64 bits, a histogram of another size, or a text that is
            no Unicode: bugs in the source.
    """

    def __init__(self) -> None:
        self._last: _Flat | None = None
        self._tables = TablesWriter(0)
        self.tick = -1

    def encode(self, sample: Sample, *, whole: bool = False) -> tuple[bytes, bool]:
        """The next sample; True where the record needs no other one."""
        flat, last = _Flat(sample), self._last
        if whole or last is None or not flat.continues(last):
            tables = TablesWriter(len(flat.table_shapes))
            rows, knowing = tables.changes(tables_of(sample, flat.table_shapes))
            plain = self._full(flat, self.tick + 1, rows)
            self._tables, is_whole = tables, True
        else:
            rows, knowing = self._tables.changes(tables_of(sample, flat.table_shapes))
            plain, is_whole = self._delta(last, flat, rows), False
        self._tables.adopt(knowing)
        self._last = flat
        self.tick += 1
        return plain, is_whole

    def checkpoint(self) -> bytes:
        """The last sample once more, by itself, as a reader now knows it."""
        if self._last is None:
            msg = "no sample yet"
            raise ValueError(msg)
        return self._full(self._last, self.tick, self._tables.whole())

    @staticmethod
    def _full(flat: _Flat, tick: int, rows: Rows) -> bytes:
        sample = flat.sample
        nothing: list[Value] = [0] * (len(_HOST_FIELDS) + _OWN)
        zeros = [nothing, *map(zero_values, flat.shapes)]
        return encode_plain(
            Full(
                tick=tick,
                mono_ns=sample.mono_ns,
                time_unix_s=sample.time_unix_s,
                hostname=to_bytes(sample.hostname),
                kernel=to_bytes(sample.kernel),
                layers=flat.shapes,
                tables=flat.table_shapes,
                changes=_changes(zeros, [zero_hists(shape) for shape in flat.shapes], flat),
                rows=msgspec.Raw(encode_plain(rows)),
            )
        )

    def _delta(self, last: _Flat, flat: _Flat, rows: Rows) -> bytes:
        values, hists = list(last.values), list(last.hists)
        reshaped: list[tuple[int, LayerShape]] = []
        for at, (old, new) in enumerate(zip(last.shapes, flat.shapes, strict=True)):
            if old != new:
                reshaped.append((at, new))
                values[at + 1], hists[at] = zero_values(new), zero_hists(new)
        return encode_plain(
            Delta(
                tick=self.tick + 1,
                mono_inc_ns=flat.sample.mono_ns - last.sample.mono_ns,
                time_unix_s=flat.sample.time_unix_s,
                reshaped=reshaped,
                changes=_changes(values, hists, flat),
                rows=msgspec.Raw(encode_plain(rows)),
            )
        )


class Decoder:
    """Turns the plain bytes of FULL, DELTA and CHECKPOINT records back into Samples.

    Args:
        with_tables: False leaves all tables out, which is much faster.
        with_parts: False leaves single devices and mounts out.
    """

    def __init__(self, *, with_tables: bool = True, with_parts: bool = True) -> None:
        self._with_tables = with_tables
        self._with_parts = with_parts
        self._layers: list[LayerState] | None = None
        self._tables = TablesState([])
        self._host: list[Value] = []
        self._names = ("", "")
        self._mono_ns = 0
        self._time_unix_s = 0.0
        self.specs: dict[str, LayerSpec] = {}
        self.tick = -1

    @property
    def is_broken(self) -> bool:
        """Whether a record in between is missing: only a whole one helps."""
        return self._layers is None

    def break_chain(self) -> None:
        """Forget the sample: what comes next was not made from it."""
        self._layers = None

    def take_full(self, plain: bytes) -> None:
        """Start anew from a FULL or CHECKPOINT record.

        Raises:
            RecordError: It is no such record; the chain is then broken.
        """
        self._layers = None
        full = decode_plain(plain, Full)
        layers = [LayerState(shape) for shape in full.layers]
        if len({layer.name for layer in layers}) != len(layers):
            msg = "a layer that comes twice"
            raise RecordError(msg)
        self._check_tables(layers, full.tables)
        self._tables = TablesState(full.tables)
        self._host = [0] * (len(_HOST_FIELDS) + _OWN)
        self._names = (to_text(full.hostname), to_text(full.kernel))
        self._apply(layers, full.changes, full.rows)
        self._set_time(full.mono_ns, full.time_unix_s)
        self._layers, self.tick = layers, full.tick

    def take_delta(self, plain: bytes) -> bool:
        """Go on by a DELTA record.

        Returns:
            False when it does not follow the last one taken: the chain is then broken.

        Raises:
            RecordError: It is no such record; the chain is then broken.
        """
        layers, self._layers = self._layers, None
        delta = decode_plain(plain, Delta)
        if layers is None or delta.tick != self.tick + 1:
            return False
        for at, shape in delta.reshaped:
            if at >= len(layers) or layers[at].shape.name != shape.name:
                msg = f"no layer {at}"
                raise RecordError(msg)
            layers[at] = LayerState(shape)
        self._apply(layers, delta.changes, delta.rows)
        self._set_time(self._mono_ns + delta.mono_inc_ns, delta.time_unix_s)
        self._layers, self.tick = layers, delta.tick
        return True

    def sample(self) -> Sample:
        """The sample of the last record taken."""
        layers = self._layers or []
        host = dict(zip(_HOST_FIELDS, self._host, strict=False))
        own = self._host[len(_HOST_FIELDS) :]
        return Sample(
            time_unix_s=self._time_unix_s,
            mono_ns=self._mono_ns,
            hostname=self._names[0],
            kernel=self._names[1],
            host=HostSample(**host),  # type: ignore[arg-type]
            layers={
                layer.name: layer.layer(
                    self._tables.of_layer(at) if self._with_tables else {},
                    with_parts=self._with_parts,
                )
                for at, layer in enumerate(layers)
            },
            specs={layer.name: self.specs[layer.name] for layer in layers},
            self_cpu_ns_total=own[0],  # type: ignore[arg-type]
            bpf_ns_total=own[1],  # type: ignore[arg-type]
        )

    def _set_time(self, mono_ns: int, time_unix_s: float) -> None:
        if not (math.isfinite(time_unix_s) and 0 <= time_unix_s <= MAX_UNIX_S):
            msg = f"a sample of {time_unix_s} s"
            raise RecordError(msg)
        self._mono_ns, self._time_unix_s = mono_ns, time_unix_s

    def _apply(self, layers: list[LayerState], changes: Changes, rows: msgspec.Raw) -> None:
        flat: list[Value] = list(self._host)
        for layer in layers:
            flat += layer.values
        hists = [hist for layer in layers for hist in layer.hists]
        changed = apply_values(flat, changes.gaps, changes.incs, changes.set_gaps, changes.sets)
        cells = apply_cells(hists, changes.cell_gaps, changes.cell_incs, self._unwanted(layers))
        at, hist_at = len(self._host), 0
        self._host = flat[:at]
        _check_host(self._host)
        for layer in layers:
            end, hist_end = at + len(layer.values), hist_at + len(layer.hists)
            layer.values = flat[at:end]
            layer.hists = hists[hist_at:hist_end]
            layer.touch(
                [place - at for place in changed if at <= place < end],
                [place - hist_at for place in cells if hist_at <= place < hist_end],
            )
            if changes.sets:
                layer.check()
            at, hist_at = end, hist_end
        if self._with_tables:
            self._tables.apply(decode_plain(rows, Rows))

    def _unwanted(self, layers: list[LayerState]) -> frozenset[int]:
        """Histograms of parts, where parts are left out."""
        found: list[int] = []
        base = 0
        for layer in () if self._with_parts else layers:
            found += range(base + layer.own_hists, base + len(layer.hists))
            base += len(layer.hists)
        return frozenset(found)

    def _check_tables(self, layers: list[LayerState], shapes: Sequence[TableShape]) -> None:
        """Layers and tables must be those of the specs: sinks rely on them.

        Raises:
            RecordError: They are not.
        """
        for layer in layers:
            if layer.name not in self.specs:
                msg = "a layer without its description"
                raise RecordError(msg)
        seen: set[tuple[int, bytes]] = set()
        for shape in shapes:
            found: Mapping[str, tuple[int, int]] = {}
            if shape.layer < len(layers) and (shape.layer, shape.name) not in seen:
                spec = self.specs[layers[shape.layer].name]
                found = {t.name: (len(t.keys), len(t.raw_columns)) for t in spec.tables}
            if found.get(to_text(shape.name)) != (shape.keys, shape.columns):
                msg = "a table that is not its layer's"
                raise RecordError(msg)
            seen.add((shape.layer, shape.name))


def _check_host(values: Sequence[Value]) -> None:
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        msg = "a host's number that is none"
        raise RecordError(msg)
