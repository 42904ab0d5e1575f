"""Describes numbers: name with unit, kind, and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "ratio"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One number of a layer or of a table's row.

    Shape:
        A ``counter`` is a running total in the Sample, named ``…_total``, and a rate in the
        Snapshot, named ``…_per_s``.  A ``gauge`` is the value at the sample instant, with the same
        name in both.  A ``ratio`` exists only in the Snapshot: Δnumerator / Δdenominator times
        ``scale``, both counters of the same layer or row; without a denominator, Δnumerator per
        second times ``scale``.

    Units:
        The name's suffix (docs/output.md, "Names and units").
    """

    name: str
    kind: Kind
    help: str
    title: str = ""
    numerator: str = ""
    denominator: str = ""
    scale: float = 1.0

    @property
    def derived_name(self) -> str:
        """The name under which a Snapshot holds this number."""
        if self.kind == "counter":
            return self.name.removesuffix("_total") + "_per_s"
        return self.name


def numbers(text: str) -> tuple[MetricSpec, ...]:
    """Parse a layer's numbers, one per line: ``name | title | help``.

    A name ending in ``_total`` is a counter, ``busy_pct = 100 * busy_us_total / us_total`` a ratio,
    any other a gauge.  A line without ``|`` continues the help.
    """
    return tuple(_number(*row) for row in _rows(text))


def _rows(text: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if "|" in line:
            rows.append([part.strip() for part in line.split("|")])
        else:
            rows[-1][-1] = f"{rows[-1][-1]} {line}".lstrip()
    return rows


def _number(expression: str, title: str, help: str) -> MetricSpec:  # noqa: A002 (Prometheus' word)
    name, _, formula = expression.partition(" = ")
    if not formula:
        return MetricSpec(name, "counter" if name.endswith("_total") else "gauge", help, title)
    scale, _, quotient = formula.rpartition(" * ")
    numerator, _, denominator = quotient.partition(" / ")
    return MetricSpec(name, "ratio", help, title, numerator, denominator, float(scale or 1))


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A breakdown of a layer.

    Shape:
        ``keys``: the parts that identify a row (``("pid", "comm")``).  ``columns``: its numbers.
        ``sort_by``: the derived names whose sum ranks the rows, largest first.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[MetricSpec, ...]
    sort_by: tuple[str, ...]

    @property
    def raw_columns(self) -> tuple[MetricSpec, ...]:
        """The columns in a Sample's row, in order."""
        return tuple(c for c in self.columns if c.kind != "ratio")


def tables(text: str) -> tuple[TableSpec, ...]:
    """Parse a layer's breakdowns: ``name | title | keys | sort_by``, then lines of numbers()."""
    blocks: list[tuple[list[str], list[MetricSpec]]] = []
    for row in _rows(text):
        if len(row) == 4:
            blocks.append((row, []))
        else:
            blocks[-1][1].append(_number(*row))
    return tuple(
        TableSpec(name, title, tuple(keys.split(", ")), tuple(columns), tuple(sort_by.split(", ")))
        for (name, title, keys, sort_by), columns in blocks
    )


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """The static description of a layer.

    Shape:
        ``ops``: the leaves that the probe counts, in the order of the probe's indices.
        ``groups``: sums of leaves (``{"read": ("read_buffered", "read_direct")}``); a group's
        histogram is the sum of its members', never a mean of means.  A group can be part of another
        one.  ``part``: what the layer also keeps full statistics of (``"device"``), or ``""``.
        ``gauge_hists``: distributions at the sample instant (round-trip time over connections),
        unlike those of operations, which every op has.  ``lost``: the reasons why its probe can
        lose an event.  ``has_bytes``: False if no operation carries bytes.
    """

    name: str
    title: str
    rank: int
    ops: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    metrics: tuple[MetricSpec, ...]
    tables: tuple[TableSpec, ...]
    lost: tuple[str, ...] = ()
    part: str = ""
    gauge_hists: tuple[MetricSpec, ...] = ()
    has_bytes: bool = True

    @property
    def inner_groups(self) -> frozenset[str]:
        """The groups that are a part of another one."""
        groups = [(name, set(own)) for name, own in self.groups.items()]
        return frozenset(name for name, own in groups for _, other in groups if own < other)
