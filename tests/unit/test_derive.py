"""An interval from two samples; parts of it are computed only when they are used."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest

from ioh.model.derive import derive
from ioh.model.derive_op import add_ops, derive_op
from ioh.model.derive_table import derive_table
from ioh.model.hist import FINE_BUCKETS, LatencyHist, SizeLatencyHist
from ioh.model.lazy import LazyMapping
from ioh.model.metric import tables
from ioh.model.rates import delta, rate_per_s
from ioh.model.sample import OTHERS, LayerSample, OpTotals, Sample, Table, Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from tests.support import fakes
from tests.support.fakes import Op


def only_disk(tick: int, layer: LayerSample | Unavailable) -> Sample:
    return fakes.sample(tick, {"platter": layer})


def disk(snapshot: Snapshot) -> LayerSnapshot:
    layer = snapshot.layers["platter"]
    assert isinstance(layer, LayerSnapshot)
    return layer


def between(older: LayerSample, newer: LayerSample) -> LayerSnapshot:
    return disk(derive(only_disk(0, older), only_disk(1, newer)))


def after(*operations: tuple[int, int]) -> OpTotals:
    """Totals after (bytes, ns) operations, on top of five of 512 bytes in 1 ms."""
    op = Op()
    op.add(512, 1_000_000, 5)
    op.totals()
    for size_bytes, latency_ns in operations:
        op.add(size_bytes, latency_ns)
    return op.totals()


@pytest.mark.parametrize(("older", "newer"), [(None, 1), (1, None), (None, None), (5, 4)])
def test_unknown_is_not_zero(older: int | None, newer: int | None) -> None:
    assert delta(older, newer) is None
    assert rate_per_s(older, newer, 1.0) is None
    assert (delta(7, 7), delta(7, 9), rate_per_s(7, 7, 2.0)) == (0, 2, 0)


def test_an_interval_must_be_positive() -> None:
    older, newer = fakes.first(2)
    with pytest.raises(ValueError, match="out of order"):
        derive(newer, older)
    with pytest.raises(ValueError, match="out of order"):
        derive(newer, newer)


def test_figures_of_one_op() -> None:
    found = derive_op(after(), after((8192, 2_000_000), (4096, 6_000_000)), 2.0)
    assert (found.count, found.bytes) == (2, 12_288)
    assert (found.ops_per_s, found.bytes_per_s) == (1.0, 6144.0)
    assert (found.avg_bytes, found.latency_us) == (6144.0, 4000.0)
    assert (found.max_us, found.max_bytes) == (6000.0, 4096)
    assert (found.queue_us, found.service_us) == (1000.0, 3000.0)
    assert found.avg_inflight == pytest.approx(0.004)
    assert found.errors_per_s == 0
    assert found.latency is not None
    assert found.latency.total == 2
    assert found.size_lat is not None
    assert found.size_lat.total == 2


@pytest.mark.parametrize(("queued", "is_known"), [(201, True), (198, True), (197, False)])
def test_service_time_allows_for_operations_that_end_during_the_reading(
    queued: int, is_known: bool
) -> None:
    """Their queue time may be in the next interval; if more lack it, the rest is unknown."""
    begin = OpTotals(0, 0, 0, 0, 0, 0)
    end = OpTotals(200, 0, 0, 200 * 4_000_000, queued * 1_000_000, queued)
    found = derive_op(begin, end, 1.0)
    assert found.service_us == (3000.0 if is_known else None)


def test_rates_of_a_layer_are_those_of_its_own_interval() -> None:
    """Layers are read one after another, each at a varying time within its tick."""
    older = only_disk(0, LayerSample("bpf", {"read": after()}, read_after_us=100_000))
    newer = only_disk(1, LayerSample("bpf", {"read": after((4096, 1_000_000))}, read_after_us=600))
    snapshot = derive(older, newer)
    assert snapshot.interval_s == 1.0
    layer = disk(snapshot)
    assert layer.interval_s == pytest.approx(1 - 0.0994)
    assert layer.ops["read"].ops_per_s == pytest.approx(1 / layer.interval_s)


def test_a_layer_with_readings_out_of_order_is_unavailable() -> None:
    older = only_disk(0, LayerSample("bpf", {"read": after()}, read_after_us=1_100_000))
    newer = only_disk(1, LayerSample("bpf", {"read": after((4096, 1_000_000))}))
    layer = derive(older, newer).layers["platter"]
    assert isinstance(layer, Unavailable)
    assert "out of order" in layer.reason


def test_rates_after_a_late_answer_are_over_the_time_between_two_answers() -> None:
    """A sample without a new answer repeats the last one: unknown, not idle."""
    one, two = after((4096, 1000)), after(*[(4096, 1000)] * 7)
    read_us = (-900_000, -1_900_000, -400_000)  # ticks 0 and 1 have the answer at -0.9 s
    answers = [{"read": op} for op in (one, one, two)]
    ticks = [
        only_disk(at, LayerSample("bpf", op, parts={"sda": op}, read_after_us=us))
        for at, (op, us) in enumerate(zip(answers, read_us, strict=True))
    ]
    late, then = disk(derive(*ticks[:2])), disk(derive(*ticks[1:]))
    assert (late.ops["read"].count, late.interval_s, dict(late.parts)) == (None, 1.0, {})
    assert then.interval_s == pytest.approx(2.5)
    assert then.ops["read"].count == 6
    for ops in (then.ops, then.parts["sda"]):
        assert ops["read"].ops_per_s == pytest.approx(6 / 2.5)


def test_a_total_missing_in_one_sample_leaves_the_others_known() -> None:
    older = OpTotals(count_total=5, bytes_total=None, latency_ns_total=10)
    newer = OpTotals(count_total=9, bytes_total=4096, latency_ns_total=None)
    found = derive_op(older, newer, 1.0)
    assert found.count == 4
    assert (found.bytes, found.bytes_per_s, found.avg_bytes) == (None, None, None)
    assert (found.latency_us, found.p50_us, found.avg_inflight) == (None, None, None)


def test_a_counter_that_went_backwards_is_unknown() -> None:
    older, newer = after((512, 1000), (512, 1000)), after()
    found = derive_op(older, newer, 1.0)
    assert found == replace(OpStats(), inflight=0, errors_per_s=0.0)


def test_an_idle_op_has_zero_rates_but_no_average_or_maximum() -> None:
    found = derive_op(after(), after(), 1.0)
    assert (found.count, found.ops_per_s, found.bytes_per_s) == (0, 0.0, 0.0)
    assert (found.latency_us, found.avg_bytes, found.max_us, found.p50_us) == (None,) * 4


def test_a_new_layer_is_shown_from_the_next_interval_on() -> None:
    busy = LayerSample("bpf", {"read": after((4096, 1000))})
    gone = Unavailable("no probe yet")
    layer = derive(only_disk(0, gone), only_disk(1, busy)).layers["platter"]
    assert isinstance(layer, Unavailable)
    assert layer.reason == "starting"
    missing = derive(fakes.sample(0, {}), only_disk(1, busy)).layers["platter"]
    assert isinstance(missing, Unavailable)
    assert derive(only_disk(0, busy), only_disk(1, gone)).layers["platter"] == gone


def test_totals_of_two_sources_are_never_subtracted() -> None:
    proc = LayerSample("proc", {"read": after()})
    bpf = LayerSample("bpf", {"read": after((4096, 1000))})
    layer = derive(only_disk(0, proc), only_disk(1, bpf)).layers["platter"]
    assert isinstance(layer, Unavailable)


def test_a_new_part_starts_at_zero() -> None:
    fresh = {"read": OpTotals(count_total=3, bytes_total=96, latency_ns_total=3000)}
    older = LayerSample("bpf", {"read": after()}, parts={})
    newer = LayerSample("bpf", {"read": after()}, parts={"sdb": fresh})
    found = between(older, newer).parts
    assert found["sdb"]["read"].count == 3
    assert found["sdb"]["read"].bytes == 96
    assert found["sdb"]["read"].latency_us == 1.0


def test_a_new_operation_of_a_part_starts_at_zero() -> None:
    """A disk that was only read until now, as in the first interval of a benchmark."""
    first = {"read": after(), "write": OpTotals(count_total=7, bytes_total=96)}
    older = LayerSample("bpf", parts={"sda": {"read": after()}})
    newer = LayerSample("bpf", parts={"sda": first})
    found = between(older, newer).parts["sda"]
    assert (found["read"].count, found["write"].count, found["write"].bytes) == (0, 7, 96)


def test_a_part_whose_operations_do_not_end_is_kept() -> None:
    stuck = {"sda": {"read": replace(after(), inflight=4)}, "sdb": {"read": after()}}
    sample = LayerSample("bpf", parts=stuck)
    found = between(sample, sample).parts
    assert list(found) == ["sda"]
    assert (found["sda"]["read"].count, found["sda"]["read"].inflight) == (0, 4)


def test_a_group_is_the_sum_of_its_members() -> None:
    a, b = after((4096, 1_000_000)), after((8192, 3_000_000), (8192, 5_000_000))
    both = add_ops([a, b])
    found = derive_op(add_ops([after(), after()]), both, 1.0)
    assert (found.count, found.bytes, found.latency_us) == (3, 20_480, 3000.0)
    assert (found.max_us, found.max_bytes) == (5000.0, 8192)
    assert found.latency is not None
    assert found.latency.total == 3


def test_a_sum_with_an_unknown_is_unknown() -> None:
    both = add_ops([OpTotals(count_total=1), OpTotals(count_total=2)])
    assert both.count_total == 3
    assert both.bytes_total is None
    assert both.size_lat is None


(TABLE,) = tables(
    """
    t | things | name | read_bytes_per_s
        read_bytes_total | rB/s | Bytes.
        reads_total      | r/s  | Reads.
        mean_bytes = read_bytes_total / reads_total | | Mean size.
        inflight         |      | Now.
    """
)


def test_rows_are_ranked_and_idle_ones_left_out() -> None:
    older: Table = {("a",): (100, 1, 0), ("b",): (0, 0, 0), ("idle",): (7, 7, 0)}
    newer: Table = {("a",): (200, 2, 1), ("b",): (900, 3, 0), ("idle",): (7, 7, 0)}
    rows = derive_table(TABLE, older, newer, 2.0)
    assert [row.key for row in rows] == [("b",), ("a",)]
    assert rows[1].values == {
        "read_bytes_per_s": 50.0,
        "reads_per_s": 0.5,
        "mean_bytes": 100.0,
        "inflight": 1,
    }


def test_a_new_row_counts_from_zero_and_a_vanished_one_is_dropped() -> None:
    rows = derive_table(TABLE, {("old",): (9, 9, 0)}, {("new",): (10, 2, 0)}, 1.0)
    assert [(row.key, row.values["read_bytes_per_s"]) for row in rows] == [(("new",), 10.0)]


def test_a_dropped_row_moves_to_others_but_a_lower_gauge_is_no_drop() -> None:
    older: Table = {("a",): (100, 10, 5), ("gone",): (7, 7, 0), (OTHERS,): (1, 1, 0)}
    newer: Table = {("a",): (110, 11, 2), (OTHERS,): (28, 10, 0)}
    rows = derive_table(TABLE, older, newer, 1.0)
    assert [(row.key[0], row.values["read_bytes_per_s"]) for row in rows] == [
        (OTHERS, 20.0),
        ("a", 10.0),
    ]
    assert rows[1].values["inflight"] == 2


def test_rows_of_equal_weight_are_in_order_of_their_keys() -> None:
    newer: Table = {(name,): (10, 1, 0) for name in "cab"}
    rows = derive_table(TABLE, {}, newer, 1.0)
    assert [row.key for row in rows] == [("a",), ("b",), ("c",)]


def test_iowait_that_ran_backwards_is_unknown() -> None:
    older, newer = fakes.quiet(2)
    newer = replace(newer, host=replace(newer.host, cpu_iowait_ticks=0))
    host = derive(older, newer).host
    assert (host.iowait_pct, host.steal_pct) == (None, 0.0)
    assert host.cpu_pct == 35.0


A, B = fakes.first(2)


def layer(name: str = next(iter(B.layers))) -> LayerSnapshot:
    found = derive(A, B).layers[name]
    assert isinstance(found, LayerSnapshot)
    return found


def test_late_stats_and_their_copies_equal_stats_computed_at_once() -> None:
    for name, stats in layer().ops.items():
        at_once = OpStats(**{each: getattr(stats, each) for each in OpStats.__dataclass_fields__})
        assert stats == at_once == layer().ops[name]
        assert (hash(stats), repr(stats)) == (hash(at_once), repr(at_once))
        fresh = layer().ops[name]
        assert pickle.loads(pickle.dumps(fresh)) == copy.copy(layer().ops[name]) == at_once
        assert replace(fresh, count=7) == replace(at_once, count=7)
        with pytest.raises(AttributeError, match="p42_us"):
            stats.p42_us  # type: ignore[attr-defined]  # noqa: B018


def test_a_late_mapping_computes_a_value_when_it_is_first_used() -> None:
    made = []

    def value(of: int) -> int:
        made.append(of)
        return of * 10

    lazy = LazyMapping({n: partial(value, n) for n in (1, 2)})
    assert 1 in lazy
    assert 3 not in lazy
    assert (len(lazy), list(lazy), made) == (2, [1, 2], [])
    assert lazy[2] == lazy[2] == 20
    assert made == [2]
    assert lazy == {1: 10, 2: 20}
    assert lazy == {1: 10, 2: 20}
    assert (lazy.get(3), lazy.get(3, 30), lazy.get(1), made) == (None, 30, 10, [2, 1])
    assert repr(lazy) == "{1: 10, 2: 20}"
    with pytest.raises(KeyError):
        lazy[3]
    other = LazyMapping({"a": lambda: 1.0, "b": lambda: 1 / 0}).but("a", 2.0)  # b is still lazy
    assert (other["a"], list(other)) == (2.0, ["a", "b"])


@pytest.mark.parametrize("told", [0, 1, 19, 20, 999, 1000])
@pytest.mark.parametrize("off", [-1000, 1])
@pytest.mark.parametrize("name", ["p50_us", "p95_us", "p99_us", "p999_us"])
def test_percentiles_are_from_the_histogram_in_any_order_of_access(
    told: int, off: int, name: str
) -> None:
    """``off``: by how much the counter, which is read at another moment, exceeds the histogram."""
    before = LatencyHist((3,) * FINE_BUCKETS)
    after = LatencyHist((3, 3 + told, *(3,) * (FINE_BUCKETS - 2)))
    sizes = SizeLatencyHist()
    older = OpTotals(count_total=2000, latency=before, size_lat=sizes)
    newer = OpTotals(count_total=max(2000, 2000 + told + off), latency=after, size_lat=sizes)
    stats = derive_op(older, newer, 1.0)
    quantile = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}[name]
    (expected,) = (after - before).percentiles_us((quantile,))
    assert getattr(stats, name) == expected
    assert (stats.p50_us, stats.p999_us) == (after - before).percentiles_us((0.5, 0.999))


@pytest.mark.parametrize(("untimed", "is_known"), [(0, True), (11, True), (12, False)])
def test_percentiles_are_not_those_of_a_part_of_the_operations(
    untimed: int, is_known: bool
) -> None:
    """A disk's requests and a zram's together: only the disk's have a histogram."""
    older, newer = OpTotals(count_total=0, latency=LatencyHist()), LatencyHist((1000,))
    sizes = SizeLatencyHist((1000,))
    both = OpTotals(count_total=1000 + untimed, latency=newer, size_lat=sizes)
    assert (derive_op(older, both, 1.0).p99_us is not None) == is_known
