"""A sample of calls in records: each batch once, and again in whole samples."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct, field

from ioh.model.calls import CALL_NUMBERS, CALL_OPS, KEPT_BATCHES, MOST_CALLS, CallBatch
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.session.records import MAX_LAYERS, SampleRecord, refuse, to_bytes, to_text

_MAX_NUMBERS = 2 * KEPT_BATCHES * MOST_CALLS * CALL_NUMBERS  # kept of client and server
_AGO_NS = 1 << 62
Layer = LayerSample | Unavailable

_Peer = Annotated[bytes, Meta(max_length=64)]
_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class CallRecord(Struct, array_like=True, frozen=True):
    """A batch of a layer's calls, as in CallBatch; ``after_ns`` since the sample's ``mono_ns``."""

    layer: Annotated[int, Meta(ge=0, lt=MAX_LAYERS)]
    after_ns: Annotated[int, Meta(ge=-_AGO_NS, le=_AGO_NS)]
    peers: Annotated[list[_Peer], Meta(max_length=MOST_CALLS)]
    numbers: Annotated[list[_Number], Meta(max_length=MOST_CALLS * CALL_NUMBERS)]


class FullRecord(SampleRecord, array_like=True):
    """A sample with calls.  Where there are none, a SampleRecord takes less room."""

    calls: Annotated[list[CallRecord], Meta(max_length=MAX_LAYERS * KEPT_BATCHES)] = field(
        default_factory=list
    )


def add_calls(record: SampleRecord, sample: Sample, newest_ns: dict[int, int]) -> SampleRecord:
    """The record with the calls that a reader lacks; ``newest_ns`` it has, by layer's position."""
    calls = []
    for at, layer in enumerate(sample.layers.values()):
        for batch in layer.calls[-KEPT_BATCHES:] if isinstance(layer, LayerSample) else ():
            if batch.mono_ns > newest_ns.get(at, -_AGO_NS):
                newest_ns[at] = batch.mono_ns
                peers, after_ns = list(map(to_bytes, batch.peers)), batch.mono_ns - sample.mono_ns
                calls.append(CallRecord(at, after_ns, peers, list(batch.numbers)))
    if not calls:
        return record
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return FullRecord(**fields, calls=calls)


class ReadCalls:
    """The reverse; by a layer's position."""

    def __init__(self) -> None:
        self._kept: dict[int, deque[CallBatch]] = {}

    def take(self, record: FullRecord, mono_ns: int) -> None:
        """Take over what came since the sample before; RecordError where that makes no sense."""
        for each in record.calls:
            kept = self._kept.setdefault(each.layer, deque(maxlen=KEPT_BATCHES))
            batch = CallBatch(
                mono_ns + each.after_ns, tuple(map(to_text, each.peers)), tuple(each.numbers)
            )
            kinds, peers = batch.numbers[1::CALL_NUMBERS], batch.numbers[2::CALL_NUMBERS]
            if (
                len(batch.numbers) % CALL_NUMBERS
                or max(kinds, default=0) >= len(CALL_OPS)
                or max(peers, default=-1) >= len(batch.peers)
                or (kept and batch.mono_ns <= kept[-1].mono_ns)
            ):
                refuse("calls that are none")
            kept.append(batch)
        if self.numbers > _MAX_NUMBERS:
            refuse("more calls than ioh keeps")

    @property
    def numbers(self) -> int:
        """How many there are of all calls."""
        return sum(len(batch.numbers) for kept in self._kept.values() for batch in kept)

    def onto(self, layers: dict[str, Layer], *, wanted: bool) -> dict[str, Layer]:
        """Layers with their calls; as they are where those are not wanted."""
        names = list(layers)
        for at, kept in self._kept.items() if wanted else ():
            layer = layers[names[at]] if at < len(names) else None
            if isinstance(layer, LayerSample):
                layers[names[at]] = replace(layer, calls=tuple(kept))
        return layers
