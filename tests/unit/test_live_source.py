"""Reading this machine: what each layer is read from, refusals, and layers that join one by one."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf import privileges
from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.privileges import Kept
from ioh.bpf.probe import Probe
from ioh.commands.this_machine import ThisMachine
from ioh.live import attaching
from ioh.live.attached import AttachedLayer
from ioh.live.source import LiveSource
from ioh.model.derive import derive
from ioh.model.errors import ExitCode, IohError
from ioh.model.filters import Filters
from ioh.model.sample import ATTACHING, LayerSample, Sample, Unavailable
from ioh.model.snapshot import LayerSnapshot
from ioh.pg.login import Login
from tests.unit.live_host import Host, make_layer, notes, open_descriptors, source


def test_layers_are_attached_and_detached(root: Host) -> None:
    """The loader gets only their names; it has had the filters since its start."""
    root.know(
        make_layer("a", 10, has_probe=True),
        make_layer("b", 20, has_probe=True),
        make_layer("c", 30),
    )
    root.attach("b")
    root.attach("a")
    with source("c", "b", "a") as running:
        assert root.requests() == [{"verb": "attach", "layer": name} for name in "ba"]
        assert root.filters == Filters(pid=7)
        assert list(running.attached) == ["a", "b", "c"]  # in the order of the path
        sample = running.read()
        assert running.attached["a"].points == {"enter": "sys_enter"}
        during = open_descriptors()
    # Two maps, two programs and two links, and the loader's socket.
    assert during - open_descriptors() == 7
    assert not running.attached["a"].maps
    for name in "ab":
        found = sample.layers[name]
        assert isinstance(found, LayerSample)
        assert (found.source, found.notes, found.lost) == ("bpf", (), {"recursion": 0})
    assert sample.specs.keys() == {"a", "b", "c"}


@pytest.mark.parametrize(("cpus", "before"), [(1, ["b"]), (2, ["b"]), (8, ["b", "a"])])
def test_probes_are_compiled_during_imports_if_there_are_cpus_for_it(
    root: Host, monkeypatch: pytest.MonkeyPatch, cpus: int, before: list[str]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(cpus))
    asked: list[dict[str, Any]] = []
    root.attach("a")
    root.attach("b")
    with LiveSource(None, Filters(), 1.0, preload=lambda: asked.extend(root.requests())) as running:
        assert [r["layer"] for r in asked] == before
        assert [r["layer"] for r in (*asked, *root.requests())] == ["b", "a"]
        running.attach()
        assert not running.awaited


def test_a_layer_that_is_refused_is_read_from_proc(root: Host) -> None:
    for nobodys in ({"error": "unknown verb"}, {"verb": "attach", "layer": "x", "reason": "?"}):
        root.answer(dict(nobodys))
    root.answer({"verb": "attach", "layer": "a", "reason": "BPF refused", "hint": "try this"})
    root.attach("b")
    with source() as running:
        sample = running.read()
        assert running.attached["a"].hint == "try this"
    assert notes(sample, "a") == ("from /proc: BPF refused",)
    assert notes(sample, "b") == ()


@pytest.mark.parametrize(
    ("privileged", "use_bpf", "release", "why"),
    [
        (False, True, "6.1.0", "BPF needs root: start with sudo"),
        (True, False, "6.1.0", "requested with --proc"),
        (True, True, "5.4.0-216-generic", "BPF needs Linux 5.10"),
    ],
)
def test_without_bpf_no_loader_is_started(
    host: Host, privileged: bool, use_bpf: bool, release: str, why: str
) -> None:
    host.is_privileged = privileged
    host.patch.setattr("os.uname", lambda: SimpleNamespace(release=release, nodename="h"))
    with source(use_bpf=use_bpf) as running:
        sample = running.read()
        dropped = [Kept.PROC] if privileged else []
        assert (host.requests(), host.dropped, host.hidden) == ([], dropped, [])
    assert notes(sample, "a") == (f"from /proc: {why}",)


@pytest.mark.parametrize(
    ("permitted", "kept"), [(0xA80425FB, Kept.NOTHING), (0xA80C25FF, Kept.PROC)]
)
def test_root_without_bpf_gives_root_up_too(host: Host, permitted: int, kept: Kept) -> None:
    """As in a container: it keeps CAP_SYS_PTRACE to read /proc only if the container has it."""
    host.has_rights, host.permitted = True, permitted
    with source() as running:
        assert (host.requests(), host.dropped, running.kept) == ([], [kept], kept)


@pytest.mark.parametrize("privileged", [True, False])
def test_an_unknown_layer_is_refused(host: Host, privileged: bool) -> None:
    host.is_privileged = privileged
    with pytest.raises(IohError) as caught:
        source("a", "\x1b[31m").__enter__()
    assert caught.value.code == ExitCode.USAGE
    assert str(caught.value) == 'unknown layer "\\x1b[31m". Known layers: a, b.'
    assert host.requests() == []
    assert privileged == (host.loader.socket.fileno() < 0)


def test_a_missing_library_is_reported_and_the_loader_closed(root: Host) -> None:
    def fail() -> None:
        raise ModuleNotFoundError(name="numpy")

    root.patch.setattr("ioh.bpf.maps.preload", fail)
    with pytest.raises(IohError, match="a library is missing"):
        source().__enter__()
    assert root.loader.socket.fileno() < 0


def test_a_layer_that_fails_is_left_out_and_the_others_go_on(host: Host) -> None:
    asked = []

    def fail() -> LayerSample:
        asked.append(1)
        msg = "no number"
        raise ValueError(msg)

    host.know(make_layer("a", 10, read=fail), make_layer("b", 20))
    with source() as running:
        samples = [running.read() for _ in range(3)]
    for sample in samples:
        assert sample.layers["a"] == Unavailable(
            "reading failed: ValueError: no number", "please report this"
        )
        assert isinstance(sample.layers["b"], LayerSample)
    assert asked == [1]


# Reads nothing from /proc, as with --device.
LESS = Unavailable("/proc says less", "leave out --device")
UNFED = make_layer(
    "unfed", 1, read=lambda: LESS, look=lambda: LayerSample("bpf", notes=("its own",))
)


def test_a_layer_that_proc_lacks_says_why_there_is_no_bpf() -> None:
    attached = AttachedLayer(UNFED(Filters()))
    attached.why_proc = "BPF needs root: start with sudo"
    assert attached.read() == Unavailable(f"{attached.why_proc}; {LESS.reason}", LESS.hint)
    attached.hint = "ioh doctor says more"
    assert attached.read() == Unavailable(f"{attached.why_proc}; {LESS.reason}", attached.hint)
    attached.why_proc = ""
    assert attached.read() == LESS


def test_what_the_kernel_does_not_provide_is_noted() -> None:
    attached = AttachedLayer(UNFED(Filters()))
    # A layer that is read by BPF has maps; here it has no programs that could be queried.
    attached.maps = {"totals": Map(MapSpec("totals", 2, 4, 8, 1, 0), -1)}
    attached.missing = {"uring_submit": "io_uring", "uring_complete": "io_uring", "split": "splits"}
    for said in (("this kernel does not provide io_uring, splits.",), ()):
        sample = attached.read()
        assert isinstance(sample, LayerSample)
        assert sample.notes == ("its own", *said)
        attached.missing = {}


CYCLE_S = 20.0  # much longer than what must happen within it


def early_source(interval_s: float = 1.0, **options: Any) -> LiveSource:
    return LiveSource(None, Filters(), interval_s, **options)


def test_privilege_is_dropped_at_once(root: Host) -> None:
    """By the thread that enters: threads that it starts later have no privilege."""
    with early_source() as running:
        assert len(root.dropped) == 1
        running.attach()
        assert len(root.dropped) == 1
        assert root.hidden == [1]  # changing the user would undo it


def test_a_new_kernels_probes_are_compiled_once_and_ioh_says_so(root: Host) -> None:
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    kernel = os.uname().release
    with early_source() as running:
        machine = ThisMachine(running)
        assert machine.status() == "attaching the probes: a, b"
        root.answer({"verb": "attach", "layer": "b", "compiling": True})
        running.read()
        assert machine.status() == f"compiling the probes for Linux {kernel} (once): 0 of 2"
        sample = running.read()
        assert sample.layers["a"] == Unavailable("its probe is being attached", ATTACHING)
        once = f"its probe is being compiled, once for Linux {kernel}"
        assert sample.layers["b"] == Unavailable(once, ATTACHING)
        root.attach("b")
        running.read()
        assert machine.status() == f"compiling the probes for Linux {kernel} (once): 1 of 2"
        root.attach("a")
        running.attach()
        assert machine.status() == ""


def test_entering_does_not_wait_for_probes(root: Host) -> None:
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    started = time.monotonic()
    with early_source() as running:
        before, sample = running.awaited, running.read()
        assert before == ("a", "b")
        assert time.monotonic() - started < attaching.ATTACH_TIMEOUT_S
        assert sample.layers["a"] == Unavailable(
            "its probe is being attached", "shown as soon as it is attached"
        )
        root.attach("a")
        root.answer({"verb": "attach", "layer": "b", "reason": "BPF refused", "hint": ""})
        running.attach()
        assert running.awaited == ()
        sample = running.read()
    assert (notes(sample, "a"), notes(sample, "b")) == ((), ("from /proc: BPF refused",))


def test_waiting_for_probes_ends_when_the_loader_dies(root: Host) -> None:
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    started = time.monotonic()
    with early_source() as running:
        root.end.shutdown(socket.SHUT_WR)
        (note,) = notes(next(iter(running)), "b")
    assert "the loader failed" in note
    assert time.monotonic() - started < attaching.ATTACH_TIMEOUT_S


def asked_for(root: Host) -> list[str]:
    return [request["layer"] for request in root.requests() if request["verb"] == "attach"]


def joining_layers(root: Host) -> None:
    upper = make_layer("a", 10)
    upper.probe = Probe(upper.spec, joins="b")
    root.know(upper, make_layer("b", 20, has_probe=True), make_layer("c", 30, has_probe=True))


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_layer_that_joins_another_is_requested_after_it(root: Host, is_attached: bool) -> None:
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    joining_layers(root)
    with early_source() as running:
        assert asked_for(root) == ["c", "b"]
        root.attach("c")
        assert running._attaching.wait(time.monotonic())
        assert asked_for(root) == []
        if is_attached:
            root.attach("b")
        else:
            root.answer({"verb": "attach", "layer": "b", "reason": "BPF refused", "hint": ""})
        running._attaching.wait(time.monotonic())
        assert asked_for(root) == ["a"]
        assert running.awaited == ("a",)


def test_each_answer_gives_the_other_probes_as_long_again(root: Host) -> None:
    """A busy machine compiles slowly, one probe after the other."""
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 2.0)
    with early_source() as running:
        begun_s = time.monotonic()

        def awaited_after(seconds: float) -> tuple[str, ...]:
            root.patch.setattr(time, "monotonic", lambda: begun_s + seconds)
            running._attaching.wait(0.0)
            return running.awaited

        root.attach("b")
        assert awaited_after(1.9) == ("a",)
        assert awaited_after(3.8) == ("a",)
        assert awaited_after(4.0) == ()


def test_a_layer_that_joins_another_waits_for_it_only_up_to_a_limit(root: Host) -> None:
    joining_layers(root)
    with source():
        assert asked_for(root) == ["c", "b", "a"]


def test_layers_are_shown_one_by_one(root: Host) -> None:
    """The first layer is shown before the last one is attached, and no count is wrong."""
    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    with early_source(interval_s=CYCLE_S) as running:
        root.attach("b")
        iterator = iter(running)
        samples = [next(iterator)]
        assert running.awaited == ("a",)
        # First b alone; then an interval that is cut short when a comes; then the first of both.
        started = time.monotonic()
        samples.append(next(iterator))
        root.attach("a")
        samples += [next(iterator) for _ in range(2)]
        assert time.monotonic() - started < CYCLE_S
    found = [derive(older, newer) for older, newer in itertools.pairwise(samples)]
    assert [isinstance(snapshot.layers["b"], LayerSnapshot) for snapshot in found] == [True] * 3
    assert [
        layer.reason if isinstance(layer, Unavailable) else "measured"
        for snapshot in found
        for layer in [snapshot.layers["a"]]
    ] == ["its probe is being attached", "starting", "measured"]
    assert all(snapshot.interval_s >= 0.09 for snapshot in found)


def test_the_first_interval_is_shown_while_the_screen_is_imported(root: Host) -> None:
    told: list[tuple[Sample, Sample]] = []
    is_told = threading.Event()

    def tell(*samples: Sample) -> None:
        told.append(samples)  # type: ignore[arg-type]
        is_told.set()

    def preload() -> None:
        assert root.dropped == []
        root.attach("b")
        assert is_told.wait(10.0)

    def drop(kept: Kept, **_: bool) -> None:
        assert [t.name for t in threading.enumerate() if t.name == "early"] == []
        root.dropped.append(kept)

    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    root.patch.setattr(privileges, "drop_privileges", drop)
    with early_source(interval_s=CYCLE_S, preload=preload, report_first=tell) as running:
        assert len(root.dropped) == 1
        iterator = iter(running)
        assert (next(iterator), next(iterator)) == told[0]
        root.attach("a")
        snapshots = [derive(told[0][1], one := next(iterator)), derive(one, next(iterator))]
    assert isinstance(derive(*told[0]).layers["b"], LayerSnapshot)
    assert 0.1 <= derive(*told[0]).interval_s < CYCLE_S
    assert isinstance(snapshots[1].layers["a"], LayerSnapshot)


def test_a_probe_attached_during_imports_has_a_baseline_at_once(root: Host) -> None:
    is_told = threading.Event()

    def preload() -> None:
        root.attach("b")
        assert is_told.wait(10.0)
        root.attach("a")
        wait_for(lambda: running.awaited == ())

    root.patch.setattr(attaching, "ATTACH_TIMEOUT_S", 30.0)
    running = early_source(CYCLE_S, preload=preload, report_first=lambda *_: is_told.set())
    started = time.monotonic()
    with running:
        samples = list(itertools.islice(running, 4))
    assert time.monotonic() - started < CYCLE_S
    found = [derive(older, newer).layers["a"] for older, newer in itertools.pairwise(samples)]
    assert [isinstance(layer, LayerSnapshot) for layer in found[1:]] == [False, True]


def test_each_answer_requests_the_next_probe(root: Host) -> None:
    asked: list[str] = []

    def ask(count: int) -> bool:
        asked.extend(asked_for(root))
        return len(asked) == count

    def preload() -> None:
        wait_for(lambda: ask(1))
        root.attach("b")
        wait_for(lambda: ask(2))

    root.patch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    with early_source(preload=preload, report_first=lambda *_: None):
        assert asked == ["b", "a"]
        assert asked_for(root) == []


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("login", [None, Login("service=x")])
def test_a_layer_with_a_login_logs_in_after_privilege_is_dropped(
    root: Host, login: Login | None
) -> None:
    """With ``--pg``, ioh may still use the network; without it, there is no such layer."""
    told: list[object] = []
    layer = make_layer("l", 5)
    root.patch.setattr(layer, "needs_login", True)
    root.patch.setattr(layer, "log_in", lambda _, login: told.append(login.dsn))
    root.know(layer)
    root.patch.setattr("ioh.pg.connection.require_driver", told.append)
    root.patch.setattr(privileges, "needed", lambda *_, **__: Kept.NOTHING)
    root.patch.setattr(
        privileges, "drop_privileges", lambda keep, network=False: told.append((keep, network))
    )
    with LiveSource(None, Filters(), 1.0, login=login) as source:
        assert list(source.attached) == (["l"] if login else [])
    logged_in = [login, (Kept.NOTHING, True), "service=x"]
    assert told == (logged_in if login else [(Kept.NOTHING, False)])
