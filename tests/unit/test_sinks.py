"""Text and JSON say what is unknown, and let nothing hostile through."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from ioh.model.hist import LATENCY_BUCKETS
from ioh.model.metric import tables
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot, TableRow
from ioh.pipeline import snapshots
from ioh.sinks import cells
from ioh.sinks.histogram import HistRow, HistStyle, render_columns
from ioh.sinks.json import JsonSink
from ioh.sinks.rows import direction
from ioh.sinks.tables import render_table
from ioh.sinks.text import TextOptions, TextSink
from tests.support import fakes
from tests.support.screens import minute
from tests.unit.snapshot_maker import layer


def one(seed: int = 7) -> Snapshot:
    return next(snapshots(fakes.seeded(seed)))


def as_text(snapshot: Snapshot, *sections: str, **style: Any) -> str:
    options = TextOptions(frozenset(sections), top=None, hist=HistStyle(**style), utc=True)
    return TextSink(options).render(snapshot)


def test_ids_of_64_bits_are_text_in_json() -> None:
    """Most readers of JSON have no integers beyond 2^53."""
    numbers: dict[str, Value] = {"queryid": -4199617250523338340, "calls_per_s": 2.0}
    postgres = layer("pg", tables={"statement": [(("shop", "select 1"), numbers)]})
    shown = replace(one(), layers={"pg": postgres})
    (row,) = json.loads(JsonSink().render(shown))["layers"]["pg"]["top"]["statement"]
    assert (row["queryid"], row["calls_per_s"]) == ("-4199617250523338340", 2.0)


def test_json_is_one_ascii_line_without_nan() -> None:
    snapshot = replace(one(), interval_s=math.nan, self_cpu_pct=math.inf)
    line = JsonSink().render(snapshot)
    assert line.isascii()
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found["interval_s"] is None
    assert found["ioh"] == {"self_cpu_pct": None, "bpf_cpu_pct": None}


def test_plain_text_fits_80_columns_and_names_the_source_unless_it_is_bpf() -> None:
    assert "source bpf: prog, platter; proc: wire" in as_text(one())
    snapshot = one()
    only_bpf = replace(snapshot, layers={"platter": snapshot.layers["platter"]})
    assert "source" not in as_text(only_bpf)
    assert max(map(cells.display_width, TextSink().render(snapshot).splitlines())) <= 80


@pytest.mark.parametrize(
    ("op", "where"),
    [
        ("READ", "R"), ("read_direct", "R"), ("in", "R"), ("reads_total", "R"),
        ("write_sync", "W"), ("out_bytes_per_s", "W"), ("readdir", ""), ("inflight", ""),
    ],
)  # fmt: skip
def test_direction_depends_on_whole_words(op: str, where: str) -> None:
    assert direction(op) == where


@pytest.mark.parametrize(
    ("value", "width", "decimals", "shown"),
    [
        (0, 6, 3, "."), (None, 6, 3, "-"), (math.nan, 6, 3, "-"), (24.01, 6, 4, "24.010"),
        (0.0012, 6, 4, "0.0012"), (123456.7, 6, 3, "123457"), (12_345_678, 6, 3, "12.3M"),
        (0.00001, 6, 4, "0.0000"),
    ],
)  # fmt: skip
def test_fixed_numbers(value: float | None, width: int, decimals: int, shown: str) -> None:
    assert cells.format_fixed(value, width, decimals) == shown


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("read_bytes_per_s", 12_300_000.0, "12.3M"), ("max_bytes", 131_072, "128K"),
        ("srtt_us", 210.0, "210µs"), ("srtt_us", 1210.0, "1.21ms"), ("srtt_us", 0.45, "450ns"),
        ("srtt_us", 2_100_000.0, "2.10s"), ("busy_pct", 0.25, "0.250%"), ("inflight", 3, "3"),
        ("x_per_s", 0.5, "0.500"), ("x_per_s", None, "-"), ("x_per_s", 0.0, "."),
    ],
)  # fmt: skip
def test_numbers_by_unit(metric: str, value: float | None, shown: str) -> None:
    assert cells.format_unit(metric, "", value) == shown


def test_wide_names_are_padded_by_the_columns_they_take() -> None:
    assert cells.display_width("数据库") == 6
    assert cells.display_width("e\u0301") == 1
    assert cells.pad_right("数据", 6) == "数据  "
    assert cells.safe_name("/a/very/long/path/to/file.dbf", 13) == "/a/ver~le.dbf"
    assert cells.display_width(cells.safe_name("数" * 30, 11)) <= 11


def test_histogram_columns_shrink_to_the_line_unless_a_width_is_given() -> None:
    rows = [HistRow("row ", [1] * 20)]
    assert max(map(len, render_columns("head", rows, HistStyle(width=90)))) <= 90
    told = render_columns("head", rows, HistStyle(width=90, column_width=8, pad="|"))
    assert len(told[1]) == 4 + 20 * 9


def test_the_slowest_bucket_has_no_upper_edge() -> None:
    counts = [0] * LATENCY_BUCKETS
    counts[-1] = 1
    assert render_columns("", [HistRow("", counts)], HistStyle())[0].endswith("17s+")


def test_iops_are_reads_and_writes_never_segments() -> None:
    snapshot = minute()[-1]
    tcp = replace(snapshot, layers={"tcp": snapshot.layers["tcp"]})
    assert tcp.measured["tcp"].ops["in"].ops_per_s
    assert "IOPs -  " in as_text(tcp)


def test_tables_show_readers_then_writers() -> None:
    (spec,) = tables(
        """
        t | things | name | read_bytes_per_s, write_bytes_per_s
            read_bytes_total  | rB/s |
            write_bytes_total | wB/s |
        """
    )
    rows = [
        TableRow((name,), {"read_bytes_per_s": read, "write_bytes_per_s": written})
        for name, read, written in (("a", 1e6, 9e6), ("b", 2e6, 0.0), ("c", None, None))
    ]
    lines = render_table(spec, rows, top=1, width=80)
    assert lines == ["   MB/s name", "R 2.000 b", "   MB/s name", "W 9.000 a"]
    assert render_table(spec, rows[2:], top=5, width=80) == []


def test_tables_show_last_what_is_neither_read_nor_written() -> None:
    (spec,) = tables(
        """
        t | things | name | read_bytes_per_s, write_bytes_per_s, copy_bytes_per_s
            read_bytes_total  | rB/s |
            write_bytes_total | wB/s |
            copies_total      | copy/s |
            copy_bytes_total  | copyB/s |
        """
    )
    rows = [
        TableRow(
            (name,),
            {"read_bytes_per_s": read, "copies_per_s": 8.0 * bool(copied),
             "copy_bytes_per_s": copied},
        )
        for name, read, copied in (("cp", 1e6, 9e6), ("cat", 2e6, 1e6), ("mv", 0.0, 3e6))
    ]  # fmt: skip
    assert render_table(spec, rows, top=2, width=80) == [
        "   MB/s copy/s copy MB/s name", "R 2.000    8.0     1.000 cat",
        "R 1.000    8.0     9.000 cp",
        "  copy MB/s copy/s name", "      9.000    8.0 cp", "      3.000    8.0 mv",
    ]  # fmt: skip


def test_tables_show_who_makes_most_calls_even_if_its_bytes_are_more() -> None:
    (spec,) = tables(
        """
        t | things | name | read_bytes_per_s, write_bytes_per_s, metas_per_s
            read_bytes_total  | rB/s |
            write_bytes_total | wB/s |
            metas_total       | meta/s |
            meta_ns_total     | |
            meta_latency_us = 1e-3 * meta_ns_total / metas_total | meta µs |
        """
    )
    values = {"read_bytes_per_s": 1e6, "metas_per_s": 900.0, "meta_latency_us": 12.0}
    rows = [TableRow(("tar",), values), TableRow(("ls",), {"metas_per_s": 30.0})]
    assert render_table(spec, rows, top=2, width=80)[2:] == [
        "  meta/s meta µs name", "   900.0    12.0 tar", "    30.0       - ls",
    ]  # fmt: skip
