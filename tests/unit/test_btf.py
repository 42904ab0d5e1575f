"""BTF of the kernel and its modules, read through libbpf from hand-made types."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf import btf as btf_module
from ioh.bpf import libbpf
from ioh.bpf.btf import Btf, find_enumerator

INT, PTR, STRUCT, UNION, ENUM, TYPEDEF, VOLATILE, CONST = 1, 2, 4, 5, 6, 8, 9, 10
RESTRICT, FUNC_PROTO, TYPE_TAG, ENUM64 = 11, 13, 18, 19


KERNEL, MODULE = 4096, 8192


class Types:
    """libbpf's BTF calls on types that the test adds; ids begin at 1, 0 is void."""

    def __init__(self) -> None:
        self.strings = b"\0"
        self.types: list[Any] = [ctypes.create_string_buffer(struct.pack("=III", 0, 0, 0))]
        self.kinds: list[tuple[str, int]] = [("", 0)]

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at

    def add(
        self,
        kind: int,
        name: str = "",
        size: int = 0,
        rest: bytes = b"",
        count: int = 0,
        flag: int = 0,
    ) -> int:
        """A type; ``size`` is the other type's id where the kind has one."""
        info = flag << 31 | kind << 24 | count
        raw = struct.pack("=III", self.name(name), info, size) + rest
        self.types.append(ctypes.create_string_buffer(raw, len(raw)))
        self.kinds.append((name, kind))
        return len(self.types) - 1

    def struct(self, name: str, *members: tuple[str, int, int], kind: int = STRUCT) -> int:
        """Members as (name, type, byte offset)."""
        rest = b"".join(struct.pack("=III", self.name(n), t, o * 8) for n, t, o in members)
        return self.add(kind, name, 64, rest, len(members))

    def tracepoint(self, name: str, *arguments: int) -> int:
        rest = b"".join(struct.pack("=II", 0, argument) for argument in (0, *arguments))
        proto = self.add(FUNC_PROTO, rest=rest, count=len(arguments) + 1)
        return self.add(TYPEDEF, f"btf_trace_{name}", self.add(PTR, size=proto))

    def btf__type_by_id(self, _: object, type_id: int) -> int:
        return ctypes.addressof(self.types[type_id]) if type_id < len(self.types) else 0

    def btf__name_by_offset(self, _: object, offset: int) -> bytes:
        return self.strings[offset:].split(b"\0")[0]

    def btf__find_by_name_kind(self, _: object, name: bytes, kind: int) -> int:
        wanted = (name.decode(), kind)
        return self.kinds.index(wanted) if wanted in self.kinds else -2


class FakeLib:
    """libbpf with a kernel's and one module's types, each with ids of its own."""

    def __init__(self, load: str) -> None:
        self.parts = {KERNEL: Types(), MODULE: Types()}
        self.parsed: list[bytes] = []
        self.handle: int | None = KERNEL
        self.module_handle: int | None = MODULE
        setattr(self, load, lambda: self.handle)

        def parse(path: bytes, base: Any) -> int | None:
            assert base.value == KERNEL
            self.parsed.append(path)
            return self.module_handle

        self.btf__parse_split = parse

    def __getattr__(self, name: str) -> Any:
        if not hasattr(Types, name):
            raise AttributeError(name)
        return lambda handle, *words: getattr(self.parts[handle.value], name)(handle, *words)


@pytest.fixture(params=["btf__load_vmlinux_btf", "libbpf_find_kernel_btf"])
def lib(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path) -> FakeLib:
    """With each of the two names of libbpf's call that loads the kernel's types."""
    fake = FakeLib(request.param)
    monkeypatch.setattr(btf_module, "libbpf", lambda: fake)
    monkeypatch.setattr(btf_module, "BTF_DIR", tmp_path / "btf")
    monkeypatch.setattr(btf_module, "SYS_MODULE", tmp_path / "module")
    (tmp_path / "btf").mkdir()
    (tmp_path / "btf/nfs").touch()
    (tmp_path / "module/sunrpc").mkdir(parents=True)
    for part, (name, at) in zip(fake.parts.values(), (("inode", 8), ("rpc_task", 16)), strict=True):
        number = part.add(INT, "int", 4)
        owner = part.struct(name, ("first", number, at))
        part.tracepoint(f"on_{name}", part.add(PTR, size=part.add(CONST, size=owner)), number)
    return fake


def test_the_offset_of_a_member_is_found(lib: FakeLib) -> None:
    """In nested structs, unnamed ones, bit fields, and through typedefs."""
    kernel = lib.parts[KERNEL]
    number = kernel.add(INT, "int", 4)
    path = kernel.struct("path", ("mnt", number, 0), ("dentry", number, 8))
    alias = kernel.add(TYPEDEF, "path_t", path)
    for kind in (CONST, VOLATILE, RESTRICT, TYPE_TAG):
        alias = kernel.add(kind, size=alias)
    inner = kernel.struct("", ("tail", number, 0), ("hash", number, 4))
    union = kernel.struct("", ("ino", number, 0), ("", inner, 0), kind=UNION)
    members = (("f_mode", number, 0), ("", number, 4), ("f_path", alias, 16), ("", union, 32))
    kernel.struct("file", *members, ("far", number, 1 << 25))
    flag = struct.pack("=III", kernel.name("flag"), number, 3 << 24 | 100)  # 3 bits at 100
    kernel.add(STRUCT, "bits", 32, flag, 1, flag=1)
    btf = Btf()
    offsets = {"f_mode": 0, "f_path.dentry": 24, "ino": 32, "hash": 36, "far": 1 << 25}
    for owner, member, at in (*(("file", *item) for item in offsets.items()), ("bits", "flag", 12)):
        assert btf.offset(owner, member) == at, member
    for owner, member in (("file", "f_gone"), ("gone", "f_mode"), ("file", "f_mode.deeper")):
        assert btf.offset(owner, member) is None


def test_enumerators_of_32_and_64_bits_are_read(lib: FakeLib) -> None:
    kernel = lib.parts[KERNEL]
    narrow = [(kernel.name("REQ_OP_READ"), 0), (kernel.name("BAD"), -1)]
    kernel.add(ENUM, "req_op", 4, b"".join(struct.pack("=Ii", *each) for each in narrow), 2)
    kernel.add(ENUM64, "wide", 8, struct.pack("=III", kernel.name("BIG"), 7, 1), 1)
    btf = Btf()
    assert btf.enumerators("req_op") == {"REQ_OP_READ": 0, "BAD": -1}
    assert btf.enumerators("wide") == {"BIG": 1 << 32 | 7}
    assert btf.enumerators("gone") == {}


NO_BTF = pytest.mark.parametrize("handle", [None, 0, ctypes.c_size_t(-1).value - 1])


@NO_BTF
def test_a_kernel_without_btf_is_an_error(lib: FakeLib, handle: int | None) -> None:
    lib.handle = handle
    with pytest.raises(OSError, match="no readable BTF"):
        Btf()


def test_a_missing_libbpf_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libbpf, "SONAMES", ("libbpf.so.none",))
    monkeypatch.setattr(btf_module, "libbpf", libbpf.libbpf.__wrapped__)
    with pytest.raises(OSError, match=r"libbpf\.so\.1 not found"):
        Btf()


def test_types_of_the_kernel_and_of_modules_are_found(lib: FakeLib) -> None:
    btf = Btf(("nfs",))
    assert [Path(path.decode()).name for path in lib.parsed] == ["nfs"]
    assert (btf.offset("inode", "first"), btf.offset("rpc_task", "first")) == (8, 16)
    assert (btf.size("inode"), btf.size("rpc_task"), btf.size("gone")) == (64, 64, None)
    assert btf.tracepoint("on_inode") == ("inode", "")
    assert btf.tracepoint("on_rpc_task") == ("rpc_task", "")
    assert btf.tracepoint("on_nothing") is None


def test_a_built_in_or_optional_module_may_lack_its_types(lib: FakeLib) -> None:
    """A built-in module has no types of its own; modules not asked for are not read."""
    assert Btf(("sunrpc",)).offset("rpc_task", "first") is None
    assert lib.parsed == []
    assert Btf(welcome=("nfs",)).offset("rpc_task", "first") == 16
    lib.module_handle = None
    assert Btf(welcome=("nfs", "btrfs")).offset("rpc_task", "first") is None


@NO_BTF
def test_a_module_whose_types_cannot_be_read_is_named(lib: FakeLib, handle: int | None) -> None:
    lib.module_handle = handle
    with pytest.raises(OSError, match=r"no readable BTF at .*/nfs"):
        Btf(("nfs",))
    lib.module_handle = MODULE
    (btf_module.SYS_MODULE / "sunrpc/initstate").touch()
    with pytest.raises(OSError, match="no BTF of its module sunrpc"):
        Btf(("nfs", "sunrpc"))


ENUM_NAMES = ("", "int", "FIRST", "SECOND", "THIRD", "SECONDS")
STRINGS = b"\0".join(name.encode() for name in ENUM_NAMES) + b"\0"
# Kind, number of members, and bytes that follow: int, pointer, array, struct, union, forward,
# function and its prototype, variable, section, float, declaration tag, type tag, enum of 64 bits.
OTHER_TYPES = (
    (1, 0, 4), (2, 0, 0), (3, 0, 12), (4, 2, 24), (5, 1, 12), (7, 0, 0), (8, 0, 0), (12, 0, 0),
    (13, 3, 24), (14, 0, 4), (15, 2, 24), (16, 0, 0), (17, 0, 4), (18, 0, 0), (19, 2, 24),
)  # fmt: skip


def name_at(name: str) -> int:
    return STRINGS.index(b"\0" + name.encode() + b"\0") + 1


def a_type(kind: int, members: int, more: bytes) -> bytes:
    return struct.pack("=III", 0, kind << 24 | members, 4) + more


def enum(**values: int) -> bytes:
    pairs = [struct.pack("=Ii", name_at(name), value) for name, value in values.items()]
    return a_type(6, len(pairs), b"".join(pairs))


def btf_bytes(*types: bytes) -> bytes:
    whole = b"".join(types)
    sizes = (24, 0, len(whole), len(whole), len(STRINGS))
    return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, *sizes) + whole + STRINGS


def test_an_enumerator_is_found_after_types_of_every_kind() -> None:
    # What follows a type looks like the enumerator searched for.
    looks = struct.pack("=I", name_at("SECOND"))
    others = [a_type(kind, members, looks * (size // 4)) for kind, members, size in OTHER_TYPES]
    raw = btf_bytes(*others, enum(FIRST=-1), *others, enum(SECONDS=7, SECOND=5))
    assert find_enumerator(raw, "FIRST") == -1
    assert find_enumerator(raw, "SECOND") == 5
    assert find_enumerator(raw, "THIRD") is None
    assert find_enumerator(raw, "FOURTH") is None


@pytest.mark.parametrize("raw", [b"", b"\x9f\xeb", bytes(24), btf_bytes(enum(FIRST=1))[:-8]])
def test_bytes_that_are_not_btf_have_no_enumerator(raw: bytes) -> None:
    assert find_enumerator(raw, "SECOND") is None
