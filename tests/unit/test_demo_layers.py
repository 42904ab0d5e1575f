"""Each layer of the demo holds what its spec promises, and its numbers add up."""

from __future__ import annotations

import itertools

import pytest

from ioh.layers import all_layers
from ioh.model.derive import add_ops
from ioh.model.hist import (
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    latency_index,
    size_index,
)
from ioh.model.sample import LayerSample, OpTotals, Sample
from tests.demo_samples import LAYERS, intervals, known, layer, samples, shown


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_everything_its_spec_promises(name: str) -> None:
    for sample in samples()[::50]:
        made, spec = layer(sample, name), sample.specs[name]
        assert sample.specs[name] is all_layers()[name].spec
        assert set(made.ops) == set(spec.ops)
        assert set(made.metrics) == {m.name for m in spec.metrics if m.kind != "ratio"}
        assert set(made.lost) == set(spec.lost)
        assert set(made.gauge_hists) == {hist.name for hist in spec.gauge_hists}
        assert bool(made.parts) == bool(spec.part)
        assert made.notes == ()
        for table in spec.tables:
            for key, row in made.tables[table.name].items():
                assert len(key) == len(table.keys), table.name
                assert len(row) == len(table.raw_columns), table.name


@pytest.mark.parametrize("name", LAYERS)
def test_every_table_has_rows_that_do_something(name: str) -> None:
    spec = samples()[0].specs[name]
    # Upkeep of the storage (table job) is what a calm machine has none of.
    for table in (table for table in spec.tables if table.name != "job"):
        most = max(len(shown(s, name).tables[table.name]) for s in intervals()[:240])
        assert most >= 1, table.name
    assert max(len(rows) for rows in layer(samples()[-1], name).tables.values()) >= 3


@pytest.mark.parametrize("name", LAYERS)
def test_running_totals_never_go_backwards(name: str) -> None:
    spec = samples()[0].specs[name]
    fields = [f for f in OpTotals.__slots__ if f.endswith("_total") and f != "started_total"]
    counters = [m.name for m in spec.metrics if m.kind == "counter"]
    for older, newer in itertools.pairwise(layer(sample, name) for sample in samples()):
        for old, new in zip(all_ops(older), all_ops(newer), strict=True):
            for field in fields:
                before, after = getattr(old, field), getattr(new, field)
                assert (before is None) == (after is None)
                assert before is None or after >= before
        for counter in counters:
            assert (newer.metrics[counter] or 0) >= (older.metrics[counter] or 0), counter
        for table in spec.tables:
            at = [i for i, c in enumerate(table.raw_columns) if c.kind == "counter"]
            for key, row in older.tables[table.name].items():
                after = newer.tables[table.name][key]
                assert all((after[i] or 0) >= (row[i] or 0) for i in at), (table.name, key)


def all_ops(made: LayerSample) -> list[OpTotals]:
    return [*made.ops.values(), *(op for part in made.parts.values() for op in part.values())]


@pytest.mark.parametrize("name", LAYERS)
def test_histograms_add_up_to_the_counts(name: str) -> None:
    for sample in samples()[::40]:
        for op in all_ops(layer(sample, name)):
            if op.latency is None or op.size_lat is None:
                assert op.latency_ns_total is None
                continue
            assert op.latency.total == op.size_lat.total == op.count_total
            coarse = [0] * LATENCY_BUCKETS
            for edge_us, count in zip(FINE_EDGES_US, op.latency.counts, strict=False):
                coarse[latency_index(edge_us)] += count
            assert tuple(coarse) == op.size_lat.by_latency() or not op.count_total


@pytest.mark.parametrize("name", LAYERS)
def test_sums_lie_where_the_histograms_say(name: str) -> None:
    """Summed time and bytes, the maximum and its size fit the buckets that were counted."""
    for snapshot in intervals()[::40]:
        for stats in shown(snapshot, name).ops.values():
            if not stats.count or stats.latency is None or stats.size_lat is None:
                continue
            counts = stats.latency.counts
            low_us = sum(n * e for n, e in zip(counts[1:], FINE_EDGES_US, strict=False))
            high_us = sum(n * e for n, e in zip(counts, FINE_EDGES_US, strict=False))
            assert low_us <= known(stats.latency_us) * stats.count <= high_us
            top = max(i for i, n in enumerate(counts) if n)
            assert FINE_EDGES_US[top - 1] < known(stats.max_us) <= FINE_EDGES_US[top]
            row = stats.size_lat.row(size_index(stats.max_bytes or 0))
            assert row[latency_index(known(stats.max_us))]


@pytest.mark.parametrize("name", LAYERS)
def test_parts_add_up_to_the_ops(name: str) -> None:
    for sample in samples()[::60]:
        made = layer(sample, name)
        for op, totals in made.ops.items():
            parts = [part[op] for part in made.parts.values() if op in part]
            if not parts:
                continue
            whole = add_ops(parts)
            assert whole.count_total == totals.count_total
            assert whole.bytes_total == totals.bytes_total
            assert whole.latency_ns_total == totals.latency_ns_total
            assert whole.queue_ns_total == totals.queue_ns_total
            assert (whole.inflight or 0) == (totals.inflight or 0)
            assert whole.size_lat == totals.size_lat
            assert whole.max_ns == totals.max_ns


def columns(made: LayerSample, sample: Sample, name: str, table: str) -> dict[str, int]:
    spec = next(t for t in sample.specs[name].tables if t.name == table)
    rows = [row for key, row in made.tables[table].items() if key[0] != "dm-0"]
    return {
        column.name: sum(int(row[at] or 0) for row in rows)
        for at, column in enumerate(spec.raw_columns)
    }


def summed(made: LayerSample, prefix: str, field: str) -> int:
    return sum(getattr(op, field) or 0 for n, op in made.ops.items() if n.startswith(prefix))


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *(("syscall", table) for table in ("process", "file", "mount")),
        *(("nfs_client", table) for table in ("process", "file", "mount", "server")),
        *(("nfs_server", table) for table in ("file", "client", "export")),
        ("block", "device"),
        ("block", "process"),
    ],
)
def test_rows_add_up_to_the_ops(name: str, table: str) -> None:
    for sample in samples()[::60]:
        made = layer(sample, name)
        sums = columns(made, sample, name, table)
        copied = made.ops.get("copy", OpTotals(0, 0, 0, 0))
        cached = made.ops["read_cached"].bytes_total or 0 if name == "nfs_client" else 0
        assert sums["reads_total"] == summed(made, "read", "count_total")
        assert sums["read_bytes_total"] == summed(made, "read", "bytes_total") - cached
        if "read_ns_total" in sums:
            assert sums["read_ns_total"] == summed(made, "read", "latency_ns_total")
            wanted = summed(made, "write", "latency_ns_total") + (copied.latency_ns_total or 0)
            assert sums["write_ns_total"] == wanted - zeroes(made, "latency_ns_total")
        wanted = summed(made, "write", "count_total") + (copied.count_total or 0)
        assert sums["writes_total"] == wanted
        wanted = summed(made, "write", "bytes_total") + (copied.bytes_total or 0)
        assert sums["write_bytes_total"] == wanted


def zeroes(made: LayerSample, field: str) -> int:
    """Of write_zeroes, which begins with "write" and is none."""
    op = made.ops.get("write_zeroes")
    return getattr(op, field) or 0 if op is not None else 0


def test_tcp_breakdowns_add_up() -> None:
    for sample in samples()[::60]:
        made = layer(sample, "tcp")
        for table in ("connection", "port"):
            sums = columns(made, sample, "tcp", table)
            for way in ("in", "out"):
                assert sums[f"{way}_bytes_total"] == made.ops[way].bytes_total
            assert sums["retrans_segs_total"] == made.metrics["retrans_segs_total"]
        assert sum(made.gauge_hists["srtt_us"]) == made.metrics["active_connections"]
        srtt, least = made.metrics["srtt_us"], made.metrics["min_rtt_us"]
        assert srtt is None or known(srtt) >= known(least)


def test_latency_edges_of_the_table_are_fine_edges_too() -> None:
    """What lets the demo put a fine bucket whole into one of the table."""
    assert set(LATENCY_EDGES_US) <= set(FINE_EDGES_US)
