"""The numbers of a single layer beside its operations: rates of its own, and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ioh.model.metric import MetricSpec
from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import format_unit, safe_name
from ioh.tui.render.line import Line, wrapped

# Gauges that say what the layer may do at most, not what it does.
_LIMIT_PREFIXES = ("max_", "rsize", "wsize", "speed_", "read_ahead", "chunk", "slots", "nconnect")
_LIMIT_SUFFIXES = ("_limit", "_limit_bytes")
_MAX_LIMITED = 3


def render_facts(layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """At most ``height`` lines: the layer's own numbers that are not zero, then its limits."""
    items = [
        f"{metric_title(spec)} {_text(spec, layer.metrics.get(spec.derived_name))}"
        for spec in layer.spec.metrics
        if spec.title and layer.metrics.get(spec.derived_name)
    ]
    limits = list(_limits(layer))
    lines = _joined("", items, width)[: max(1, height - bool(limits))]
    return (lines + _joined("  limits ", limits, width))[:height]


def render_notes(layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """At most ``height`` lines: what the layer leaves out; of /proc the panels say it."""
    notes = layer.notes if layer.source != "proc" else ()
    lines = [wrapped(safe_name(note, 1000), width - 1, "warn", 2) for note in notes]
    return list(chain.from_iterable(lines))[:height]


def _limits(layer: LayerSnapshot) -> Iterator[str]:
    """What the first rows of each breakdown that has limits are held to."""
    for table in layer.spec.tables:
        columns = [column for column in table.columns if column.title and _is_limit(column)]
        for row in layer.tables.get(table.name, ())[:_MAX_LIMITED] if columns else ():
            known = [(c, row.values.get(c.derived_name)) for c in columns]
            shown = [f"{metric_title(c)} {_text(c, value)}" for c, value in known if value]
            if shown:
                yield f"{safe_name(row.key[0], 24)}: {' '.join(shown)}"


def _is_limit(column: MetricSpec) -> bool:
    name = column.derived_name
    return column.kind == "gauge" and (
        name.startswith(_LIMIT_PREFIXES) or name.endswith(_LIMIT_SUFFIXES)
    )


def metric_title(spec: MetricSpec) -> str:
    """What a number is called; a time carries its unit itself."""
    return spec.title.removesuffix("µs").rstrip()


def _text(spec: MetricSpec, value: float | None) -> str:
    return format_unit(spec.derived_name, spec.title.removesuffix("µs"), value)


def _joined(head: str, items: list[str], width: int) -> list[Line]:
    lines: list[Line] = []
    for item in items:
        if not lines or lines[-1].width + len(item) + 2 > width:
            lines.append(Line(head, "dim"))
        lines[-1].add("  ").add(item)
    return lines
