"""The panels, bars and lines of the first screen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ioh.findings.rule import all_rules
from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.sinks.rows import main_stats
from ioh.tui.history import point_of
from ioh.tui.render.box import boxed, trends_of
from ioh.tui.render.box_db import DB, PG
from ioh.tui.render.box_ops import FLOW, OPS, RETRANS_PCT
from ioh.tui.render.fan_out import fan_out
from ioh.tui.render.histogram import axis_for
from ioh.tui.render.overview import box_of
from ioh.tui.render.zoom import LayersView
from ioh.tui.rows import flow_facts
from ioh.tui.state import ViewState
from tests.support.fakes import size_index
from tests.support.screens import FINDINGS, drawn, layer_of, minute, with_layer
from tests.unit.snapshot_maker import layer as layer_made
from tests.unit.snapshot_maker import op as made_op
from tests.unit.snapshot_maker import ticks

LAST = minute()[-1]


def shown(snapshot: Snapshot, size: tuple[int, int] = (120, 40)) -> list[str]:
    return [line.text for line in drawn(snapshot, size).lines]


def with_ops(ops: dict[str, OpStats], name: str = "block") -> Snapshot:
    return with_layer(LAST, name, ops={**layer_of(LAST, name).ops, **ops})


@pytest.mark.parametrize(
    ("read", "numbers"),
    [
        (OpStats(9, None, 1234.0, 8.192e6, latency_us=1234.5, p99_us=4e3), "8.19 1.23 ms"),
        (OpStats(1), "- -"),
        (OpStats(1, None, 0.0, 0.0, latency_us=0.01), ". 10 ns"),
        (OpStats(9, None, 3e9, 2e13, latency_us=1e8, p99_us=1e8), "20.0M 100 s"),
    ],
)
def test_a_title_has_the_throughput_and_the_mean(read: OpStats, numbers: str) -> None:
    title = next(x for x in shown(with_ops({"read": read})) if "╭ 5 block " in x)
    assert f"╭ 5 block ─ R {numbers} ─" in title


@pytest.mark.parametrize("count", [0, 9])
@pytest.mark.parametrize("size", [(80, 24), (80, 60), (120, 40), (170, 45)])
@pytest.mark.parametrize("zoomed", ["", "block"])
def test_errors_take_the_place_of_a_number_that_matters_less(
    count: int, size: tuple[int, int], zoomed: str
) -> None:
    """They are red in lines, panels and the zoom; without errors nothing is different."""
    state = ViewState(layer=zoomed, chosen=("block", "read"))
    read = OpStats(count, 0, float(count), 0.0, latency_us=900.0, errors_per_s=149.0)
    bad, good = (
        drawn(with_ops({"read": each}), size, state)
        for each in (read, replace(read, errors_per_s=0.0))
    )
    loud = [span for line in bad.lines for span in line.spans if "149" in span[0]]
    assert {style for _, style in loud} == {"crit"}
    assert any("err/s" in line.text for line in bad.lines)
    assert not any("149" in line.text for line in good.lines)
    assert all(line.width == size[0] for line in bad.lines)


def fanned(snapshot: Snapshot, upper: str, width: int = 200) -> list[tuple[str, str]]:
    return fan_out(snapshot, layer_of(snapshot, upper), width)


def test_what_a_call_becomes_is_shown_and_coloured_if_a_finding_is_about_it() -> None:
    read = replace(layer_of(LAST, "syscall").ops["read"], avg_bytes=1 << 20)
    metrics = {
        "read_lower_ops_per_op": 8.0,
        "read_lower_ops_per_s": 800.0,
        "read_lower_bytes_per_s": 800.0 * 131072,
    }
    snapshot = with_layer(with_ops({"read": read}, "syscall"), "syscall", metrics=metrics)
    first = (" 1 read of 1M → 8 READs and requests of 128K ", "dim")
    assert fanned(snapshot, "syscall")[0] == first
    about = replace(snapshot, findings=FINDINGS)
    assert fanned(about, "syscall")[0][1] == "warn"
    reasons = [(" !! A critical thing ", "crit"), (" ! A warning thing ", "warn")]
    assert fanned(about, "nfs_client") == [
        *reasons,
        (" i A info thing ", "dim"),
        (" 1 READ of 128K → 90.6 segments of 1.41K ", "dim"),
    ]
    assert fanned(LAST, "nfs_server")[0][0] == " 3.83 READs of 128K → 1 request of 490K "
    assert fanned(snapshot, "syscall", 20) == [], "never half a number"
    assert fanned(LAST, "tcp") == [], "segments are nobody's calls"


def mixed(**more: float) -> Snapshot:
    """2 reads of 128K a second that waited, beside 50,000 of 4K in memory; writes of both kinds."""
    slow, fast = made_op(2, 131072, 8000), made_op(50_000, 4096, 1.2)
    layers = {
        "syscall": layer_made(
            "syscall",
            {
                "read": made_op(50_002, 4101, 1.5, inflight=3),
                "read_waited": slow, "read_missed": slow, "read_cached": fast,
                "write": made_op(300, 4096, 11),
                "write_waited": made_op(0, 0, 0), "write_buffered": made_op(300, 4096, 11),
            },
            metrics={
                "cached_pct": 3.1, "cached_calls_pct": 99.9, "read_lower_ops_per_s": 4.0,
                "read_lower_bytes_per_s": 262144.0, "read_lower_ops_per_op": 8e-5, **more,
            },
        ),
        "block": layer_made("block", {"read": made_op(4, 65536, 3900)}),
    }  # fmt: skip
    return ticks(1, layers)[0]


def test_a_panel_is_about_calls_that_waited_with_the_others_beside() -> None:
    found = mixed()
    lines = shown(found, (200, 40))
    title = next(line for line in lines if line.startswith("╭ 3 app "))
    assert " R 0.262 8.00 ms ─ W 1.23 11 µs buffered " in title
    heading = next(line for line in lines if line.startswith("── READ "))
    assert heading.startswith(
        "── READ 8.00 ms × 2/s = 0.016 at a time, 96% of I/O time  mostly 128K buffered "
    )
    assert " 3% from cache ──" in heading
    wide = next(line for line in shown(found, (300, 40)) if line.startswith("── READ "))
    assert " 3% from cache, 50.0k/s of 1 µs ──" in wide
    app = layer_of(found, "syscall")
    assert main_stats(app.spec, app.ops)[0][1].inflight == 3, "before its end no kind is known"
    assert any(
        "── WRITE 11 µs × 300/s = 0.003 at a time, 4% of I/O time  mostly 4K " in line
        for line in lines
    )


def test_trends_are_of_calls_that_waited() -> None:
    point = point_of(mixed())
    assert point.ops["syscall", "read_waited"].latency_us == 8000
    view = LayersView(ViewState(), mixed(), [point])
    trends = {trend.label: trend.values for trend in OPS.trends(view, layer_of(mixed(), "syscall"))}
    assert trends["R ms"] == [8000]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_title_and_trends_of_a_direction_are_of_the_same_calls(*, is_waiting: bool) -> None:
    """If no write reached a lower layer, both are of all writes, also of those before that did."""
    now = mixed()
    app = layer_of(now, "syscall")
    both = made_op(400, 4096, 100)
    then = with_layer(now, "syscall", ops={**app.ops, "write": both, "write_waited": both})
    if is_waiting:  # told instead of the buffered calls
        stuck = replace(app.ops["write"], inflight=2)
        now = with_layer(now, "syscall", ops={**app.ops, "write": stuck}, tables={
            "in_progress": (TableRow(("4", "dd", "write", "/a", "sda"),
                                     {"count": 2, "age_us": 2e6}),)
        })  # fmt: skip
    app = layer_of(now, "syscall")
    view = LayersView(ViewState(), now, [point_of(then), point_of(now)])
    read, write, *_ = (piece.text for piece in OPS.title(view, app))
    trends = {trend.label: trend.values for trend in OPS.trends(view, app)}
    assert read == "R 0.262 8.00 ms"
    assert trends["R MB/s"] == [262144, 262144]
    if is_waiting:
        assert write.startswith("W in-fl 2")
        assert trends["W MB/s"] == [1638400, 0]
    else:
        assert write == "W 1.23 11 µs buffered"
        assert (trends["all W MB/s"], trends["all W ms"]) == ([1638400, 1228800], [100, 11])
        low = drawn(now, (80, 24), history=(then, now)).text()
        assert re.search(r"\n all WRITE MB/s .* 1\.23 +1\.64 *\n", low)
        assert re.search(r"\n READ MB/s ", low)


@pytest.mark.parametrize(
    ("sizes", "lower", "expected"),
    [
        ({1 << 20: 10}, (160, 10 << 20), "1 read of 1M → 16 requests of 64K"),
        # Small reads become a request each.
        ({1 << 20: 10, 4096: 100}, (260, (10 << 20) + 409600), "1 read of 1M → 16 requests of 64K"),
        # Read-ahead fetches more than a call asks for.
        ({4096: 32}, (32, 32 << 17), "1 read of 4K → 1 request of 128K"),
        ({4096: 64}, (32, 64 << 12), "2 reads of 4K → 1 request of 8K"),
        # A few large ones beside them do not merge them.
        ({1 << 13: 6000, 1 << 20: 16}, (6016, 256 << 20), "1 read of 8K → 1 request"),
        ({1 << 13: 6000, 1 << 20: 16}, (5640, 256 << 20), "1.07 reads of 8K → 1 request"),
        # Large ones are cut alike.
        ({1 << 20: 10, 1 << 19: 10}, (240, 15 << 20), "1 read of 1M → 16 requests of 64K"),
        # As of tar: read-ahead fetches more for large files than for small ones.
        ({1 << 11: 900, 1 << 12: 800, 1 << 14: 320}, (2450, 24_800_000), ""),
        ({1 << 14: 320}, (384, 24_800_000), "1 read of 16K → 1.2 requests of 63.1K"),
        # Of small ones only the most bytes are known.
        ({1 << 12: 4000, 1 << 15: 600}, (5200, (4000 << 12) + (600 << 15)), ""),
    ],
)
def test_what_a_read_becomes_is_told_of_the_size_that_moves_most(
    sizes: dict[int, int], lower: tuple[int, int], expected: str
) -> None:
    counts = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    for size, count in sizes.items():
        counts[size_index(size) * LATENCY_BUCKETS + 9] = count
    calls = sum(sizes.values())
    total = sum(size * count for size, count in sizes.items())
    read = made_op(calls, total / calls, 900, size_lat=SizeLatencyHist(tuple(counts)))
    ops, moved = lower
    metrics = {
        "read_lower_ops_per_s": float(ops), "read_lower_bytes_per_s": float(moved),
        "read_lower_ops_per_op": 0.001,
    }  # fmt: skip
    app = layer_made("syscall", {"read_waited": read, "read": read}, metrics=metrics)
    snapshot = ticks(1, {"syscall": app, "block": layer_made("block")})[0]
    assert fanned(snapshot, "syscall") == [(f" {expected} ", "dim")] * bool(expected)


@pytest.mark.parametrize(
    ("calls", "cached", "lower", "expected"),
    [
        (500.0, 400.0, 400.0, "1 read of 128K → 4 requests of 32K"),
        # Four fifths of them were followed, and others are from memory.
        (480.0, 400.0, 320.0, "1 read of 128K → 4 requests of 32K"),
        # Nearly all were done by other threads, as of io_uring: nobody knows what they became.
        (410.0, 400.0, 40.0, ""),
        # Direct ones that the file system served from memory.
        (100.0, 99.0, 4.0, ""),
    ],
)
def test_a_read_becomes_the_requests_of_reads_that_were_followed(
    calls: float, cached: float, lower: float, expected: str
) -> None:
    read = made_op(100, 131072, 900)
    metrics = {
        "read_lower_ops_per_s": lower, "read_lower_bytes_per_s": lower * 32768,
        "read_lower_ops_per_op": lower / calls,
        "read_calls_per_s": calls, "read_calls_cached_per_s": cached,
    }  # fmt: skip
    app = layer_made("syscall", {"read_waited": read, "read": read}, metrics=metrics)
    snapshot = ticks(1, {"syscall": app, "block": layer_made("block")})[0]
    assert fanned(snapshot, "syscall") == [(f" {expected} ", "dim")] * bool(expected)


@pytest.mark.parametrize("others", ["fsync", "copy", "reads"])
def test_requests_of_others_are_not_the_writes(others: str) -> None:
    write, other = made_op(10, 4096, 900), made_op(50, 0, 900)
    metrics = {"write_lower_ops_per_s": 500.0, "write_lower_ops_per_op": 8.0}
    metrics["write_reads_per_s"] = 50.0 * (others == "reads")
    for moved, is_told in ((10 * 4096.0, True), (500 * 4096.0, False)):
        metrics["write_lower_bytes_per_s"] = moved
        ops = {"write_waited": write, "write": write}
        ops |= {others: other} if others != "reads" else {}
        app = layer_made("syscall", ops, metrics={**metrics})
        snapshot = ticks(1, {"syscall": app, "block": layer_made("block")})[0]
        assert bool(fanned(snapshot, "syscall")) == is_told


def test_what_a_statement_becomes_is_the_io_of_its_sessions() -> None:
    def of(name: str, table: str, *rows: tuple[tuple[str, ...], dict[str, float]]) -> LayerSnapshot:
        return layer_made(name, tables={table: [(key, {**values}) for key, values in rows]})

    db = of(
        "db", "session",
        (("7", "alice shop", "postgres"), {"statements_per_s": 90.0}),
        (("8", "bob shop", "postgres"), {"statements_per_s": 10.0}),
        (("9", "checkpointer", "postgres"), {"statements_per_s": 0.0}),
    )  # fmt: skip
    layers = {
        "db": db,
        "syscall": of(
            "syscall", "process",
            (("7", "postgres"), {"reads_per_s": 40.0, "writes_per_s": 100.0}),
            (("8", "postgres"), {"reads_per_s": 2.0, "writes_per_s": 20.0}),
            (("9", "postgres"), {"reads_per_s": 0.0, "writes_per_s": 5000.0}),
            (("10", "fio"), {"reads_per_s": 9000.0, "writes_per_s": 0.0}),
        ),
        "block": of("block", "process", (("7", "postgres"), {"writes_per_s": 150.0})),
    }  # fmt: skip
    snapshot = replace(LAST, layers={**layers})
    text = " 1 statement → 0.42 reads, 1.2 writes, 1.5 requests "
    assert fan_out(snapshot, db, 80) == [(text, "dim")]
    assert fan_out(snapshot, db, len(text) - 1) == [
        (" 1 statement → 0.42 reads, 1.2 writes ", "dim")
    ]
    assert fan_out(snapshot, db, 20) == []
    assert fan_out(replace(LAST, layers={"db": db}), db, 80) == []


def test_layers_whose_bytes_differ_do_not_correspond() -> None:
    client = layer_of(LAST, "nfs_client")
    half = replace(client.ops["read"], bytes_per_s=(client.ops["read"].bytes_per_s or 0) * 2)
    cached = replace(client, ops={**client.ops, "read": half})
    assert fan_out(LAST, cached, 200) == []


def test_a_database_has_rates_and_times_of_statements_and_commits() -> None:
    ops = {"statement": made_op(100, 0, 3000), "commit": made_op(50, 0, 900)}
    snapshot = ticks(1, {"db": layer_made("db", ops)})[0]
    view = LayersView(ViewState(), snapshot, (point_of(snapshot),))
    db = layer_of(snapshot, "db")
    title, trends = DB.title(view, db), DB.trends(view, db)
    assert [piece.text for piece in title] == ["stmt 100/s 3.00 ms", "commit 50/s 900 µs"]
    assert [trend.label for trend in trends] == ["stmt/s", "stmt ms", "commit/s", "commit ms"]


def test_a_layer_without_a_panel_of_its_own_uses_that_of_its_kind() -> None:
    block, tcp = LAST.specs["block"], LAST.specs["tcp"]
    assert box_of(replace(block, name="nvme")) is OPS
    assert box_of(replace(tcp, name="wire")) is FLOW
    assert box_of(replace(block, name="pg")) is PG


@pytest.mark.parametrize(("again_pct", "style"), [(0.49, "dim"), (0.5, "crit")])
def test_retransmits_are_red_from_the_rules_threshold(again_pct: float, style: str) -> None:
    assert all_rules()["tcp_retransmits"].defaults["retrans_min_pct"] == RETRANS_PCT
    tcp = layer_of(LAST, "tcp")
    metrics = {**tcp.metrics, "retrans_pct": again_pct, "retrans_segs_per_s": again_pct * 100}
    lines = drawn(with_layer(LAST, "tcp", metrics=metrics)).lines
    red = [text for line in lines for text, kind in line.spans if kind == "crit" and "retr" in text]
    assert bool(red) == (style == "crit")


@pytest.mark.parametrize(
    ("share_pct", "segments", "title", "middle", "facts", "now"),
    [
        (None, 0.0, "0% retrans", "0", ["retr% 0", "retr/s 0"], 0.0),
        (0.0, 0.0, "0% retrans", "0", ["retr% 0", "retr/s 0"], 0.0),
        (None, None, "- retrans", "-", [], None),
        (1.25, 7.0, "1.25% retrans", "1.25%", ["retr% 1.25", "retr/s 7.00"], 1.25),
    ],
)
def test_a_flow_sent_as_much_again_in_its_line_as_in_its_box(
    share_pct: float | None,
    segments: float | None,
    title: str,
    middle: str,
    facts: list[str],
    now: float | None,
) -> None:
    """Of no segments none was sent again; ``-`` is not measured."""
    again = {"retrans_pct": share_pct, "retrans_segs_per_s": segments}
    found = with_layer(LAST, "tcp", metrics={**layer_of(LAST, "tcp").metrics, **again})
    view, tcp = LayersView(ViewState(), found, [point_of(found)]), layer_of(found, "tcp")
    assert FLOW.title(view, tcp)[-1].text == title
    lines = [line.text.split() for line in FLOW.middle(view, tcp, axis_for(40), 56, 8)]
    assert next(words[1] for words in lines if words[0] == "retrans") == middle
    assert list(flow_facts(tcp, "W")) == facts
    assert [x.values for x in FLOW.trends(view, tcp) if x.label == "retr %"] == [[now]]


def test_a_flow_without_round_trips_has_its_own_words_and_no_axis() -> None:
    tcp = layer_of(LAST, "tcp")
    metrics = {**tcp.metrics, "srtt_us": None, "min_rtt_us": None}
    snapshot = with_layer(LAST, "tcp", metrics=metrics, ops=dict.fromkeys(tcp.ops, OpStats()))
    (line,) = (text for text in shown(snapshot, (80, 24)) if text.startswith(" 3 network "))
    assert "rtt" not in line
    assert "·" not in line


def test_operations_without_bytes_have_rates_and_one_histogram_each() -> None:
    spec = replace(layer_of(LAST, "block").spec, ops=("open",), groups={}, has_bytes=False)
    counts = [0] * SIZE_BUCKETS * LATENCY_BUCKETS
    counts[12] = 7
    opened = made_op(7, 0, 3000, size_lat=SizeLatencyHist(tuple(counts)))
    snapshot = with_layer(LAST, "block", spec=spec, ops={"open": opened}, tables={}, parts={})
    view = LayersView(ViewState(), snapshot, (point_of(snapshot),))
    layer = layer_of(snapshot, "block")
    assert [piece.text for piece in OPS.title(view, layer)] == ["open 7/s 3.00 ms"]
    assert [trend.label for trend in OPS.trends(view, layer)] == ["open/s", "open ms"]
    rows = OPS.middle(view, layer, axis_for(60), 60, 4)[1:]
    assert [row.text[:9].split() for row in rows] == [["open"]]


def test_a_layer_without_breakdowns_can_be_zoomed_into() -> None:
    spec = replace(layer_of(LAST, "block").spec, tables=())
    snapshot = with_layer(LAST, "block", spec=spec, tables={})
    snapshot = replace(snapshot, specs={**snapshot.specs, "block": spec})
    state = ViewState(layer="block", chosen=("block", "read"))
    assert "block" in drawn(snapshot, (120, 40), state).text()


@pytest.mark.parametrize(("height", "shown", "numbers"), [(7, 2, 1), (9, 3, 2), (10, 4, 2)])
def test_the_numbers_of_trends_have_a_heading_or_are_those_of_now(
    height: int, shown: int, numbers: int
) -> None:
    """A low box has no heading, and no numbers of then; a higher one rather that than a trend."""
    state = ViewState(chosen=("block", "read"))
    view = LayersView(state, LAST, [point_of(interval) for interval in minute()])
    layer = layer_of(LAST, "block")
    lines = boxed(OPS, view, layer, trends_of(OPS, view, layer), 40, height).lines
    trends = [line.text for line in lines if re.match(r"│ [RW] (MB/s|ms) ", line.text)]
    assert [bool(re.search(r" \d+s ago +now │", line.text)) for line in lines].count(True) == (
        numbers == 2
    )
    assert len(trends) == shown
    assert all(len(re.findall(r" [\d.]+(?= )", text)) == numbers for text in trends)
