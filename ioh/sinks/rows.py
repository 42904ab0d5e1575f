"""Which ops of a layer are read, write or other rows, from their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from ioh.model.lazy import by_identity
from ioh.model.metric import LayerSpec
from ioh.model.rates import sum_known
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_duration, format_scaled, safe_name

Direction = Literal["R", "W", ""]

_DIRECTIONS: Mapping[str, Direction] = {
    **dict.fromkeys(("read", "reads", "in"), "R"),
    **dict.fromkeys(("write", "writes", "out"), "W"),
}
_FLOW_WORDS = frozenset({"in", "out"})
_ALWAYS_SHOWN = ("sync", "cached")
_WAITED = "_waited"  # the group of a main op's members that waited for a lower layer
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
    ``grouped`` are shown only with ``every_op``.  ``beside``: by main op, its members that do not
    belong to its group of calls that waited, if it has one.
    """

    main: tuple[str, ...]
    others: tuple[str, ...]
    grouped: frozenset[str]
    is_flow: bool
    beside: dict[str, tuple[str, ...]]


@by_identity
def _layout(spec: LayerSpec) -> _Layout:
    every = (*spec.groups, *spec.ops)
    members = spec.inner_groups.union(*spec.groups.values())
    main: list[str] = []
    for letter in ("R", "W"):
        ops = [op for op in every if direction(op) == letter]
        exact = [op for op in ops if "_" not in op]  # else all that are in no group
        main += exact or [op for op in ops if op not in members]
    beside = {
        op: tuple(each for each in spec.groups[op] if each not in spec.groups[op + _WAITED])
        for op in main
        if op in spec.groups and op + _WAITED in spec.groups
    }
    always = [op for op in members if any(word in op.lower() for word in _ALWAYS_SHOWN)]
    return _Layout(
        tuple(main),
        tuple(name for name in every if name not in main),
        members - {*always, *chain.from_iterable(beside.values())}
        | {op + _WAITED for op in beside},
        any(op.lower() in _FLOW_WORDS for op in every),
        beside,
    )


def is_flow(spec: LayerSpec) -> bool:
    """Whether the layer carries bytes in and out instead of serving reads and writes."""
    return _layout(spec).is_flow


def main_stats(spec: LayerSpec, ops: Mapping[str, OpStats]) -> list[tuple[str, OpStats]]:
    """The ops that stand for reads and for writes, with their numbers.

    If known, those that waited for a lower layer, else all.
    """
    return [_main(name, ops) for name in _layout(spec).main]


def _main(name: str, ops: Mapping[str, OpStats]) -> tuple[str, OpStats]:
    waited, stats = ops.get(name + _WAITED), ops.get(name, _NOTHING_KNOWN)
    if waited is None:
        return name, stats
    if waited.inflight != stats.inflight:  # what a call waits for is known at its end
        waited = replace(waited, inflight=stats.inflight)
    return name + _WAITED, waited


def all_op(name: str) -> str:
    """The op of all reads or writes for one of main_stats()."""
    return name.removesuffix(_WAITED)


def is_of_all(layer: LayerSnapshot, name: str) -> bool:
    """Whether an op has all reads or writes of a layer that knows which waited for a lower one."""
    return name + _WAITED in layer.ops


def beside_text(spec: LayerSpec, ops: Mapping[str, OpStats], name: str) -> str:
    """The operations that an op of main_stats() leaves out: ``+ 52.1k/s cached, 1 µs``, or ""."""
    others = _layout(spec).beside.get(all_op(name), ()) if name != all_op(name) else ()
    stats_of = ((each, ops[each]) for each in others if each in ops)
    return "  ".join(
        format_beside(each.removeprefix(f"{all_op(name)}_"), stats.ops_per_s, stats.latency_us)
        for each, stats in stats_of
        if stats.count
    )


def format_beside(kind: str, ops_per_s: float | None, mean_us: float | None) -> str:
    """``+ 52.1k/s cached, 1 µs``."""
    return f"+ {format_scaled(ops_per_s)}/s {kind}, {format_duration(mean_us)}"


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
    buffered reads, need ``every_op``, except those with ``sync`` or ``cached`` in their name and
    those that a main row leaves out.
    """
    layout = _layout(spec)
    main = main_stats(spec, ops)
    rows = [OpRow(*_place(all_op(name), title), name, stats, is_main=True) for name, stats in main]
    names = {name for name, _ in main}
    for name in (*layout.main, *layout.others):
        stats = ops.get(name)
        if stats is None or name in names:
            continue
        if layout.main and not (stats.count or stats.inflight or stats.bytes or stats.errors_per_s):
            continue
        if stats.count is None and stats.bytes is None:
            continue
        if every_op and name in layout.main:
            where, label = _place(name, title)
            rows.append(OpRow(where, f"{label} all", name, stats, is_main=False))
        elif every_op or name not in {*layout.main, *layout.grouped}:
            rows.append(OpRow(*_place(name, title), name, stats, is_main=False))
    return rows


@lru_cache(maxsize=1024)
def _place(name: str, title: str) -> tuple[Direction, str]:
    """Direction and label of an op."""
    where = direction(name)
    words = name.lower().split("_")
    rest = [word for word in words if direction(word) != where] if where else words
    return where, " ".join([title, *rest])
