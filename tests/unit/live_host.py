"""The host of a live source in tests: layers, privilege, and a loader played by the test."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf import privileges
from ioh.bpf.channel import Loader
from ioh.bpf.privileges import Kept
from ioh.bpf.probe import Probe
from ioh.layers.base import Layer
from ioh.live import attaching
from ioh.live import source as live
from ioh.live.source import LiveSource
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, Sample, Unavailable

WAITED = "its probe is still being compiled"


def make_layer(
    name: str,
    rank: int,
    *,
    has_probe: bool = False,
    read: Callable[[], LayerSample | Unavailable] | None = None,
    look: Callable[[], LayerSample] | None = None,
) -> type[Layer]:
    """A layer known only to this test; ``read`` samples it from /proc, ``look`` from its maps."""

    class Made(Layer):
        spec = LayerSpec(name, name, rank, (), {}, (), ())

        def read(self, maps: object) -> LayerSample:
            return look() if look is not None else LayerSample("bpf")

        def read_proc(self) -> LayerSample | Unavailable:
            return read() if read is not None else LayerSample("proc")

    Made.probe = Probe(Made.spec) if has_probe else None
    del Layer.registry[name]
    return Made


class Host:
    """Layers, privilege, and a loader whose other end the test holds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.dropped: list[Kept] = []
        self.hidden: list[int] = []  # per hide_process(): privilege dropped so far
        self.is_privileged = self.has_rights = False
        self.permitted = (1 << 41) - 1
        ours, self.end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Our own pid is not our child, so there is no process to wait for.
        self.loader = Loader(ours, os.getpid())
        self.know(make_layer("a", 10, has_probe=True), make_layer("b", 20, has_probe=True))
        patch.setattr(attaching, "start_loader", self.start_loader)
        patch.setattr(live, "hide_process", lambda: self.hidden.append(len(self.dropped)))
        patch.setattr(privileges, "is_privileged", lambda: self.is_privileged)
        patch.setattr(privileges, "has_rights", lambda: self.is_privileged or self.has_rights)
        patch.setattr(privileges, "_permitted", lambda: self.permitted)
        patch.setattr(privileges, "drop_privileges", lambda kept, **_: self.dropped.append(kept))
        patch.setattr(attaching, "ATTACH_TIMEOUT_S", 0.1)
        patch.setattr(attaching, "STATS_TIMEOUT_S", 0.1)
        patch.setattr("ioh.bpf.maps.libbpf", SimpleNamespace)
        patch.setattr("ioh.bpf.maps.possible_cpus", lambda: 2)

    def start_loader(self, _: object, filters: Filters) -> Loader:
        self.filters = filters
        return self.loader

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
        told |= {"programs": 1, "copies": 1, "has_on_demand": False}
        self.answer({"verb": "attach", "layer": name, "maps": [spec], **told}, fds=3)

    def attach_with_part(self, name: str) -> None:
        """The same with a map, a program that waits for a module, another program and its link."""
        spec = {"kind": 2, "key_size": 4, "value_size": 4, "max_entries": 1}
        told = {"points": {"enter": "sys_enter"}, "missing": {}, "seconds": 0.5}
        told |= {"programs": 2, "copies": 1, "has_on_demand": True}
        maps = [{"name": "demand_offsets", **spec}]
        self.answer({"verb": "attach", "layer": name, "maps": maps, **told}, fds=4)


class WholeSource(LiveSource):
    """Enter and attach at once, as the commands without a screen do."""

    def __enter__(self) -> WholeSource:  # noqa: PYI034
        super().__enter__()
        self.attach()
        return self


def source(*layers: str, interval_s: float = 1.0, use_bpf: bool = True) -> LiveSource:
    return WholeSource(layers or None, Filters(pid=7), interval_s, use_bpf=use_bpf)


def notes(sample: Sample, layer: str) -> tuple[str, ...]:
    found = sample.layers[layer]
    assert isinstance(found, LayerSample)
    return found.notes


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
