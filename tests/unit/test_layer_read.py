"""Every layer read from empty and filled maps, and from /proc: its sample fits its spec."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.bpf.maps import Map
from ioh.layers import all_layers, tcp
from ioh.layers.base import Layer
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.hist import LATENCY_BUCKETS
from ioh.model.sample import LayerSample, Sample, Unavailable
from ioh.procfs.sock_diag import Counters, Dump
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink
from tests.support import fakes
from tests.unit import fake_kernel
from tests.unit.probe_text import text_of

LAYERS = all_layers()
PROBED = [name for name, layer in LAYERS.items() if layer.probe]
ROOTS = [Path(__file__).parents[1] / "data" / name for name in ("proc-6.18", "proc-5.10")]


class NoConnections:
    """Replaces the kernel's sock_diag."""

    def __init__(self, port: int | None, *, keep_closed: bool) -> None:
        self.asked = (port, keep_closed)

    def dump(self, known: dict[int, Counters] | None) -> Dump:
        return Dump()


@pytest.fixture(autouse=True)
def _no_sock_diag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SockDiag", NoConnections)


def in_a_sample(tick: int, layer: Layer, sample: LayerSample | Unavailable) -> Sample:
    name = layer.spec.name
    empty = replace(fakes.sample(tick, {}), specs={name: layer.spec})
    return replace(empty, layers={name: sample})


def check_shape(layer: Layer, sample: LayerSample) -> None:
    spec = layer.spec
    assert sample.metrics.keys() <= {m.name for m in spec.metrics if m.kind != "ratio"}
    tables = {table.name: table for table in spec.tables}
    assert sample.tables.keys() <= tables.keys()
    for name, rows in sample.tables.items():
        for key, row in rows.items():
            assert len(key) == len(tables[name].keys), (name, key)
            assert len(row) == len(tables[name].raw_columns), (name, key)
            assert all(isinstance(part, str) and part.isprintable() for part in key)
    assert sample.gauge_hists.keys() <= {g.name for g in spec.gauge_hists}
    assert all(len(counts) == LATENCY_BUCKETS for counts in sample.gauge_hists.values())
    assert bool(spec.part) or not sample.parts
    for part in sample.parts.values():
        assert part.keys() <= {*spec.ops, *spec.groups}


def check_shown(layer: Layer, older: LayerSample, newer: LayerSample) -> None:
    """Check that both sinks show the interval between two readings."""
    snapshot = derive(in_a_sample(0, layer, older), in_a_sample(1, layer, newer))
    shown = TextSink(TextOptions(frozenset({"all"}), utc=True)).render(snapshot)
    assert layer.spec.title in shown
    told = json.loads(JsonSink(None).render(snapshot))
    assert told["layers"].keys() == {layer.spec.name}


def readings(layer: Layer, maps: dict[str, Map]) -> Iterator[LayerSample]:
    sites = [(1, 1, 0, 7)] * len(layer.spec.ops)
    answer = {"pid": 0, "files": [(1, 1, 0)], "link_ops": layer.spec.ops, "link_sites": sites}
    layer.observe_server({**answer, "failing": [], "trap_ns": {}, "counted_ns": 0})
    for _ in range(2):
        sample = layer.read(maps)
        assert sample.source == "bpf"
        assert set(layer.spec.ops) <= sample.ops.keys() <= {*layer.spec.ops, *layer.spec.groups}
        assert list(sample.lost) == list(layer.spec.lost)
        check_shape(layer, sample)
        yield sample


@pytest.mark.parametrize("root", ROOTS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", PROBED)
def test_samples_from_maps_fit_the_spec(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the maps are empty; then each hash has one entry, of key 0 and with all counters 1."""
    layer = LAYERS[name](Filters(), root)
    maps, held, _ = fake_kernel.install(monkeypatch, text_of(name).maps())
    older, newer = readings(layer, maps)
    assert not any(sum(op.latency.counts) for op in newer.ops.values() if op.latency is not None)
    counts = {op.count_total for op in newer.ops.values()}
    assert counts - {None} == {0}  # None: only bytes are known, as of the page cache
    for fake in held.values():
        if fake.spec.kind in {1, 5}:
            ones = (1).to_bytes(8, "little") * (fake.value_size // 8)
            fake.entries[bytes(fake.spec.key_size)] = ones
    later, again = readings(layer, maps)
    grown = [t for t, rows in later.tables.items() if len(rows) > len(newer.tables.get(t, {}))]
    assert bool(grown) == bool(layer.spec.tables)
    for pair in itertools.pairwise((older, newer, later, again)):
        check_shown(layer, *pair)


@pytest.mark.parametrize("name", LAYERS)
def test_samples_from_proc_fit_the_spec(name: str) -> None:
    layer = LAYERS[name](Filters(), ROOTS[0])
    older, newer = layer.read_proc(), layer.read_proc()
    if isinstance(older, Unavailable):  # /proc does not count everything
        assert older.reason
        assert older.hint, "Unavailable says what would help, too"
        return
    assert isinstance(newer, LayerSample)
    for sample in (older, newer):
        assert sample.source == "proc"
        assert sample.ops.keys() <= {*layer.spec.ops, *layer.spec.groups}
        assert sample.ops, "metrics alone show no I/O: read_proc() counts an op, or is Unavailable"
        check_shape(layer, sample)
        assert sample.lost == {}
    check_shown(layer, older, newer)


@pytest.mark.parametrize("name", ["block", "nfs_client", "nfs_server", "tcp"])
def test_a_layer_that_shows_all_processes_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps, _, _ = fake_kernel.install(monkeypatch, text_of(name).maps())
    for filters in (Filters(pid=7), Filters(comm="fio"), Filters(cgroup_id=9), Filters()):
        layer = LAYERS[name](filters, ROOTS[0])
        for sample in (layer.read(maps), layer.read_proc()):
            assert isinstance(sample, LayerSample)
            is_said = any("not applied here: all " in note for note in sample.notes)
            assert is_said == (filters != Filters())


@pytest.mark.parametrize(
    ("name", "chosen", "said"),
    [
        ("syscall", Filters(pid=7, comm="fio"), "only --pid 7 --comm fio"),
        ("syscall", Filters(cgroup_id=9), "only --cgroup"),
        ("syscall", Filters(device=1 << 20, device_name="sda"), "only --device sda"),
        ("block", Filters(device=1 << 20, device_name="sda"), "only --device sda"),
        ("tcp", Filters(port=2049), "only --port 2049"),
    ],
)
def test_a_filtered_layer_says_so(
    name: str, chosen: Filters, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording does not hold the options: whoever reads it later sees them only here."""
    maps, _, _ = fake_kernel.install(monkeypatch, text_of(name).maps())
    for filters in (chosen, Filters()):
        layer = LAYERS[name](filters, ROOTS[0])
        found = [layer.read(maps), layer.read_proc()]
        notes = [sample.notes for sample in found if isinstance(sample, LayerSample)]
        is_said = {f"{said}: nothing else is counted" in each for each in notes}
        assert is_said == {filters == chosen}  # /proc may not have these processes and devices
