"""Whether a layer's description from a file is one that derive() and the sinks can rely on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ioh.model.metric import LayerSpec, MetricSpec
from ioh.session.records import MAX_OPS, refuse

_MAX_NAME = 256
_MAX_HELP = 4096
_MAX_MEMBERS = 1024  # of all groups


def check_spec(spec: LayerSpec) -> None:
    """Names short and different, ratios between columns that exist, numbers finite.

    Raises RecordError where the description is of no use.
    """
    lists: list[Sequence[str]] = [spec.ops, tuple(spec.groups), spec.lost]
    lists += [[metric.name for metric in metrics] for metrics in (spec.metrics, spec.gauge_hists)]
    lists.append([table.name for table in spec.tables])
    for table in spec.tables:
        lists += [table.keys, [column.name for column in table.columns], table.sort_by]
        _check_metrics(table.columns, table=True)
        derived = {column.derived_name for column in table.columns}
        if not derived.issuperset(table.sort_by) or not table.columns:
            refuse("a layer's description with a table ranked by a column that it lacks")
        if len(table.keys) > 16 or len(table.columns) > 64:
            refuse("a layer's description with a table that is too wide")
    _check_metrics(spec.metrics, table=False)
    lists += spec.groups.values()
    if sum(map(len, spec.groups.values())) > _MAX_MEMBERS:
        refuse("a layer's description with groups of too many operations")
    for names in lists:
        _check_names(names)
    _check_names([spec.name])
    if max(len(spec.title), len(spec.part)) > _MAX_NAME or not -(1 << 31) < spec.rank < 1 << 31:
        refuse("a layer's description with a title that is too long")


def _check_names(names: Sequence[str]) -> None:
    if len(names) > MAX_OPS or len(set(names)) != len(names):
        refuse("a layer's description with names that are too many, or twice there")
    if any(not name or len(name) > _MAX_NAME or not name.isprintable() for name in names):
        refuse("a layer's description with a name that is none")


def _check_metrics(metrics: Sequence[MetricSpec], *, table: bool) -> None:
    stored = {metric.name for metric in metrics if metric.kind != "ratio"}
    for metric in metrics:
        parts = {metric.numerator, metric.denominator or metric.numerator}
        if table and metric.kind == "ratio" and not parts <= stored:
            refuse("a layer's description with a ratio of columns that are none")
        if len(metric.help) > _MAX_HELP or len(metric.title) > _MAX_NAME:
            refuse("a layer's description with a help text that is too long")
        if not math.isfinite(metric.scale):
            refuse("a layer's description with a scale that is no number")
