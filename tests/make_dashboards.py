"""Write contrib/grafana, whose panels are much alike: ``python -m tests.make_dashboards``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GRAFANA = Path(__file__).parents[1] / "contrib" / "grafana"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8
# Named as on the screen, in the order of the I/O path.
LAYERS = {
    "syscall": "Application",
    "nfs_client": "NFS client",
    "nfs_server": "NFS server",
    "block": "Disks",
}
# Grafana's names of units.
OPS, SECONDS, BYTES, RATIO, NUMBER = "ops", "s", "Bps", "percentunit", "short"

Panel = dict[str, Any]


def panel(
    kind: str,
    title: str,
    *queries: tuple[str, str],
    unit: str = NUMBER,
    width: int = 8,
    text: str = "",
    options: dict[str, Any] | None = None,
) -> Panel:
    """A panel without a position; a query is an expression and its legend."""
    is_now = kind in {"stat", "table", "bargauge"}
    shape = {"heatmap": "heatmap", "table": "table"}.get(kind, "time_series")
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "format": shape,
            "instant": is_now,
            "range": not is_now,
        }
        for number, (expression, legend) in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "description": text,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": options or {},
        "gridPos": {"h": HEIGHT, "w": width, "x": 0, "y": 0},
    }


def heatmap(title: str, expression: str) -> Panel:
    return panel(
        "heatmap", title, (expression, "{{le}}"), unit=SECONDS,
        options={
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5,
                      "fill": "dark-orange", "reverse": False, "scale": "exponential"},
            "yAxis": {"unit": SECONDS},
            "tooltip": {"show": True, "yHistogram": True},
            "legend": {"show": True},
            "rowsFrame": {"layout": "le"},
        },
    )  # fmt: skip


def row(title: str) -> Panel:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": 0}
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


def dashboard(name: str, title: str, panels: list[Panel], variables: list[dict[str, Any]]) -> Panel:
    """A dashboard of these panels, numbered and placed from left to right."""
    x = y = 0
    for number, each in enumerate(panels, 1):
        place = each["gridPos"]
        if each["type"] == "row" or x + place["w"] > WIDTH:
            y, x = y + (HEIGHT if x else 0), 0
        each["id"], place["x"], place["y"] = number, x, y
        if each["type"] == "row":
            y += 1
        else:
            x += place["w"]
    source = {"name": "datasource", "type": "datasource", "label": "Source", "query": "prometheus"}
    return {
        "uid": name,
        "title": title,
        "tags": ["ioh"],
        "schemaVersion": 36,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "panels": panels,
    }


def series(title: str, *queries: tuple[str, str], **options: Any) -> Panel:
    return panel("timeseries", title, *queries, **options)


def of_host() -> Panel:
    """The dashboard of one host."""
    here = 'host="$host"'
    host = {
        "name": "host",
        "type": "query",
        "label": "Host",
        "datasource": SOURCE,
        "refresh": 2,
        "query": "label_values(ioh_build_info, host)",
        "sort": 1,
    }
    own = (f"ioh:own:rate5m{{{here}}}", "{{layer}}")
    moved = (f"rate(ioh_tcp_bytes_total{{{here}}}[$__rate_interval])", "{{op}}")
    again = (f"ioh:tcp_retransmitted:ratio5m{{{here}}}", "share")
    panels = [
        panel("table", "Findings", (f"ioh_finding{{{here}}} == 1", ""), width=12,
              text="What a rule means: ioh explain RULE"),
        series("Where operations spend their time", own, width=12,
               text="Operations under way in a layer, less those in the layers below it"),
        *(each for layer, title in LAYERS.items() for each in _of_layer(layer, title, here)),
        row("Disks and mounts, one by one"),
        *_of_parts("block", "Disk", here),
        *_of_parts("nfs_client", "Mount", here),
        row("Network"),
        series("TCP", moved, unit=BYTES),
        series("Retransmitted segments", again, unit=RATIO),
        series("Round trip", (f"ioh_tcp_srtt_seconds{{{here}}}", "mean"), unit=SECONDS),
    ]  # fmt: skip
    return dashboard("ioh-host", "ioh: one host", panels, [host])


def _of_layer(layer: str, title: str, here: str) -> Iterator[Panel]:
    own = f'{here}, layer="{layer}"'
    buckets = f'ioh_{layer}_latency_seconds_bucket{{{here}, part=""}}'
    mean = (f"ioh:latency_seconds:mean5m{{{own}}}", "{{op}}, mean")
    p99 = (f"ioh:latency_seconds:p99_5m{{{own}}}", "{{op}}, p99")
    yield row(title)
    yield series("Operations", (f"ioh:operations:rate5m{{{own}}} > 0", "{{op}}"), unit=OPS)
    yield series("Latency", mean, p99, unit=SECONDS)
    increase = f"sum by (le) (increase({buckets}[$__rate_interval]))"
    yield heatmap("All operations by latency", increase)


def _of_parts(layer: str, title: str, here: str) -> Iterator[Panel]:
    parts = f'{{{here}, part!=""}}[$__rate_interval]'
    time = f"rate(ioh_{layer}_operation_seconds_total{parts})"
    count = f"rate(ioh_{layer}_operations_total{parts})"
    moved = f"topk(10, sum by (part, op) (rate(ioh_{layer}_bytes_total{parts})))"
    inflight = (f"topk(10, sum by (part) ({time}))", "{{part}}")
    latency = (f"topk(10, {time} / ({count} > 0))", "{{part}} {{op}}")
    yield series(f"{title}: operations under way", inflight)
    yield series(f"{title}: mean latency", latency, unit=SECONDS)
    yield series(f"{title}: bytes", (moved, "{{part}} {{op}}"), unit=BYTES)
    failed = f"topk(10, sum by (part, op) (rate(ioh_{layer}_errors_total{parts})))"
    yield series(f"{title}: errors", (failed, "{{part}} {{op}}"), unit=OPS)


def of_fleet() -> Panel:
    """The dashboard of all hosts, the worst first."""
    worse = 'count(count by (host) (ioh_finding{severity=~"warning|critical"} == 1)) or vector(0)'
    worst = 'topk(10, ioh:latency_seconds:p99_5m{{layer=~"{}"}} and ioh:operations:rate5m > 0.1)'
    missing = "count(ioh_layer_up == 0) or vector(0)"
    rules = "sort_desc(count by (rule, severity, layer) (ioh_finding == 1))"
    disks = 'topk(10, sum by (host) (ioh:operations:rate5m{layer="block"}))'
    cpu = "topk(10, sum by (host) (rate(ioh_cpu_seconds_total[$__rate_interval])))"
    most = ("topk(20, topk by (host) (1, ioh:own:rate5m))", "{{host}}: {{layer}}")
    by_layer = ("sum by (layer) (ioh:own:rate5m)", "{{layer}}")
    panels = [
        panel("stat", "Hosts", ("count(count by (host) (ioh_build_info))", ""), width=4),
        panel("stat", "Hosts with findings", (worse, ""), width=4),
        panel("stat", "Not measured", (missing, ""), width=4),
        panel("table", "Findings", (rules, ""), width=12, text="Number of hosts for each"),
        row("Hosts by what adds most"),
        panel("bargauge", "The layer that adds most, by host", most, width=12,
              text="Operations under way in that layer and in none below it"),
        series("Time of the fleet, by layer", by_layer, width=12),
        row("The worst p99"),
        *(
            panel("bargauge", title, (worst.format(layer), "{{host}} {{op}}"), unit=SECONDS,
                  width=12)
            for layer, title in LAYERS.items()
        ),
        row("The fleet over time"),
        series("Disk operations", (disks, "{{host}}"), unit=OPS),
        series("Findings", ("count by (rule) (ioh_finding == 1) or vector(0)", "{{rule}}")),
        series("CPU of ioh and its probes", (cpu, "{{host}}"), unit=RATIO),
    ]  # fmt: skip
    return dashboard("ioh-fleet", "ioh: the fleet", panels, [])


def dashboards() -> dict[Path, str]:
    """Each file with its contents."""
    made = (of_host(), of_fleet())
    return {GRAFANA / f"{each['uid']}.json": json.dumps(each, indent=1) + "\n" for each in made}


if __name__ == "__main__":
    for path, text in dashboards().items():
        path.write_text(text)
