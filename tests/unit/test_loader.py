"""The privileged loader as a monitor: what it grants, and what it holds."""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf.calls import Made, Object, Outcome
from ioh.bpf.loader import start_loader
from ioh.model.filters import Filters
from tests.unit.loader_machine import (
    UNKNOWN,
    WAIT_S,
    Machine,
    ask,
    attached,
    hear,
    never,
    wait_for_children,
    wait_long,
)


@pytest.mark.parametrize(
    "data",
    [b'{"verb": "dance"}', b"7", b"[" * 4000, b"\xff", b'{"verb": ["attach"]}'],
)
def test_what_is_no_request_is_refused(machine: Machine, data: bytes) -> None:
    loader = machine.start(never)
    loader.socket.send(data)
    assert hear(loader) == UNKNOWN


def test_it_ends_with_the_other_end() -> None:
    loader = start_loader(never, Filters())  # type: ignore[arg-type]
    loader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(loader.pid, 0)


def test_it_leaves_signals_of_the_terminal_to_ioh(machine: Machine) -> None:
    loader = machine.start(never)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        os.kill(loader.pid, number)
        ask(loader, "dance")
        assert hear(loader) == UNKNOWN


def test_filters_are_those_of_the_start(machine: Machine) -> None:
    """And a layer that could not be attached may be asked for again."""

    def attach(name: str, filters: Filters) -> Outcome:
        return {"reason": f"{name} {filters.pid}"}, [], Made()

    loader = machine.start(attach)
    for _ in range(2):
        loader.request({"verb": "attach", "layer": "block", "filters": {"pid": 8}})
        answer = hear(loader)
        assert (answer["layer"], answer["reason"]) == ("block", "block 7")


def test_a_layer_is_attached_once(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_GONE_TIMEOUT_S", 0.02)
    loader = machine.start(lambda name, _: machine.made(("map", 1), ("map", 2)))
    ask(loader, "attach", "block")
    assert hear(loader) == attached("block")
    machine.file(("map", 1)).unlink()
    for _ in range(3):
        ask(loader, "attach", "block")
        assert hear(loader)["reason"] == "it is already attached"


def test_a_layer_is_attached_again_as_soon_as_it_is_gone(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_GONE_TIMEOUT_S", WAIT_S)
    loader = machine.start(lambda name, _: machine.made(("map", 1)))
    for _ in range(3):
        ask(loader, "attach", "nfs_client")
        assert hear(loader) == attached("nfs_client")
        ask(loader, "attach", "nfs_client")
        assert loader.answer(0.05) is None
        machine.file(("map", 1)).unlink()
        assert hear(loader) == attached("nfs_client")
        machine.file(("map", 1)).unlink()


def test_names_are_bounded(machine: Machine) -> None:
    loader = machine.start(wait_long)
    for number in range(100):
        ask(loader, "attach", f"{number}")
    refused = 100 - loader_module.MAX_CHILDREN - loader_module._MAX_WAITING
    assert [hear(loader) for _ in range(refused)] == [{"error": "too many requests"}] * refused


OBJECTS: tuple[Object, ...] = (("map", 7), ("program", 8))


def test_a_late_part_is_attached_by_what_was_made_here(machine: Machine) -> None:
    """And again once its link is gone."""

    def attach_late(name: str, objects: tuple[Object, ...]) -> Outcome:
        assert (name, objects) == ("syscall", OBJECTS)
        machine.file(("link", 9)).touch()
        return {"reason": ""}, [0], Made((("link", 9),))

    machine.patch.setattr(loader_module, "_GONE_TIMEOUT_S", 0.02)
    loader = machine.start(lambda *_: machine.made(("map", 7), late=OBJECTS), attach_late)
    ask(loader, "attach_late", "syscall")
    refused = {"error": "the layer is not attached, or has no such part"}
    assert hear(loader) == refused
    ask(loader, "attach", "syscall")
    assert hear(loader) == attached("syscall")
    late = {"verb": "attach_late", "layer": "syscall", "reason": ""}
    for _ in range(2):
        ask(loader, "attach_late", "syscall")
        assert hear(loader) == late | {"fds": 1}
        ask(loader, "attach_late", "syscall")
        assert hear(loader)["reason"] == "it is already attached"
        machine.file(("link", 9)).unlink()
    ask(loader, "attach_late", "tcp")
    assert hear(loader) == refused


@pytest.mark.parametrize("refusal", [None, OSError(errno.EINVAL, "Invalid argument")])
def test_run_time_is_counted_without_a_child(machine: Machine, refusal: OSError | None) -> None:
    """On a kernel that can."""
    machine.patch.setattr(
        loader_module, "count_run_time", Mock(side_effect=refusal or (lambda: os.dup(0)))
    )
    loader = machine.start(never)
    ask(loader, "stats")
    assert hear(loader) == {"verb": "stats"} | ({} if refusal else {"fds": 1})


def test_it_takes_no_descriptors(machine: Machine) -> None:
    """Those that somebody sends along are closed: a pipe ends when its last writer is gone."""
    loader = machine.start(never)
    reader, writer = os.pipe()
    socket.send_fds(loader.socket, [b'{"verb": "dance"}'], [writer])
    os.close(writer)
    assert hear(loader) == UNKNOWN
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_it_inherits_nothing_but_its_channel(machine: Machine) -> None:
    """A recording that ioh has removed gives its room back; so it is for a compiling child."""
    reader, writer = os.pipe()
    output = os.dup(1)
    loader = machine.start(wait_long)
    ask(loader, "attach", "block")
    wait_for_children(loader, 1)
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
    os.close(output)


def test_a_child_holds_its_own_end_alone(machine: Machine) -> None:
    def attach(*_: object) -> Outcome:
        listed = sorted(Path("/proc/self/fd").iterdir())
        kinds = [os.readlink(path) for path in listed if path.is_symlink()]  # noqa: PTH115
        return {"kinds": sorted(kind.split(":")[0] for kind in kinds)}, [], Made()

    assert machine.answer(attach)["kinds"] == ["/dev/null", "/dev/null", "/memfd", "socket"]


def test_it_keeps_no_descriptor_that_it_hands_over(machine: Machine) -> None:
    reader, writer = os.pipe()
    path = f"/proc/{os.getpid()}/fd/{writer}"

    def attach(*_: object) -> Outcome:
        return {"maps": []}, [os.open(path, os.O_WRONLY)], Made()

    assert machine.answer(attach) == attached("block")
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
