"""Layers whose kernel module comes and goes: attached when wanted, detached when not."""

from __future__ import annotations

from ioh.commands.doctor_verdicts import judge_layers
from ioh.layers.base import AttachPoint, Late, Layer
from ioh.live.source import LiveSource
from ioh.model.sample import LayerSample, Unavailable
from tests.unit.live_host import Host, make_layer, open_descriptors, source


class Tide:
    """A layer that has something to measure whenever the test says so."""

    def __init__(self, host: Host) -> None:
        self.is_high = False
        self.layer: type[Layer] = make_layer("a", 10, probe="a")
        self.layer.idle = "no tide"
        host.patch.setattr(self.layer, "is_wanted", lambda *_: self.is_high)
        host.know(self.layer)


def sample_of(running: LiveSource) -> LayerSample:
    found = running.read().layers["a"]
    assert isinstance(found, LayerSample)
    return found


def test_nothing_to_measure_is_no_fault(root: Host) -> None:
    Tide(root)
    with source("a") as running:
        assert root.requests() == []
        assert running.read().layers["a"] == Unavailable("no tide", is_idle=True)
        (verdict,) = judge_layers(list(running.attached.values()))
    assert verdict.state == "note"
    assert "no tide" in verdict.detail


def test_attached_when_it_comes_and_detached_when_it_goes(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        running.read()
        before = open_descriptors()
        for _ in range(2):
            tide.is_high = True
            # Until the probe is there, /proc feeds the layer.
            assert sample_of(running).source == "proc"
            assert [request["layer"] for request in root.requests()] == ["a"]
            root.attach("a")
            first = running.attached["a"].layer
            assert sample_of(running).source == "bpf"
            assert root.requests() == []
            assert open_descriptors() == before + 3
            tide.is_high = False
            assert running.read().layers["a"] == Unavailable("no tide", is_idle=True)
            assert open_descriptors() == before
            assert running.attached["a"].layer is not first  # it remembers nothing


def test_a_probe_that_comes_too_late_is_let_go(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        tide.is_high = True
        running.read()
        tide.is_high = False
        running.read()
        before = open_descriptors()
        root.attach("a")
        running.read()
        assert open_descriptors() == before
        assert not running.attached["a"].maps


def test_an_answer_that_arrives_with_the_cost_is_kept(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        tide.is_high = True
        running.read()
        root.attach("a")
        with running.counting_run_time():
            assert running.attached["a"].maps


def test_a_refusal_is_told_until_it_goes(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        tide.is_high = True
        running.read()
        root.answer({"verb": "attach", "layer": "a", "reason": "no BTF", "hint": ""})
        for _ in range(2):
            assert sample_of(running).notes == ("from /proc: no BTF",)
        assert len(root.requests()) == 1


def test_without_bpf_it_is_read_from_proc(root: Host) -> None:
    tide = Tide(root)
    with source("a", use_bpf=False) as running:
        tide.is_high = True
        assert sample_of(running).notes == ("from /proc: requested with --proc",)


class Visitor:
    """A layer with a part that waits for a module, which comes and goes as the test says."""

    def __init__(self, host: Host) -> None:
        self.is_here = False
        layer = make_layer("a", 10, probe="a")
        points = (AttachPoint("guest_came", "on_guest"),)
        layer.late = Late(points, without="guests are not counted", module="guest")
        host.patch.setattr(layer, "wants_late", lambda _: self.is_here)
        host.know(layer)
        host.attach_with_late_part("a")


def test_the_late_part_comes_and_goes_with_its_module(root: Host) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        running.read()
        assert [request["verb"] for request in root.requests()] == ["attach"]
        before = open_descriptors()
        whole = running.attached["a"].layer
        for _ in range(2):
            visitor.is_here = True
            for _ in range(3):
                running.read()
            assert root.requests() == [{"verb": "attach_late", "layer": "a"}]  # asked once
            root.answer({"verb": "attach_late", "layer": "a", "reason": ""}, fds=2)
            assert sample_of(running).source == "bpf"
            assert open_descriptors() == before + 2
            visitor.is_here = False
            running.read()
            assert open_descriptors() == before
        assert running.attached["a"].layer is whole  # its totals went on


def test_a_late_part_that_comes_too_late_is_let_go(root: Host) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        before = open_descriptors()
        visitor.is_here = True
        running.read()
        visitor.is_here = False
        running.read()
        root.answer({"verb": "attach_late", "layer": "a", "reason": ""}, fds=2)
        running.read()
        assert open_descriptors() == before


def test_a_late_part_that_is_refused_is_told_until_its_module_goes(root: Host) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        visitor.is_here = True
        running.read()
        root.answer({"verb": "attach_late", "layer": "a", "reason": "no BTF"})
        for _ in range(2):
            assert sample_of(running).notes == ("guests are not counted: no BTF",)
        assert [r["verb"] for r in root.requests()] == ["attach", "attach_late"]
        details = [verdict.detail for verdict in judge_layers(list(running.attached.values()))]
        assert "guests are not counted: no BTF" in details
        visitor.is_here = False
        assert sample_of(running).notes == ()


def test_a_loader_that_is_gone_attaches_no_late_part(root: Host) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        root.end.close()
        visitor.is_here = True
        notes = sample_of(running).notes
    assert notes[0].startswith("guests are not counted: the loader failed: ")
