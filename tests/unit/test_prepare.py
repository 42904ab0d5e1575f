"""The step of the set-up that compiles the probes; no compiler runs here."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ioh.bpf.calls import KernelObjects, Outcome
from ioh.commands import prepare
from ioh.layers import all_layers
from ioh.model.filters import Filters
from tests.unit.fake_kernel import KERNELS

KERNEL = os.uname().release
PROBES = [name for name, layer in all_layers().items() if layer.probe]


def attach(probe: Any, filters: Filters, *_: object) -> Outcome:
    """Layer tcp is refused, and LLVM ends the process that compiles nfs_client."""
    if probe.spec.name == "tcp":
        return {"reason": "refused\nfor two reasons"}, [], KernelObjects()
    if probe.spec.name == "nfs_client":
        os.write(2, b"Looks like the BPF stack limit is exceeded\n")
        os._exit(1)
    if probe.spec.name == "db":
        raise KeyError(probe.spec.name)
    return {"maps": []}, [], KernelObjects()


def test_one_failure_is_one_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "_jobs", lambda: [(name, Filters()) for name in PROBES])
    monkeypatch.setattr(prepare, "attach_layer", attach)
    assert prepare.main() == 0
    *lines, last = capfd.readouterr().err.splitlines()
    assert sorted(lines) == [
        "ioh: db: KeyError: 'db'",
        "ioh: nfs_client: the compiler ended with status 1",
        "ioh: tcp: refused\\x0afor two reasons",
    ]
    assert last == f"ioh: probes compiled for Linux {KERNEL}: {len(PROBES) - 3} of {len(PROBES)}"


def test_each_layer_is_compiled_without_a_filter_and_with_each_kind_and_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepare, "Btf", lambda *_: None)
    monkeypatch.setattr(prepare, "find_facts", lambda _: KERNELS["6.18"]().host())
    found: dict[str, list[str]] = {name: [] for name in PROBES}
    for name, filters in prepare._jobs():
        found[name].append(" ".join(filters.given()) or "calls" * filters.sample_calls)
    assert found == {
        "db": [""],
        "syscall": ["", "comm", "device", "comm device"],
        "nfs_client": ["", "calls"],
        "tcp": ["", "port"],
        "nfs_server": ["", "calls"],
        "block": ["", "device"],
    }


def test_a_layer_whose_modules_are_not_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS["6.18"]()
    for name in ("rpc_stats_latency", "svc_stats_latency"):
        del kernel.tracepoints[name]
    monkeypatch.setattr(prepare, "Btf", lambda *_: None)
    monkeypatch.setattr(prepare, "find_facts", lambda _: kernel.host())
    assert not [name for name, _ in prepare._jobs() if name.startswith("nfs")]
