"""Struct offsets, enum values and tracepoint prototypes of the running kernel, from its BTF."""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
_HEADER = struct.Struct("=HBBIIIII")  # magic, version, flags, header; types, strings: at, bytes
_TYPE = struct.Struct("=III")  # name offset, info, size or type
_MEMBER = struct.Struct("=III")  # name offset, type, bit offset
_ENUMERATOR = struct.Struct("=Ii")
_ENUMERATOR64 = struct.Struct("=III")
_PARAM = struct.Struct("=II")
# Bytes that follow a type of each kind, once and for each of its members (uapi/linux/btf.h).
_MORE = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0)}
_MORE |= {15: (0, 12), 17: (4, 0), 19: (0, 12)}
_MAX_ERRNO = 4095


class _Type(NamedTuple):
    part: ctypes.c_void_p  # the kernel's types or a module's
    address: int
    name: str
    kind: int
    members: int
    size_or_type: int
    has_bitfields: bool


class Btf:
    """The kernel's own description of its types.

    Args:
        modules: Kernel modules whose types are needed; a built-in one has its types among the
            kernel's own.
        welcome: The same, but without an error if one has no types.

    Raises:
        OSError: libbpf is missing, the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or a loaded
            module has none (before 5.11).
    """

    def __init__(self, modules: tuple[str, ...] = (), welcome: tuple[str, ...] = ()) -> None:
        self._lib = lib = libbpf()
        # The older name, in libbpf 0.3 (Debian 11).
        load = getattr(lib, "btf__load_vmlinux_btf", None) or lib.libbpf_find_kernel_btf
        load.restype = ctypes.c_void_p
        self._parts = [_checked(load(), "/sys/kernel/btf/vmlinux")]
        for name in modules:
            self._add(name)
        for name in welcome:
            with suppress(OSError, AttributeError):  # libbpf before 0.3 cannot read them
                self._add(name)

    def _add(self, module: str) -> None:
        """Add a module's types, unless it is built in or not loaded."""
        path = BTF_DIR / module
        if path.exists():
            # This is what btf__load_module_btf() of libbpf 0.7 does; libbpf 0.3 has it.
            parse = self._lib.btf__parse_split
            parse.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
            parse.restype = ctypes.c_void_p
            self._parts.append(_checked(parse(str(path).encode(), self._parts[0]), str(path)))
        elif (SYS_MODULE / module / "initstate").exists():
            msg = f"this kernel has no BTF of its module {module} (needs 5.11)"
            raise OSError(msg)

    def _type(self, part: ctypes.c_void_p, type_id: int) -> _Type:
        address = self._lib.btf__type_by_id(part, type_id)
        if not address:
            return _Type(part, 0, "", 0, 0, 0, has_bitfields=False)
        name_at, info, size = _TYPE.unpack(ctypes.string_at(address, _TYPE.size))
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        return _Type(
            part, address, self._name(part, name_at), kind, members, size, bool(info >> 31)
        )

    def _name(self, part: ctypes.c_void_p, offset: int) -> str:
        raw: bytes | None = self._lib.btf__name_by_offset(part, offset)
        return raw.decode() if raw else ""

    def _find(self, name: str, *kinds: int) -> _Type | None:
        for part in self._parts:
            for kind in kinds:
                if (type_id := self._id(name, kind, part)) is not None:
                    return self._type(part, type_id)
        return None

    def _id(self, name: str, kind: int, part: ctypes.c_void_p | None = None) -> int | None:
        where = part or self._parts[0]
        type_id: int = self._lib.btf__find_by_name_kind(where, name.encode(), kind)
        return type_id if type_id > 0 else None

    def _resolve(self, part: ctypes.c_void_p, type_id: int) -> _Type:
        found = self._type(part, type_id)
        while found.kind in _MODIFIERS:
            found = self._type(part, found.size_or_type)
        return found

    def _rest(self, found: _Type, layout: struct.Struct) -> list[tuple[int, ...]]:
        """The data after a type: one ``layout`` for each of its members."""
        raw = ctypes.string_at(found.address + _TYPE.size, found.members * layout.size)
        return list(layout.iter_unpack(raw))

    def _member(self, owner: _Type, name: str) -> tuple[int, int] | None:
        """Byte offset and type of a member; searches unnamed structs and unions."""
        for name_at, type_id, bits in self._rest(owner, _MEMBER):
            start = (bits & 0xFFFFFF if owner.has_bitfields else bits) // 8
            if name_at:
                if self._name(owner.part, name_at) == name:
                    return start, type_id
                continue
            inner = self._resolve(owner.part, type_id)
            if inner.kind in (_KIND_STRUCT, _KIND_UNION):
                found = self._member(inner, name)
                if found is not None:
                    return start + found[0], found[1]
        return None

    @cache  # noqa: B019 (one instance for the life of the process)
    def offset(self, owner: str, path: str) -> int | None:
        """Byte offset of a member, ``"f_path.dentry"`` for a nested one; None if missing."""
        found = self._find(owner, _KIND_STRUCT, _KIND_UNION)
        total = 0
        for name in path.split("."):
            member = self._member(found, name) if found is not None else None
            if found is None or member is None:
                return None
            total += member[0]
            found = self._resolve(found.part, member[1])
        return total

    def size(self, name: str) -> int | None:
        """Size of a struct or union in bytes; None if missing."""
        found = self._find(name, _KIND_STRUCT, _KIND_UNION)
        return None if found is None else found.size_or_type

    def enumerators(self, name: str) -> dict[str, int]:
        """Values of an enum by name; empty if the kernel has no such enum."""
        found = self._find(name, _KIND_ENUM, _KIND_ENUM64)
        if found is None:
            return {}
        if found.kind == _KIND_ENUM64:
            rows = self._rest(found, _ENUMERATOR64)
            return {self._name(found.part, at): low | high << 32 for at, low, high in rows}
        return {self._name(found.part, at): n for at, n in self._rest(found, _ENUMERATOR)}

    def enumerator(self, name: str) -> int | None:
        """Value of an enumerator of any enum, also an unnamed one; None if missing."""
        try:
            return find_enumerator((BTF_DIR / "vmlinux").read_bytes(), name)
        except OSError:
            return None

    def struct_id(self, name: str) -> int | None:
        """BTF id of a kernel struct; None if missing."""
        return self._id(name, _KIND_STRUCT)

    def function_id(self, name: str) -> int | None:
        """BTF id of a kernel function; None if missing."""
        return self._id(name, _KIND_FUNC)

    def tracepoint_id(self, name: str) -> int | None:
        """BTF id of a raw tracepoint's prototype; None if missing."""
        return self._id(f"btf_trace_{name}", _KIND_TYPEDEF)

    def tracepoint(self, name: str) -> tuple[str, ...] | None:
        """Argument types of a raw tracepoint: the struct's name, "" for anything else.

        None if the kernel has no such tracepoint.  Needs no tracefs.
        """
        typedef = self._find(f"btf_trace_{name}", _KIND_TYPEDEF)
        if typedef is None:
            return None
        part = typedef.part
        pointer = self._resolve(part, typedef.size_or_type)
        proto = self._resolve(part, pointer.size_or_type)
        if pointer.kind != _KIND_PTR or proto.kind != _KIND_FUNC_PROTO:
            return None
        kinds: list[str] = []
        for _, type_id in self._rest(proto, _PARAM)[1:]:  # the first is the tracepoint's own data
            argument = self._resolve(part, type_id)
            is_pointer = argument.kind == _KIND_PTR
            kinds.append(self._resolve(part, argument.size_or_type).name if is_pointer else "")
        return tuple(kinds)


def _checked(handle: int | None, path: str) -> ctypes.c_void_p:
    # libbpf before 1.0 returns a negative errno in the pointer instead of NULL.
    if not handle or handle > ctypes.c_size_t(-1).value - _MAX_ERRNO:
        msg = f"no readable BTF at {path}"
        raise OSError(msg)
    return ctypes.c_void_p(handle)


def find_enumerator(raw: bytes, name: str) -> int | None:
    """Value of an enumerator in raw BTF; None if missing.

    libbpf does not find enumerators of unnamed enums.
    """
    if len(raw) < _HEADER.size:
        return None
    _, _, _, header, types_at, types, strings_at, strings = _HEADER.unpack_from(raw)
    strings_at += header
    # Most kernels do not have it, and reading all types takes 0.1 s.
    found = raw.find(f"\0{name}\0".encode(), strings_at, strings_at + strings)
    if found < 0:
        return None
    wanted = found + 1 - strings_at
    at, end = header + types_at, min(header + types_at + types, len(raw) - _TYPE.size)
    while at < end:
        _, info, _ = _TYPE.unpack_from(raw, at)
        at += _TYPE.size
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        once, each = _MORE.get(kind, (0, 0))
        if kind == _KIND_ENUM:
            for name_at, value in _ENUMERATOR.iter_unpack(raw[at : at + each * members]):
                if name_at == wanted:
                    return int(value)
        at += once + each * members
    return None
