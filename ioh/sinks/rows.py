"""Which ops of a layer are read, write or other rows, from their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from ioh.model.late import by_identity
from ioh.model.metric import LayerSpec
from ioh.model.rates import sum_known
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import safe_name

Direction = Literal["R", "W", ""]

_DIRECTIONS: Mapping[str, Direction] = {
    **dict.fromkeys(("read", "reads", "in"), "R"),
    **dict.fromkeys(("write", "writes", "out"), "W"),
}
_FLOW_WORDS = frozenset({"in", "out"})
_ALWAYS_SHOWN = ("sync", "cached")
_NOTHING_KNOWN = OpStats()


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op of one layer as a row.

    ``direction`` is R, W or "" (flush, fsync, commit …); ``label`` is the layer's title with the
    rest of the op's name; ``is_main`` marks the rows that stand for all reads and all writes.
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
    return _DIRECTIONS.get(name.lower().split("_", 1)[0], "")


class _Layout(NamedTuple):
    """The rows of a layer, computed once per spec.

    ``main`` stands for all reads and all writes; ``others`` are the rest, in the spec's order;
    ``grouped`` are shown only with ``every_op``.
    """

    main: tuple[str, ...]
    others: tuple[str, ...]
    grouped: frozenset[str]
    is_flow: bool


@by_identity
def _layout(spec: LayerSpec) -> _Layout:
    every = (*spec.groups, *spec.ops)
    members = {member for members in spec.groups.values() for member in members}
    groups = [(name, set(own)) for name, own in spec.groups.items()]
    members |= {name for name, own in groups for _, other in groups if own < other}
    main: list[str] = []
    for wanted in ("R", "W"):
        named = [op for op in every if direction(op) == wanted]
        exact = [op for op in named if "_" not in op]  # else all that are in no group
        main += exact or [op for op in named if op not in members]
    return _Layout(
        tuple(main),
        tuple(name for name in every if name not in main),
        frozenset(op for op in members if not any(word in op.lower() for word in _ALWAYS_SHOWN)),
        any(op.lower() in _FLOW_WORDS for op in every),
    )


def is_flow(spec: LayerSpec) -> bool:
    """Whether the layer carries bytes in and out instead of serving reads and writes."""
    return _layout(spec).is_flow


def main_stats(spec: LayerSpec, ops: Mapping[str, OpStats]) -> list[tuple[str, OpStats]]:
    """The ops that stand for all reads and all writes, with their numbers."""
    return [(name, ops.get(name, _NOTHING_KNOWN)) for name in _layout(spec).main]


def lowest_iops(layers: Iterable[LayerSnapshot]) -> tuple[float, str] | None:
    """Reads plus writes per second of the lowest layer that counts them, and its title.

    None if no layer does; a flow's segments are neither reads nor writes.
    """
    for layer in sorted(layers, key=lambda layer: -layer.spec.rank):
        rates = (stats.ops_per_s for _, stats in main_stats(layer.spec, layer.ops))
        total = None if is_flow(layer.spec) else sum_known(rates)
        if total is not None:
            return total, safe_name(layer.spec.title)
    return None


def op_rows(
    spec: LayerSpec, ops: Mapping[str, OpStats], title: str, *, every_op: bool = False
) -> list[OpRow]:
    """The rows of a layer or of one of its parts, in the spec's order, the main ones first.

    The main R and W rows are always shown, other rows only if they counted something.  A layer
    without main rows shows every row with a known number.  Members of a group, such as direct and
    buffered reads, need ``every_op``, except those with ``sync`` or ``cached`` in their name.
    """
    layout = _layout(spec)
    rows = [
        OpRow(*_place(name, title), name, stats, is_main=True)
        for name, stats in main_stats(spec, ops)
    ]
    for name in layout.others:
        stats = ops.get(name)
        if stats is None:
            continue
        if layout.main and not (stats.count or stats.inflight or stats.bytes or stats.errors_per_s):
            continue
        if stats.count is None and stats.bytes is None:
            continue
        if every_op or name not in layout.grouped:
            rows.append(OpRow(*_place(name, title), name, stats, is_main=False))
    return rows


@lru_cache(maxsize=1024)
def _place(name: str, title: str) -> tuple[Direction, str]:
    """Direction and label of an op."""
    where = direction(name)
    words = name.lower().split("_")
    rest = [word for word in words if direction(word) != where] if where else words
    return where, " ".join([title, *rest])
