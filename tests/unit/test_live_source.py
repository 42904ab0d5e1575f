"""Reading this machine: layers, what each is read from, and what becomes of refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.privileges import Kept
from ioh.layers.base import Layer
from ioh.live.attached import AttachedLayer
from ioh.live.source import LiveSource
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Unavailable
from tests.unit.live_host import Host, make_layer, notes, open_descriptors, source


def test_both_layers_attached(root: Host) -> None:
    root.attach("b")
    root.attach("a")
    with source() as running:
        assert [r["layer"] for r in root.requests()] == ["b", "a"]
        assert list(running.attached) == ["a", "b"]
        sample = running.read()
        assert running.attached["a"].points == {"enter": "sys_enter"}
    for name in "ab":
        found = sample.layers[name]
        assert isinstance(found, LayerSample)
        assert (found.source, found.notes, found.lost) == ("bpf", (), {"recursion": 0})
    assert sample.specs.keys() == {"a", "b"}


@pytest.mark.parametrize(("cpus", "before"), [(1, ["b"]), (2, ["b"]), (8, ["b", "a"])])
def test_probes_are_compiled_beside_the_imports_as_far_as_there_are_cpus(
    root: Host, monkeypatch: pytest.MonkeyPatch, cpus: int, before: list[str]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(cpus))
    asked: list[dict[str, Any]] = []
    root.attach("a")
    root.attach("b")
    with LiveSource(None, Filters(), 1.0, preload=lambda: asked.extend(root.requests())) as running:
        assert [r["layer"] for r in asked] == before
        assert [r["layer"] for r in (*asked, *root.requests())] == ["b", "a"]
        running.attach()
        assert not running.awaited


def test_leaving_gives_every_descriptor_back(root: Host) -> None:
    root.attach("a")
    with source("a") as running:
        during = open_descriptors()
        assert running.attached["a"].maps
    # Map, program and link; and the loader's socket.
    assert during - open_descriptors() == 4
    assert not running.attached["a"].maps
    running.close()


def test_the_loader_hears_the_layers_names_and_has_the_filters_from_the_start(root: Host) -> None:
    root.know(make_layer("a", 10, probe="a"), make_layer("b", 20, probe="b"), make_layer("c", 30))
    root.attach("b")
    with source("c", "b") as running:
        assert list(running.attached) == ["b", "c"]  # in the order of the path
        (request,) = root.requests()
    assert request == {"verb": "attach", "layer": "b"}
    assert root.filters == Filters(pid=7)


def test_a_layer_that_is_refused_is_read_from_proc(root: Host) -> None:
    for nobodys in ({"error": "unknown verb"}, {"verb": "attach", "layer": "x", "reason": "?"}):
        root.answer(dict(nobodys))
    root.answer({"verb": "attach", "layer": "a", "reason": "BPF refused", "hint": "try this"})
    root.attach("b")
    with source() as running:
        sample = running.read()
        assert running.attached["a"].hint == "try this"
    assert notes(sample, "a") == ("from /proc: BPF refused",)
    assert notes(sample, "b") == ()


@pytest.mark.parametrize(
    ("privileged", "use_bpf", "release", "why"),
    [
        (False, True, "6.1.0", "BPF needs root: start with sudo"),
        (True, False, "6.1.0", "requested with --proc"),
        (True, True, "5.4.0-216-generic", "BPF needs Linux 5.10"),
    ],
)
def test_without_bpf_no_loader_is_started(
    host: Host, privileged: bool, use_bpf: bool, release: str, why: str
) -> None:
    host.is_privileged = privileged
    host.patch.setattr("os.uname", lambda: SimpleNamespace(release=release, nodename="h"))
    with source(use_bpf=use_bpf) as running:
        sample = running.read()
        dropped = [Kept.PROC] if privileged else []
        assert (host.requests(), host.dropped, host.hidden) == ([], dropped, [])
    assert notes(sample, "a") == (f"from /proc: {why}",)


@pytest.mark.parametrize("privileged", [True, False])
def test_an_unknown_layer(host: Host, privileged: bool) -> None:
    host.is_privileged = privileged
    with pytest.raises(IohError) as caught:
        source("a", "\x1b[31m").__enter__()
    assert caught.value.code == ExitCode.USAGE
    assert str(caught.value) == "unknown layer '\\\\x1b[31m'. Known layers: a, b."
    assert host.requests() == []
    assert privileged == (host.loader.socket.fileno() < 0)


def test_a_missing_library_is_one_line(root: Host) -> None:
    def fail() -> None:
        raise ModuleNotFoundError(name="numpy")

    root.patch.setattr("ioh.bpf.maps.preload", fail)
    with pytest.raises(IohError, match="a library is missing"):
        source().__enter__()
    assert root.loader.socket.fileno() < 0


def test_a_layer_that_fails_is_left_out_and_the_others_go_on(host: Host) -> None:
    asked = []

    def fail() -> LayerSample:
        asked.append(1)
        msg = "no number"
        raise ValueError(msg)

    host.know(make_layer("a", 10, read=fail), make_layer("b", 20))
    with source() as running:
        samples = [running.read() for _ in range(3)]
    for sample in samples:
        assert sample.layers["a"] == Unavailable(
            "reading failed: ValueError: no number", "please report this"
        )
        assert isinstance(sample.layers["b"], LayerSample)
    assert asked == [1]


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


def test_what_this_kernel_cannot_tell_is_said_beside_the_numbers() -> None:
    attached = AttachedLayer(Unfed(Filters()))
    # A layer that is fed by BPF has maps; no program of it can be asked here.
    attached.maps = {"totals": Map(MapSpec("totals", 2, 4, 8, 1, 0), -1)}
    attached.missing = {"uring_submit": "io_uring", "uring_complete": "io_uring", "split": "splits"}
    for said in (("this kernel does not provide io_uring, splits.",), ()):
        sample = attached.read()
        assert isinstance(sample, LayerSample)
        assert sample.notes == ("its own", *said)
        attached.missing = {}
