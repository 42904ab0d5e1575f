"""Attaches the part of a running probe that a kernel module was awaited for; runs in the loader."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioh.bpf.btf import Btf
from ioh.bpf.calls import attach_plain
from ioh.bpf.libbpf import libbpf

if TYPE_CHECKING:
    from ioh.layers.base import Late


def attach_late(late: Late, descriptors: Sequence[int]) -> list[int]:
    """Tell the probe where the module's structs have their members, then attach its programs.

    Args:
        late: What to attach; its module is loaded.
        descriptors: Of the probe's map ``late_offsets``, then of a program for each point.

    Returns:
        The links' descriptors, which keep the programs attached.

    Raises:
        OSError: The kernel gives no BTF of the module, or lacks a member or a tracepoint.
    """
    offsets_map, *programs = descriptors
    btf = Btf((late.module,))
    for index, (owner, member) in enumerate(late.offsets):
        offset = btf.offset(owner, member)
        if offset is None:
            raise OSError(0, f"this kernel's struct {owner} has no {member}")
        _set(offsets_map, index, offset)
    points = zip(programs, late.points, strict=True)
    return [attach_plain(program, point.event) for program, point in points]


def _set(array: int, index: int, value: int) -> None:
    lib = libbpf()
    key, cell = (number.to_bytes(4, sys.byteorder) for number in (index, value))
    if lib is None or lib.bpf_map_update_elem(array, key, cell, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
