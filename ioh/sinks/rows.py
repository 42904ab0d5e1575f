"""Which ops of a layer are shown as read, write or other rows, told from their names alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ioh.model.metric import LayerSpec
from ioh.model.snapshot import OpStats

Direction = Literal["R", "W", ""]

_READ_WORDS = frozenset({"read", "reads", "in"})
_WRITE_WORDS = frozenset({"write", "writes", "out"})
_FLOW_WORDS = frozenset({"in", "out"})
_ALWAYS_SHOWN = ("sync", "cached")
_NOTHING_KNOWN = OpStats()


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op of one layer, placed.

    Shape:
        ``direction`` is R, W or "" (flush, fsync, commit …); ``label`` the layer's title with
        the rest of the op's name; ``is_main`` tells the layer's own R and W rows from those
        that are a part of them or stand beside them.
    """

    direction: Direction
    label: str
    op: str
    stats: OpStats
    is_main: bool


def direction(name: str) -> Direction:
    """R for ``read``, ``read_…`` and ``in``, W for ``write``, ``write_…`` and ``out``, else "".

    Whole words decide, so ``readdir`` and ``inflight`` are neither.
    """
    word = name.lower().split("_", 1)[0]
    if word in _READ_WORDS:
        return "R"
    return "W" if word in _WRITE_WORDS else ""


def is_flow(spec: LayerSpec) -> bool:
    """Whether the layer carries bytes in and out rather than serving reads and writes."""
    return any(op.lower() in _FLOW_WORDS for op in (*spec.groups, *spec.ops))


def op_rows(
    spec: LayerSpec, ops: Mapping[str, OpStats], title: str, *, every_op: bool = False
) -> list[OpRow]:
    """The rows of a layer or of one of its parts, in the spec's order, the main ones first.

    Args:
        spec: The layer.
        ops: Its numbers; an op that the source cannot know may be missing.
        title: What to call it.
        every_op: Also show members of a group, such as direct and buffered reads; those with
            ``sync`` or ``cached`` in their name are shown anyway.

    Returns:
        The main R and W rows always, any other row only when it counted something.
    """
    main = _main_ops(spec)
    grouped = {member for members in spec.groups.values() for member in members}
    rows = [_row(name, ops.get(name, _NOTHING_KNOWN), title, is_main=True) for name in main]
    for name in (*spec.groups, *spec.ops):
        stats = ops.get(name)
        if name in main or stats is None or not (stats.count or stats.inflight or stats.bytes):
            continue
        shown = every_op or any(word in name.lower() for word in _ALWAYS_SHOWN)
        if name not in grouped or shown:
            rows.append(_row(name, stats, title, is_main=False))
    return rows


def _row(name: str, stats: OpStats, title: str, *, is_main: bool) -> OpRow:
    where = direction(name)
    words = name.lower().split("_")
    rest = words[1:] if where else words
    return OpRow(where, " ".join([title, *rest]), name, stats, is_main)


def _main_ops(spec: LayerSpec) -> tuple[str, ...]:
    """The op that stands for all reads, and the one for all writes.

    A direction without an op of just that name (``read``) is stood for by all of its ops
    that belong to no group.
    """
    grouped = {member for members in spec.groups.values() for member in members}
    found: list[str] = []
    for wanted in ("R", "W"):
        named = [op for op in (*spec.groups, *spec.ops) if direction(op) == wanted]
        exact = [op for op in named if "_" not in op]
        found += exact or [op for op in named if op not in grouped]
    return tuple(found)
