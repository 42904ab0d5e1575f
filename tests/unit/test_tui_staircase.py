"""The path on the first screen: each step's place and length, its layer's numbers, what folds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.io_path import Cached, IoPath, Segment
from ioh.model.sample import ATTACHING, SOON, Unavailable
from ioh.model.snapshot import Snapshot
from ioh.terminal.line import ScreenFrame
from ioh.tui.actions import Context, act, with_valid_choice
from ioh.tui.history import point_of
from ioh.tui.render import overview
from ioh.tui.render.overview import choices
from ioh.tui.render.staircase import columns_for, folded_group, render_group, steps_of
from ioh.tui.render.zoom import LayersView
from ioh.tui.state import ViewState
from tests.support.screens import FINDINGS, drawn, kinds, layer_of, minute, with_layer
from tests.unit.snapshot_maker import layer as layer_made
from tests.unit.snapshot_maker import op as made_op
from tests.unit.snapshot_maker import ticks

LAST = minute()[-1]
QUEUE_FIRST = (Segment("syscall", 10.0), Segment("block_queue", 30.0), Segment("device", 60.0))


def path_of(*segments: Segment, way: str = "read", notes: tuple[str, ...] = ()) -> IoPath:
    mean_us = sum(segment.us or 0.0 for segment in segments)
    return IoPath(way, "syscall", 5.0, mean_us, segments, notes)


def view_of(snapshot: Snapshot = LAST, state: ViewState | None = None) -> LayersView:
    return LayersView(state or ViewState(), snapshot, [point_of(snapshot)])


def bars(frame: ScreenFrame, begin: int, width: int) -> list[str]:
    return [line.text[begin : begin + width] for line in frame.lines[1:]]


def group(path: IoPath, width: int = 80, snapshot: Snapshot = LAST) -> ScreenFrame:
    return render_group(view_of(snapshot), path.direction, path, columns_for(width), width)


def test_a_bar_begins_where_the_one_above_it_ends() -> None:
    columns = columns_for(80)
    app, queue, device = bars(group(path_of(*QUEUE_FIRST)), columns.label, columns.bar)
    assert [len(app), len(queue), len(device)] == 3 * [columns.bar]
    halves = 2 * columns.bar
    for text, begin, end in ((app, 0.0, 0.1), (queue, 0.1, 0.4), (device, 0.4, 1.0)):
        blank = len(text) - len(text.lstrip())
        assert blank == round(begin * halves) // 2
        assert len(text.rstrip()) == -(-round(end * halves) // 2)


@pytest.mark.parametrize("width", [60, 80, 120, 250])
def test_the_shortest_step_is_visible_and_none_is_past_the_end(width: int) -> None:
    tiny = path_of(Segment("syscall", 1e6), Segment("block_queue", 0.001), Segment("device", 0.001))
    columns = columns_for(width)
    for text in bars(group(tiny, width), columns.label, columns.bar):
        assert text.strip()


def test_an_unknown_step_says_where_its_time_is_and_a_small_one_is_not_none() -> None:
    steps = (Segment("network", 90.0), Segment("nfs_server", None), Segment("device", 10.0))
    notes = ("nfs server in other steps", "block not separable")
    frame = group(path_of(*steps, notes=notes), 150)
    head, network, server, _ = (line.text for line in frame.lines)
    assert head.startswith("── READ 100 µs × 5.00/s ")
    assert " block not separable ──" in head
    assert "other steps" not in head
    assert network.split()[:2] == ["3", "network"]
    assert " 0.090   90% " in network
    columns = columns_for(150)
    assert server[columns.label :][: columns.bar].strip() == "in other steps"
    assert server[columns.label + columns.bar :].split()[:2] == ["-", "-"]
    small = group(path_of(Segment("syscall", 0.3), Segment("device", 99.7)), 150).lines[1].text
    assert small[columns.label + columns.bar :].split()[:2] == ["<.001", "<1%"]
    none = group(path_of(Segment("syscall", 0.0), Segment("device", 99.7)), 150).lines[1].text
    assert none[columns.label :].split()[:2] == [".", "0%"]


def test_a_layer_has_its_numbers_once_and_a_step_elsewhere_none() -> None:
    app, queue, device = (line.text for line in group(path_of(*QUEUE_FIRST), 120).lines[1:])
    assert queue.rstrip().endswith("30%"), "the device's line has those of layer block"
    assert " 955 " in device
    assert app.split()[:3] == ["1", "system", "call"]
    only = replace(LAST, layers={"syscall": LAST.layers["syscall"]})
    steps = steps_of(only, path_of(Segment("syscall", 1.0), Segment("network", 9.0)))
    assert [step.key[0] for step in steps] == ["syscall", ""]
    far = group(path_of(Segment("syscall", 1.0), Segment("network", 9.0)), 120, only)
    assert far.lines[2].text.rstrip().endswith("90%")
    assert not [hit for hit in far.hits if hit.y == 2]


@pytest.mark.parametrize("severity", ["", "info", "warning", "critical"])
def test_only_the_step_of_a_finding_is_amber_or_red(severity: str) -> None:
    found = [replace(x, layer="block") for x in FINDINGS if x.severity == severity]
    frame = group(path_of(*QUEUE_FIRST), 80, replace(LAST, findings=tuple(found)))
    loud = {"warning": "warn", "critical": "crit"}.get(severity, "read")
    styles = [
        next(style for text, style in line.spans if set(text) & set("█▌▐"))
        for line in frame.lines[1:]
    ]
    assert styles == ["trend_r", "trend_r", loud]


@pytest.mark.parametrize(
    ("ways", "marked"),
    [(("read",), {"read"}), (("write",), {"write"}), (("sync",), set()),
     (("read", "write"), {"read", "write"}), ((), {"read", "write"})],
)  # fmt: skip
def test_a_finding_about_reads_marks_no_writes(ways: tuple[str, ...], marked: set[str]) -> None:
    """Whatever its subject is: ``reads beside fsyncs`` is about both."""
    finding = replace(FINDINGS[0], layer="block", subject="reads sda", ways=ways)
    found = replace(LAST, findings=(finding,))
    for way in ("read", "write"):
        text = group(path_of(*QUEUE_FIRST, way=way), 80, found).lines[-1]
        assert text.text.startswith("!5 device") == (way in marked)
        assert any(style == "warn" and "█" in bar for bar, style in text.spans) == (way in marked)


@pytest.mark.parametrize(
    ("width", "words"),
    [(120, "written back: 96.3 MB/s, 14.2 ms each"), (80, "written back: 96.3 MB/s"),
     (58, "written back")],
)  # fmt: skip
def test_what_is_written_back_is_told_in_as_few_words_as_fit(width: int, words: str) -> None:
    path = path_of(
        Segment("syscall", 8790.0, cache="page cache"),
        way="write",
        notes=("written back: 96.3 MB/s, 14.2 ms each",),
    )
    product = " = 9.93 at a time" * (width >= 100)
    path = replace(path, ops_per_s=1130.0, size_bytes=131072.0, is_written_back=True)
    idle = dict.fromkeys(("write_direct", "write_sync"), made_op(0, 0, 0))
    app = layer_of(LAST, "syscall")
    buffered = with_layer(LAST, "syscall", ops={**app.ops, **idle})
    head = group(path, width, buffered).lines[0].text
    assert head.startswith(f"── WRITE 8.79 ms × 1.13k/s{product}  mostly 128K")
    assert head.endswith(f" {words} ──")
    folded = folded_group(view_of(buffered), "write", path, width).lines[0].text
    assert "◂ page cache 100%" in folded, "a folded group names its longest step, too"
    assert (" written back" in folded) == (width >= 80)
    assert "~" not in folded
    untold = replace(path, notes=(), is_written_back=False)
    only = folded_group(view_of(buffered), "write", untold, width).lines[0].text
    assert "◂ page cache 100%" in only


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("way", ["read", "write"])
def test_what_a_layer_does_beside_the_steps_is_somewhere(way: str, size: tuple[int, int]) -> None:
    """In the heading of the calls that left it to write-back, in a box, or in a line."""
    slow, fast = made_op(20, 131072, 8000), made_op(300, 4096, 11)
    other, kind = ("read", "missed") if way == "write" else ("write", "direct")
    own = "buffered" if way == "write" else "cached"
    snapshot = ticks(1, {
        "syscall": layer_made("syscall", {
            other: slow, f"{other}_waited": slow, f"{other}_{kind}": slow,
            way: fast, f"{way}_waited": made_op(0, 0, 0), f"{way}_{own}": fast,
        }, metrics={f"{other}_lower_bytes_per_s": 20 * 131072.0}),
        "block": layer_made("block", {other: slow, way: made_op(100, 963000, 14200)}),
    })[0]  # fmt: skip
    text = [line.text for line in drawn(snapshot, size, history=(snapshot,)).lines]
    assert any("device" in line for line in text), "the layer has a step"
    first, *others = (line for line in text if "96.3" in line)
    if way == "write":
        assert first.startswith("── WRITE 11 µs ")
        assert "written back: 96.3 MB/s" in first
    elif size == (80, 24):
        assert first.split()[:3] == ["7", "block", "R"]
    else:
        assert "╭ 7 block ─ R 96.3 14.2 ms ─" in first
    assert bool(others) == (size != (80, 24)), "once, and in a box"


def test_a_click_on_a_step_or_a_folded_group_zooms_into_its_layer() -> None:
    frame = group(path_of(*QUEUE_FIRST))
    assert [(hit.action, hit.argument) for hit in frame.hits] == [
        ("zoom", "syscall/read"), ("zoom", "block/read"), ("zoom", "block/read")
    ]  # fmt: skip
    view = view_of()
    state = act(view.state, "zoom", "block/read", Context(view, 9))
    assert (state.layer, state.chosen) == ("block", ("block", "read"))
    assert act(view.state, "zoom", "nowhere/read", Context(view, 9)) == view.state
    one = folded_group(view, "read", path_of(*QUEUE_FIRST), 80)
    assert len(one.lines) == 1
    assert "◂ device 60%" in one.lines[0].text
    assert [(hit.action, hit.argument) for hit in one.hits] == [("zoom", "block/read")]


def test_the_group_with_least_time_folds_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one with the longest calls: 5 of 100 µs take less than 1,000 of 50 µs."""
    long_write = path_of(*QUEUE_FIRST, way="write")
    many_reads = replace(path_of(Segment("syscall", 20.0), Segment("device", 30.0)), ops_per_s=1e3)
    both = {"read": many_reads, "write": long_write}
    monkeypatch.setattr(overview, "paths_and_failures", lambda _: (both, ()))
    text = [line.text for line in drawn(LAST, (80, 24)).lines]
    write = next(line for line in text if line.startswith("── WRITE 100 µs × 5.00/s, "))
    assert "% of I/O time  ◂ device 60%" in write
    assert any(line.startswith("── READ ") and "◂" not in line for line in text)


def test_a_kind_with_next_to_no_time_has_one_line_whatever_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its bars would be as long as those of the kind that matters."""
    writes = path_of(*QUEUE_FIRST, way="write")
    both = {"write": writes, "read": replace(path_of(*QUEUE_FIRST), ops_per_s=200 * 5.0)}
    monkeypatch.setattr(overview, "paths_and_failures", lambda _: (both, ()))
    for size in ((120, 60), (90, 40)):
        text = [line.text for line in drawn(LAST, size).lines]
        assert any(line.startswith("── WRITE ") and "<1% of I/O time  ◂" in line for line in text)
        assert any(line.startswith("── READ ") and "◂" not in line for line in text)
    both["write"] = replace(writes, ops_per_s=20 * 5.0)
    assert not any("◂" in line.text for line in drawn(LAST, (120, 60)).lines)


def test_the_time_of_a_kind_has_its_cached_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 slow reads beside 8,000 from memory, which take ten times as long in all."""
    reads = replace(path_of(Segment("device", 300.0)), ops_per_s=7.0, cached=Cached(8000.0, 4.0))
    metas = replace(path_of(Segment("syscall", 4.0), way="meta"), ops_per_s=5500.0)
    both = {"meta": metas, "read": reads}
    monkeypatch.setattr(overview, "paths_and_failures", lambda _: (both, ()))
    text = [line.text for line in drawn(LAST, (120, 60)).lines]
    assert any(" READ 300 µs × 7.00/s" in line and " 61% of I/O time" in line for line in text)
    assert any(" META 4 µs × 5.50k/s" in line and " 39% of I/O time" in line for line in text)


def test_reads_that_read_ahead_served_are_not_called_cached() -> None:
    cached = Cached(2830.0, 31.0)
    for share_pct, said in (
        (0.0, "nothing from cache, 2.83k/s read ahead, 31 µs"),
        (40.0, "40% from cache, 2.83k/s of 31 µs"),
    ):
        layer = layer_of(LAST, "syscall")
        shown = with_layer(LAST, "syscall", metrics={**layer.metrics, "cached_pct": share_pct})
        path = replace(path_of(*QUEUE_FIRST), cached=cached)
        assert f" {said} ──" in group(path, 150, shown).lines[0].text


def test_what_waits_or_fails_without_a_path_has_a_line() -> None:
    ops = layer_of(LAST, "block").ops
    idle = replace(ops["write"], count=0, ops_per_s=0.0, bytes_per_s=0.0, latency_us=None)
    failing = with_layer(LAST, "block", ops={**ops, "write": replace(idle, errors_per_s=7.0)})
    only = replace(failing, layers={"block": failing.layers["block"]})
    words = [line.text.split() for line in drawn(only, (80, 24)).lines]
    assert [line for line in words if line[:3] == ["5", "block", "W"] and "7.00" in line]


def test_a_layer_in_no_group_has_lines_and_all_lines_can_be_chosen() -> None:
    snapshot = replace(kinds()["others"], findings=())
    view = view_of(snapshot, with_valid_choice(ViewState(), snapshot))
    keys = choices(view)
    assert keys == [("program", "read"), ("program", "write"), ("wire", "in"), ("wire", "out"),
                    ("platter", "read"), ("platter", "write")]  # fmt: skip
    assert choices(view_of())[:2] == [("syscall", "read"), ("nfs_client", "read")]


@pytest.mark.parametrize("hint", [SOON, ATTACHING])
def test_a_layer_whose_probe_is_compiled_is_starting_and_has_no_path_yet(hint: str) -> None:
    late = {**LAST.layers, "syscall": Unavailable("its probe is being attached", hint)}
    lines = [line.text for line in drawn(replace(LAST, layers=late), (80, 24)).lines]
    assert any(" starting app" in line for line in lines)
    assert not any(line.startswith("── READ") for line in lines)


def test_a_layers_name_never_runs_into_a_long_word() -> None:
    pg = layer_made("pg", {"commit": made_op(50, 0, 900), "data_read": made_op(9, 8192, 90)})
    text = [line.text for line in drawn(ticks(1, {"pg": pg})[0], (80, 24)).lines]
    assert any(line.startswith(" 1 post~ commit ") for line in text), text


@pytest.mark.parametrize("size", [(116, 40), (120, 40), (159, 50), (200, 55), (300, 80)])
def test_each_busy_layer_has_a_box(size: tuple[int, int]) -> None:
    lines = [line.text for line in drawn(LAST, size).lines]
    for number, title in enumerate(("app", "nfs client", "tcp", "nfs server", "block"), 1):
        assert sum(line.count(f"╭ {number} {title} ") for line in lines) == 1
    assert {len(line) for line in lines} == {size[0]}
    assert not any("TREND" in line for line in lines)


@pytest.mark.parametrize("size", [(80, 24), (115, 40), (120, 24)])
def test_without_boxes_the_trends_of_the_calls_are_shown(size: tuple[int, int]) -> None:
    lines = [line.text for line in drawn(LAST, size).lines]
    assert not any("╭" in line for line in lines)
    assert sum(line.startswith("── TREND ") and " 60s ago " in line for line in lines) == 1
    assert any(line.startswith(" READ ms ") for line in lines)


def test_copies_have_one_line_and_are_not_in_that_of_writes() -> None:
    copies, writes = made_op(335, 5880, 1780), made_op(38, 1000, 26)
    waited = made_op(0, 0, 0)
    ops = {"copy": copies, "write_buffered": writes, "write": writes, "write_waited": waited}
    row = {
        "reads_per_s": 0.0, "read_bytes_per_s": 0.0, "read_latency_us": None,
        "writes_per_s": 38.0, "write_bytes_per_s": 3.8e4, "write_latency_us": 26.0,
        "copies_per_s": 335.0, "copy_bytes_per_s": 1.97e6, "copy_latency_us": 1780.0,
    }  # fmt: skip
    app = layer_made("syscall", ops, tables={"process": [(("7", "cp"), {**row})]})
    lines = [line.text for line in drawn(ticks(1, {"syscall": app})[0], (80, 24)).lines]
    at = next(at for at, line in enumerate(lines) if line.startswith("── COPY "))
    assert lines[at].startswith("── COPY 1.78 ms × 335/s, 100% of I/O time  mostly 5.74K ─")
    assert lines[at].endswith(" not divided ──")
    assert not any("system call" in line for line in lines)
    assert any(line.startswith("── WRITE 26 µs × 38/s, <1% of I/O time ") for line in lines)
    at = next(at for at, line in enumerate(lines) if line.startswith("R MB/s W MB/s copy MB/s "))
    assert lines[at].split()[5:-2] == ["MB/s", "r/s", "r", "ms", "w/s", "w", "ms"]
    assert lines[at + 1].split()[:-2] == [".", "0.038", "1.97", ".", "-", "38.0", "0.026"]
    memory = path_of(Segment("syscall", 5.0, cache="page cache"))
    assert "◂ page cache 100%" in folded_group(view_of(), "read", memory, 80).text()
    without = {name: stats for name, stats in ops.items() if name != "copy"}
    idle = layer_made("syscall", without, tables={"process": []})
    text = drawn(ticks(1, {"syscall": idle})[0], (80, 24)).text()
    assert "copy MB/s" not in text


def test_page_faults_that_read_a_disk_are_part_of_the_time_of_io() -> None:
    ops = {"fault_read": made_op(129, 16384, 1000), "read_cached": made_op(1000, 4096, 43)}
    app = layer_made("syscall", {**ops, "read": ops["read_cached"]})
    lines = [line.text for line in drawn(ticks(1, {"syscall": app})[0], (80, 24)).lines]
    (fault,) = (line for line in lines if line.startswith("── FAULT "))
    assert fault.startswith("── FAULT 1.00 ms × 129/s, 75% of I/O time  mostly 16K ─")
    assert any(line.startswith("── READ 43 µs × 1.00k/s, 25% of I/O time ") for line in lines)


@pytest.mark.parametrize("width", range(30, 130, 3))
def test_no_column_is_cut(width: int) -> None:
    columns = columns_for(width)
    taken = columns.label + columns.bar + 8 + 6 + sum(each.width + 1 for each in columns.numbers)
    assert taken + (columns.axis.width if columns.axis else 0) <= width
