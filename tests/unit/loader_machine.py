"""A privileged loader whose children attach what the test says, and helpers that query it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf.calls import KernelObjects, Object, Outcome
from ioh.bpf.channel import Loader, close_all
from ioh.bpf.loader import start_loader
from ioh.model.filters import Filters

WAIT_S = 20.0
UNKNOWN: dict[str, Any] = {"error": "unknown verb"}
Attach = Callable[[str, Filters], Outcome]


class Machine:
    """A loader that attaches with a function of the test.

    Each object that it makes is a file; removing the file makes the object gone.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch, self.folder = patch, folder
        self.loaders: list[Loader] = []
        patch.setattr(loader_module, "is_gone", lambda made: not self.file(made).exists())
        patch.setattr(loader_module, "_GONE_CHECK_S", 0.001)

    def file(self, made: Object) -> Path:
        return self.folder / f"{made[0]}-{made[1]}"

    def made(self, *objects: Object, on_demand: tuple[Object, ...] = ()) -> Outcome:
        for made in objects:
            self.file(made).touch()
        return {"maps": []}, [0], KernelObjects(objects, on_demand)

    def start(
        self, attach: Attach, attach_on_demand: Callable[..., Outcome] | None = None
    ) -> Loader:
        """Start a loader whose children call ``attach``, with names in place of layers."""
        self.patch.setattr("ioh.bpf.program.attach_layer", lambda *args: attach(*args[:2]))
        self.patch.setattr("ioh.bpf.program.attach_on_demand_part", attach_on_demand)
        made = start_loader(lambda name: name, Filters(pid=7))  # type: ignore[arg-type, return-value]
        self.loaders.append(made)
        return made

    def answer(self, attach: Attach) -> dict[str, Any]:
        """Start a loader, ask it for the layer block, and return its answer."""
        loader = self.start(attach)
        ask(loader, "attach", "block")
        return hear(loader)

    def close(self) -> None:
        for loader in self.loaders:
            loader.close()


def ask(loader: Loader, verb: str, layer: str = "") -> None:
    loader.request({"verb": verb, "layer": layer})


def hear(loader: Loader) -> dict[str, Any]:
    """Return the next answer; count and close its descriptors."""
    got = loader.answer(WAIT_S)
    assert got is not None
    close_all(got[1])
    return got[0] | ({"fds": len(got[1])} if got[1] else {})


def attached(layer: str) -> dict[str, Any]:
    return {"verb": "attach", "layer": layer, "maps": [], "fds": 1}


def never(*_: object) -> Outcome:
    raise AssertionError


def wait_long(*_: object) -> Outcome:
    time.sleep(WAIT_S)
    raise AssertionError


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_children(loader: Loader, count: int) -> list[int]:
    deadline = time.monotonic() + WAIT_S
    while len(found := children(loader.pid)) != count:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return found
