"""Structs declared once: what the compiler gets, and what Python unpacks."""

from __future__ import annotations

import re
import struct

import pytest

from ioh.bpf.compiler import probe_source
from ioh.bpf.layout import Layout, declarations
from ioh.bpf.totals import OP_TOTALS
from ioh.layers import all_layers
from ioh.layers.base import Layer

KEY = Layout("flow_key", "u64 ino; u32 dev; u16 op; u8 address[2];")
FAULT = Layout(
    "fault",
    """
    s64 start_ns; /* 0: never; it has ended */
    struct flow_key key;
    char comm[8];
    struct flow_key keys[2];
    """,
    KEY,
)
VALUE = struct.pack("=qQIH2s8s32x", -5, 7, 8, 9, b"ab", b"cat")


def test_the_compiler_gets_each_struct_once_and_inner_ones_first() -> None:
    key, fault = declarations([FAULT, KEY]).split("};\n")[:-1]
    assert key == "struct flow_key {u64 ino; u32 dev; u16 op; u8 address[2];"
    assert fault.startswith("struct fault {\n    s64 start_ns; /*")


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
    ("body", "what"),
    [
        ("u32 op; u64 ns;", "has a gap before ns"),
        ("u64 ns; u32 op;", "has a gap at its end"),
        ("u32 op; struct flow_key key;", "has a gap before key"),
        ("u8 flags[3]; u16 port;", "has a gap before port"),
        ("u64 ns[OPS];", "ns[OPS]"),
    ],
)
def test_the_compiler_can_leave_no_gap(body: str, what: str) -> None:
    with pytest.raises(ValueError, match=f"struct it:? {re.escape(what)}"):
        Layout("it", body, KEY)


@pytest.mark.parametrize("layer", [each for each in all_layers().values() if each.probe])
def test_each_struct_is_declared_once_in_a_probes_source(layer: type[Layer]) -> None:
    """So the key of a compiled probe, made from its source, changes with them."""
    assert layer.probe is not None
    source = probe_source(layer.probe)
    for each in (OP_TOTALS, *layer.probe.structs):
        assert source.count(f"struct {each.name} {{") == 1
        assert each.text in source
