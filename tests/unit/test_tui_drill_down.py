from __future__ import annotations

import pytest

from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.io_path import Cached
from ioh.model.path import paths
from ioh.model.sample import OTHERS
from ioh.tui.drill_down import narrowed
from ioh.tui.history import point_of
from ioh.tui.render.zoom import LayersView, panel
from ioh.tui.state import Narrow, Panel, ViewState
from tests.support.screens import layer_of, minute
from tests.unit.snapshot_maker import layer as layer_made
from tests.unit.snapshot_maker import op, ticks

SHOWN = minute()[6]


def test_a_mount_shows_its_whole_statistics_where_they_are_kept() -> None:
    row = layer_of(SHOWN, "nfs_client").tables["mount"][0]
    shown = narrowed(SHOWN, Narrow("mount", row.key))
    client = layer_of(shown, "nfs_client")
    part = f"{row.key[1]} on {row.key[0]}"
    assert client.ops == layer_of(SHOWN, "nfs_client").parts[part]
    assert client.ops["read"].latency is not None
    assert [r.key for r in client.tables["mount"]] == [row.key]
    assert all(r.key[0].startswith(row.key[0]) for r in client.tables["file"])


def test_a_process_shows_the_numbers_of_its_row_and_no_histogram() -> None:
    row = layer_of(SHOWN, "syscall").tables["process"][0]
    shown = narrowed(SHOWN, Narrow("process", row.key))
    read = layer_of(shown, "syscall").ops["read"]
    assert read.bytes_per_s == row.values["read_bytes_per_s"]
    assert read.ops_per_s == row.values["reads_per_s"]
    assert read.latency_us == row.values["read_latency_us"]
    assert read.size_lat is None
    assert read.p99_us is None


def test_a_process_shows_the_calls_that_waited_with_the_others_beside() -> None:
    """What they submitted is not known: their time is one step, whatever the layers below do."""
    row = {
        "reads_per_s": 110.0, "read_bytes_per_s": 5e5, "read_ns_per_s": 81e6,
        "reads_waited_per_s": 10.0, "read_waited_bytes_per_s": 1e5, "read_waited_ns_per_s": 80e6,
        "writes_per_s": 5.0, "write_bytes_per_s": 5e3, "write_ns_per_s": 5e4,
        "writes_waited_per_s": 0.0, "write_waited_bytes_per_s": 0.0, "write_waited_ns_per_s": 0.0,
    }  # fmt: skip
    waited = {"read_waited": op(10, 1e4, 8000), "write_waited": op(0, 0, 0)}
    app = layer_made("syscall", waited, tables={"process": [(("7", "dd"), {**row})]})
    reads = {"reads_per_s": 40.0, "read_bytes_per_s": 1e5, "read_latency_us": 1900.0}
    block = layer_made("block", {}, tables={"process": [(("7", "dd"), {**reads})]})
    found = narrowed(ticks(1, {"syscall": app, "block": block})[0], Narrow("process", ("7", "dd")))
    ops = layer_of(found, "syscall").ops
    assert (ops["read_waited"].latency_us, ops["read_waited"].ops_per_s) == (8000, 10)
    assert (ops["read_cached"].latency_us, ops["read_cached"].avg_bytes) == (10, 4000)
    assert (ops["write_waited"].count, ops["write_buffered"].latency_us) == (0, 10)
    read, write = (paths(found)[name] for name in ("read", "write"))
    assert [(step.title, step.us) for step in read.segments] == [("system call", 8000)]
    assert read.notes == ("block not separable",)
    assert read.cached == Cached(100, 10)
    assert [(step.title, step.us) for step in write.segments] == [("page cache", 10)]


def test_a_process_shows_its_copies_and_faults_apart() -> None:
    row = {
        "reads_per_s": 0.0, "writes_per_s": 38.0, "write_bytes_per_s": 4e4, "write_ns_per_s": 1e6,
        "copies_per_s": 335.0, "copy_bytes_per_s": 1.97e6, "copy_latency_us": 1780.0,
        "faults_per_s": 9.0, "fault_bytes_per_s": 4e4, "fault_latency_us": 700.0,
    }  # fmt: skip
    waited = {"read_waited": op(0, 0, 0), "write_waited": op(0, 0, 0)}
    app = layer_made("syscall", waited, tables={"process": [(("7", "cp"), {**row})]})
    found = narrowed(ticks(1, {"syscall": app})[0], Narrow("process", ("7", "cp")))
    copies = paths(found)["copy"]
    assert (copies.ops_per_s, copies.mean_us) == (335, 1780)
    assert paths(found)["fault"].mean_us == 700
    old = {name: value for name, value in row.items() if not name.startswith("cop")}
    app = layer_made("syscall", waited, tables={"process": [(("7", "cp"), {**old})]})
    found = narrowed(ticks(1, {"syscall": app})[0], Narrow("process", ("7", "cp")))
    assert "copy" not in paths(found)


def test_a_device_shows_its_histograms() -> None:
    block = layer_of(SHOWN, "block")
    row = next(r for r in block.tables["device"] if r.key[0] in block.parts)
    shown = layer_of(narrowed(SHOWN, Narrow("device", row.key)), "block")
    assert shown.ops["read"] == block.parts[row.key[0]]["read"]


def test_a_row_that_did_nothing_in_this_interval_is_idle() -> None:
    shown = narrowed(SHOWN, Narrow("process", ("999999", "gone")))
    assert layer_of(shown, "syscall").ops["read"].count == 0
    assert layer_of(shown, "syscall").tables["process"] == ()


@pytest.mark.parametrize("kind", ["hist", "heat"])
@pytest.mark.parametrize(
    ("pid", "way"), [("4121", "ioh --pid 4121 measures them"), (OTHERS, "per process")]
)
def test_a_panel_without_latencies_says_why_and_how_to_get_them(
    kind: Panel, pid: str, way: str
) -> None:
    narrow = Narrow("process", (pid, ""))
    state = ViewState(narrow=narrow, panel=kind, chosen=("syscall", "read"))
    shown = narrowed(SHOWN, narrow)
    points = [point_of(shown)] * 3
    text = " ".join(panel(LayersView(state, shown, points), 60, 10).text().split())
    assert "no percentiles or latencies per process" in text
    assert way in text
    assert OTHERS not in text
    assert "no operations" not in text


@pytest.mark.parametrize(
    ("size", "title", "row"), [(0, "latency, counts", "  all"), (512, "by size, counts", "  512")]
)
def test_a_histogram_of_an_op_without_bytes_is_not_by_size(size: int, title: str, row: str) -> None:
    hist = SizeLatencyHist((0, 5) + (0,) * (SIZE_BUCKETS * LATENCY_BUCKETS - 2))
    made = layer_made("syscall", {"fsync": op(5, size, 90, size_lat=hist)})
    state = ViewState(layer="syscall", chosen=("syscall", "fsync"))
    view = LayersView(state, ticks(1, {"syscall": made})[0], ())
    head, _, line = panel(view, 100, 10, "hist").text().splitlines()[:3]
    assert title in head
    assert line.startswith(row)
