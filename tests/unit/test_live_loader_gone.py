"""The live source when its loader dies, does not start, or cannot hand over: /proc, and why."""

from __future__ import annotations

import errno
import json
import socket
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.live import attaching
from tests.unit.live_host import WAITED, Host, make_layer, notes, open_descriptors, source

GONE = "from /proc: the loader failed: the privileged loader has ended"


def test_still_being_compiled_is_said_only_while_the_loader_lives(root: Host) -> None:
    with source() as running:
        assert notes(running.read(), "a") == (f"from /proc: {WAITED}",)
        root.end.shutdown(socket.SHUT_WR)
        sample = running.read()
        assert notes(sample, "a") == notes(sample, "b") == (GONE,)


def test_a_layer_that_comes_after_the_loaders_death(root: Host) -> None:
    layer, is_here = make_layer("a", 10, probe="a"), [False]
    root.patch.setattr(layer, "is_wanted", lambda *_: is_here[0])
    root.know(layer)
    with source() as running:
        root.end.close()
        is_here[0] = True
        for _ in range(2):
            assert notes(running.read(), "a") == (GONE,)


def test_a_loader_that_cannot_be_started(root: Host) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    root.patch.setattr(attaching, "start_loader", refuse)
    with source() as running:
        (note,) = notes(running.read(), "a")
    assert note.startswith("from /proc: the loader cannot be started: too few processes")


def test_a_recording_without_its_loader_has_its_samples(
    root: Host, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ended with status 0 and no file: the loader's broken pipe was taken for that of stdout."""
    root.end.close()
    path = tmp_path / "x.ioh"
    assert main(["record", "-o", str(path), "-c", "0.1", "-t", "0.3"]) == 0
    assert main(["json", str(path)]) == 0
    last = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert last["layers"]["a"]["notes"] == [GONE]


def test_a_stopped_loader_is_waited_for_once(root: Host) -> None:
    stats: dict[str, object] = {"verb": "stats"}
    root.attach("a")
    with source("a") as running:
        root.requests()
        for _ in range(3):
            with running.counting_run_time() as run_time_ns:
                assert run_time_ns() is None
        assert root.requests() == [stats]
        root.answer(stats, fds=1)
        running.read()
        before = open_descriptors()
        root.answer(stats, fds=1)
        with running.counting_run_time() as run_time_ns:
            assert run_time_ns() is None  # that answer was to nobody
        assert open_descriptors() == before
        assert root.requests() == [stats]
