"""Programs that follow the kernel's pointers: what becomes of casts, which forms are tried."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from ioh.bpf import host as host_facts
from ioh.bpf.program import forms_of
from ioh.layers import all_layers
from tests.unit.fake_kernel import linux_6_18

CAST_ID = 4711


def call(registers: int, number: int) -> bytes:
    return struct.pack("=BBhi", 0x85, registers, 0, number)


def test_casts_become_calls_of_the_kernel() -> None:
    helper, wide = call(0, 14), struct.pack("=BBhi", 0x18, 0, 0, host_facts.CASTS) + bytes(8)
    code = helper + call(0, host_facts.CASTS) + wide + call(0, host_facts.CASTS)
    wanted = helper + call(2 << 4, CAST_ID) + wide + call(2 << 4, CAST_ID)
    assert host_facts.resolve_casts(code, CAST_ID) == wanted
    assert host_facts.resolve_casts(code, None) == code
    assert host_facts.resolve_casts(helper, CAST_ID) == helper


class Kernel:
    """Knows some functions, and takes a program or refuses it."""

    def __init__(self, *functions: str, takes: bool = True) -> None:
        self.functions, self.takes = functions, takes
        self.loaded: list[bytes] = []

    def function_id(self, name: str) -> int | None:
        return CAST_ID if name in self.functions else None

    def struct_id(self, name: str) -> int | None:
        return 95 if name == "list_head" else None

    def load(self, _name: str, code: bytes, _tracepoint: str, _btf: Any) -> int:
        if not self.takes:
            raise OSError(22, "calling kernel function is not allowed")
        self.loaded.append(code)
        return -1


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        (Kernel("bpf_rdonly_cast"), CAST_ID),
        (Kernel("bpf_rdonly_cast", takes=False), None),
        (Kernel(), None),
    ],
    ids=["takes it", "refuses it", "has none"],
)
def test_casts_are_found_by_trying(
    kernel: Kernel, found: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    monkeypatch.setattr(host_facts, "load_typed", kernel.load)
    monkeypatch.setattr("os.close", closed.append)
    btf: Any = kernel
    assert host_facts.find_cast(btf) == found
    assert closed == [-1] * len(kernel.loaded) == ([] if found is None else [-1])
    assert all(call(2 << 4, CAST_ID) in code for code in kernel.loaded)


def test_a_form_that_the_verifier_refuses_has_others_behind_it() -> None:
    for layer in all_layers().values():
        host = linux_6_18().host(casts=True)
        forms = forms_of(layer, host)
        plain = replace(host, cast=None, trusted_loads=False)
        if layer.prefers_typed:
            assert forms == [host, replace(host, cast=None), plain]
            assert forms_of(layer, replace(host, cast=None)) == [replace(host, cast=None), plain]
        else:
            assert forms == [host]
        assert forms_of(layer, plain) == [plain]
