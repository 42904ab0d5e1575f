"""One probe compiled: its maps' shapes and its functions' instructions, maps by index.

Nothing in it belongs to a process, so that it can be kept in a file and loaded again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ioh.bpf.maps import MapSpec

_INSTRUCTION = struct.Struct("=BBhi")
_LOAD_64 = 0x18  # takes two instructions; the upper half of a constant is in the second
_IS_MAP = 1  # BPF_PSEUDO_MAP_FD, in place of the source register


@dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling a probe gives.

    Shape:
        In ``functions``, by name, an instruction that loads a map holds its index into ``maps``.
    """

    maps: tuple[MapSpec, ...]
    functions: Mapping[str, bytes]


def _map_loads(code: bytes) -> Iterator[tuple[int, int]]:
    """Where each instruction that loads a map has its number, and the number."""
    at = 0
    while at < len(code):
        opcode, registers, _, number = _INSTRUCTION.unpack_from(code, at)
        if opcode == _LOAD_64 and registers >> 4 == _IS_MAP:
            yield at + 4, number
        at += 16 if opcode == _LOAD_64 else 8
    if at != len(code):
        msg = "they end amid one"
        raise ValueError(msg)


def renumber(code: bytes, numbers: Mapping[int, int]) -> bytes:
    """Instructions whose maps go by other numbers.

    Raises:
        ValueError: They load a map that ``numbers`` does not have, or end amid one.
    """
    out = bytearray(code)
    try:
        for at, number in _map_loads(code):
            struct.pack_into("=i", out, at, numbers[number])
    except (KeyError, ValueError, struct.error) as error:
        msg = f"instructions that make no sense: {error}"
        raise ValueError(msg) from error
    return bytes(out)
