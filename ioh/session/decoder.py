"""Records of samples, turned back into Samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ioh.model.metric import LayerSpec
from ioh.model.sample import READ_STEP_US, HostSample, Sample
from ioh.session.flatstate import FlatState
from ioh.session.folding import Folding, Layout
from ioh.session.layerstate import HOST_FIELDS, LayerState
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
from ioh.session.tablestate import TablesState


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
        self._flat = FlatState([], with_parts=with_parts)
        self._names = ("", "")
        self._mono_ns = 0
        self._read_after: Sequence[int] = ()
        self._time_unix_s = 0.0
        self.specs: dict[str, LayerSpec] = {}
        self.tick = -1

    @property
    def is_broken(self) -> bool:
        """Whether a record in between is missing: only a whole one helps."""
        return self._layers is None

    @property
    def moment(self) -> tuple[str, int, float]:
        """Whence and of when the last sample is: host, its clock in ns, and unix time."""
        return self._names[0], self._mono_ns, self._time_unix_s

    def anew(self) -> Decoder:
        """One for another stream, which knows the same layers."""
        made = Decoder(with_tables=self._with_tables, with_parts=self._with_parts)
        made.specs = self.specs
        return made

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
        self._flat = FlatState(layers, with_parts=self._with_parts)
        self._names = (to_text(full.hostname), to_text(full.kernel))
        layout = self._flat.layout()
        self._folding = Folding(layout, layout.everyone())
        self._apply(full.changes, full.rows)
        self._mono_ns, self._read_after = full.mono_ns, full.read_after
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
        if delta.reshaped:
            self._flat.give_back()
        for at, shape in delta.reshaped:
            if at >= len(layers) or layers[at].shape.name != shape.name:
                msg = f"no layer {at}"
                raise RecordError(msg)
            layers[at] = LayerState(shape)
        if delta.reshaped:
            self._flat = FlatState(layers, with_parts=self._with_parts, host=self._flat.host)
            self._folding = self._folding.reshaped(
                self._flat.layout(), [at for at, _ in delta.reshaped]
            )
        self._apply(delta.changes, delta.rows)
        self._mono_ns, self._read_after = self._mono_ns + delta.mono_inc_ns, delta.read_after
        self._layers, self.tick, self._time_unix_s = layers, moment.tick, moment.time_unix_s
        return True

    def sample(self) -> Sample:
        """The sample of the last record taken."""
        layers = self._layers or []
        self._flat.give_back()
        values = self._flat.host
        host = dict(zip(HOST_FIELDS, values, strict=False))
        own = values[len(HOST_FIELDS) :]
        tables = self._tables.by_layer() if self._with_tables else {}
        after = [*self._read_after, *[0] * len(layers)]
        return Sample(
            time_unix_s=self._time_unix_s,
            mono_ns=self._mono_ns,
            hostname=self._names[0],
            kernel=self._names[1],
            host=HostSample(**host),  # type: ignore[arg-type]
            layers={
                layer.name: layer.layer(
                    tables.get(at, {}),
                    with_parts=self._with_parts,
                    read_after_us=after[at] * READ_STEP_US,
                )
                for at, layer in enumerate(layers)
            },
            specs={layer.name: self.specs[layer.name] for layer in layers},
            self_cpu_ns_total=own[0],  # type: ignore[arg-type]
            bpf_ns_total=own[1],  # type: ignore[arg-type]
        )

    def _apply(self, changes: Changes, rows: msgspec.Raw) -> None:
        if changes.members:
            self._folding = self._folding.with_members(changes.members)
        self._flat.apply(changes, self._folding)
        if self._with_tables:
            self._tables.apply(decode_plain(rows, Rows))

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
