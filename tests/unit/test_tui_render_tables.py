"""The table of layers, breakdowns, findings and help, as strings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ioh.layers import all_layers
from ioh.model.file_systems import SERVED_ELSEWHERE
from ioh.model.finding import Finding
from ioh.model.io_path import TITLES
from ioh.model.metric import LayerSpec, MetricSpec, tables
from ioh.model.sample import Value
from ioh.model.snapshot import TableRow
from ioh.tui.history import point_of
from ioh.tui.keys import KEYS
from ioh.tui.render.breakdown import (
    chosen_rows,
    column_title,
    key_text,
    render_top,
    shown_columns,
)
from ioh.tui.render.help import COLUMNS_HELP, render_help
from ioh.tui.render.op_table import COLUMNS, render_facts
from ioh.tui.render.staircase import SHORT
from ioh.tui.render.trends import length_text
from ioh.tui.render.verdict import render_verdict, worst_command
from ioh.tui.render.who import visible_rows
from ioh.tui.render.zoom import LayersView
from ioh.tui.rows import metric_title
from ioh.tui.state import TableState, ViewState
from tests.support.screens import FINDINGS, LAYERS, drawn, judged, kinds, layer_of, minute
from tests.unit.snapshot_maker import layer as layer_made
from tests.unit.snapshot_maker import op as made_op
from tests.unit.snapshot_maker import ticks


@pytest.mark.parametrize(
    ("intervals", "length_s", "title"), [(1, 0.344, "0.3s"), (57, 0.997, "57s"), (60, 60, "3600s")]
)
def test_the_title_of_a_trend_is_its_length(intervals: int, length_s: float, title: str) -> None:
    points = [replace(point_of(minute()[0]), interval_s=length_s)] * intervals
    assert length_text(points, 60) == title


def test_the_length_of_a_trend_is_the_time_that_was_watched() -> None:
    """Not of what was before the first interval; all of a long one; a lost one is as the others."""
    first, *rest = (replace(point_of(minute()[0]), interval_s=s) for s in (0.3, 0.7, 1.0, 1.0, 44))
    begun = [*[None] * 57, first, *rest[:2]]
    assert length_text([None] * 60, 60) == ""
    assert length_text(begun, 60) == "2s"
    assert length_text([*begun[1:], rest[2]], 60) == "3s"
    assert length_text([*begun[2:], *rest[2:]], 60) == "47s"
    assert length_text([*begun, None, rest[1]], 60) == "4s"


(SPEC,) = tables(
    """
    file | files | pid, path | read_bytes_per_s
        reads_total      | r/s  | Reads.
        read_bytes_total | rB/s | Bytes.
        srtt_us          | rtt  | Round trip.
        hidden           |      | Not shown.
    """
)
ROWS = tuple(
    TableRow((pid, path), {"reads_per_s": r, "read_bytes_per_s": b, "srtt_us": t})
    for pid, path, r, b, t in (
        ("1", "/data/Alpha", 5.0, 1e6, None),
        ("2", "/data/beta", 50.0, 5e5, 210.0),
        ("3", "/log/gamma", 0.0, None, 30.0),
    )
)
TOP = TableState()


def keys_of(table: TableState) -> str:
    return "".join(row.key[0] for row in chosen_rows(ROWS, table))


@pytest.mark.parametrize(("pattern", "keys"), [("", "123"), ("DATA", "12"), ("3", "3"), ("no", "")])
def test_rows_are_filtered_by_any_part_of_a_name_ignoring_case(pattern: str, keys: str) -> None:
    assert "".join(row.key[0] for row in chosen_rows(ROWS, TOP, pattern)) == keys


@pytest.mark.parametrize(
    ("sort", "falling", "rising"),
    [
        ("reads_per_s", "213", "312"),
        ("srtt_us", "231", "321"),  # unknown values come last either way
        ("", "123", "321"),
        ("no such column", "123", "123"),
    ],
)
def test_rows_are_sorted(sort: str, falling: str, rising: str) -> None:
    assert keys_of(TableState(sort=sort)) == falling
    assert keys_of(TableState(sort=sort, is_ascending=True)) == rising


def test_a_long_path_keeps_both_ends() -> None:
    row = TableRow(("4121", "/very/long/" + "x" * 200 + "/end.dbf"), {})
    text = key_text(row, 30)
    assert len(text) == 30
    assert text.startswith("4121 /very")
    assert text.endswith("end.dbf")
    assert "~" in text


def test_headings_say_direction_and_unit() -> None:
    assert [column_title(c) for c in SPEC.columns[:3]] == ["r/s", "R MB/s", "rtt ms"]
    titles = {
        column_title(column)
        for layer in all_layers().values()
        for table in layer.spec.tables
        for column in table.columns
        if column.derived_name.endswith("_bytes_per_s")
    }
    assert titles >= {"in MB/s", "out MB/s", "retr MB/s", "R MB/s max", "fault MB/s"}
    assert all("MB/s" in title for title in titles)


def verdict(width: int, height: int, findings: Sequence[Finding] = FINDINGS) -> list[str]:
    frame = render_verdict(findings, width, height)
    assert {hit.y for hit in frame.hits} == set(range(len(frame.lines)))
    assert all(line.width == width for line in frame.lines)
    return frame.text().splitlines()


def test_the_gravest_finding_and_its_command_come_first() -> None:
    first, second = verdict(80, 2, FINDINGS[::-1])
    assert first.startswith(" !! A critical thing: Application")
    assert first.endswith(" 128 KB each~")
    assert second.endswith("  over 5 s  +2 (f)  c copy")
    worst = next(each for each in FINDINGS if each.severity == "critical")
    assert second.strip().startswith(worst.command)
    assert worst_command(FINDINGS) == worst.command
    frame = render_verdict(FINDINGS, 80, 2)
    assert [(hit.y, hit.action) for hit in frame.hits] == [(0, "findings"), (1, "key")]


@pytest.mark.parametrize("rule", ["observer", "lock_wait"])
def test_what_is_not_about_storage_comes_after_what_is(rule: str) -> None:
    """Of one severity: however long it lasts."""
    info = next(each for each in FINDINGS if each.severity == "info")
    beside = replace(info, rule=rule, title="Beside", since_unix_s=info.since_unix_s - 99)
    assert "Beside" not in verdict(80, 1, (beside, info))[0]
    assert "Beside" in verdict(80, 1, (replace(beside, severity="warning"), info))[0]


def test_of_a_command_its_remark_is_left_out_before_the_cause_loses_room() -> None:
    command = "lsblk -o NAME,SIZE,TYPE,MODEL,PKNAME /dev/loop1"
    first, second = verdict(80, 2, (replace(FINDINGS[0], command=f"{command}   # the devices"),))
    assert first.endswith(" each o~")
    assert second.startswith(f"   {command}   ")
    assert second.endswith("   over 5 s  c copy")
    assert "#" not in second
    first, second = verdict(80, 2, (replace(FINDINGS[0], command="x" * 70),))
    assert first.endswith("~  over 5 s"), "there is no room beside the command"
    assert second == f"   {'x' * 67}~  c copy"


def test_of_a_long_cause_whole_sentences_are_shown() -> None:
    cause = "Reads of 1 MB become 16 requests of 64 KB. max_sectors_kb of loop0 is 64 KB."
    first, _ = verdict(80, 2, (replace(FINDINGS[0], cause=cause),))
    assert first.rstrip().endswith(" become 16 requests of 64 KB.")
    first, _ = verdict(120, 2, (replace(FINDINGS[0], cause=cause),))
    assert first.rstrip().endswith(cause)


def test_a_long_cause_has_two_lines_if_there_is_room_and_others_follow_a_short_one() -> None:
    first, second, third = verdict(80, 3, FINDINGS[:1])
    assert " ".join((first + second).split()).endswith("on 10.0.0.5:/export.")
    assert third.strip().startswith(FINDINGS[0].command)
    assert third.endswith("  over 5 s  c copy")
    advised = replace(FINDINGS[0], command="")
    assert verdict(80, 2, (advised,))[1].strip() == advised.advice
    brief = replace(FINDINGS[0], severity="critical", since_unix_s=0.0, cause="it is short")
    brief = replace(brief, advice="", command="")
    lines = verdict(80, 2, (brief, *FINDINGS[1:]))
    assert lines[0].startswith(" !! ")
    assert lines[1].startswith(" !")
    (only,) = verdict(80, 1, FINDINGS[:1])
    assert (only[-11:], len(only)) == ("~  over 5 s", 80)
    (only,) = verdict(80, 1, (replace(FINDINGS[0], recent_s=0.0),))  # of an older ioh's bench
    assert (only[-1], len(only)) == ("~", 80)
    assert verdict(80, 2, ()) == []


@pytest.mark.parametrize("width", [20, 120])
def test_help_explains_every_key_and_every_column_at_any_width(width: int) -> None:
    specs = tuple(minute()[-1].specs.values())
    text = " ".join(render_help(specs, width).text().split())
    assert [key.label for key in KEYS if key.action != "layer" and key.label not in text] == []
    assert "need 2, 20, 100, 1,000 operations" in text
    for metric in (metric for spec in specs for metric in spec.metrics):
        assert not metric.title or width < 80 or metric.help.split()[0] in text


def explained(specs: Sequence[LayerSpec]) -> set[str]:
    """The names that have an entry in the help."""
    lines = [line.text for line in render_help(specs, 120).lines]
    return {word.strip() for text in lines if text[:3].strip() for word in (text[2:17], text)}


def test_every_word_of_the_screen_is_explained() -> None:
    """Titles of all layers' numbers and columns, operations, lost events, steps of the path."""
    specs = [layer.spec for layer in all_layers().values()]
    names = explained(specs)
    shown = {metric_title(metric) for spec in specs for metric in spec.metrics if metric.title}
    every = [column for spec in specs for table in spec.tables for column in table.columns]
    shown |= {column_title(column) for column in every if column.title}
    shown |= {op.replace("_", " ") for spec in specs for op in (*spec.ops, *spec.groups)}
    shown |= {reason for spec in specs for reason in spec.lost} | {"recursion", "page cache"}
    steps = {*TITLES.values(), *SHORT.values()} - {*SERVED_ELSEWHERE}
    assert shown | steps | {"queue", "pid", "comm"} <= names
    assert {*SERVED_ELSEWHERE} <= {word for name in names for word in name.split()}
    text = " ".join(f"{name} {meaning}" for name, meaning in COLUMNS_HELP)
    titles = {column.title for column in COLUMNS} | {"mean", "share", "retrans"}
    assert {title for title in titles if title not in text} == {"p95"}, "p50 … p99.9"


# Plain words of all screens, names of the made-up machine, and parts of numbers: 1.04k/s, p50.
_PLAIN = """
    active also application available become choose compares compiling count demo divided focus gone
    graph histogram inactive includes info journal last latencies local measures mostly mounted
    needs period probes root starts tell thing top warning
"""
_NAMES = "dbserver dm- eth export export. fio mnt/data mnt/db mnt/log nvme proc rsize run sda"
_LAYERS = "nfs_client nfs_server syscall"  # as the options name them
_OTHERS = "remount k/s kb mb p re hist rec"  # the last two are the footer's, beside their keys


def test_no_abbreviation_on_the_screen_is_without_an_entry_in_the_help() -> None:
    """All words of all kinds of screens, of the sizes from low to wide, but the table's names."""
    names = [ViewState(), *(ViewState(layer=name, chosen=(name, "read")) for name in LAYERS)]
    plain, unknown = {*f"{_PLAIN} {_NAMES} {_LAYERS} {_OTHERS}".split()}, set[str]()
    for snapshot in kinds().values():
        if not snapshot.specs:
            continue
        text = render_help(tuple(snapshot.specs.values()), 200).text().casefold()
        known = {*re.findall(r"[^\s,;:()]+", text), *plain}
        for state, size in itertools.product(names, ((80, 24), (120, 40), (200, 60))):
            for line in drawn(snapshot, size, state).lines[1:]:
                shown = (text for text, style in line.spans if style != "name")
                words = {w for text in shown for w in re.findall(r"[A-Za-z%][A-Za-z/%_.µ-]*", text)}
                unknown |= {word for word in words if word.casefold() not in known}
    assert not unknown, " ".join(sorted(unknown))
    assert "at a time" in "\n".join(line.text for line in drawn(judged(), (120, 40)).lines)


def test_help_uses_the_same_names_as_the_screen() -> None:
    """Headings of breakdowns, a layer's own numbers, the first lines, and units of times."""
    snapshot = minute()[-1]
    text = render_help(tuple(snapshot.specs.values()), 120).text()
    for layer in (layer_of(snapshot, name) for name in snapshot.layers):
        section = text.split(f"\n Layer {layer.spec.title}\n")[1].split("\n\n")[0]
        names = {line[2:17].strip() for line in section.splitlines()}
        own = render_facts(layer, 400, 20)[0].text
        for spec in layer.spec.metrics:
            if spec.title and layer.metrics.get(spec.derived_name):
                name = metric_title(spec)
                assert f"  {name} " in own
                assert name in names
        for table in layer.spec.tables:
            assert {column_title(c) for c in table.columns if c.title} <= names
    assert "µs" not in text.split("\n Layer ", 1)[1].replace("read_ahead", "")
    for word in ("312µs", ".1ms", "IOPS", "iowait", "steal", "load", "dirty", "io psi"):
        assert word in text, word
    for sign in ("▼", "i !", "╳", "█"):
        assert f"  {sign} " in text


def test_a_row_has_its_mean_times_at_80_columns() -> None:
    spec = all_layers()["syscall"].spec.tables[0]
    assert [column_title(c) for c in shown_columns(spec, 80)] == [
        "R MB/s", "W MB/s", "r/s", "r ms", "w/s", "w ms", "sync/s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "titles"),
    [
        ({"copy_bytes_per_s": 9e6, "read_bytes_per_s": 1e6}, ["R MB/s", "W MB/s", "copy MB/s"]),
        ({"copy_bytes_per_s": 1e6, "read_bytes_per_s": 9e6}, ["R MB/s", "W MB/s", "r/s"]),
        ({"syncs_per_s": 5.0}, ["R MB/s", "W MB/s", "r/s"]),
        ({"meta_ns_per_s": 3e8, "read_ns_per_s": 9e8}, ["R MB/s", "W MB/s", "r/s"]),
        (
            {"meta_ns_per_s": 9e8, "read_ns_per_s": 3e8},
            ["R MB/s", "W MB/s", "meta/s", "meta ms"],
        ),
        ({"sync_ns_per_s": 9e8}, ["R MB/s", "W MB/s", "sync/s", "sync ms"]),
    ],
)
def test_who_mostly_copies_has_that_number_at_80_columns(
    row: dict[str, float], titles: list[str]
) -> None:
    spec = all_layers()["syscall"].spec.tables[0]
    rows = [TableRow(("7", "cp"), {**row})]
    assert [column_title(c) for c in shown_columns(spec, 80, rows)][: len(titles)] == titles
    assert [column_title(c) for c in shown_columns(spec, 200)][-6:-3] == [
        "copy/s", "copy MB/s", "copy ms",
    ]  # fmt: skip


@pytest.mark.parametrize(("meta_us", "first"), [(900.0, "find"), (0.1, "dd")])
def test_who_spends_most_time_is_first_where_most_of_it_moves_no_bytes(
    meta_us: float, first: str
) -> None:
    ops = {"read": made_op(100, 1 << 20, 500), "meta": made_op(1000, 0, meta_us)}
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = [
        (("1", "dd"), {"read_bytes_per_s": 100e6, "read_ns_per_s": 5e7}),
        (("2", "find"), {"metas_per_s": 1000.0, "meta_ns_per_s": 1e6 * meta_us}),
    ]
    app = layer_made("syscall", ops, tables={"process": rows})
    view = LayersView(ViewState(chosen=("syscall", "read")), ticks(1, {"syscall": app})[0], ())
    assert visible_rows(view)[1][0][1] == first


def test_a_table_that_nothing_ranks_has_its_columns() -> None:
    """As a recording may have."""
    spec = replace(SPEC, sort_by=())
    assert shown_columns(spec, 80, ROWS) == shown_columns(spec, 80)


def test_a_disk_has_its_merges_beside_a_trend_at_120_columns() -> None:
    spec = all_layers()["block"].spec.tables[0]
    shown = [column_title(c) for c in shown_columns(spec, 120 - 16)]
    assert shown[-2:] == ["rrqm/s", "wrqm/s"]
    assert not {"flush/s", "trim/s"} & {*shown}


@pytest.mark.parametrize("is_ascending", [False, True])
def test_no_heading_is_cut_with_or_without_the_sort_mark(*, is_ascending: bool) -> None:
    """Of every table of every layer, sorted by each of its columns."""
    for layer in all_layers().values():
        for spec in layer.spec.tables:
            for width in (80, 200, 400):
                for column in shown_columns(spec, width):
                    view = replace(TOP, sort=column.derived_name, is_ascending=is_ascending)
                    head = render_top(spec, (), view, width, 5).lines[0].text
                    plain = render_top(spec, (), TOP, width, 5).lines[0].text
                    assert column_title(column) + ("↑" if is_ascending else "↓") in head
                    assert head.replace("↑", " ").replace("↓", " ") == plain, "nothing moves"


def test_a_table_of_an_old_recording_has_the_titles_of_today() -> None:
    old = MetricSpec("syncs_total", "counter", "fsync-family calls.", "f/s")
    assert column_title(old) == "sync/s"
    assert column_title(replace(old, name="calls_total", title="calls/s")) == "calls/s"
