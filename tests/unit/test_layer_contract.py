"""What every registered layer must fulfil; C and Python sides agree."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from ioh.bpf.compiler import probe_source, probes_dir
from ioh.layers import all_layers, find_probe, nfs_client
from ioh.layers.base import Layer
from ioh.layers.nfs_maps import PROCEDURE
from ioh.model.metric import LayerSpec, MetricSpec
from tests.unit.fake_kernel import linux_6_18
from tests.unit.probe_text import text_of

LAYERS = all_layers()
PROBED = [name for name, layer in LAYERS.items() if layer.probe]
# docs/output.md, "Names and units"; in a Sample totals may be in ns, as the kernel adds them.
UNITS = ("us", "s", "bytes", "per_s", "pct", "ratio", "pages", "mono_ns", "unix_s")
NO_UNITS = re.compile(
    r"_(ns|ms|usec|nsec|msec|sec|secs|seconds|kb|mb|gb|kib|mib|bits|sectors|percent|count|num)$"
)


def spec_of(name: str) -> LayerSpec:
    return LAYERS[name].spec


def metrics_of(name: str) -> list[tuple[str, tuple[MetricSpec, ...]]]:
    """The metrics that may refer to each other: the layer's, then each table's."""
    spec = spec_of(name)
    return [("", spec.metrics), *((table.name, table.columns) for table in spec.tables)]


def test_layers_are_found_in_the_order_of_the_io_path() -> None:
    assert {"syscall", "tcp", "block"} <= LAYERS.keys()
    ranks = {name: layer.spec.rank for name, layer in LAYERS.items()}
    assert all(a < b for a, b in pairwise(ranks.values())), f"two of one rank: {ranks}"
    assert [layer.spec.name for layer in LAYERS.values()] == list(LAYERS)
    assert len({layer.spec.title for layer in LAYERS.values()}) == len(LAYERS)
    assert len(Layer.registry) == len(LAYERS)


@pytest.mark.parametrize("name", PROBED)
def test_the_probes_header_says_what_it_measures(name: str) -> None:
    source = (probes_dir() / f"{name}.c").read_text()
    header = source.split("*/")[0]
    assert header.startswith("/*\n * ")
    sections = re.findall(r"(?m)^ \* ([A-Z]\w+) +\S", header)
    asked = 'each begins a line with " * "; clang-format joins lines where one is too long'
    assert {"Kernels", "Cost", "Not"} <= set(sections), asked
    assert {"Timed", "Counted"} & set(sections), asked


@pytest.mark.parametrize("name", PROBED)
def test_events_are_handed_on_for_as_long_as_both_layers_run(name: str) -> None:
    layer, probe = LAYERS[name], find_probe(name)
    assert not probe.joins or LAYERS[probe.joins].probe
    arrays = {event.hands_on for event in probe.events} - {""}
    if arrays or probe.joins:  # both are attached at the start and detached at the end
        assert layer.is_wanted.__func__ is Layer.is_wanted.__func__  # type: ignore[attr-defined]
        assert probe.copies(linux_6_18().host(preempted=True)) == 1
    for array in arrays:
        assert f"{array}.call(ctx, 0)" in probe_source(probe)


@pytest.mark.parametrize("name", LAYERS)
def test_every_number_has_a_name_with_its_unit_and_help(name: str) -> None:
    spec = spec_of(name)
    for where, metrics in [*metrics_of(name), ("gauge_hists", spec.gauge_hists)]:
        for metric in metrics:
            place = f"{where} {metric.name}"
            assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name), place
            assert metric.help.endswith("."), place
            assert (metric.kind == "counter") == metric.name.endswith("_total"), place
            assert not NO_UNITS.search(metric.name), place
            stem = metric.name.removesuffix("_total").removesuffix("_ns")
            inner = [u for u in UNITS if f"_{u}_" in stem and not stem.endswith("_per_s")]
            assert not inner, f"{place}: the unit comes last"
            if metric.kind == "ratio":
                assert stem.endswith((*(f"_{u}" for u in UNITS), "_per_op", "inflight")), place


@pytest.mark.parametrize("name", LAYERS)
def test_names_are_unique_and_groups_sum_ops(name: str) -> None:
    spec = spec_of(name)
    for where, metrics in metrics_of(name):
        raw, derived = Counter(m.name for m in metrics), Counter(m.derived_name for m in metrics)
        assert max((raw | derived).values(), default=1) == 1, where
    tables = [table.name for table in spec.tables]
    for names in (tables, [*spec.ops, *spec.groups], spec.lost, *spec.groups.values()):
        assert len(set(names)) == len(names)
    assert all(spec.groups.values())
    assert set().union(*spec.groups.values()) <= set(spec.ops)
    kinds = [set(members) for group, members in spec.groups.items() if "_waited" not in group]
    for one, other in itertools.combinations(kinds, 2):
        assert not one & other or one < other, "a group is a part of another, or apart"
    for group in spec.groups:  # what waited for a lower layer is of several kinds
        assert "_waited" not in group or set(spec.groups[group]) < set(spec.groups[group[:-7]])


@pytest.mark.parametrize("name", LAYERS)
def test_ratios_are_of_counters_of_the_same_layer_or_table(name: str) -> None:
    for where, metrics in metrics_of(name):
        counters = {m.name for m in metrics if m.kind == "counter"}
        for metric in metrics:
            if metric.kind == "ratio":
                assert metric.numerator in counters, (where, metric.name)
                assert metric.denominator in counters | {""}, (where, metric.name)
                assert metric.scale > 0
            else:
                assert (metric.numerator, metric.denominator) == ("", "")


@pytest.mark.parametrize("name", LAYERS)
def test_tables_have_keys_and_an_order(name: str) -> None:
    for table in spec_of(name).tables:
        assert table.keys
        assert table.title
        assert table.sort_by
        assert set(table.sort_by) <= {column.derived_name for column in table.columns}
        assert not set(table.keys) & {column.derived_name for column in table.columns}


@pytest.mark.parametrize("name", PROBED)
def test_events_are_needed_or_give_something(name: str) -> None:
    probe = find_probe(name)
    assert any(event.needed for event in probe.events) or probe.server_program
    assert len({event.name for event in probe.events}) == len(probe.events)
    for event in probe.events:
        assert event.points
        assert event.needed == (event.gives == ""), event.name


@pytest.mark.parametrize("name", PROBED)
def test_programs_named_exist_in_the_probe(name: str) -> None:
    probe, text = find_probe(name), text_of(name)
    points = tuple(point for event in probe.events for point in event.points)
    for point in points:
        assert text.has_function(point.function), point.function
    arrays = {spec.name for spec in text.maps() if spec.kind == 3}
    handing = {event.hands_on for event in probe.events} - {""}
    # Programs at uprobes need an array that stays empty: see probes/db.c.
    empty = {"no_private_stack"} if probe.server_program else set()
    assert arrays == {step.array for step in probe.steps} | handing | empty
    for step in probe.steps:
        assert text.has_function(step.function), step.function
        assert f"{step.array}.call(ctx, 0)" in text.code
    if probe.on_demand is not None:
        rooms = [spec.max_entries for spec in text.maps() if spec.name == "demand_offsets"]
        assert rooms == ([len(probe.on_demand.offsets)] if probe.on_demand.offsets else [])
        assert LAYERS[name].attaches_on_demand is not Layer.attaches_on_demand
    programs = set(re.findall(r"(?m)^int (\w+)\(struct bpf_raw", probe_source(probe)))
    assert programs == probe.functions(points)


def test_the_counters_of_procedures_are_those_of_their_table() -> None:
    table = next(t for t in nfs_client.SPEC.tables if t.name == "procedure")
    assert [c.name.removesuffix("_total") for c in table.raw_columns] == list(PROCEDURE.members)


def test_a_layer_is_found_whatever_its_module_is_called(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "from dataclasses import replace\n"
        "from ioh.layers.base import Layer\n"
        "class Own(Layer):\n"
        "    from ioh.layers.block import Block\n"
        "    spec = replace(Block.spec, name='own')\n"
    )
    code = (
        "import sys; from ioh import layers; layers.__path__.append(sys.argv[1])\n"
        "print(layers.find_layer('own').__name__, layers.find_layer('block').__name__)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "Own Block\n", done.stderr
