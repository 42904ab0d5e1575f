"""A layer without its probe: what /proc gives, and why it is not BPF."""

from __future__ import annotations

from ioh.bpf.maps import Map, MapSpec
from ioh.layers.base import Layer
from ioh.live.attached import COMPILING, AttachedLayer
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Unavailable

LESS = Unavailable("/proc says less", "leave out --device")


class Unfed(Layer):
    """Nothing comes from /proc, as with --device."""

    spec = LayerSpec("unfed", "unfed", 1, (), {}, (), ())

    def read(self, maps: object) -> LayerSample:
        return LayerSample("bpf", notes=("its own",))

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


def test_what_this_kernel_cannot_tell_is_said_beside_the_numbers() -> None:
    attached = AttachedLayer(Unfed(Filters()))
    # A layer that is fed by BPF has maps; no program of it can be asked here.
    attached.maps = {"totals": Map(MapSpec("totals", 2, 4, 8, 1, 0), -1)}
    attached.missing = {"uring_submit": "io_uring", "uring_complete": "io_uring", "split": "splits"}
    sample = attached.read()
    assert isinstance(sample, LayerSample)
    assert sample.notes == ("its own", "this kernel does not give io_uring, splits.")
    attached.missing = {}
    sample = attached.read()
    assert isinstance(sample, LayerSample)
    assert sample.notes == ("its own",)
