"""The loader with the real compiler and kernel: how compiling fails, and what is attached once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import loader as loader_module
from ioh.bpf import program
from ioh.bpf.calls import Outcome
from ioh.bpf.channel import Loader, close_all
from ioh.bpf.compiler import probe_source
from ioh.bpf.loader import start_loader
from ioh.layers import find_probe
from ioh.model.filters import Filters
from tests.kernel.rig import START_S, ended, ioh_command
from tests.kernel.talker import Running, wait_until

# Issued by bcc's Python interface.
pytestmark = pytest.mark.filterwarnings("ignore:not a bytes object:DeprecationWarning")

WAIT_S = 120.0
MEMORY_IS_OUT = "too little memory|out of memory|bad_alloc|failed to map|killed by|allocate"
BLOCK_SOURCE, REAL_ATTACH = probe_source(find_probe("block")), program.attach_layer
TOO_LARGE = """
int on_complete(struct bpf_raw_tracepoint_args *ctx)
{
    volatile u64 large[100];
    for (int i = 0; i < 100; i++)
        large[i] = ctx->args[0] + i;
    return large[7] > 0;
}
"""


@contextlib.contextmanager
def started() -> Iterator[Loader]:
    loader = start_loader(find_probe, Filters())
    yield loader
    loader.close()


def attach(loader: Loader, layer: str = "block") -> tuple[dict[str, Any], list[int]]:
    loader.request({"verb": "attach", "layer": layer})
    return hear(loader)


def hear(loader: Loader) -> tuple[dict[str, Any], list[int]]:
    """The next answer, after the news that the probe is being compiled."""
    while (got := loader.answer(WAIT_S)) is not None and "compiling" in got[0]:
        pass
    assert got is not None
    return got


def reason(patch: pytest.MonkeyPatch, source: str) -> str:
    """Why a probe of this source is not attached."""
    patch.setattr(program, "probe_source", lambda _: source)
    with started() as loader:
        answer, fds = attach(loader)
    assert fds == []
    return str(answer["reason"])


def test_a_syntax_error_in_a_probe_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reason(monkeypatch, BLOCK_SOURCE + "\nint on_error(void) { return amiss; }\n")
    assert "error: use of undeclared identifier 'amiss'" in found


def test_a_probe_that_needs_too_much_stack_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM then ends the process, so that nobody is left to answer."""
    source = BLOCK_SOURCE.replace("on_complete(", "was_on_complete(") + TOO_LARGE
    found = reason(monkeypatch, source)
    assert found.startswith("the compiler ended with status 1: ")
    assert "in function on_complete" in found
    assert "Looks like the BPF stack limit" in found


@pytest.mark.parametrize("megabytes", [80, 120, 160, 200, 250])
def test_a_compiler_without_memory_is_reported(
    monkeypatch: pytest.MonkeyPatch, megabytes: int
) -> None:
    """Wherever the compiler fails, ioh learns of it."""

    def attach_in_little(layer: Any, *arguments: Any) -> Outcome:
        limit = megabytes << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return REAL_ATTACH(layer, *arguments)

    monkeypatch.setattr(program, "attach_layer", attach_in_little)
    found = reason(monkeypatch, BLOCK_SOURCE + f"\n/* {time.time_ns()} */\n")
    assert re.search(MEMORY_IS_OUT, found)


def test_a_compiler_that_is_killed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "probe_source", lambda _: BLOCK_SOURCE + f"/*{time.time_ns()}*/")
    with started() as loader:
        loader.request({"verb": "attach", "layer": "block"})
        path = Path(f"/proc/{loader.pid}/task/{loader.pid}/children")
        found = wait_until(lambda: path.read_text().split(), WAIT_S, pause_s=0)
        os.kill(int(found[0]), signal.SIGKILL)
        answer, _ = hear(loader)
    assert answer["reason"] == "the compiler was killed by SIGKILL (out of memory?)"


def test_sixty_requests_attach_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request after the first copy has gone attaches another one."""
    monkeypatch.setattr(loader_module, "_GONE_TIMEOUT_S", WAIT_S)
    with started() as loader:
        for _ in range(60):
            loader.request({"verb": "attach", "layer": "block"})
        answers = [hear(loader) for _ in range(60)]
        attached = [got for got in answers if "maps" in got[0]]
        assert len(attached) == 1
        refused = [got[0] for got in answers if got not in attached]
        assert refused == [{"error": "already requested"}] * 59
        loader.request({"verb": "attach", "layer": "block"})
        assert loader.answer(0.3) is None
        close_all(attached[0][1])
        answer, fds = hear(loader)
        assert "maps" in answer
        close_all(fds)


def links(loader: Loader, layer: str) -> int:
    answer, fds = attach(loader, layer)
    close_all(fds)
    return len(fds) - len(answer["maps"]) - int(answer["programs"])


def test_events_that_another_layer_hands_on_need_no_attachment() -> None:
    with started() as loader:
        alone = links(loader, "syscall")
    with started() as loader:
        _, block = attach(loader, "block")
        assert links(loader, "syscall") == alone - 2
        close_all(block)
    with started() as loader:  # block was attached, and is gone
        links(loader, "block")
        assert links(loader, "syscall") == alone


def may_look(pid: int, uid: int) -> bool:
    """Whether a process of that user may see which descriptors this one holds."""
    done = ended("ls", f"/proc/{pid}/fd", user=uid, group=uid, extra_groups=[])
    return done.returncode == 0


def test_the_callers_processes_cannot_reach_maps_or_the_channel() -> None:
    environment = {**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"}
    with Running(ioh_command("json", "-c", "0.3"), env=environment) as ioh:
        ioh.output.wait_for(1, START_S)
        first, pid = json.loads(ioh.output.lines[0]), ioh.process.pid
        (loader,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert first["layers"]["block"]["source"] == "bpf"
        status = Path(f"/proc/{pid}/status").read_text()
        assert "Uid:\t65534\t65534\t65534\t65534\n" in status
        assert not may_look(pid, 65534)
        assert not may_look(int(loader), 65534)
