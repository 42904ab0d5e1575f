"""The loader's channel, its verbs, and what C libraries print while it works."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf.loader import Loader, _answer, captured_stderr, start_loader
from ioh.bpf.maps import MapSpec
from ioh.bpf.program import AttachedProgram
from ioh.layers.base import Late, Layer, raw
from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable


def find_none(name: str) -> type[Layer]:
    raise KeyError(name)


@pytest.fixture
def ends() -> Iterator[tuple[Loader, socket.socket]]:
    """The parent's end, without a child behind it, and the other one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield Loader(ours, pid=-1), theirs


def say(end: socket.socket, message: dict[str, object], *fds: int) -> None:
    socket.send_fds(end, [json.dumps(message).encode()], list(fds))


def test_a_request_is_one_json_message(ends: tuple[Loader, socket.socket]) -> None:
    ours, theirs = ends
    ours.request({"verb": "attach", "layer": "bl\udcffock"})
    ours.request({"verb": "stats"})
    assert json.loads(theirs.recv(1 << 16)) == {"verb": "attach", "layer": "bl\udcffock"}
    assert json.loads(theirs.recv(1 << 16)) == {"verb": "stats"}


def test_an_answer_brings_descriptors(ends: tuple[Loader, socket.socket]) -> None:
    ours, theirs = ends
    read_end, write_end = os.pipe()
    say(theirs, {"layer": "block"}, read_end, write_end)
    os.close(read_end)
    os.close(write_end)
    got = ours.answer(1.0)
    assert got is not None
    message, (reader, writer) = got
    assert message == {"layer": "block"}
    os.write(writer, b"through")
    assert os.read(reader, 16) == b"through"
    assert not os.get_inheritable(reader)
    assert not os.get_inheritable(writer)
    os.close(reader)
    os.close(writer)


def test_as_many_descriptors_as_a_message_can_hold(ends: tuple[Loader, socket.socket]) -> None:
    ours, theirs = ends
    null = os.open(os.devnull, os.O_RDONLY)
    say(theirs, {}, *[null] * loader_module.MAX_FDS)
    got = ours.answer(1.0)
    assert got is not None
    assert len(got[1]) == loader_module.MAX_FDS
    for fd in (null, *got[1]):
        os.close(fd)


def test_an_answer_that_never_comes(ends: tuple[Loader, socket.socket]) -> None:
    ours, _ = ends
    started = time.monotonic()
    assert ours.answer(0.05) is None
    assert 0.04 < time.monotonic() - started < 1.0


def test_a_loader_that_is_gone(ends: tuple[Loader, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(ConnectionError, match="ended"):
        ours.answer(1.0)


def test_an_unknown_verb_is_answered() -> None:
    assert _answer({"verb": "dance"}, find_none) == ({"error": "unknown verb"}, [])
    assert _answer({}, find_none) == ({"error": "unknown verb"}, [])


def test_the_forked_loader_answers_and_ends_with_its_parents_end() -> None:
    loader = start_loader(find_none)
    loader.request({"verb": "dance"})
    assert loader.answer(10.0) == ({"error": "unknown verb"}, [])
    loader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(loader.pid, 0)


def test_a_loader_that_somebody_else_reaped() -> None:
    loader = start_loader(find_none)
    thread = threading.Timer(0.05, loader.socket.shutdown, [socket.SHUT_RDWR])
    thread.start()
    os.waitpid(loader.pid, 0)
    loader.close()
    thread.join()


class Waiting(Layer):
    """Has a part that waits for a module."""

    spec = LayerSpec("waiting", "waiting", 99, (), {}, (), ())
    late = Late("guest", (raw("guest_came", "on_guest"),), (), lambda _: True, "no guests")


del Layer.registry["waiting"]


def descriptors_of(loader: Loader) -> int:
    return len(list(Path(f"/proc/{loader.pid}/fd").iterdir()))


def test_a_late_part_is_attached_with_the_descriptors_sent_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the forked child, which keeps none of them."""

    def attach_late(late: Late, descriptors: Sequence[int]) -> list[int]:
        offsets_map, program = descriptors
        os.write(program, late.module.encode())
        return [offsets_map]

    monkeypatch.setattr("ioh.bpf.late.attach_late", attach_late)
    loader = start_loader(lambda _: Waiting)
    reader, writer = os.pipe()
    loader.request({"verb": "dance"})
    loader.answer(10.0)
    before = descriptors_of(loader)
    for _ in range(3):
        loader.request({"verb": "attach_late", "layer": "waiting"}, [reader, writer])
        got = loader.answer(10.0)
        assert got is not None
        assert got[0] == {"verb": "attach_late", "layer": "waiting", "reason": ""}
        (link,) = got[1]
        assert os.read(link, 16) == b"guest"
        os.close(link)
    loader.request({"verb": "dance"})
    loader.answer(10.0)
    assert descriptors_of(loader) == before
    loader.close()
    os.close(reader)
    os.close(writer)


def test_a_late_part_that_cannot_be_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[int]:
        raise OSError(0, "no BTF of its module guest")

    monkeypatch.setattr("ioh.bpf.late.attach_late", refuse)
    request = {"verb": "attach_late", "layer": "waiting"}
    answer, fds = _answer(request, lambda _: Waiting, [])
    assert (answer["reason"], fds) == ("no BTF of its module guest", [])
    answer, fds = _answer(request, lambda _: Layer, [])
    assert (answer["reason"], fds) == ("the layer has no such part", [])


def print_from_c(text: bytes) -> None:
    ctypes.CDLL(None).write(2, text, len(text))


@pytest.mark.parametrize(
    ("printed", "last"),
    [
        (b"", ""),
        (b"warning: a\nerror: b\n", "error: b"),
        (
            b"R1 invalid mem access\nprocessed 7 insns (limit 1000000)\n\n  \n",
            "R1 invalid mem access",
        ),
        (b"no line end", "no line end"),
        (b"\xff\n", "\ufffd"),
        (b"first\n" + b"x" * 500, "x" * 200),
        (b"y\n" * 100_000 + b"end\n", "end"),
    ],
)
def test_the_last_telling_line(
    printed: bytes, last: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with captured_stderr() as told:
        print_from_c(printed)
        assert told() == last
    print_from_c(b"after")
    assert capfd.readouterr().err == "after"


def swallow_and_fail() -> None:
    with captured_stderr():
        print_from_c(b"swallowed")
        json.loads("no JSON")


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_descriptor_2_is_restored_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    before = open_descriptors()
    with pytest.raises(ValueError, match="Expecting value"):
        swallow_and_fail()
    print_from_c(b"seen")
    assert capfd.readouterr().err == "seen"
    assert open_descriptors() == before


def test_answers_to_others_reach_them(
    ends: tuple[Loader, socket.socket],
) -> None:
    ours, theirs = ends
    before = len(open_descriptors())
    null = os.open(os.devnull, os.O_RDONLY)
    say(theirs, {"verb": "attach", "layer": "block"}, null, null, null)
    say(theirs, {"verb": "stats"}, null)  # of a request given up long ago

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


def test_asking_does_not_wait_for_ever(ends: tuple[Loader, socket.socket]) -> None:
    assert ends[0].ask({"verb": "stats"}, 0.05, lambda *_: None) is None


ATTACHED = AttachedProgram(
    maps=(MapSpec("totals", 6, 4, 8, 1), MapSpec("lost", 6, 4, 8, 2)),
    map_fds=(10, 11),
    program_fds=(20, 21, 22),
    link_fds=(30, 31),
    points={"exit": "sys_exit"},
    missing={"split": "splits"},
    copies=2,
    late=1,
)


def attach(
    monkeypatch: pytest.MonkeyPatch, outcome: AttachedProgram | Unavailable | Exception
) -> tuple[dict[str, Any], list[int]]:
    """The compiling child's answer, with everything that needs a kernel replaced."""

    def attach_program(*_: object) -> AttachedProgram | Unavailable:
        print_from_c(b"libbpf: the reason\n")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("ioh.bpf.btf.Btf", lambda *_modules: object())
    monkeypatch.setattr("ioh.bpf.typed.can_trust_pointers", lambda _: True)
    monkeypatch.setattr("ioh.bpf.host.possible_cpus", lambda: 4)
    monkeypatch.setattr("ioh.bpf.program.attach_program", attach_program)
    request = {"verb": "attach", "layer": "block", "filters": asdict(Filters(pid=7))}
    return _answer(request, lambda _: Layer)


def test_what_was_attached_is_described_in_the_order_of_its_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, fds = attach(monkeypatch, ATTACHED)
    assert fds == [10, 11, 20, 21, 22, 30, 31]
    assert [MapSpec(**spec) for spec in answer["maps"]] == list(ATTACHED.maps)
    assert (answer["programs"], answer["copies"], answer["layer"]) == (3, 2, "block")
    assert answer["late"] == 1
    assert (answer["points"], answer["missing"]) == ({"exit": "sys_exit"}, {"split": "splits"})
    assert json.loads(json.dumps(answer)) == answer


def test_a_refusal_comes_with_the_last_line_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, fds = attach(monkeypatch, Unavailable("BPF refused", "try this"))
    assert fds == []
    assert answer["reason"] == "BPF refused (libbpf: the reason)"
    assert answer["hint"] == "try this"


@pytest.mark.parametrize("error", [OSError("no BTF"), KeyError("REQ_OP_READ")])
def test_whatever_goes_wrong_is_answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    answer, fds = attach(monkeypatch, error)
    assert (answer["layer"], fds) == ("block", [])
    assert str(error) in answer["reason"]
    assert answer["hint"]
