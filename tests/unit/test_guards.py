"""A defect in a rule or in a path costs that rule or path, and is reported; the rest is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ioh.findings.engine import Engine
from ioh.findings.rule import Limits, Rule, Verdicts, all_rules
from ioh.findings.window import RecentIntervals
from ioh.model import path
from ioh.model.finding import Failed, NotEvaluated
from ioh.model.io_path import IoPath
from ioh.model.snapshot import Snapshot
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from ioh.tui.render.overview import render_overview
from ioh.tui.render.zoom import LayersView
from ioh.tui.state import ViewState
from tests.support.demo_samples import intervals

_BY = Failed.by


@pytest.fixture(autouse=True)
def guarded(no_guard: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failed, "by", _BY)


def fails_late(recent: RecentIntervals, limits: Limits) -> Verdicts:
    yield from ()
    msg = f"{len(limits)} \x1b[31m by zero"
    raise ZeroDivisionError(msg)


def judged(rules: list[Rule]) -> Snapshot:
    engine = Engine(rules)
    return [engine.judge(each) for each in intervals()][-1]


def text_of(snapshot: Snapshot) -> str:
    return TextSink(TextOptions()).render(snapshot)


def test_a_rule_that_fails_costs_no_other_rule_and_is_named_once() -> None:
    rules = list(all_rules().values())
    expected = judged(rules)
    assert expected.findings
    broken = replace(
        rules[0], judge=fails_late, may_be_short=True, name="broken", needs=(), probed=()
    )
    found = judged([broken, *rules])
    assert found.findings == expected.findings
    why = (
        f"failed: ZeroDivisionError: {len(broken.thresholds)} \\x1b[31m by zero; please report this"
    )
    assert found.not_evaluated == (Failed("broken", broken.title, why), *expected.not_evaluated)
    text = text_of(found)
    assert text.count(f"! rule broken {why}\n") == 1
    assert text.replace(f"! rule broken {why}\n", "") == text_of(expected)
    sink = TextSink(TextOptions())
    assert [sink.render(found).count("rule broken") for _ in range(3)] == [1, 0, 0]
    first = JsonSink().to_json(found)["not_evaluated"]
    assert isinstance(first, list)
    assert first[0] == {"rule": "broken", "title": broken.title, "reason": why}


def test_a_path_that_fails_costs_no_other_path(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = intervals()[-1]
    expected = path.paths(snapshot)
    assert {"read", "write"} <= expected.keys()
    original = path._Direction.path

    def fail(self: path._Direction) -> IoPath | None:
        if self.direction == "read":
            msg = "below 0"
            raise ValueError(msg)
        return original(self)

    monkeypatch.setattr(path._Direction, "path", fail)
    monkeypatch.setattr(path, "_derived", path._derived.__wrapped__)  # nothing from before
    found, failures = path.paths_and_failures(snapshot)
    assert found == {kind: each for kind, each in expected.items() if kind != "read"}
    why = "failed: ValueError: below 0; please report this"
    assert failures == (Failed("path_read", "path of read", why),)
    sink = TextSink(TextOptions(frozenset({"path"})))
    assert [sink.render(snapshot).count(f"! path of read {why}\n") for _ in range(3)] == [1, 0, 0]
    assert json.dumps(why) in json.dumps(JsonSink().to_json(snapshot)["not_evaluated"])
    lines = [
        line.text for line in render_overview(LayersView(ViewState(), snapshot, ()), 100, 40).lines
    ]
    assert any(line.startswith(f"! path of read {why}") for line in lines)
    assert len(lines) == 40


def test_a_missing_input_is_no_failure() -> None:
    assert NotEvaluated("a", "b", "c") != Failed("a", "b", "c")
