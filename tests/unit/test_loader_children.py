"""However a child of the loader ends, ioh hears of it, and of what the child said."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import termios
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf.calls import Made, Outcome
from ioh.bpf.host import HostFacts
from ioh.bpf.loader import last_telling_line, start_loader
from ioh.bpf.program import attach_layer
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from tests.unit.live_host import make_layer
from tests.unit.loader_machine import (
    UNKNOWN,
    Machine,
    ask,
    hear,
    never,
    wait_for_children,
    wait_long,
)


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
def test_however_a_child_ends_ioh_hears_of_it_at_once(
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


def test_a_child_that_does_not_end_is_ended(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_CHILD_TIMEOUT_S", 0.05)
    loader = machine.start(killed(signal.SIGSTOP))
    ask(loader, "attach", "block")
    assert hear(loader)["reason"] == "the compiler did not finish within 0 s"
    assert wait_for_children(loader, 0) == []


def test_a_child_that_cannot_be_forked(machine: Machine) -> None:
    real, parent = os.fork, os.getpid()

    def fork() -> int:
        if os.getpid() != parent:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    machine.patch.setattr(os, "fork", fork)
    answer = machine.answer(never)
    assert answer["reason"].startswith("its compiler cannot be started: too few processes")
    assert "raise the limit" in answer["hint"]


def test_a_stopped_ioh_gets_no_answers_and_goes_on_afterwards(machine: Machine) -> None:
    machine.patch.setattr(loader_module, "_SEND_TIMEOUT_S", 0.01)
    machine.patch.setattr(loader_module, "MAX_MESSAGE_BYTES", 4096)
    loader = machine.start(never)
    for _ in range(100):
        loader.socket.send(b"{}")
    while any(fcntl.ioctl(loader.socket, termios.TIOCOUTQ, bytes(4))):  # not taken yet
        time.sleep(0.002)
    told = 0
    while loader.answer(0.0) is not None:
        told += 1
    assert 0 < told < 100
    ask(loader, "dance")
    assert hear(loader) == UNKNOWN


def test_a_loader_that_cannot_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_last_telling_line(printed: bytes, last: str) -> None:
    file = os.memfd_create("stderr")
    os.write(file, printed)
    assert last_telling_line(file) == last
    os.close(file)


def test_a_reason_is_printable_and_of_bounded_length(machine: Machine) -> None:
    told = {"reason": "\x1b[31m\n" + "x" * 100_000}
    reason = machine.answer(lambda *_: (told, [], Made()))["reason"]
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
def test_what_cannot_be_attached_is_told(
    monkeypatch: pytest.MonkeyPatch, outcome: Unavailable | OSError, reason: str, hint: str
) -> None:
    monkeypatch.setattr("ioh.bpf.program.Btf", lambda *_: None)
    monkeypatch.setattr("ioh.bpf.program.find_facts", lambda btf: HostFacts(btf, cpu_count=4))
    monkeypatch.setattr("ioh.bpf.program.attach_program", Mock(side_effect=[outcome]))
    answer, fds, made = attach_layer(make_layer("a", 10), Filters(pid=7), {})
    assert answer["reason"].startswith(reason)
    assert (answer["hint"], fds, made) == (hint, [], Made())
