"""Hand-made ELF files with two segments, symbols and USDT notes; nothing in them can run."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

CODE_AT, DATA_AT = 0x401000, 0x602000  # addresses
CODE_OFFSET, DATA_OFFSET = 0x1000, 0x1800  # in the file
BASE = 0x401800
X86, ARM = 62, 183
_NULL, _SYMTAB, _STRTAB, _NOTE, _DYNSYM, _PROGBITS = 0, 2, 3, 7, 11, 1


@dataclass(frozen=True)
class Note:
    name: str
    address: int = CODE_AT
    semaphore: int = 0
    arguments: str = ""
    provider: str = "made"
    base: int = BASE


def note_bytes(note: Note) -> bytes:
    head = struct.pack("<QQQ", note.address, note.base, note.semaphore)
    text = b"\0".join(part.encode() for part in (note.provider, note.name, note.arguments)) + b"\0"
    said = head + text
    return struct.pack("<III", 8, len(said), 3) + b"stapsdt\0" + said + bytes(-len(said) % 4)


def symbols(functions: dict[str, int], kind: int = 2) -> tuple[bytes, bytes]:
    """A symbol table and its string table."""
    names, rows = b"\0", bytes(24)
    for name, address in functions.items():
        rows += struct.pack("<IBBHQQ", len(names), 0x10 | kind, 0, 1, address, 0)
        names += name.encode() + b"\0"
    return rows, names


def program(
    notes: tuple[Note, ...] = (),
    functions: dict[str, int] | None = None,
    machine: int = X86,
    base_at: int = BASE,
    table_kind: int = _DYNSYM,
    symbol_kind: int = 2,
) -> bytes:
    """The whole file."""
    rows, names = symbols(functions or {}, symbol_kind)
    parts: list[tuple[str, int, int, bytes, int]] = [  # name, type, address, bytes, link
        ("", _NULL, 0, b"", 0),
        (".dynsym", table_kind, 0, rows, 2),
        (".dynstr", _STRTAB, 0, names, 0),
        (".note.stapsdt", _NOTE, 0, b"".join(map(note_bytes, notes)), 0),
        (".stapsdt.base", _PROGBITS, base_at, b"\0", 0),
    ]
    section_names = b"\0".join(part[0].encode() for part in parts) + b"\0.shstrtab\0"
    parts.append((".shstrtab", _STRTAB, 0, section_names, 0))
    body = bytearray(0x2000)
    headers = b""
    for name, kind, address, data, link in parts:
        at = len(body)
        body += data
        name_at = section_names.index(name.encode() + b"\0")
        headers += struct.pack(
            "<IIQQQQIIQQ", name_at, kind, 0, address, at, len(data), link, 0, 1, 0
        )
    sections_at = len(body)
    body += headers
    segments = struct.pack("<IIQQQQQQ", 1, 5, CODE_OFFSET, CODE_AT, 0, 0x800, 0x800, 4096)
    segments += struct.pack("<IIQQQQQQ", 1, 6, DATA_OFFSET, DATA_AT, 0, 0x800, 0x900, 4096)
    places = struct.pack("<QQQ", CODE_AT, 64, sections_at)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, machine, 1) + places
    head += struct.pack("<IHHHHHH", 0, 64, 56, 2, 64, len(parts), len(parts) - 1)
    body[: len(head)] = head
    body[64 : 64 + len(segments)] = segments
    return bytes(body)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
