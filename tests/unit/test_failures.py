"""What fails: the finding, the line in text, and the look-alikes that are no failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.model.sample import OTHERS
from ioh.model.snapshot import OpStats
from ioh.sinks.compare import render_comparison
from ioh.sinks.histogram import HistStyle
from ioh.sinks.text import TextSink
from tests.unit.snapshot_maker import Layers, disk, found, layer, op, ticks

Key = tuple[str, ...]


def failing(errors_per_s: float, ops_per_s: float = 0.0) -> OpStats:
    return op(ops_per_s, 4096, 900, errors_per_s=errors_per_s)


def calls(**errors: float) -> dict[Key, float]:
    """Rows of failed direct reads of fio on /data, by errno."""
    return {("7", "fio", "read_direct", name, "/data"): rate for name, rate in errors.items()}


def app(rows: dict[Key, float]) -> Layers:
    kinds: dict[str, float] = {}
    for key, rate in rows.items():
        kinds[key[2]] = kinds.get(key[2], 0.0) + rate
    table = {"error": [(key, {"errors_per_s": rate}) for key, rate in rows.items()]}
    ops = {kind: failing(rate) for kind, rate in kinds.items()}
    return {"syscall": layer("syscall", ops, tables=table)}  # type: ignore[arg-type]


def block(name: str, on: str = "", **errors: float) -> Layers:
    """A device that fails so many requests of each op, and serves 50 of each."""
    ops = {kind: failing(rate, 50.0) for kind, rate in errors.items()}
    made: dict[str, Any] = disk(name)
    made["parts"] = {name: ops}
    made["tables"] = {"device": [((name, on or name), {"stacked": int(bool(on))})]}
    return {"block": layer("block", metrics={"errors_per_s": sum(errors.values())}, **made)}


def lines(layers: Layers) -> list[str]:
    text = TextSink().render(ticks(1, layers)[0])
    return [line for line in text.splitlines() if line.startswith("! ")]


def test_a_device_that_fails_is_critical_at_once() -> None:
    finding = found(block("nvme0n1", read=149.0, write=1.0), 1)["io_errors"]
    assert (finding.severity, finding.subject, finding.layer) == ("critical", "nvme0n1", "block")
    assert finding.cause == (
        "nvme0n1 returns errors: 149 reads and 1 write a second fail (60 % of them)."
    )
    assert finding.command == "dmesg -T | grep -w nvme0n1 | tail; smartctl -a /dev/nvme0n1"


def test_what_a_stacked_device_consists_of_is_named() -> None:
    finding = found(block("loop4", "file /a on vda", read=58.0))["io_errors"]
    assert finding.cause.endswith("(53.7 % of them). It is file /a on vda.")
    assert "smartctl" not in finding.command


@pytest.mark.parametrize(
    ("rows", "cause", "command"),
    [
        (calls(EIO=3), "3 reads a second by fio[7] on /data fail with EIO (Input/output error).",
         "dmesg -T | tail -30"),
        ({("7", "fio", "read_direct", "EINVAL", "/d"): 4.0},
         "4 reads a second by fio[7] on /d fail with EINVAL (Invalid argument).",
         "lsblk -o NAME,LOG-SEC,PHY-SEC,MOUNTPOINT"),
        ({("9", "dd", "write_buffered", "ENOSPC", "/a"): 1.0,
          ("9", "dd", "fsync", "ENOSPC", "/a"): 1.0},
         "1 write and 1 fsync a second by dd[9] on /a fail with ENOSPC (No space left on device).",
         "df -h /a; df -i /a"),
        ({("9", "dd", "write_buffered", "EDQUOT", "/a b"): 1.0},
         "1 write a second by dd[9] on /a b fail with EDQUOT (Disk quota exceeded).",
         "repquota -s '/a b'"),
    ],
)  # fmt: skip
def test_failing_calls_are_a_warning_with_a_remedy(
    rows: dict[Key, float], cause: str, command: str
) -> None:
    finding = found(app(rows))["io_errors"]
    assert (finding.severity, finding.layer) == ("warning", "syscall")
    assert finding.cause == cause
    assert finding.command == command
    assert finding.advice


@pytest.mark.parametrize(
    "layers",
    [
        app(calls(EAGAIN=900, EINTR=900, ENOENT=900, EBADF=900, EPIPE=900, ECONNRESET=9)),
        app(calls(EINVAL=1, ESTALE=1)),  # tried out; replaced on the server
        app(
            {("9", "cp", "copy", "EINVAL", "/data"): 900.0, ("9", "cp", "copy", "EXDEV", "/"): 9.0}
        ),
        app({(OTHERS, "", "", "", ""): 9.0}),
        block("fd0", read=9.0),  # no floppy in it
        block("vda", discard=9.0, write_zeroes=9.0, other=9.0),
        block("vda"),
        {"block": layer("block", source="proc"), "syscall": layer("syscall", source="proc")},
    ],
)
def test_what_programs_and_the_kernel_expect_to_fail_is_no_finding(layers: Layers) -> None:
    assert "io_errors" not in found(layers)


def test_text_has_a_line_for_each_layer_that_fails() -> None:
    rows = calls(EIO=1192.0, EAGAIN=5000.0, EINVAL=2.0)
    assert lines({**app(rows), **block("loop1", read=149.0, flush=1.0, discard=2.0)}) == [
        "! app: 1,192 EIO in reads by fio[7] on /data, 2 EINVAL in reads by fio[7] on /data",
        "! block: 149 read errors on loop1, 2 discard errors on loop1, 1 flush error on loop1",
    ]
    two: dict[Key, float] = {
        ("7", "fio", kind, "EIO", "/data"): 3.0 for kind in ("read_direct", "read_buffered")
    }
    assert lines(app(two)) == ["! app: 6 EIO in reads by fio[7] on /data"]
    assert lines(app(calls(EAGAIN=5000.0))) == []
    assert lines(block("loop1")) == []


def test_what_has_no_row_is_still_in_the_line() -> None:
    """Page faults; and calls of a recording without this table."""
    rows = [(key, {"errors_per_s": rate}) for key, rate in calls(EIO=2.0).items()]
    ops = {"read_direct": failing(2.0), "fault_read": failing(3.0)}
    made = layer("syscall", ops, tables={"error": rows})  # type: ignore[dict-item]
    assert lines({"syscall": made}) == [
        "! app: 3 page fault errors, 2 EIO in reads by fio[7] on /data"
    ]
    old = replace(made, tables={})
    assert lines({"syscall": old}) == ["! app: 3 page fault errors, 2 read errors"]


def test_a_comparison_shows_errors_where_there_are_some() -> None:
    good, bad = (
        ticks(1, {"block": layer("block", {"read": failing(rate, 50.0)})})[0] for rate in (0.0, 3.0)
    )
    shown = render_comparison(good, bad, HistStyle(), every_op=False)
    assert "err/s                  .       3.0      +3.0      new" in shown
    assert "err/s" not in render_comparison(good, good, HistStyle(), every_op=False)


@pytest.mark.parametrize("op", ["open", "stat", "rename", "setattr"])
def test_a_file_that_is_not_there_is_no_failure_and_a_full_disk_is(op: str) -> None:
    usual = ("ENOENT", "EEXIST", "EACCES", "EINVAL", "ENODATA", "ENOTDIR", "ENOTEMPTY", "ELOOP")
    silent = app({("7", "git", op, error, "/data"): 900.0 for error in usual})
    assert "io_errors" not in found(silent)
    assert lines(silent) == []
    full = found(app({("7", "git", op, "ENOSPC", "/data"): 3.0}))["io_errors"]
    assert full.cause.startswith(f"3 {op}s a second by git[7] on /data fail with ENOSPC")
