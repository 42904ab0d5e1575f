"""The privileged loader: what it grants and holds, and how the end of its children is reported."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf.calls import KernelObjects, Object, Outcome
from ioh.bpf.host import HostFacts
from ioh.bpf.loader import last_informative_line, start_loader
from ioh.bpf.probe import Probe
from ioh.bpf.program import attach_layer
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from tests.unit.live_host import make_layer
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
def test_an_invalid_request_is_refused(machine: Machine, data: bytes) -> None:
    loader = machine.start(never)
    loader.socket.send(data)
    assert hear(loader) == UNKNOWN


def test_it_ends_when_its_channel_is_closed() -> None:
    loader = start_loader(never, Filters())  # type: ignore[arg-type]
    loader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(loader.pid, 0)


def test_other_processes_of_its_user_cannot_look_into_it() -> None:
    """Nor take its channel.  The test itself has no privilege, like ioh after its start."""
    if (pid := os.fork()) == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable, as after an execve
            assert os.listdir("/proc/self/fd")  # noqa: PTH208
            loader = start_loader(never, Filters())  # type: ignore[arg-type]
            ask(loader, "dance")
            assert hear(loader) == UNKNOWN
            try:
                os.listdir(f"/proc/{loader.pid}/fd")  # noqa: PTH208
            except PermissionError:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_it_leaves_signals_of_the_terminal_to_ioh(machine: Machine) -> None:
    loader = machine.start(never)
    ask(loader, "dance")
    assert hear(loader) == UNKNOWN  # so it is past its first steps
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        os.kill(loader.pid, number)
        ask(loader, "dance")
        assert hear(loader) == UNKNOWN


def test_filters_are_those_of_the_start(machine: Machine) -> None:
    """A layer that could not be attached may be requested again."""

    def attach(name: str, filters: Filters) -> Outcome:
        return {"reason": f"{name} {filters.pid}"}, [], KernelObjects()

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


def test_requests_are_bounded(machine: Machine) -> None:
    loader = machine.start(wait_long)
    for number in range(100):
        ask(loader, "attach", f"{number}")
    refused = 100 - loader_module.MAX_CHILDREN - loader_module._MAX_WAITING
    assert [hear(loader) for _ in range(refused)] == [{"error": "too many requests"}] * refused
    ask(loader, "attach", "0")
    assert hear(loader) == {"error": "already requested"}
    assert len(wait_for_children(loader, loader_module.MAX_CHILDREN)) == 2


OBJECTS: tuple[Object, ...] = (("map", 7), ("program", 8))


def test_an_on_demand_part_is_attached_to_the_objects_that_it_made(machine: Machine) -> None:
    """And again once its link is gone."""

    def attach_on_demand(name: str, objects: tuple[Object, ...]) -> Outcome:
        assert (name, objects) == ("syscall", OBJECTS)
        machine.file(("link", 9)).touch()
        return {"reason": ""}, [0], KernelObjects((("link", 9),))

    machine.patch.setattr(loader_module, "_GONE_TIMEOUT_S", 0.02)
    loader = machine.start(lambda *_: machine.made(("map", 7), on_demand=OBJECTS), attach_on_demand)
    ask(loader, "attach_on_demand", "syscall")
    refused = {"error": "the layer is not attached, or has no such part"}
    assert hear(loader) == refused
    ask(loader, "attach", "syscall")
    assert hear(loader) == attached("syscall")
    answer = {"verb": "attach_on_demand", "layer": "syscall", "reason": ""}
    for _ in range(2):
        ask(loader, "attach_on_demand", "syscall")
        assert hear(loader) == answer | {"fds": 1}
        ask(loader, "attach_on_demand", "syscall")
        assert hear(loader)["reason"] == "it is already attached"
        machine.file(("link", 9)).unlink()
    ask(loader, "attach_on_demand", "tcp")
    assert hear(loader) == refused


@pytest.mark.parametrize("refusal", [None, OSError(errno.EINVAL, "Invalid argument")])
def test_run_time_is_counted_without_a_child(machine: Machine, refusal: OSError | None) -> None:
    """If the kernel supports it."""
    machine.patch.setattr(
        loader_module, "count_run_time", Mock(side_effect=refusal or (lambda: os.dup(0)))
    )
    loader = machine.start(never)
    ask(loader, "stats")
    assert hear(loader) == {"verb": "stats"} | ({} if refusal else {"fds": 1})


def test_it_closes_descriptors_that_it_is_sent(machine: Machine) -> None:
    """The pipe ends when its last writer is closed."""
    loader = machine.start(never)
    reader, writer = os.pipe()
    socket.send_fds(loader.socket, [b'{"verb": "dance"}'], [writer])
    os.close(writer)
    assert hear(loader) == UNKNOWN
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_it_inherits_nothing_but_its_channel(machine: Machine) -> None:
    """Otherwise, it or a compiling child would keep the space of a deleted recording in use."""
    reader, writer = os.pipe()
    output = os.dup(1)
    loader = machine.start(wait_long)
    ask(loader, "attach", "block")
    wait_for_children(loader, 1)
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
    os.close(output)


def test_a_child_holds_only_its_own_end_of_the_channel(machine: Machine) -> None:
    def attach(*_: object) -> Outcome:
        listed = sorted(Path("/proc/self/fd").iterdir())
        kinds = [os.readlink(path) for path in listed if path.is_symlink()]  # noqa: PTH115
        return {"kinds": sorted(kind.split(":")[0] for kind in kinds)}, [], KernelObjects()

    assert machine.answer(attach)["kinds"] == ["/dev/null", "/dev/null", "/memfd", "socket"]


def test_it_keeps_no_descriptor_that_it_hands_over(machine: Machine) -> None:
    reader, writer = os.pipe()
    path = f"/proc/{os.getpid()}/fd/{writer}"

    def attach(*_: object) -> Outcome:
        return {"maps": []}, [os.open(path, os.O_WRONLY)], KernelObjects()

    assert machine.answer(attach) == attached("block")
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_ioh_learns_that_a_probe_must_be_compiled(machine: Machine) -> None:
    def compile_and_attach(*args: Any) -> Outcome:
        args[3]()
        while not machine.file(("map", 1)).exists():
            time.sleep(0.002)
        return machine.made(("map", 1))

    machine.patch.setattr("ioh.bpf.program.attach_layer", compile_and_attach)
    loader = start_loader(lambda name: name, Filters())  # type: ignore[arg-type, return-value]
    machine.loaders.append(loader)
    ask(loader, "attach", "block")
    assert hear(loader) == {"verb": "attach", "layer": "block", "compiling": True}
    ask(loader, "attach", "block")
    assert hear(loader) == {"error": "already requested"}
    machine.file(("map", 1)).touch()
    assert hear(loader) == attached("block")


def print_from_c(text: bytes) -> None:
    ctypes.CDLL(None).write(2, text, len(text))


def killed(number: int) -> Callable[..., Outcome]:
    def attach(*_: object) -> Outcome:
        os.kill(os.getpid(), number)
        return wait_long()

    return attach


def exited(status: int, said: bytes = b"") -> Callable[..., Outcome]:
    def attach(*_: object) -> Outcome:
        print_from_c(said)
        ctypes.CDLL(None)._exit(status)
        return never()

    return attach


def raised(error: BaseException) -> Callable[..., Outcome]:
    def attach(*_: object) -> Outcome:
        raise error

    return attach


TOO_MUCH_STACK = (
    "error: <unknown>:0:0: in function on_submit_step i32 (ptr): "
    "Looks like the BPF stack limit is exceeded."
)
STACK = f"warning: 3 warnings\n{TOO_MUCH_STACK}\n1 error generated.\n".encode()


@pytest.mark.parametrize(
    ("attach", "reason"),
    [
        (killed(signal.SIGKILL), "the compiler was killed by SIGKILL (out of memory?)"),
        (killed(signal.SIGRTMIN + 1), f"the compiler was killed by signal {signal.SIGRTMIN + 1}"),
        (exited(0), "the compiler ended with status 0"),
        (exited(1, STACK), f"the compiler ended with status 1: {TOO_MUCH_STACK}"),
        (raised(KeyError("READ")), "the compiler ended with status 1: KeyError: 'READ'"),
        (raised(SystemExit(0)), "the compiler ended with status 1: SystemExit: 0"),
        (raised(MemoryError()), "the compiler ended with status 1: too little memory"),
    ],
)
def test_however_a_child_ends_the_end_is_reported_at_once(
    machine: Machine, attach: Callable[..., Outcome], reason: str
) -> None:
    loader = machine.start(attach)
    ask(loader, "attach", "syscall")
    answer = hear(loader)
    assert (answer["verb"], answer["layer"]) == ("attach", "syscall")
    assert answer["reason"] == reason
    assert answer["hint"] == (
        "dmesg shows whether memory ran out" if "SIGKILL" in reason else "please report this"
    )
    assert wait_for_children(loader, 0) == []
    ask(loader, "dance")
    assert hear(loader) == UNKNOWN


def test_a_child_that_does_not_end_is_killed(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_CHILD_TIMEOUT_S", 0.05)
    loader = machine.start(killed(signal.SIGSTOP))
    ask(loader, "attach", "block")
    assert hear(loader)["reason"] == "the compiler did not finish within 0 s"
    assert wait_for_children(loader, 0) == []


def test_a_child_that_cannot_be_forked_is_reported(machine: Machine) -> None:
    real, parent = os.fork, os.getpid()

    def fork() -> int:
        if os.getpid() != parent:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    machine.patch.setattr(os, "fork", fork)
    answer = machine.answer(never)
    assert answer["reason"].startswith("its compiler cannot be started: too few processes")
    assert "raise the limit" in answer["hint"]


def test_answers_to_a_stopped_ioh_are_lost_but_later_ones_arrive(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_SEND_TIMEOUT_S", 0.001)
    machine.patch.setattr(loader_module, "MAX_MESSAGE_BYTES", 4096)
    loader = machine.start(never)
    for _ in range(100):
        loader.socket.send(b"{}")
    until = time.monotonic() + WAIT_S
    while any(fcntl.ioctl(loader.socket, termios.TIOCOUTQ, bytes(4))):  # not received yet
        assert time.monotonic() < until
        time.sleep(0.002)
    told = 0
    while loader.answer(0.0) is not None:
        told += 1
    assert 0 < told < 100
    ask(loader, "dance")
    assert hear(loader) == UNKNOWN


def test_a_loader_that_cannot_be_forked_leaves_no_descriptor_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(BlockingIOError):
        start_loader(never, Filters())  # type: ignore[arg-type]
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


CRASH = b"""LLVM ERROR: out of memory
PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/
Stack dump:
0.\tProgram arguments: x
 #0 0x00007f llvm::sys::PrintStackTrace(llvm::raw_ostream&, int)
/lib/x86_64-linux-gnu/libLLVM-14.so.1(+0xd0b)[0x7f]
"""


@pytest.mark.parametrize(
    ("printed", "last"),
    [
        (b"", ""),
        (b"R1 invalid mem access\nprocessed 7 insns (limit 1)\n\n  \n", "R1 invalid mem access"),
        (
            b"main.c:1:2: error: no 'x'\n  int y = x;\n          ^\n1 error generated.\n",
            "main.c:1:2: error: no 'x'",
        ),
        (CRASH, "LLVM ERROR: out of memory"),
        (b"\xff \x1b[31m\n", "\\xff \\x1b[31m"),
        (b"first\n" + b"x" * 500, "x" * 200),
        (b"y\n" * 100_000 + b"end\n", "end"),
    ],
)
def test_the_last_informative_line_is_found(printed: bytes, last: str) -> None:
    file = os.memfd_create("stderr")
    os.write(file, printed)
    assert last_informative_line(file) == last
    os.close(file)


def test_a_reason_is_printable_and_of_bounded_length(machine: Machine) -> None:
    told = {"reason": "\x1b[31m\n" + "x" * 100_000}
    reason = machine.answer(lambda *_: (told, [], KernelObjects()))["reason"]
    assert reason.startswith("\\x1b[31m\\x0axxx")
    assert len(reason) == 300


@pytest.mark.parametrize(
    ("outcome", "reason", "hint"),
    [
        (Unavailable("refused", "try this"), "refused", "try this"),
        (OSError("no BTF"), "no BTF", "needs a kernel with CONFIG_DEBUG_INFO_BTF, and libbpf"),
        (OSError(errno.EMFILE, "Too many"), "too few file descriptors (ulimit", "raise to 512"),
    ],
)
def test_why_a_layer_cannot_be_attached_is_reported(
    monkeypatch: pytest.MonkeyPatch, outcome: Unavailable | OSError, reason: str, hint: str
) -> None:
    monkeypatch.setattr("ioh.bpf.program.Btf", lambda *_: None)
    monkeypatch.setattr("ioh.bpf.program.find_facts", lambda btf: HostFacts(btf, cpu_count=4))
    monkeypatch.setattr("ioh.bpf.program.attach_program", Mock(side_effect=[outcome]))
    answer, fds, made = attach_layer(Probe(make_layer("a", 10).spec), Filters(pid=7), {}, never)
    assert answer["reason"].startswith(reason)
    assert (answer["hint"], fds, made) == (hint, [], KernelObjects())
