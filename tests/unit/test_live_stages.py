"""The two stages of the live source: entered at once, and layers that join one by one."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot
from ioh.sources import live
from ioh.sources.live import LiveSource
from tests.unit.test_live_source import WAITED, Host, notes, source


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(monkeypatch)
    made.is_privileged = True
    yield made
    made.end.close()
    made.loader.socket.close()


def early_source(interval_s: float = 1.0, **options: Any) -> LiveSource:
    return LiveSource(None, Filters(), interval_s, **options)


def test_privilege_is_given_away_at_once(root: Host) -> None:
    """By the thread that enters: those that it starts later have none to give."""
    with early_source() as running:
        assert len(root.dropped) == 1
        running.attach()
        assert len(root.dropped) == 1


def test_what_is_imported_first_is_imported_as_root(root: Host) -> None:
    dropped: list[int] = []
    with early_source(preload=lambda: dropped.append(len(root.dropped))):
        assert dropped == [0]


def test_a_preload_that_fails_leaves_no_loader(root: Host) -> None:
    def fail() -> None:
        raise IohError(root.loader.__class__.__name__)

    with pytest.raises(IohError):
        early_source(preload=fail).__enter__()
    assert root.loader.socket.fileno() < 0
    assert root.dropped == []


def test_entering_waits_for_no_probe(root: Host) -> None:
    root.patch.setattr(live, "ATTACH_TIMEOUT_S", 30.0)
    started = time.monotonic()
    with early_source() as running:
        before, sample = running.awaited, running.read()
        assert before == ("a", "b")
        assert time.monotonic() - started < 5.0
        assert sample.layers["a"] == Unavailable(
            "its probe is being compiled", "shown as soon as it is attached"
        )
        root.attach("a")
        root.answer({"verb": "attach", "layer": "b", "reason": "BPF refused", "hint": ""})
        running.attach()
        assert running.awaited == ()
        sample = running.read()
    assert (notes(sample, "a"), notes(sample, "b")) == ((), ("from /proc: BPF refused",))


def test_a_probe_that_is_too_late_is_read_from_proc_until_it_comes(root: Host) -> None:
    with source() as running:
        assert notes(running.read(), "a") == (f"from /proc: {WAITED}",)
        root.attach("a")
        assert notes(running.read(), "a") == ()


def test_stop_ends_the_waiting(root: Host) -> None:
    root.patch.setattr(live, "ATTACH_TIMEOUT_S", 30.0)
    started = time.monotonic()
    with early_source() as running:
        thread = threading.Timer(0.05, running.stop)
        thread.start()
        running.attach()
        assert len(list(running)) == 1
        thread.join()
    assert time.monotonic() - started < 10.0


def test_a_loader_that_dies_is_waited_for_no_longer(root: Host) -> None:
    root.patch.setattr(live, "ATTACH_TIMEOUT_S", 30.0)
    started = time.monotonic()
    with early_source() as running:
        root.end.shutdown(socket.SHUT_WR)
        (note,) = notes(next(iter(running)), "b")
    assert "the loader failed" in note
    assert time.monotonic() - started < 10.0


def test_layers_join_one_by_one(root: Host) -> None:
    """The first one's numbers come before the last one is there, and no count is wrong."""
    root.patch.setattr(live, "ATTACH_TIMEOUT_S", 30.0)
    with early_source(interval_s=20.0) as running:
        root.attach("b")
        iterator = iter(running)
        samples = [next(iterator)]
        assert running.awaited == ("a",)
        thread = threading.Timer(0.4, root.attach, ["a"])
        thread.start()
        # A first interval of b alone; cut short when a comes; the first one of both.
        started = time.monotonic()
        samples += [next(iterator) for _ in range(3)]
        assert time.monotonic() - started < 10.0
        thread.join()
    found = [derive(older, newer) for older, newer in itertools.pairwise(samples)]
    assert [isinstance(snapshot.layers["b"], LayerSnapshot) for snapshot in found] == [True] * 3
    assert [
        layer.reason if isinstance(layer, Unavailable) else "measured"
        for snapshot in found
        for layer in [snapshot.layers["a"]]
    ] == ["its probe is being compiled", "attached during this interval", "measured"]
    assert all(snapshot.interval_s >= 0.09 for snapshot in found)
