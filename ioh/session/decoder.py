"""Records of samples, turned back into Samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from ioh.model.metric import LayerSpec
from ioh.model.sample import HostSample, Sample, Value
from ioh.session.cells import Numbers, apply_cells, apply_values, by_place, unpack_cells
from ioh.session.folding import Folding, Layout
from ioh.session.layerstate import HOST_FIELDS, HOST_NUMBERS, LayerState
from ioh.session.records import (
    Changes,
    Delta,
    Full,
    Moment,
    RecordError,
    Rows,
    TableShape,
    decode_plain,
    to_text,
)
from ioh.session.tables import TablesState


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
        self._folding = Folding(Layout([], [], 0), [])
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

    def take_full(self, moment: Moment, plain: bytes) -> None:
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
        self._host = [0] * HOST_NUMBERS
        self._names = (to_text(full.hostname), to_text(full.kernel))
        layout = self._layout(layers)
        self._folding = Folding(layout, layout.everyone())
        self._apply(layers, full.changes, full.rows)
        self._mono_ns = full.mono_ns
        self._layers, self.tick, self._time_unix_s = layers, moment.tick, moment.time_unix_s

    def take_delta(self, moment: Moment, plain: bytes) -> bool:
        """Go on by a DELTA record.

        Returns:
            False when it does not follow the last one taken: the chain is then broken.

        Raises:
            RecordError: It is no such record; the chain is then broken.
        """
        layers, self._layers = self._layers, None
        delta = decode_plain(plain, Delta)
        if layers is None or moment.tick != self.tick + 1:
            return False
        for at, shape in delta.reshaped:
            if at >= len(layers) or layers[at].shape.name != shape.name:
                msg = f"no layer {at}"
                raise RecordError(msg)
            layers[at] = LayerState(shape)
        if delta.reshaped:
            self._folding = self._folding.reshaped(
                self._layout(layers), [at for at, _ in delta.reshaped]
            )
        self._apply(layers, delta.changes, delta.rows)
        self._mono_ns += delta.mono_inc_ns
        self._layers, self.tick, self._time_unix_s = layers, moment.tick, moment.time_unix_s
        return True

    def sample(self) -> Sample:
        """The sample of the last record taken."""
        layers = self._layers or []
        host = dict(zip(HOST_FIELDS, self._host, strict=False))
        own = self._host[len(HOST_FIELDS) :]
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

    def _layout(self, layers: list[LayerState]) -> Layout:
        sizes = [len(layer.values) for layer in layers]
        return Layout([layer.shape for layer in layers], sizes, len(self._host))

    def _apply(self, layers: list[LayerState], changes: Changes, rows: msgspec.Raw) -> None:
        flat: list[Value] = list(self._host)
        for layer in layers:
            flat += layer.values
        hists = [hist for layer in layers for hist in layer.hists]
        if changes.members:
            self._folding = self._folding.with_members(changes.members)
        numbers = Numbers(
            flat,
            by_place(changes.gaps, changes.incs),
            by_place(changes.set_gaps, changes.sets),
        )
        cells = unpack_cells(changes.cells, changes.more_cells, hists)
        if changes.is_folded:
            self._folding.unfold(numbers, cells, hists)
        apply_values(flat, numbers)
        apply_cells(hists, cells, self._unwanted(layers))
        at, hist_at = len(self._host), 0
        self._host = flat[:at]
        _check_host(self._host)
        changed = [*numbers.incs, *numbers.sets]
        for layer in layers:
            end, hist_end = at + len(layer.values), hist_at + len(layer.hists)
            layer.values = flat[at:end]
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
