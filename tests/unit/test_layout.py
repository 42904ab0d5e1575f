"""Structs declared once: what the compiler gets, and what Python unpacks."""

from __future__ import annotations

import struct

import pytest

from ioh.bpf.compiler import probe_source
from ioh.bpf.layout import Layout, declarations
from ioh.bpf.totals import OP_TOTALS
from ioh.layers import all_layers
from ioh.layers.base import Layer

KEY = Layout("flow_key", ino="u64", dev="u32", op="u16", address="u8[2]")
FAULT = Layout("fault", KEY, start_ns="s64", key="flow_key", comm="char[8]", keys="flow_key[2]")
VALUE = struct.pack("=qQIH2s8s32x", -5, 7, 8, 9, b"ab", b"cat")


def test_the_compiler_gets_each_struct_once_and_inner_ones_first() -> None:
    assert declarations([FAULT, KEY]) == (
        "struct flow_key {\n\tu64 ino;\n\tu32 dev;\n\tu16 op;\n\tu8 address[2];\n};\n"
        "struct fault {\n\ts64 start_ns;\n\tstruct flow_key key;\n\tchar comm[8];\n"
        "\tstruct flow_key keys[2];\n};\n"
    )


def test_all_or_some_members_are_unpacked() -> None:
    assert FAULT.size == len(VALUE) == 64
    start_ns, key, comm, _ = FAULT.unpack(VALUE)
    assert (start_ns, KEY.unpack(key), comm) == (-5, (7, 8, 9, b"ab"), b"cat".ljust(8, b"\0"))
    some = FAULT.reader("start_ns", "key.dev", "key.address", "comm")
    assert some.size == 64
    assert some.unpack(VALUE) == (-5, 8, b"ab", b"cat".ljust(8, b"\0"))
    assert (FAULT.offset("key.op"), FAULT.word("comm"), KEY.words) == (20, 3, 2)


def test_members_are_named_in_their_order() -> None:
    with pytest.raises(struct.error):
        FAULT.reader("comm", "start_ns")
    with pytest.raises(KeyError):
        FAULT.reader("pid")


@pytest.mark.parametrize(
    ("members", "gap"),
    [
        ({"op": "u32", "ns": "u64"}, "before ns"),
        ({"ns": "u64", "op": "u32"}, "at its end"),
        ({"op": "u32", "key": "flow_key"}, "before key"),
        ({"op": "u8[3]", "port": "u16"}, "before port"),
    ],
)
def test_the_compiler_can_leave_no_gap(members: dict[str, str], gap: str) -> None:
    with pytest.raises(ValueError, match=f"struct it has a gap {gap}"):
        Layout("it", KEY, **members)


@pytest.mark.parametrize("layer", [each for each in all_layers().values() if each.probe])
def test_each_struct_is_declared_once_in_a_probes_source(layer: type[Layer]) -> None:
    """So the key of a compiled probe, made from its source, changes with them."""
    assert layer.probe is not None
    source = probe_source(layer.probe)
    for each in (OP_TOTALS, *layer.probe.structs):
        assert source.count(f"struct {each.name} {{") == 1
        assert each.text in source
