"""Attaches the part of a running probe that its layer wants now; runs in the loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioh.bpf.btf import Btf
from ioh.bpf.calls import (
    Made,
    Object,
    Outcome,
    attach_plain,
    object_ids,
    open_object,
    set_element,
)
from ioh.model.limits import lack_behind

if TYPE_CHECKING:
    from ioh.layers.base import Late, Layer


def attach_late_part(layer: type[Layer], objects: Sequence[Object]) -> Outcome:
    """Attach it, by what the probe was made of; returns the answer for ioh, whatever goes wrong.

    Args:
        layer: Has such a part; the module that it may be of is loaded.
        objects: The probe's map ``late_offsets`` if it has one, then a program for each point.
    """
    if layer.late is None:
        return {"reason": "the layer has no such part"}, [], Made()
    try:
        links = _attach(layer.late, [open_object(made) for made in objects])
    except OSError as error:
        lack = lack_behind(error)
        return {"reason": lack.cause if lack else error.strerror or str(error)}, [], Made()
    return {"reason": ""}, links, Made(object_ids("link", links))


def _attach(late: Late, descriptors: Sequence[int]) -> list[int]:
    """Write the offsets of the module's structs for the probe, then attach its programs.

    Returns:
        The links' descriptors, which keep the programs attached.

    Raises:
        OSError: The kernel gives no BTF of the module, or lacks a member or a tracepoint.
    """
    programs = list(descriptors)
    if late.offsets:
        offsets_map, btf = programs.pop(0), Btf((late.module,))
        for index, (owner, member) in enumerate(late.offsets):
            offset = btf.offset(owner, member)
            if offset is None:
                raise OSError(0, f"this kernel's struct {owner} has no {member}")
            set_element(offsets_map, index, offset)
    points = zip(programs, late.points, strict=True)
    return [attach_plain(program, point.event) for program, point in points]
