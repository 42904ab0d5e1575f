"""The live source over made-up layers and a loader that the test plays: schedule and failures."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf import privileges
from ioh.bpf.loader import Loader
from ioh.bpf.privileges import Kept
from ioh.layers.base import Layer
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.sources import attached as attached_module
from ioh.sources import live
from ioh.sources.live import LiveSource

WAITED = "its probe is still being compiled"
Read = Callable[[], LayerSample]


def make_layer(
    name: str, rank: int, *, probe: str = "", read: Read | None = None, look: Read | None = None
) -> type[Layer]:
    """A layer that is known to this test only."""

    class Made(Layer):
        spec = LayerSpec(name, name, rank, (), {}, (), ())

        def read(self, maps: object) -> LayerSample:
            return look() if look is not None else LayerSample("bpf")

        def read_proc(self) -> LayerSample:
            return read() if read is not None else LayerSample("proc")

    Made.probe = probe
    del Layer.registry[name]
    return Made


class Host:
    """What the live source finds: layers, privilege, and a loader whose other end is ours."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.dropped: list[Kept] = []
        self.is_privileged = False
        ours, self.end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Our own pid is nobody's child: there is no process to wait for.
        self.loader = Loader(ours, os.getpid())
        self.know(make_layer("a", 10, probe="a"), make_layer("b", 20, probe="b"))
        patch.setattr(live, "start_loader", lambda _: self.loader)
        patch.setattr(privileges, "is_privileged", lambda: self.is_privileged)
        patch.setattr(privileges, "drop_privileges", self.dropped.append)
        patch.setattr(live, "ATTACH_TIMEOUT_S", 0.1)
        patch.setattr(live, "STATS_TIMEOUT_S", 0.1)
        patch.setattr("ioh.bpf.maps.libbpf", SimpleNamespace)
        patch.setattr("ioh.bpf.maps.possible_cpus", lambda: 2)
        patch.setattr(attached_module, "libbpf", lambda: None)

    def know(self, *layers: type[Layer]) -> None:
        known = {layer.spec.name: layer for layer in layers}
        self.patch.setattr(live, "all_layers", lambda: known)

    def requests(self) -> list[dict[str, Any]]:
        self.end.setblocking(False)
        found: list[dict[str, Any]] = []
        while True:
            try:
                message = self.end.recv(1 << 16)
            except BlockingIOError:
                return found
            if not message:
                return found
            found.append(json.loads(message))

    def answer(self, message: dict[str, object], fds: int = 0) -> None:
        null = [os.open(os.devnull, os.O_RDONLY) for _ in range(fds)]
        socket.send_fds(self.end, [json.dumps(message).encode()], null)
        for fd in null:
            os.close(fd)

    def attach(self, name: str) -> None:
        """The loader's answer for a layer with one map, one program and one link."""
        spec = {"name": "m", "kind": 2, "key_size": 4, "value_size": 8, "max_entries": 1}
        told = {"points": {"enter": "sys_enter"}, "missing": {}, "seconds": 0.5}
        told |= {"programs": 1, "copies": 1, "late": 0}
        self.answer({"verb": "attach", "layer": name, "maps": [spec], **told}, fds=3)

    def attach_with_late_part(self, name: str) -> None:
        """The same with a map, a program that waits for a module, another one and its link."""
        spec = {"kind": 2, "key_size": 4, "value_size": 4, "max_entries": 1}
        told = {"points": {"enter": "sys_enter"}, "missing": {}, "seconds": 0.5}
        told |= {"programs": 2, "copies": 1, "late": 1, "maps": [{"name": "late_offsets", **spec}]}
        self.answer({"verb": "attach", "layer": name, **told}, fds=4)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(monkeypatch)
    yield made
    made.end.close()
    made.loader.socket.close()


@pytest.fixture
def root(host: Host) -> Host:
    host.is_privileged = True
    return host


class WholeSource(LiveSource):
    """Both stages at once, as the commands without a screen run them."""

    def __enter__(self) -> WholeSource:  # noqa: PYI034
        super().__enter__()
        self.attach()
        return self


def source(*layers: str, interval_s: float = 1.0, use_bpf: bool = True) -> LiveSource:
    return WholeSource(layers or None, Filters(pid=7), interval_s, use_bpf)


def notes(sample: Sample, layer: str) -> tuple[str, ...]:
    found = sample.layers[layer]
    assert isinstance(found, LayerSample)
    return found.notes


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


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


def test_the_loader_hears_the_layers_names_and_filters(root: Host) -> None:
    root.know(make_layer("a", 10, probe="a"), make_layer("b", 20, probe="b"), make_layer("c", 30))
    root.attach("b")
    with source("c", "b") as running:
        assert list(running.attached) == ["b", "c"]  # in the order of the path
        (request,) = root.requests()
    assert (request["verb"], request["layer"]) == ("attach", "b")
    assert Filters(**request["filters"]) == Filters(pid=7)


def test_a_layer_that_is_refused_is_read_from_proc(root: Host) -> None:
    root.answer({"verb": "attach", "layer": "a", "reason": "BPF refused", "hint": "try this"})
    root.attach("b")
    with source() as running:
        sample = running.read()
        assert running.attached["a"].hint == "try this"
    assert notes(sample, "a") == ("from /proc: BPF refused",)
    assert notes(sample, "b") == ()


def test_answers_that_never_come(root: Host) -> None:
    started = time.monotonic()
    with source() as running:
        sample = running.read()
    assert notes(sample, "a") == notes(sample, "b") == (f"from /proc: {WAITED}",)
    assert time.monotonic() - started < 2.0


def test_an_answer_for_nobody_is_no_answer(root: Host) -> None:
    root.answer({"error": "unknown verb"})
    root.answer({"verb": "attach", "layer": "x", "reason": "?"})
    root.attach("a")
    with source("a") as running:
        assert running.attached["a"].maps


def test_a_loader_that_dies(root: Host) -> None:
    root.attach("a")
    root.end.shutdown(socket.SHUT_WR)
    with source() as running:
        sample = running.read()
    assert notes(sample, "a") == ()
    (note,) = notes(sample, "b")
    assert "the loader failed: the privileged loader has ended" in note


@pytest.mark.parametrize(
    ("privileged", "use_bpf", "why"),
    [
        (False, True, "BPF needs root: start with sudo"),
        (True, False, "asked for with --proc"),
        (False, False, "asked for with --proc"),
    ],
)
def test_without_bpf_no_loader_is_started(
    host: Host, privileged: bool, use_bpf: bool, why: str
) -> None:
    host.is_privileged = privileged
    with source(use_bpf=use_bpf) as running:
        sample = running.read()
        assert (host.requests(), host.dropped) == ([], [])
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
        return LayerSample("proc", lost={"x": 1 // 0})

    host.know(make_layer("a", 10, read=fail), make_layer("b", 20))
    with source() as running:
        samples = [running.read() for _ in range(3)]
    for sample in samples:
        assert sample.layers["a"] == Unavailable(
            "reading failed: ZeroDivisionError: integer division or modulo by zero",
            "please report this",
        )
        assert isinstance(sample.layers["b"], LayerSample)
    assert asked == [1]
