"""Programs at trace events: found in tracefs, attached through a perf event."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf import host as host_facts
from ioh.bpf import program, trace_events
from ioh.bpf.program import forms_of
from ioh.layers import find_probe
from tests.unit.fake_kernel import linux_6_18

PROGRAM, EVENT, LINK = 7, 8, 9
LINK_CREATE, AT_PERF_EVENT = 28, 41
ENTER_ID = 357
NUMBERS = {"sys_enter": 1, "sys_exit": 2, "io_uring_submit_req": 3, "io_uring_complete": 4}


@pytest.fixture
def tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """tracefs where an old kernel has it; the first folder does not exist."""
    events = tmp_path / "debug"
    for at, name in enumerate(("sys_enter", "sys_exit")):
        (events / "raw_syscalls" / name).mkdir(parents=True)
        (events / "raw_syscalls" / name / "id").write_text(f"{ENTER_ID - at}\n")
    monkeypatch.setattr(trace_events, "_FOLDERS", (str(tmp_path / "none"), str(events)))
    return events


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A kernel that opens perf events and links programs to them."""
    made = SimpleNamespace(attr=b"", link=(), closed=[], refuses=False)

    def open_event(_numbers: Any, attr: Any, pid: int, cpu: int, group: int, _flags: Any) -> int:
        assert (pid, cpu, group) == (-1, 0, -1)
        made.attr = ctypes.string_at(attr, len(attr))
        return EVENT

    def link(command: int, attr: bytes) -> int:
        if made.refuses:
            raise OSError(13, os.strerror(13))
        assert command == LINK_CREATE
        made.link = struct.unpack("=IIIIQ", attr)
        return LINK

    monkeypatch.setattr(trace_events, "system_call", open_event)
    monkeypatch.setattr(trace_events, "bpf_call", link)
    monkeypatch.setattr("os.close", made.closed.append)
    return made


def test_a_program_is_linked_to_its_trace_event(tracefs: Path, calls: SimpleNamespace) -> None:
    assert tracefs.is_dir()
    assert trace_events.attach_to_event(PROGRAM, "sys_enter") == LINK
    kind, size, number = struct.unpack_from("=IIQ", calls.attr)
    assert (kind, size, number) == (2, 64, ENTER_ID)
    assert len(calls.attr) == size
    assert calls.link == (PROGRAM, EVENT, AT_PERF_EVENT, 0, 0)
    assert calls.closed == [EVENT]


def test_an_event_whose_link_is_refused_is_closed(tracefs: Path, calls: SimpleNamespace) -> None:
    calls.refuses = tracefs.is_dir()
    with pytest.raises(PermissionError):
        trace_events.attach_to_event(PROGRAM, "sys_exit")
    assert calls.closed == [EVENT]


@pytest.mark.parametrize("text", [None, "", "none\n"])
def test_without_its_number_there_is_no_trace_event(tracefs: Path, text: str | None) -> None:
    assert trace_events.has_trace_events()
    path = tracefs / "raw_syscalls" / "sys_enter" / "id"
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert trace_events.event_id("sys_exit") == ENTER_ID - 1
    assert trace_events.event_id("sys_enter") is None
    assert not trace_events.has_trace_events()
    with pytest.raises(OSError, match="no trace event for sys_enter"):
        trace_events.attach_to_event(PROGRAM, "sys_enter")


@pytest.mark.parametrize("release", ["6.18.5", "7.0.0-1-amd64"])
def test_they_are_used_where_probes_are_preempted(
    tracefs: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    assert tracefs.is_dir()
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=release, machine="x86_64"))
    monkeypatch.setattr(host_facts, "_takes", lambda *_: False)
    btf: Any = SimpleNamespace(function_id=lambda _: None)
    assert host_facts.find_facts(btf).trace_events == release.startswith("7")


@pytest.mark.parametrize("at_events", [False, True])
def test_only_the_begin_and_end_of_calls_and_requests_use_trace_events(
    monkeypatch: pytest.MonkeyPatch, at_events: bool
) -> None:
    probe = find_probe("syscall")
    host = linux_6_18().host(preempted=True, casts=True, trace_events=at_events)
    monkeypatch.setattr(program, "attach_to_event", lambda _, event: NUMBERS[event])
    monkeypatch.setattr(program, "attach_typed", lambda _: 0)
    chosen = program.choose_points(probe.events, host)
    assert isinstance(chosen, dict)
    events = {e.name: e.points[chosen[e.name]].event for e in probe.events if e.name in chosen}
    places = {name: program._attach(PROGRAM, event, probe, host) for name, event in events.items()}
    for at, name in enumerate(("enter", "exit", "uring_submit", "uring_complete"), 1):
        assert places.pop(name) == (at if at_events else 0)
    assert set(places.values()) == {0}
    assert len(places) > 5


def test_trace_events_are_tried_first_and_can_be_refused() -> None:
    probe, other = find_probe("syscall"), find_probe("block")
    host = linux_6_18().host(preempted=True, casts=True, trace_events=True)
    plain = replace(host, trace_events=False)
    assert forms_of(probe, host) == [host, *forms_of(probe, plain)]
    calls, requests = {"sys_enter", "sys_exit"}, {"io_uring_submit_req", "io_uring_complete"}
    assert probe.at_events(host) == calls | requests
    assert not probe.at_events(plain)
    assert not probe.at_events(replace(host, trusted_loads=False))
    assert not other.at_events(host)


@pytest.mark.parametrize(
    ("member", "left"),
    [
        ("trace_event_raw_io_uring_complete.res", {"RECORDS"}),
        ("trace_event_raw_sys_enter.args", {"URING_RECORDS"}),
    ],
)
def test_records_other_than_the_probe_reads_them_are_not_used(member: str, left: set[str]) -> None:
    btf = linux_6_18()
    btf.drop(member)
    host = btf.host(preempted=True, casts=True, trace_events=True)
    assert find_probe("syscall").records(host).keys() == left
