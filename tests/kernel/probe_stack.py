"""Compiles a layer's programs for any kernel, and finds how much stack each one needs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ioh.bpf.compiled import Compiled, find, keep, key_of
from ioh.bpf.compiler import compile_probe, probe_source
from ioh.bpf.defines import c_flags
from ioh.bpf.host import HostFacts
from ioh.bpf.program import all_defines, choose_points
from ioh.layers import find_probe
from ioh.model.filters import Filters

# The kernel and LLVM refuse more than 512.  The margin is for later compilers, which may need more:
# from LLVM 14 to 19 one program grew by a quarter.
STACK_BYTES_MAX = 384

_INSTRUCTION = struct.Struct("=BBhi")
_FRAME = 10  # the register that holds the stack's upper end
_LOAD, _STORES, _ALU_64 = 1, {2, 3}, 7
_MOVE, _ADD_CONSTANT = 0xBF, 0x07


def compile_layer(
    name: str, host: HostFacts, filters: Filters, *, into_cache: bool = False
) -> Compiled:
    """All programs of a layer, as ioh would load them on such a host."""
    probe = find_probe(name)
    chosen = choose_points(probe.events, host)
    assert isinstance(chosen, dict), chosen
    defines = all_defines(probe, host, filters, chosen)
    assert isinstance(defines, dict), defines
    flags, values = c_flags(defines)
    points = tuple(e.points[chosen[e.name]] for e in probe.events if e.name in chosen)
    wanted = probe_source(probe), flags, probe.functions(points)
    key = key_of(*wanted) if into_cache else None
    found = None if key is None else find(key)
    compiled = found or compile_probe(*wanted, len(values))
    assert isinstance(compiled, Compiled), compiled
    if key is not None and found is None:
        keep(key, compiled)
    return compiled


def stack_bytes(code: bytes) -> int:
    """How deep a program's instructions reach into the stack; in words, as the kernel counts."""
    deepest = max((-offset for offset in _stack_offsets(code)), default=0)
    return -(-deepest // 8) * 8


def _stack_offsets(code: bytes) -> Iterator[int]:
    """Offset from the stack's upper end of each place that is read, written or pointed at.

    A pointer into the stack is made by a move and an addition, with or without other instructions
    in between.
    """
    pointers = {_FRAME: 0}
    for opcode, registers, offset, constant in _INSTRUCTION.iter_unpack(code):
        target, source = registers & 15, registers >> 4
        kind = opcode & 7
        if kind == _LOAD and source in pointers:
            yield pointers[source] + offset
        if kind in _STORES:
            if target in pointers:
                yield pointers[target] + offset
            continue
        if opcode == _ADD_CONSTANT and target in pointers:
            pointers[target] += constant
            yield pointers[target]
            continue
        if opcode == _MOVE and source in pointers:
            pointers[target] = pointers[source]
        elif kind in {0, _LOAD, 4, _ALU_64}:
            pointers.pop(target, None)
