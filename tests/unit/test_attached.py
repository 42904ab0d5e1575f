"""A layer without its probe: what /proc gives, and why it is not BPF."""

from __future__ import annotations

from ioh.layers.base import Layer
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Unavailable
from ioh.sources.attached import COMPILING, AttachedLayer

LESS = Unavailable("/proc says less", "leave out --device")


class Unfed(Layer):
    """Nothing comes from /proc, as with --device."""

    spec = LayerSpec("unfed", "unfed", 1, (), {}, (), ())

    def read(self, maps: object) -> LayerSample:
        raise AssertionError

    def read_proc(self) -> Unavailable:
        return LESS


del Layer.registry["unfed"]


def test_a_layer_that_proc_cannot_feed_says_why_bpf_does_not() -> None:
    attached = AttachedLayer(Unfed(Filters()))
    attached.why_proc = "BPF needs root: start with sudo"
    assert attached.read() == Unavailable(f"{attached.why_proc}; {LESS.reason}", LESS.hint)
    attached.hint = "ioh doctor says more"
    assert attached.read() == Unavailable(f"{attached.why_proc}; {LESS.reason}", attached.hint)
    attached.why_proc = ""
    assert attached.read() == LESS


def test_a_probe_that_is_still_compiled_is_only_waited_for() -> None:
    attached = AttachedLayer(Unfed(Filters()))
    attached.why_proc = COMPILING
    assert attached.read() == Unavailable(COMPILING, "shown as soon as it is attached")
