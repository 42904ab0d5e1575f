"""The lines below the overview, the busiest file and device, and what w zooms into."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.call_means import CallMean, call_means, mean_over
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot, TableRow
from ioh.tui.actions import Context, act
from ioh.tui.history import TrendPoint, point_of
from ioh.tui.render.overview import render_overview
from ioh.tui.render.zoom import LastMark, LayersView
from ioh.tui.state import ViewState
from tests.support.screens import drawn, layer_of, minute, with_layer
from tests.unit.snapshot_maker import layer as layer_made
from tests.unit.snapshot_maker import op as made_op
from tests.unit.snapshot_maker import ticks

SIZES = [(80, 24), (120, 40)]
LAST = replace(minute()[-1], findings=())


def line_of(view: LayersView, size: tuple[int, int], begin: str) -> str:
    lines = [line.text for line in render_overview(view, *size).lines]
    return next((line.rstrip() for line in lines if line.startswith(begin)), "")


def point(snapshot: Snapshot, mean_us: float, bytes_per_s: float) -> TrendPoint:
    """An interval in which the reads of ``snapshot`` were others."""
    made, key = point_of(snapshot), ("syscall", "read_waited")
    key = key if key in made.ops else ("syscall", "read")
    reads = replace(made.ops[key], latency_us=mean_us, bytes_per_s=bytes_per_s, ops_per_s=10.0)
    return replace(made, interval_s=1.0, ops={key: reads}, calls={"read": CallMean(10.0, mean_us)})


@pytest.mark.parametrize("size", SIZES)
def test_since_the_mark_means_are_beside_those_of_as_long_before_it(size: tuple[int, int]) -> None:
    before = [point(LAST, 9e6, 9e9), point(LAST, 1000.0, 1e6), point(LAST, 3000.0, 3e6)]
    since = [point(LAST, 10_000.0, 50e6), point(LAST, 20_000.0, 70e6)]
    view = LayersView(ViewState(), LAST, [*before, *since], mark=LastMark("new disk", 2))
    said = line_of(view, size, " since ▼ ")
    assert said.startswith(" since ▼ new disk: READ 2.00 → 15.0 ms, 2.00 → 60.0 MB/s")
    late = replace(view, mark=LastMark("new disk"))
    assert line_of(late, size, " since ▼ ") == " since ▼ new disk: A compares"
    assert not line_of(replace(view, mark=None), size, " since ▼ ")


def test_what_waits_is_told_with_its_age_though_others_have_ended() -> None:
    read = replace(made_op(10, 4096, 100), inflight=3)
    values: dict[str, Value] = {"age_us": 3.2e6, "count": 1}
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = [(("loop3", "", "read"), values)]
    stuck = layer_made("block", {"read": read}, tables={"in_progress": rows})
    snapshot = ticks(1, {"block": stuck})[0]
    view = LayersView(ViewState(), snapshot, ())
    assert line_of(view, (80, 24), " waiting ").startswith(" waiting 3 block, oldest 3.20 s")
    young = with_layer(snapshot, "block", tables={})
    view = LayersView(ViewState(), young, ())
    assert line_of(view, (80, 24), " waiting ").startswith(" waiting 3 block (< 0.1 s)")
    none = with_layer(young, "block", ops={"read": replace(read, inflight=0)})
    view = LayersView(ViewState(), none, ())
    assert line_of(view, (80, 24), " waiting ").startswith(" waiting none")
    unknown = with_layer(young, "block", ops={"read": replace(read, inflight=None)})
    assert not line_of(LayersView(ViewState(), unknown, ()), (80, 24), " waiting ")


@pytest.mark.parametrize(
    ("reads", "says"),
    [(1, "1 app, 2 for a lock, oldest 3.20 s app (cp)"), (0, "2 for a lock, oldest 30.0 s (apt)")],
)
def test_a_wait_for_a_lock_is_not_one_for_storage(reads: int, says: str) -> None:
    ops = {"lock": replace(made_op(0, 0, 0), inflight=2)}
    ops["read"] = replace(made_op(0, 0, 0), inflight=reads)
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = [
        (("7", "apt", "lock", "/l", "sda"), {"age_us": 30e6, "count": 2})
    ]
    if reads:
        rows.append((("8", "cp", "read", "/f", "sda"), {"age_us": 3.2e6, "count": 1}))
    app = layer_made("syscall", ops, tables={"in_progress": rows})
    view = LayersView(ViewState(), ticks(1, {"syscall": app})[0], ())
    assert line_of(view, (80, 24), " waiting ").startswith(f" waiting {says}")


@pytest.mark.parametrize("size", SIZES)
def test_the_busiest_file_and_device_are_named_without_a_key(size: tuple[int, int]) -> None:
    view = LayersView(ViewState(chosen=("syscall", "read")), LAST, ())
    said = line_of(view, size, " busiest ")
    for layer, table, rate in (("syscall", "file", " MB/s"), ("block", "device", " MB/s")):
        first = layer_of(LAST, layer).rows(table)[0].key[0]
        assert f"  {table} {first} " in said
        assert rate in said.partition(first)[2]
    rows = layer_of(LAST, "syscall").tables["file"]
    others = TableRow(("(others)",), rows[0].values)
    tables = {**layer_of(LAST, "syscall").tables, "file": (others, *rows)}
    view = replace(view, snapshot=with_layer(LAST, "syscall", tables=tables))
    assert line_of(view, size, " busiest ") == said, "others are no file"
    shown = replace(view, state=ViewState(chosen=("block", "read")))
    assert "device" not in line_of(shown, size, " busiest "), "its rows are below"


def test_w_and_a_number_zoom_into_writes_that_there_are() -> None:
    """With buffered writes only, those that waited for a lower layer have nothing to show."""
    some, none = made_op(300, 4096, 11), made_op(0, 0, 0)
    ops = {"write": some, "write_waited": none, "write_buffered": some, "read": none}
    snapshot = ticks(1, {"syscall": layer_made("syscall", ops)})[0]
    context = Context(LayersView(ViewState(), snapshot, ()), 9)
    chosen = ViewState(chosen=("syscall", "write_waited"))
    there = {"write", "write_buffered"}
    assert act(chosen, "zoom", "syscall/write_waited", context).chosen[1] in there
    zoomed = ViewState(layer="syscall", chosen=("syscall", "read"))
    context = Context(LayersView(zoomed, snapshot, ()), 9)
    assert act(zoomed, "writes", "", context).chosen[1] in there
    assert act(zoomed, "reads", "", context).chosen[1] == "read_waited", "nothing is better"


def test_no_finding_is_told_only_if_rules_have_looked() -> None:
    judged = replace(minute()[-1], findings=())
    said = "no finding; "
    assert (said in drawn(judged).text()) == bool(judged.not_evaluated)
    assert said not in drawn(replace(judged, not_evaluated=())).text()


@pytest.mark.parametrize("size", SIZES)
def test_each_kind_has_its_part_of_the_time_and_a_single_one_none(size: tuple[int, int]) -> None:
    """2 reads of 8 ms take as long as 4 writes of 4 ms."""
    ops = {
        "read": made_op(2, 4096, 8000), "read_waited": made_op(2, 4096, 8000),
        "read_direct": made_op(2, 4096, 8000), "write": made_op(4, 4096, 4000),
        "write_waited": made_op(4, 4096, 4000), "write_direct": made_op(4, 4096, 4000),
    }  # fmt: skip
    both = ticks(1, {"syscall": layer_made("syscall", ops)})[0]
    heads = [line.text for line in drawn(both, size).lines if line.text.startswith("── ")]
    assert sum(", 50% of I/O time " in head for head in heads) == 2
    reads = {name: stats for name, stats in ops.items() if name.startswith("read")}
    one = ticks(1, {"syscall": layer_made("syscall", reads)})[0]
    assert " of I/O time " not in drawn(one, size).text()


def test_means_of_calls_that_waited_and_of_those_that_did_not_are_not_mixed() -> None:
    direct, cached = made_op(10, 4096, 5000), made_op(990, 4096, 10)
    both = {"read": made_op(1000, 4096, 59.9), "read_waited": direct, "read_direct": direct,
            "read_cached": cached}  # fmt: skip
    none = made_op(0, 0, 0)
    only = {**both, "read": cached, "read_waited": none, "read_direct": none}
    share: dict[str, Value] = {"cached_pct": 99.0}
    mixed, alone = (
        call_means(ticks(1, {"syscall": layer_made("syscall", ops, metrics=share)})[0])
        for ops in (both, only)
    )
    assert mixed["read"] == CallMean(10, 5000)
    assert mixed["all read"] == pytest.approx((1000, 59.9))
    assert alone == {"all read": CallMean(990, 10)}
    assert mean_over([(1.0, mixed["read"]), (1.0, CallMean())]) == 5000
    assert mean_over([(1.0, CallMean(1, 30.0)), (2.0, CallMean(1, 60.0))]) == pytest.approx(50.0)
    assert (mean_over([(1.0, CallMean())]), mean_over([])) == (0.0, None)


def test_a_folded_line_tells_of_the_cache_before_the_size() -> None:
    metrics: dict[str, Value] = {"cached_pct": 99.6}
    waited, cached, writes = (
        made_op(1, 16384, 463),
        made_op(20_000, 16384, 3),
        made_op(900, 4e4, 5e4),
    )
    ops = {"read": cached, "read_waited": waited, "read_missed": waited, "read_cached": cached,
           "write": writes, "write_waited": writes, "write_direct": writes}  # fmt: skip
    snapshot = ticks(1, {"syscall": layer_made("syscall", ops, metrics=metrics)})[0]
    said = line_of(LayersView(ViewState(), snapshot, ()), (80, 14), "── READ ")
    assert said.startswith("── READ 463 µs × 1/s, <1% of I/O time  ◂ ")
    assert " 100% from cache" in said
