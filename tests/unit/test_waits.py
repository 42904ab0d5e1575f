"""A layer that completes nothing shows what it waits for, in text and on the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.sinks.text import TextOptions, TextSink
from ioh.sinks.waits import render_waits, waiting_text
from ioh.tui.actions import _narrow_to
from ioh.tui.drill_down import narrowed
from ioh.tui.state import Narrow
from tests.support.screens import drawn, minute, with_layer
from tests.unit.snapshot_maker import SPECS, layer, ticks

IDLE = OpStats(count=0, bytes=0, ops_per_s=0.0, bytes_per_s=0.0, inflight=0)
LAST = minute()[-1]


def row(*key: str, age_s: float, count: int = 1, **more: float) -> TableRow:
    return TableRow(key, {"age_us": age_s * 1e6, "count": count, **more})


def waiting(name: str, *rows: TableRow, **ops: OpStats) -> LayerSnapshot:
    return replace(layer(name, ops), tables={IN_PROGRESS: rows})


HUNG = row("loop3", "file /disk on loop0", "write", age_s=12, count=4)
CALL = row("77", "dd\x1b", "write_direct", "/dev/loop3", "loop3", age_s=13)


def test_text_says_what_waits() -> None:
    block = waiting("block", HUNG, write=IDLE)
    assert render_waits("block", block) == [
        "! block: loop3: 4 writes in flight, the oldest for 12.0 s"
    ]
    app = waiting("syscall", CALL, write_direct=IDLE)
    (line,) = render_waits("app", app)
    assert line == (
        r"! app: dd\x1b[77]: 1 write direct of /dev/loop3 in flight, the oldest for 13.0 s"
    )
    shown = TextSink(TextOptions(frozenset({"top"}))).render(
        ticks(1, {"block": block, "syscall": app})[0]
    )
    assert line in shown
    assert "---- top block in progress ----" in shown
    many = waiting("block", *[replace(HUNG, key=(f"sd{at}", "", "write")) for at in range(5)])
    assert render_waits("block", many)[3:] == ["! block: and 2 more in progress"]


def test_text_does_not_say_it_of_operations_that_end() -> None:
    busy = replace(IDLE, count=7, inflight=4)
    assert not render_waits("app", waiting("syscall", CALL, write_direct=busy))
    young = replace(HUNG, values={"age_us": 0.9e6, "count": 4})
    assert not render_waits("block", waiting("block", young, write=IDLE))
    # Another disk writes; this one does not.
    assert render_waits("block", waiting("block", HUNG, write=busy))
    nfs = row("7", "dd", "read", "/mnt/f", "nas1:/x on /mnt", age_s=9)
    mounts = {"nas1:/x on /mnt": {"read": busy}}
    assert not render_waits("nfs client", replace(waiting("nfs_client", nfs), parts=mounts))
    assert render_waits("nfs client", replace(waiting("nfs_client", nfs), parts={}))


def test_text_keeps_rows_that_move_nothing_but_have_something_in_flight() -> None:
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = [
        (("loop3", "file /disk on loop0"), {"inflight": 4, "busy_pct": 100.0}),
        (("sda", "sda"), {"inflight": 0}),
    ]
    made = layer("block", {"write": IDLE}, tables={"device": rows})
    shown = TextSink(TextOptions(frozenset({"top"}))).render(ticks(1, {"block": made})[0])
    (line,) = [line for line in shown.splitlines() if "loop3" in line]
    assert line.split()[0] == "4"
    assert "sda" not in shown


def test_the_number_in_flight_and_the_age_of_the_oldest() -> None:
    stuck = replace(IDLE, inflight=2)
    block = waiting("block", HUNG, write=stuck, read=IDLE)
    assert waiting_text(block, "write") == "in-fl 2  oldest 12.0 s"
    assert waiting_text(block, "read") == ""
    # A device that is in no sum: on another one.
    assert waiting_text(waiting("block", HUNG, write=IDLE), "write") == "in-fl 4  oldest 12.0 s"
    app = waiting("syscall", CALL, write=stuck, write_direct=stuck, fsync=stuck)
    assert waiting_text(app, "write") == "in-fl 2  oldest 13.0 s"
    assert waiting_text(app, "fsync") == "in-fl 2"
    assert waiting_text(replace(app, ops={"write": replace(stuck, count=1)}), "write") == ""


def test_a_row_in_progress_opens_its_process_or_device() -> None:
    spec = SPECS["syscall"]
    table = next(t for t in spec.tables if t.name == IN_PROGRESS)
    to = _narrow_to(spec, table, CALL.key)
    assert to == Narrow("process", ("77", "dd\x1b"))
    other = replace(CALL, key=("78", *CALL.key[1:]))
    second = ticks(1, {"syscall": replace(waiting("syscall", CALL, other), spec=spec)})[0]
    (shown,) = narrowed(second, to).measured.values()
    assert shown.tables[IN_PROGRESS] == (CALL,)
    disk = SPECS["block"]
    table = next(t for t in disk.tables if t.name == IN_PROGRESS)
    assert _narrow_to(disk, table, HUNG.key) == Narrow("device", HUNG.key[:2])


def test_calls_that_wait_are_shown_beside_short_ones() -> None:
    """Cached reads end all the time; a read from the disk does not."""
    key = (*CALL.key[:2], "read_buffered", *CALL.key[3:])
    stuck = row(*key, age_s=7, count=2)
    ops = {"read": replace(IDLE, count=9000, inflight=3), "read_waited": IDLE}
    assert waiting_text(waiting("syscall", stuck, **ops), "read_waited") == "in-fl 2  oldest 7.00 s"
    assert waiting_text(waiting("syscall", stuck, **ops), "read") == ""
    assert waiting_text(waiting("syscall", **ops), "read_waited") == ""


@pytest.mark.parametrize("size", [(180, 50), (100, 30), (80, 24)])
def test_the_screen_shows_what_a_silent_layer_waits_for(size: tuple[int, int]) -> None:
    snapshot: Snapshot = LAST
    for name, rows in (("block", (HUNG,)), ("syscall", (CALL,))):
        silent = {
            "spec": SPECS[name],
            "ops": dict.fromkeys(SPECS[name].ops, IDLE) | {"write": IDLE},
            "tables": {IN_PROGRESS: rows},
        }
        snapshot = with_layer(snapshot, name, **silent)
    lines = [line.text for line in drawn(snapshot, size).lines]
    for number, age in ((4, "12.0 s"), (1, "13.0 s")):
        shown = f"W in-fl {number}  oldest {age}"
        assert [line for line in lines if shown in line.replace("  in-fl", "in-fl")]
    assert any("loop3" in line for line in lines)
    assert not any("nothing in this interval" in line for line in lines)
