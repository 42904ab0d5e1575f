"""What clang makes of the probes: nothing that only newer kernels than they are for accept."""

from __future__ import annotations

import struct

import pytest

from ioh.bpf.btf import Btf
from ioh.bpf.compiled import Compiled
from ioh.bpf.compiler import compile_probe
from ioh.bpf.host import HostFacts
from ioh.bpf.program import all_defines, c_constant, choose_points, probe_source
from ioh.layers import find_layer
from ioh.model.filters import Filters

ATOMICS = (0xC3, 0xDB)  # of 32 and 64 bits
BEFORE_5_12 = 0  # plain addition


@pytest.mark.filterwarnings("ignore:not a bytes object")  # bcc's, of a str
@pytest.mark.parametrize("layer", ["syscall", "tcp", "block"])
def test_atomics_only_add(layer: str) -> None:
    """Linux 5.12 (commit 91c960b00566) brought the others; before, the program is refused."""
    made = find_layer(layer)
    host = HostFacts(Btf())
    chosen = choose_points(made.events, host)
    assert isinstance(chosen, dict)
    defines = all_defines(made, host, Filters(), chosen)
    assert isinstance(defines, dict)
    flags = [f"-D{name}={c_constant(value)}" for name, value in defines.items()]
    functions = {e.points[chosen[e.name]].function for e in made.events if e.name in chosen}
    compiled = compile_probe(probe_source(made.probe), flags, functions)
    assert isinstance(compiled, Compiled)
    for name, code in compiled.functions.items():
        instructions = struct.iter_unpack("=BBhi", code)
        kinds = {number for opcode, _, _, number in instructions if opcode in ATOMICS}
        assert kinds <= {BEFORE_5_12}, name
