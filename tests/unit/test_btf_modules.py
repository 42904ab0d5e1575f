"""Types of kernel modules: looked for where the kernel itself has none."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import btf as btf_module
from ioh.bpf.btf import Btf
from tests.unit.test_btf import INT, FakeLib

KERNEL, MODULE = 4096, 8192


class TwoParts:
    """libbpf with a kernel's and one module's types, each with ids of its own."""

    def __init__(self) -> None:
        self.parts = {KERNEL: FakeLib(), MODULE: FakeLib()}
        self.parsed: list[bytes] = []
        self.module_handle: int | None = MODULE

        def load() -> int:
            return KERNEL

        def parse(path: bytes, base: Any) -> int | None:
            assert base.value == KERNEL
            self.parsed.append(path)
            return self.module_handle

        self.btf__load_vmlinux_btf, self.btf__parse_split = load, parse

    def __getattr__(self, name: str) -> Any:
        def call(handle: ctypes.c_void_p, *words: Any) -> Any:
            assert handle.value is not None
            return getattr(self.parts[handle.value], name)(handle, *words)

        return call


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TwoParts:
    fake = TwoParts()
    monkeypatch.setattr(btf_module, "libbpf", lambda: fake)
    monkeypatch.setattr(btf_module, "BTF_DIR", tmp_path / "btf")
    monkeypatch.setattr(btf_module, "SYS_MODULE", tmp_path / "module")
    (tmp_path / "btf").mkdir()
    (tmp_path / "btf/nfs").touch()
    (tmp_path / "module/sunrpc").mkdir(parents=True)
    for part, (name, at) in zip(fake.parts.values(), (("inode", 8), ("rpc_task", 16)), strict=True):
        number = part.add(INT, "int", 4)
        owner = part.struct(name, ("first", number, at))
        part.tracepoint(f"on_{name}", owner)
    return fake


def test_the_kernels_types_and_the_modules(lib: TwoParts) -> None:
    btf = Btf(("nfs",))
    assert [Path(path.decode()).name for path in lib.parsed] == ["nfs"]
    assert btf.offset("inode", "first") == 8
    assert btf.offset("rpc_task", "first") == 16
    assert btf.offset("rpc_task", "second") is None
    assert (btf.size("inode"), btf.size("rpc_task"), btf.size("gone")) == (64, 64, None)
    assert btf.tracepoint("on_inode") is not None
    assert btf.tracepoint("on_rpc_task") is not None
    assert btf.tracepoint("on_nothing") is None


def test_a_module_that_is_not_asked_for_is_not_read(lib: TwoParts) -> None:
    assert Btf().offset("rpc_task", "first") is None
    assert lib.parsed == []


def test_a_module_that_is_welcome_may_lack_its_types(lib: TwoParts) -> None:
    assert Btf(welcome=("nfs",)).offset("rpc_task", "first") == 16
    lib.module_handle = None
    assert Btf(welcome=("nfs", "btrfs")).offset("rpc_task", "first") is None


def test_a_module_built_into_the_kernel_has_no_types_of_its_own(lib: TwoParts) -> None:
    assert Btf(("sunrpc",)).offset("inode", "first") == 8


def test_a_loaded_module_without_types_is_named(lib: TwoParts) -> None:
    (btf_module.SYS_MODULE / "sunrpc/initstate").touch()
    with pytest.raises(OSError, match="no BTF of its module sunrpc"):
        Btf(("nfs", "sunrpc"))


@pytest.mark.parametrize("handle", [None, 0, ctypes.c_size_t(-1).value - 1])
def test_types_that_cannot_be_read(lib: TwoParts, handle: int | None) -> None:
    lib.module_handle = handle
    with pytest.raises(OSError, match=r"no readable BTF at .*/nfs"):
        Btf(("nfs",))
