"""Numbers that the loader writes into a compiled probe: the values of filters.

The compiler sees a marker for each (``PATCHED`` in ``probes/ioh.h``), an instruction that loads 64
bits: a tag above, which value it is below.  So other values need no other compilation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

_TAG = 0x9C7E_B1D3
_TAG_BYTES = struct.pack("=I", _TAG)
_LOAD_64 = struct.Struct("=BBhIII")  # opcode, registers, 0, lower half; 0, upper half
_OPCODE = 0x18
_REGISTERS = 11  # of BPF; more in that byte: the constant is a map's number, or the like


class FilterValue(int):
    """A ``-D`` constant of a probe that is not compiled into it: 64 bits, unsigned."""

    __slots__ = ()


def text_values(name: str, text: str, words: int) -> dict[str, FilterValue]:
    """``<name>_1`` …: a text as so many 64-bit values, as it is in memory, with NULs at the end."""
    raw = text.encode("utf-8", "surrogateescape").ljust(8 * words, b"\0")
    return {
        f"{name}_{at}": FilterValue(word)
        for at, word in enumerate(struct.unpack(f"={words}Q", raw), 1)
    }


def marker(which: int) -> str:
    """The C expression of value number ``which``."""
    return f"PATCHED({_TAG << 32 | which:#x})"


def count_places(functions: Iterable[bytes], values: int) -> tuple[int, ...]:
    """How many instructions of all functions load each of so many values.

    ValueError if a marker is anywhere else, or a value has no place.
    """
    found = [0] * values
    for code in functions:
        for _, _, which in _places(code, values):
            found[which] += 1
    if 0 in found:
        msg = f"the compiler dropped filter value {found.index(0)}"
        raise ValueError(msg)
    return tuple(found)


def fill(
    functions: Mapping[str, bytes], values: Sequence[int], places: tuple[int, ...]
) -> dict[str, bytes]:
    """Write the values into functions that have so many ``places`` for each; else ValueError."""
    found = count_places(functions.values(), len(values))
    if found != places:
        msg = f"a compiled probe has {found} places for filter values, not {places}"
        raise ValueError(msg)
    filled = {}
    for name, code in functions.items():
        out = bytearray(code)
        for at, registers, which in _places(code, len(values)):
            lower, upper = values[which] & 0xFFFF_FFFF, values[which] >> 32
            _LOAD_64.pack_into(out, at, _OPCODE, registers, 0, lower, 0, upper)
        filled[name] = bytes(out)
    return filled


def _places(code: bytes, values: int) -> Iterator[tuple[int, int, int]]:
    """Where code loads a value: the offset, the register, and which of so many values."""
    at = code.find(_TAG_BYTES)
    while at >= 0:
        start = at + len(_TAG_BYTES) - _LOAD_64.size
        if start < 0 or start % 8:
            _refuse(at)
        opcode, registers, offset, which, more, _ = _LOAD_64.unpack_from(code, start)
        if opcode != _OPCODE or registers >= _REGISTERS or offset or more or which >= values:
            _refuse(at)
        yield start, registers, which
        at = code.find(_TAG_BYTES, at + 1)


def _refuse(at: int) -> None:
    msg = f"a compiled probe computes with a filter value at byte {at}"
    raise ValueError(msg)
