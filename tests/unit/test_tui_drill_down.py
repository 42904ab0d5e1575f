from __future__ import annotations

import pytest

from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.sample import OTHERS
from ioh.tui.drill_down import narrowed
from ioh.tui.history import point_of
from ioh.tui.render.panels import PanelView, panel
from ioh.tui.state import Narrow, Panel, ViewState
from tests.screens import layer_of, minute
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
    text = " ".join(panel(PanelView(state, shown, points), 60, 10).text().split())
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
    view = PanelView(state, ticks(1, {"syscall": made})[0], ())
    head, _, line = panel(view, 100, 10, "hist").text().splitlines()[:3]
    assert title in head
    assert line.startswith(row)
