"""The types (BTF) of a kernel that does not run here, from what tests/vm/kernel.sh fetched."""

from __future__ import annotations

import ctypes
import lzma
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import zstandard

from ioh.bpf import btf
from ioh.bpf.libbpf import libbpf

# Where a compressed kernel describes its contents (Documentation/arch/x86/boot.rst).
_SETUP_SECTS_AT, _PAYLOAD_AT = 0x1F1, 0x248
_SECTOR_BYTES = 512
_XZ, _ZSTD = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
# struct elf64_hdr: e_shoff, then e_shentsize, e_shnum, e_shstrndx; struct elf64_shdr
_SECTIONS_AT, _SECTION_COUNTS_AT = 0x28, 0x3A
_SECTION = struct.Struct("=IIQQQQIIQQ")


def unpack_btf(kernel_dir: Path, modules: Sequence[str], directory: Path) -> None:
    """Make a directory like /sys/kernel/btf: vmlinux, and those of these modules that exist."""
    (directory / "vmlinux").write_bytes(_kernels_btf(kernel_dir / "vmlinuz"))
    for module in modules:
        for path in kernel_dir.glob(f"lib/modules/*/kernel/**/{module}.ko*"):
            (directory / module).write_bytes(_btf_section(_decompressed(path.read_bytes())))


def open_btf(directory: Path, modules: Sequence[str]) -> btf.Btf:
    """Open the types in such a directory; from now on they replace the running kernel's."""
    btf.BTF_DIR = directory
    lib = libbpf()
    lib.btf__parse.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    lib.btf__parse.restype = ctypes.c_void_p
    opened = object.__new__(btf.Btf)
    opened._lib = lib
    opened._parts = [ctypes.c_void_p(lib.btf__parse(str(directory / "vmlinux").encode(), None))]
    for name in modules:
        opened._add(name)
    return opened


@cache
def _kernels_btf(path: Path) -> bytes:
    image = path.read_bytes()
    start, size = struct.unpack_from("=II", image, _PAYLOAD_AT)
    start += (image[_SETUP_SECTS_AT] + 1) * _SECTOR_BYTES
    return _btf_section(_decompressed(image[start : start + size]))


def _decompressed(packed: bytes) -> bytes:
    if packed.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(_ZSTD):
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    return packed


def _btf_section(elf: bytes) -> bytes:
    (at,) = struct.unpack_from("=Q", elf, _SECTIONS_AT)
    size, count, names_index = struct.unpack_from("=HHH", elf, _SECTION_COUNTS_AT)
    sections = [_SECTION.unpack_from(elf, at + size * index) for index in range(count)]
    names = sections[names_index][4]
    for name, _, _, _, offset, length, *_ in sections:
        if elf.startswith(b".BTF\0", names + name):
            return elf[offset : offset + length]
    msg = "no BTF"
    raise ValueError(msg)
