"""Every query of every panel has data in a real Prometheus; the files have Grafana's own format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioh.model.sample import LayerSample, Sample
from tests.make_dashboards import dashboards
from tests.servers.played import Played, Recorded
from tests.servers.prometheus import Prometheus

ROOT = Path(__file__).parents[2]
RULES = ROOT / "contrib" / "prometheus" / "ioh.rules.yml"
FILES = {path.name: json.loads(text) for path, text in dashboards().items()}
HOSTS = ("db01", "nfs01")
# Four scrapes of the test's Prometheus.
VARIABLES = {"$host": HOSTS[0], "$__rate_interval": "4s"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    recorded = Recorded()
    recorded.samples = [failing(sample, tick) for tick, sample in enumerate(recorded.samples)]
    with (
        Played(recorded, HOSTS[0], 0.2) as one,
        Played(recorded, HOSTS[1], 0.2, first=40) as other,
        Prometheus(
            tmp_path_factory.mktemp("prometheus"), [one.target, other.target], [RULES]
        ) as made,
    ):
        yield made


def failing(sample: Sample, errors: int) -> Sample:
    """A sample whose every operation of a device or mount failed so often, too."""
    layers = dict(sample.layers)
    for name, layer in sample.layers.items():
        if isinstance(layer, LayerSample):
            parts = {
                part: {op: replace(totals, errors_total=errors) for op, totals in ops.items()}
                for part, ops in layer.parts.items()
            }
            layers[name] = replace(layer, parts=parts)
    return replace(sample, layers=layers)


def queries() -> list[Any]:
    found = []
    for name, board in FILES.items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                words = f"{name}: {panel['title']} {target['refId']}"
                found.append(pytest.param(target["expr"], id=f"{panel['id']} {words}"))
    return found


@pytest.mark.parametrize("expression", queries())
def test_a_query_has_data(prometheus: Prometheus, expression: str) -> None:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    prometheus.wait_until(expression, 60)


def test_the_variable_offers_the_hosts(prometheus: Prometheus) -> None:
    prometheus.wait_until(f"count(ioh_build_info) == {len(HOSTS)}")
    assert tuple(prometheus.api("label/host/values")) == HOSTS


@pytest.mark.parametrize("name", FILES)
def test_grafanas_own_models_know_every_field(name: str) -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    taken = json.loads(JSONEncoder().encode(Dashboard.from_json(FILES[name])))
    assert lacking(FILES[name], taken, name) == []


def lacking(mine: Any, taken: Any, where: str) -> list[str]:
    """What a model changed."""
    if isinstance(mine, dict) and isinstance(taken, dict):
        pairs = [(mine[key], taken.get(key), f"{where}.{key}") for key in mine]
    elif isinstance(mine, list) and isinstance(taken, list) and len(mine) == len(taken):
        pairs = [
            (a, b, f"{where}[{at}]") for at, (a, b) in enumerate(zip(mine, taken, strict=True))
        ]
    else:
        return [] if mine == taken else [f"{where}: {mine!r} became {taken!r}"]
    return [fault for pair in pairs for fault in lacking(*pair)]
