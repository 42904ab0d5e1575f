"""ioh's end of the channel to its loader: requests, answers, descriptors, and no endless wait."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import channel
from ioh.bpf.channel import Loader
from ioh.bpf.loader import start_loader
from ioh.bpf.probe import Probe
from ioh.model.filters import Filters


def find_none(name: str) -> Probe:
    raise KeyError(name)


@pytest.fixture
def ends() -> Iterator[tuple[Loader, socket.socket]]:
    """The parent's end, without a child behind it, and the other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield Loader(ours, pid=-1), theirs


def say(end: socket.socket, message: dict[str, object], *fds: int) -> None:
    socket.send_fds(end, [json.dumps(message).encode()], list(fds))


def test_answers_to_other_requests_are_passed_on(ends: tuple[Loader, socket.socket]) -> None:
    ours, theirs = ends
    before = len(open_descriptors())
    null = os.open(os.devnull, os.O_RDONLY)
    say(theirs, {"verb": "attach", "layer": "block"}, null, null, null)
    say(theirs, {"verb": "stats"}, null)  # to a request given up long ago

    def answer_slowly() -> None:
        assert json.loads(theirs.recv(1 << 16)) == {"verb": "stats"}
        say(theirs, {"verb": "attach", "layer": "syscall"}, null, null)
        say(theirs, {"verb": "stats"}, null)

    thread = threading.Thread(target=answer_slowly)
    thread.start()
    taken: list[tuple[dict[str, Any], list[int]]] = []
    got = ours.ask({"verb": "stats"}, 10.0, lambda *late: taken.append(late))
    thread.join()
    assert got is not None
    assert got[0] == {"verb": "stats"}
    assert [(answer.get("layer"), len(fds)) for answer, fds in taken] == [
        ("block", 3),
        (None, 1),
        ("syscall", 2),
    ]
    for fd in (null, *got[1], *(fd for _, fds in taken for fd in fds)):
        os.close(fd)
    assert len(open_descriptors()) == before


def test_the_wait_for_an_answer_is_limited(ends: tuple[Loader, socket.socket]) -> None:
    assert ends[0].answer(0.01) is None
    assert ends[0].ask({"verb": "stats"}, 0.01, lambda *_: None) is None


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """A limit as set with `ulimit -n`, with room for 24 more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = set(map(int, open_descriptors()))
    limit = next(n for n in range(1 << 16) if n - len([fd for fd in used if fd < n]) == 24)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("count", [channel.MAX_FDS, 20])
def test_descriptors_that_there_is_no_room_for_are_all_closed(
    ends: tuple[Loader, socket.socket], few_descriptors: int, count: int
) -> None:
    """Keeping only some would hide the fault, or take the last ones, which /proc needs."""
    ours, theirs = ends
    null = os.open(os.devnull, os.O_RDONLY)
    before = open_descriptors()
    say(theirs, {"layer": "block"}, *[null] * 5)
    got = ours.answer(1.0)
    assert got is not None
    assert len(got[1]) == 5
    assert not any(map(os.get_inheritable, got[1]))
    channel.close_all(got[1])
    say(theirs, {"verb": "attach", "layer": "block", "maps": []}, *[null] * count)
    assert ours.answer(1.0) == (
        {
            "verb": "attach",
            "layer": "block",
            "reason": f"too few file descriptors (ulimit -n {few_descriptors})",
            "hint": "raise to 512",
        },
        [],
    )
    assert open_descriptors() == before
    os.close(null)


def test_a_loader_that_is_gone_is_a_connection_error(ends: tuple[Loader, socket.socket]) -> None:
    """Not BrokenPipeError: that would mean that the reader of ioh's output is gone."""
    ours, theirs = ends
    theirs.close()
    asks: tuple[Callable[[], object], ...] = (lambda: ours.answer(1.0), lambda: ours.request({}))
    for ask in asks:
        with pytest.raises(ConnectionError, match="the privileged loader has ended") as caught:
            ask()
        assert type(caught.value) is ConnectionError


def test_a_loader_that_does_not_listen_is_a_connection_error(
    ends: tuple[Loader, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_SEND_TIMEOUT_S", 0.01)
    with pytest.raises(ConnectionError, match="does not respond"):
        send_for_ever(ends[0])


def send_for_ever(loader: Loader) -> None:
    while True:
        loader.request({"verb": "stats"})


def started() -> Loader:
    loader = start_loader(find_none, Filters())
    loader.request({"verb": "dance"})
    assert loader.answer(20.0) == ({"error": "unknown verb"}, [])
    return loader


def test_the_wait_for_a_stopped_loader_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_END_TIMEOUT_S", 0.05)
    loader = started()
    os.kill(loader.pid, signal.SIGSTOP)
    loader.close()
    os.kill(loader.pid, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(loader.pid, 0)[1]) == signal.SIGKILL


def test_a_stopped_loader_ends_with_ioh() -> None:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        loader = started()
        os.kill(loader.pid, signal.SIGSTOP)
        theirs.send(str(loader.pid).encode())
        theirs.recv(1)
        os._exit(0)
    ended = os.pidfd_open(int(ours.recv(16)))
    ours.send(b"1")
    os.wait()
    assert select.select([ended], [], [], 10)[0]
    os.close(ended)
    ours.close()
    theirs.close()
