"""A loader that dies, stops or cannot start; layers whose kernel module comes and goes."""

from __future__ import annotations

import errno
import socket
from unittest.mock import Mock

import pytest

from ioh.bpf.probe import AttachPoint, OnDemand, Probe
from ioh.commands.doctor_verdicts import judge_layers
from ioh.layers.base import Layer
from ioh.live import attaching
from ioh.live.source import LiveSource
from ioh.model.sample import LayerSample, Unavailable
from tests.unit.live_host import WAITED, Host, make_layer, notes, open_descriptors, source

GONE = "from /proc: the loader failed: the privileged loader has ended"


def test_still_being_compiled_is_reported_only_while_the_loader_lives(root: Host) -> None:
    with source() as running:
        assert notes(running.read(), "a") == (f"from /proc: {WAITED}",)
        root.end.shutdown(socket.SHUT_WR)
        sample = running.read()
        assert notes(sample, "a") == notes(sample, "b") == (GONE,)


def test_a_loader_that_cannot_be_started_is_reported(root: Host) -> None:
    refusal = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    root.patch.setattr(attaching, "start_loader", Mock(side_effect=refusal))
    with source() as running:
        (note,) = notes(running.read(), "a")
    assert note.startswith("from /proc: the loader cannot be started: too few processes")


def test_a_stopped_loader_is_waited_for_once(root: Host) -> None:
    stats: dict[str, object] = {"verb": "stats"}
    root.attach("a")
    with source("a") as running:
        root.requests()
        for _ in range(3):
            with running.counting_run_time() as run_times_ns:
                assert run_times_ns() == {}
        assert root.requests() == [stats]
        root.answer(stats, fds=1)
        running.read()
        before = open_descriptors()
        root.answer(stats, fds=1)
        with running.counting_run_time() as run_times_ns:
            assert run_times_ns() == {}  # that answer was to an earlier request
        assert open_descriptors() == before
        assert root.requests() == [stats]


class Tide:
    """A layer that has something to measure whenever the test says so."""

    def __init__(self, host: Host) -> None:
        self.is_here = False
        self.layer: type[Layer] = make_layer("a", 10, has_probe=True)
        self.layer.idle = "no tide"
        host.patch.setattr(self.layer, "is_wanted", lambda *_: self.is_here)
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


def test_a_layer_wanted_after_the_loader_died_is_read_from_proc(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        root.end.close()
        tide.is_here = True
        for _ in range(2):
            assert sample_of(running).notes == (GONE,)


def test_a_layer_is_attached_when_wanted_and_detached_when_not(root: Host) -> None:
    tide = Tide(root)
    with source("a") as running:
        running.read()
        before = open_descriptors()
        for _ in range(2):
            tide.is_here = True
            # Until the probe is attached, the layer is read from /proc.
            assert sample_of(running).source == "proc"
            assert [request["layer"] for request in root.requests()] == ["a"]
            root.attach("a")
            first = running.attached["a"].layer
            assert sample_of(running).source == "bpf"
            assert root.requests() == []
            assert open_descriptors() == before + 3
            tide.is_here = False
            assert running.read().layers["a"] == Unavailable("no tide", is_idle=True)
            assert open_descriptors() == before
            assert running.attached["a"].layer is not first  # the new one remembers nothing


@pytest.mark.parametrize("part", ["", "on demand"])
def test_a_probe_that_comes_too_late_is_detached(root: Host, part: str) -> None:
    """A whole probe, or a part of one."""
    tide: Tide | Visitor = Visitor(root) if part else Tide(root)
    with source("a") as running:
        tide.is_here = True
        running.read()
        tide.is_here = False
        running.read()
        before = open_descriptors()
        if part:
            root.answer({"verb": "attach_on_demand", "layer": "a", "reason": ""}, fds=2)
        else:
            root.attach("a")
        running.read()
        assert open_descriptors() == before
        assert bool(running.attached["a"].maps) == bool(part)


class Visitor:
    """A layer with a part that waits for a module, which comes and goes as the test says."""

    def __init__(self, host: Host) -> None:
        self.is_here = False
        layer = make_layer("a", 10)
        points = (AttachPoint("guest_came", "on_guest"),)
        part = OnDemand(points, without="guests are not counted", module="guest")
        layer.probe = Probe(layer.spec, on_demand=part)
        host.patch.setattr(layer, "attaches_on_demand", lambda _: self.is_here)
        host.know(layer)
        host.attach_with_part("a")


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
            assert root.requests() == [{"verb": "attach_on_demand", "layer": "a"}]  # requested once
            root.answer({"verb": "attach_on_demand", "layer": "a", "reason": ""}, fds=2)
            assert sample_of(running).source == "bpf"
            assert open_descriptors() == before + 2
            visitor.is_here = False
            running.read()
            assert open_descriptors() == before
        assert running.attached["a"].layer is whole  # its totals continued


def test_a_refused_late_part_is_reported_until_its_module_goes(root: Host) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        visitor.is_here = True
        running.read()
        root.answer({"verb": "attach_on_demand", "layer": "a", "reason": "no BTF"})
        for _ in range(2):
            assert sample_of(running).notes == ("guests are not counted: no BTF",)
        assert [r["verb"] for r in root.requests()] == ["attach", "attach_on_demand"]
        details = [verdict.detail for verdict in judge_layers(list(running.attached.values()))]
        assert "guests are not counted: no BTF" in details
        visitor.is_here = False
        assert sample_of(running).notes == ()


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_without_the_loader_there_is_no_late_part(root: Host, is_asked_for: bool) -> None:
    visitor = Visitor(root)
    with source("a") as running:
        visitor.is_here = is_asked_for
        running.read()
        root.end.shutdown(socket.SHUT_WR)
        visitor.is_here = True
        notes = sample_of(running).notes
    assert notes == (GONE.replace("from /proc", "guests are not counted"),)
