"""Finds functions and USDT probe points in a program's file.

Root reads files that may belong to anybody.  So every size and offset is checked against the file;
any error is a ValueError.  Only 64-bit little-endian ELF.
"""

from __future__ import annotations

import os
import re
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, NoReturn

_MOST_SECTIONS = 4096
_MOST_BYTES = 96 << 20  # read from a file in total; MariaDB's symbols are 4 MB
_MOST_NOTES = 10_000
_MOST_ALIKE = 100  # names that end in the wanted one
_MOST_COUNTER = 0xFFFF_FFFF  # perf_event_attr has 32 bits for its file offset
_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_PT_LOAD, _EXECUTABLE, _WRITABLE = 1, 1, 2
_SYMBOL_TABLES = (11, 2)  # SHT_DYNSYM, SHT_SYMTAB
VARIABLE, FUNCTION = 1, 2  # STT_OBJECT, STT_FUNC; not STT_GNU_IFUNC: that is the resolver
_NT_STAPSDT = 3
_OUTSIDE = "a symbol or a probe lies outside the file"
_ARGUMENT = re.compile(r"(?:\[[^\]]*\]|\S)+")  # ARM's contain a space: 8@[sp, 16]


class Segment(NamedTuple):
    """A mapped part of the file."""

    flags: int
    offset: int
    address: int
    size: int


class Section(NamedTuple):
    """A named part of the file."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class ProbePoint:
    """One place of a USDT probe, as addresses; ``arguments`` as in the note."""

    address: int
    semaphore: int
    arguments: tuple[str, ...]


class Elf:
    """A program or library; every method raises ValueError if the file is not one or is damaged."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._left = _MOST_BYTES
        head = _HEADER.unpack(self._read(0, _HEADER.size))
        magic, bits, order, _, _, machine, _, _, segments_at, sections_at, *_ = head
        if magic != b"\x7fELF" or (bits, order) != (2, 1):
            _refuse("it is not a 64-bit program")
        self.machine: int = machine
        segment_bytes, segments, section_bytes, sections, names_at = head[-5:]
        if (
            (segments and segment_bytes != _SEGMENT.size)
            or (sections and section_bytes != _SECTION.size)
            or sections > _MOST_SECTIONS
        ):
            _refuse("its headers are damaged")
        table = self._read(segments_at, segments * _SEGMENT.size)
        self._loaded = tuple(
            Segment(flags, offset, address, size)
            for kind, flags, offset, address, _, size, _, _ in _SEGMENT.iter_unpack(table)
            if kind == _PT_LOAD
        )
        rows = list(_SECTION.iter_unpack(self._read(sections_at, sections * _SECTION.size)))
        names = self._read(*rows[names_at][4:6]) if names_at < len(rows) else b""
        self._sections = tuple(
            Section(_text(names, name), kind, *where) for name, kind, _, *where, _, _, _ in rows
        )

    def _read(self, offset: int, size: int) -> bytes:
        if offset + size > self._size:
            _refuse("it is truncated or damaged")
        self._left -= size
        if self._left < 0:
            _refuse("its tables are too large")
        return os.pread(self._file.fileno(), size, offset)

    def _data(self, section: Section) -> bytes:
        return self._read(section.offset, section.size)

    def code_at(self, address: int) -> int:
        """The file offset of an instruction."""
        return self._place(address, _EXECUTABLE)

    def variable_at(self, address: int) -> int:
        """The file offset of a variable, in 32 bits."""
        place = self._place(address, _WRITABLE)
        return place if place <= _MOST_COUNTER else _refuse(_OUTSIDE)

    def _place(self, address: int, needed: int) -> int:
        for segment in self._loaded:
            inside = address - segment.address
            if segment.flags & needed and 0 <= inside < segment.size:
                return inside + segment.offset
        return _refuse(_OUTSIDE)

    def symbols(self, wanted: Collection[str], kind: int) -> dict[str, int]:
        """Addresses by name, those with symbols of this ``kind`` only."""
        found: dict[str, int] = {}
        for table in _SYMBOL_TABLES:
            for section in self._sections:
                if section.kind == table and section.link < len(self._sections):
                    missing = [name for name in wanted if name not in found]
                    found |= self._symbols_of(section, missing, kind)
        return found

    def _symbols_of(self, table: Section, wanted: list[str], kind: int) -> dict[str, int]:
        names = self._data(self._sections[table.link])
        places = {at: name for name in wanted for at in _occurrences(names, name.encode())}
        if not places:
            return {}
        data = self._data(table)
        rows = _SYMBOL.iter_unpack(data[: len(data) // _SYMBOL.size * _SYMBOL.size])
        return {
            places[name]: address
            for name, info, _, section, address, _ in rows
            if name in places and info & 15 == kind and section
        }

    def probe_points(self, provider: str) -> dict[str, list[ProbePoint]]:
        """A provider's USDT probes by name."""
        by_name = {section.name: section for section in self._sections}
        found: dict[str, list[ProbePoint]] = defaultdict(list)
        notes = by_name.get(".note.stapsdt")
        if notes is None:
            return found
        base = by_name.get(".stapsdt.base")
        for text in _notes(self._data(notes)):
            if len(text) < 24:
                continue
            address, base_then, semaphore = struct.unpack_from("<QQQ", text)
            # The base tells how far the program was moved later (prelink).
            moved = base.address - base_then if base is not None and base_then else 0
            whose, name, arguments = [*text[24:].split(b"\0"), b"", b"", b""][:3]
            if whose.decode(errors="replace") == provider:
                point = ProbePoint(
                    address + moved,
                    semaphore + moved if semaphore else 0,
                    tuple(_ARGUMENT.findall(arguments.decode(errors="replace"))),
                )
                found[name.decode(errors="replace")].append(point)
        return found


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)


def _text(names: bytes, at: int) -> str:
    return names[at : max(at, names.find(b"\0", at))].decode(errors="replace")


def _occurrences(names: bytes, name: bytes) -> Iterator[int]:
    """Offsets of a name in a string table; it can be the end of a longer name."""
    at = names.find(name + b"\0")
    for _ in range(_MOST_ALIKE):
        if at < 0:
            return
        yield at
        at = names.find(name + b"\0", at + 1)


def _notes(data: bytes) -> Iterator[bytes]:
    """The contents of SystemTap's notes."""
    at = 0
    for _ in range(_MOST_NOTES):
        if at + _NOTE.size > len(data):
            return
        name_bytes, text_bytes, kind = _NOTE.unpack_from(data, at)
        text_at = at + _NOTE.size + (name_bytes + 3 & ~3)
        if kind == _NT_STAPSDT:
            yield data[text_at : text_at + text_bytes]
        at = text_at + (text_bytes + 3 & ~3)
