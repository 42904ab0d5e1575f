"""What the screen and ``ioh compare`` show of databases."""

from __future__ import annotations

from dataclasses import replace

from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.compare import render_comparison
from ioh.sinks.histogram import HistStyle
from ioh.tui.render.box_db import waiting_lines
from tests.unit.snapshot_maker import layer, op, ticks

SERVER = "postgres 15/main"
_TITLE = "  postgresql statements: shop  "
Rows = list[tuple[tuple[str, ...], dict[str, Value]]]


def in_progress(**ages_s: float) -> LayerSnapshot:
    rows: Rows = [
        (("47", "app", name, "", SERVER), {"age_us": age * 1e6, "count": 1})
        for name, age in ages_s.items()
    ]
    ops = {name: replace(op(0, 0, 0), inflight=3) for name in ages_s}
    return layer("db", ops, tables={"in_progress": rows})


def test_what_has_been_in_progress_while_none_ended_has_a_line() -> None:
    lines = waiting_lines(in_progress(statement=12.3, lock_wait=12, checkpoint=90))
    assert [" ".join(line.text.split()) for line in lines] == [
        "stmt in-fl 3 oldest 12.3 s",
        "lock in-fl 3 oldest 12.0 s",
        "ckpt in-fl 3 oldest 90.0 s",
    ]
    assert not list(waiting_lines(layer("db")))


def statements(**mean_us: float) -> LayerSnapshot:
    rows: Rows = [
        (("shop", text), {"avg_inflight": us / 1e6, "calls_per_s": 1.0, "latency_us": us})
        for text, us in mean_us.items()
    ]
    return layer("pg", tables={"statement": rows})


def compared(a: Snapshot, b: Snapshot) -> list[str]:
    return render_comparison(a, b, HistStyle(), every_op=False).splitlines()


def test_compare_has_the_statements_with_most_time_in_them() -> None:
    (a,) = ticks(1, {"pg": statements(slow=372_000, gone=50_000)})
    (b,) = ticks(1, {"pg": statements(slow=200, **{f"s{n}": n for n in range(12)})})
    lines = compared(a, b)
    found = [line for line in lines if "statements: " in line]
    assert found[:2] == [
        f"{_TITLE}slow",
        f"{_TITLE}gone",
    ]
    assert len(found) == 10
    at = lines.index(found[0])
    numbers = {line.split()[0]: line.split() for line in lines[at + 1 : at + 4]}
    assert numbers["mean"][2:] == ["372.000", "0.200", "-371.800", "-99.9%"]
    assert numbers["active"][1:3] == ["0.372", "0.000"]
    gone = lines[lines.index(found[1]) + 1 :][:3]
    assert ["mean", "ms", "50.000", "-", "-", "-"] in [line.split() for line in gone]
    assert ["calls/s", "1.000", ".", "-1.000", "-100.0%"] in [line.split() for line in gone]


def test_rows_of_a_layer_that_is_not_measured_are_unknown() -> None:
    (a,) = ticks(1, {"pg": statements(slow=372_000)})
    (b,) = ticks(1, {"pg": Unavailable("connecting to PostgreSQL")})
    lines = [
        line.split() for line in render_comparison(a, b, HistStyle(), every_op=False).splitlines()
    ]
    assert ["active", "0.372", "-", "-", "-"] in lines
