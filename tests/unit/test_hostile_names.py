"""Names from outside in every output: none reaches the terminal raw, none causes a crash."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from functools import cache

import pytest

from ioh.model.derive import derive
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, Sample
from ioh.model.snapshot import Snapshot
from ioh.sinks.csv import CsvSink
from ioh.sinks.json import JsonSink
from ioh.sinks.openmetrics import OpenMetrics
from ioh.sinks.text import TextOptions, TextSink
from tests.support.hostile import NAMES, hostile_samples, raw_chars, without_layer
from tests.support.screens import layer_of
from tests.support.sessions import recorded, samples_of

ALL = TextOptions(sections=frozenset({"all"}), top=None, utc=True)


@cache
def samples() -> list[Sample]:
    return hostile_samples(2)


@cache
def snapshot() -> Snapshot:
    """Every name in every table, part and note."""
    return derive(*samples())


def test_a_sink_that_writes_names_raw_would_fail_these_tests() -> None:
    raw = [name for name in NAMES if raw_chars(name) or "\n" in name]
    assert len(raw) > 25
    assert len(set(NAMES)) == len(NAMES)
    assert {len(name) for name in NAMES} >= {0, 4096}


def test_text_holds_nothing_raw() -> None:
    text = TextSink(ALL).render(snapshot())
    assert not raw_chars(text)
    assert "数据库.dbf" in text
    assert text.count("\ndate: ") + text.startswith("date: ") == 1


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_escaped_as_host_as_reason_and_alone(name: str) -> None:
    made = without_layer(hostile_samples(2, names=(name,)), "block", name)
    shown = derive(*made)
    text = TextSink(ALL).render(shown)
    assert not raw_chars(text)
    assert text.count("\n") == lines_of_a_tame_name()
    assert JsonSink(None).render(shown).isascii()


@cache
def lines_of_a_tame_name() -> int:
    """Lines of the same with the name ``x``: no name adds or removes one."""
    made = without_layer(hostile_samples(2, names=("x",)), "block", "x")
    return TextSink(ALL).render(derive(*made)).count("\n")


def test_json_is_one_ascii_line_with_every_name() -> None:
    line = JsonSink(None).render(snapshot())
    assert line.isascii()
    assert line.count("\n") == 1
    text = json.dumps(json.loads(line), ensure_ascii=False)
    assert not raw_chars(line) | raw_chars(text)
    for name in NAMES:
        assert json.dumps(printable(name), ensure_ascii=False) in text


def test_parts_that_look_the_same_are_all_in_json() -> None:
    shown = json.loads(JsonSink(None).render(snapshot()))
    parts = shown["layers"]["block"]["parts"]["device"]
    assert len(parts) == len(layer_of(snapshot(), "block").parts) > 2
    assert {"a\\x0ab", "a\\x0ab~2"} <= set(parts)


def test_csv_holds_nothing_raw_and_no_formula() -> None:
    text = CsvSink().render(snapshot())
    assert not raw_chars(text)
    for row in csv.reader(io.StringIO(text)):
        assert len(row) == 5
        assert not any(cell.startswith(tuple("=+-@＝＋－＠")) for cell in row[:4])


def test_openmetrics_holds_nothing_raw() -> None:
    with OpenMetrics() as metrics:
        metrics.take(samples()[0])
        text = "".join(metrics.render())
    assert not raw_chars(text)
    assert text.endswith("# EOF\n")
    line = re.compile(r'(# .*|\w+\{(\w+="([^"\\]+|\\["\\])*",?)+\} \S+ \d+\.\d{3})')
    lines = text.splitlines()
    assert all(line.fullmatch(each) for each in lines)
    assert sum(each == "# EOF" for each in lines) == 1
    points = [tuple(each.rsplit(" ", 2)[::2]) for each in lines if each[0] != "#"]
    assert len(points) == len(set(points)), "one series twice"


def test_names_are_read_back_from_a_recording_and_stay_harmless() -> None:
    short = tuple(name for name in NAMES if len(name) < 4096)  # a recording cuts longer ones
    made = hostile_samples(2, names=short)
    played = samples_of(recorded(made))
    assert [(s.hostname, s.layers) for s in played] == [(s.hostname, s.layers) for s in made]
    assert not raw_chars(TextSink(ALL).render(derive(played[0], played[1])))


@pytest.mark.parametrize("name", ["\x1b[31m", "a\nb", "\udcff"])
def test_a_recordings_texts_about_a_layer_are_escaped(name: str) -> None:
    """Titles, help texts, sources and reasons come from a file, too."""
    older, newer = (of_another_layer(each, name) for each in hostile_samples(2, names=("x",)))
    shown = derive(older, newer)
    assert not raw_chars(TextSink(ALL).render(shown) + CsvSink().render(shown))
    assert JsonSink(None).render(shown).isascii()


def of_another_layer(sample: Sample, name: str) -> Sample:
    layers, specs = {}, {}
    for key, layer in sample.layers.items():
        assert isinstance(layer, LayerSample)
        spec = sample.specs[key]
        specs[key] = replace(
            spec,
            title=f"{spec.title}{name}",
            part=f"{spec.part}{name}" if spec.part else "",
            metrics=tuple(replace(m, title=f"{m.title}{name}") for m in spec.metrics),
            gauge_hists=tuple(
                replace(m, title=f"{m.title}{name}", help=f"{m.help}{name}")
                for m in spec.gauge_hists
            ),
            tables=tuple(
                replace(
                    table,
                    title=f"{table.title}{name}",
                    columns=tuple(replace(c, title=f"{c.title}{name}") for c in table.columns),
                )
                for table in spec.tables
            ),
        )
        lost = {f"{reason}{name}": int(sample.mono_ns) for reason in spec.lost}
        layers[key] = replace(layer, source=f"demo{name}", lost=lost, notes=())
    return replace(sample, layers=layers, specs=specs)
