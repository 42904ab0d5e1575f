"""Struct offsets, enum values and tracepoint prototypes of the running kernel, from its BTF."""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ioh.bpf.btf_raw import find_enumerator
from ioh.bpf.libbpf import libbpf

BTF_DIR = Path("/sys/kernel/btf")
SYS_MODULE = Path("/sys/module")
_KIND_PTR = 2
_KIND_STRUCT = 4
_KIND_UNION = 5
_KIND_ENUM = 6
_KIND_TYPEDEF = 8
_KIND_FUNC = 12
_KIND_FUNC_PROTO = 13
_KIND_ENUM64 = 19
_MODIFIERS = frozenset({_KIND_TYPEDEF, 9, 10, 11, 18})  # volatile, const, restrict, type tag
_TYPE = struct.Struct("=III")  # name offset, info, size or type
_MEMBER = struct.Struct("=III")  # name offset, type, bit offset
_ENUMERATOR = struct.Struct("=Ii")
_ENUMERATOR64 = struct.Struct("=III")
_PARAM = struct.Struct("=II")
_MAX_ERRNO = 4095


class _Type(NamedTuple):
    address: int
    name: str
    kind: int
    members: int
    size_or_type: int
    has_bitfields: bool


class Btf:
    """The kernel's own description of its types.

    Args:
        modules: Kernel modules whose types are wanted, too; one that is built into the kernel
            has its types among the kernel's own.
        welcome: The same, and no error where one has no types.

    Raises:
        OSError: libbpf is missing, or the kernel carries no BTF (CONFIG_DEBUG_INFO_BTF), or a
            module is loaded and has none (before 5.11).
    """

    def __init__(self, modules: tuple[str, ...] = (), welcome: tuple[str, ...] = ()) -> None:
        lib = libbpf()
        if lib is None:
            msg = "libbpf.so.1 not found"
            raise OSError(msg)
        self._lib = lib
        # libbpf 0.3 (Debian 11) knows the same function by its older name.
        load = getattr(lib, "btf__load_vmlinux_btf", None) or lib.libbpf_find_kernel_btf
        load.restype = ctypes.c_void_p
        handle = load()
        # libbpf before 1.0 returns a negative errno in the pointer instead of NULL.
        if not handle or handle > ctypes.c_size_t(-1).value - _MAX_ERRNO:
            msg = "no readable BTF at /sys/kernel/btf/vmlinux"
            raise OSError(msg)
        self._btf = ctypes.c_void_p(handle)
        self.offset = lru_cache(maxsize=None)(self._offset)
        parts = [self._module(name) for name in modules]
        for name in welcome:
            with suppress(OSError, AttributeError):  # libbpf before 0.3 cannot read them
                parts.append(self._module(name))
        self._modules = [part for part in parts if part is not None]

    def _module(self, name: str) -> Btf | None:
        """A module's types, on top of the kernel's; None when it is no module here."""
        path = BTF_DIR / name
        if not path.exists():
            if (SYS_MODULE / name / "initstate").exists():
                msg = f"this kernel gives no BTF of its module {name} (5.11 and later do)"
                raise OSError(msg)
            return None
        # btf__load_module_btf() came with libbpf 0.7; this is what it does, and in 0.3.
        parse = self._lib.btf__parse_split
        parse.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
        parse.restype = ctypes.c_void_p
        handle = parse(str(path).encode(), self._btf)
        if not handle or handle > ctypes.c_size_t(-1).value - _MAX_ERRNO:
            msg = f"no readable BTF at {path}"
            raise OSError(msg)
        part = object.__new__(Btf)
        part._lib, part._btf, part._modules = self._lib, ctypes.c_void_p(handle), []
        part.offset = lru_cache(maxsize=None)(part._offset)
        return part

    def close(self) -> None:
        """Give the memory back (some 10 MB)."""
        for part in self._modules:
            part.close()
        if self._btf:
            self._lib.btf__free(self._btf)
            self._btf = ctypes.c_void_p()

    def _type(self, type_id: int) -> _Type:
        address = self._lib.btf__type_by_id(self._btf, type_id)
        if not address:
            return _Type(0, "", 0, 0, 0, has_bitfields=False)
        name_offset, info, size = _TYPE.unpack(ctypes.string_at(address, _TYPE.size))
        name = self._name(name_offset)
        return _Type(address, name, info >> 24 & 0x1F, info & 0xFFFF, size, bool(info >> 31))

    def _name(self, offset: int) -> str:
        raw: bytes | None = self._lib.btf__name_by_offset(self._btf, offset)
        return raw.decode() if raw else ""

    def _find(self, name: str, *kinds: int) -> _Type | None:
        for kind in kinds:
            type_id = self._lib.btf__find_by_name_kind(self._btf, name.encode(), kind)
            if type_id > 0:
                return self._type(type_id)
        return None

    def _resolve(self, type_id: int) -> _Type:
        found = self._type(type_id)
        while found.kind in _MODIFIERS:
            found = self._type(found.size_or_type)
        return found

    def _member(self, owner: _Type, name: str) -> tuple[int, int] | None:
        """Byte offset and type of a member, looking through unnamed structs and unions."""
        raw = ctypes.string_at(owner.address + _TYPE.size, owner.members * _MEMBER.size)
        for name_offset, type_id, bits in _MEMBER.iter_unpack(raw):
            start = (bits & 0xFFFFFF if owner.has_bitfields else bits) // 8
            if name_offset:
                if self._name(name_offset) == name:
                    return start, type_id
                continue
            inner = self._resolve(type_id)
            if inner.kind in (_KIND_STRUCT, _KIND_UNION):
                found = self._member(inner, name)
                if found is not None:
                    return start + found[0], found[1]
        return None

    def _offset(self, owner: str, path: str) -> int | None:
        """Byte offset of a member, ``"f_path.dentry"`` for a nested one.

        Returns:
            None when this kernel's struct has no such member.
        """
        found = self._find(owner, _KIND_STRUCT, _KIND_UNION)
        if found is None:
            offsets = (part.offset(owner, path) for part in self._modules)
            return next((offset for offset in offsets if offset is not None), None)
        total = 0
        for name in path.split("."):
            member = self._member(found, name)
            if member is None:
                return None
            total += member[0]
            found = self._resolve(member[1])
        return total

    def size(self, name: str) -> int | None:
        """Bytes of a struct or union; None when this kernel has no such one."""
        found = self._find(name, _KIND_STRUCT, _KIND_UNION)
        if found is not None:
            return found.size_or_type
        sizes = (part.size(name) for part in self._modules)
        return next((size for size in sizes if size is not None), None)

    def enumerators(self, name: str) -> dict[str, int]:
        """Values of an enum by name; empty when this kernel has no such enum."""
        found = self._find(name, _KIND_ENUM, _KIND_ENUM64)
        if found is None:
            return {}
        start = found.address + _TYPE.size
        if found.kind == _KIND_ENUM64:
            raw = ctypes.string_at(start, found.members * _ENUMERATOR64.size)
            return {self._name(n): lo | hi << 32 for n, lo, hi in _ENUMERATOR64.iter_unpack(raw)}
        raw = ctypes.string_at(start, found.members * _ENUMERATOR.size)
        return {self._name(n): value for n, value in _ENUMERATOR.iter_unpack(raw)}

    def enumerator(self, name: str) -> int | None:
        """Value of one enumerator, of an enum without a name, too; None where there is none."""
        try:
            return find_enumerator((BTF_DIR / "vmlinux").read_bytes(), name)
        except OSError:
            return None

    def struct_id(self, name: str) -> int | None:
        """BTF id of one of the kernel's structs; None when it has no such one."""
        return self._id(name, _KIND_STRUCT)

    def function_id(self, name: str) -> int | None:
        """BTF id of one of the kernel's functions; None when it has no such one."""
        return self._id(name, _KIND_FUNC)

    def _id(self, name: str, kind: int) -> int | None:
        type_id: int = self._lib.btf__find_by_name_kind(self._btf, name.encode(), kind)
        return type_id if type_id > 0 else None

    def tracepoint_id(self, name: str) -> int | None:
        """BTF id of a raw tracepoint's prototype; None when this kernel has no such one."""
        return self._id(f"btf_trace_{name}", _KIND_TYPEDEF)

    def tracepoint(self, name: str) -> tuple[str, ...] | None:
        """Argument types of a raw tracepoint: the struct's name, or "" for anything else.

        Returns:
            None when this kernel has no such tracepoint.  This needs no tracefs.
        """
        typedef = self._find(f"btf_trace_{name}", _KIND_TYPEDEF)
        if typedef is None:
            prototypes = (part.tracepoint(name) for part in self._modules)
            return next((found for found in prototypes if found is not None), None)
        pointer = self._resolve(typedef.size_or_type)
        proto = self._resolve(pointer.size_or_type)
        if pointer.kind != _KIND_PTR or proto.kind != _KIND_FUNC_PROTO:
            return None
        raw = ctypes.string_at(proto.address + _TYPE.size, proto.members * _PARAM.size)
        kinds: list[str] = []
        for _, type_id in _PARAM.iter_unpack(raw):
            argument = self._resolve(type_id)
            target = self._resolve(argument.size_or_type) if argument.kind == _KIND_PTR else None
            kinds.append(target.name if target is not None else "")
        return tuple(kinds[1:])  # the first one is the tracepoint's own data
