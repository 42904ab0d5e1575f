"""Hostile recordings end in an error or in harmless output, soon and within little memory."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from ioh.session.frame import (
    BEGINS,
    MAX_PAYLOAD_BYTES,
    SAMPLE_KINDS,
    STREAM,
    ZSTD,
    Kind,
    make_frame,
)
from ioh.session.stream import BadRecord, Tick
from tests import fakes
from tests.sessions import items, recorded, small

ROOT = Path(__file__).parents[2]
LIMIT_S = 1.0
LIMIT_BYTES = 100 << 20
# Python itself and ioh's own modules, before a byte is read.
PROGRAM = """\
import sys, time
from ioh.commands import main
import ioh.commands.playback, ioh.sources.replay, ioh.session.check
began = time.process_time()
code = main(sys.argv[1:])
spent = time.process_time() - began
status = open("/proc/self/status").read()  # of this program, not of what forked it
peak = status.split("VmHWM:")[1].split()[0]
print(f"{code} {spent} {peak}", file=sys.stderr)
"""


def packed(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def zipped(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(plain)


def begun(*frames: tuple[Kind, int, bytes]) -> bytes:
    """A recording that begins well, then goes on with these records."""
    data = recorded(small(2))
    end = data.rfind(b"\xf6ioh" + bytes([Kind.INDEX]))
    extra = [make_frame(kind, flags, 5 + at, raw) for at, (kind, flags, raw) in enumerate(frames)]
    return data[:end] + b"".join(extra)


NO_CHANGE: list[object] = [[], [], [], [], b"", b"", False, []]


def changes(**changed: object) -> list[object]:
    """Changes of nothing, with some fields set by their place."""
    return [changed.get(f"f{at}", field) for at, field in enumerate(NO_CHANGE)]


def moment(tick: int, time_unix_s: float = 2e9) -> bytes:
    return struct.pack("<Id", tick, time_unix_s)


def full(tick: int = 2, time_unix_s: float = 2e9, **changed: object) -> bytes:
    """A FULL record of nothing, with some fields changed."""
    fields: dict[str, object] = {
        "mono_ns": 1 << 50, "host": b"h", "kernel": b"k", "layers": [],
        "tables": [], "changes": NO_CHANGE, "rows": [[]] * 6,
    }  # fmt: skip
    return moment(tick, time_unix_s) + packed(list((fields | changed).values()))


def delta(change: list[object], rows: object = None) -> bytes:
    """A DELTA record that follows the two samples of begun()."""
    return moment(2) + packed([10**9, [], change, [[]] * 6 if rows is None else rows])


def bombs() -> bytes:
    bomb = zipped(bytes(256 << 20))
    return begun(*[(Kind.FULL, ZSTD, moment(9) + bomb)] * 40)


def stream_bombs() -> bytes:
    """Pieces of a stream whose blocks each stand for 128 KiB."""
    packer = zstandard.ZstdCompressor(level=19, write_content_size=False).compressobj()
    bomb = packer.compress(bytes(256 << 20)) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    frame = (Kind.DELTA, STREAM | BEGINS, moment(2) + bomb)
    return begun(frame, (Kind.FULL, 0, full()), *[frame] * 40)


def wide_lists() -> bytes:
    """As many short items as a record may hold, in each list, again and again."""
    lists = [[0] * 131_072, [200] * 131_072] * 2
    cells = [b"\x01" * 131_072, b"\xff" * 2_000_000, True, []]
    plain = packed([10**9, [], [*lists, *cells], [[]] * 6])
    return begun(*[(Kind.DELTA, ZSTD, moment(2) + zipped(plain))] * 60)


def deep_nesting() -> bytes:
    deep = b"\x91" * 1_000_000
    zip_of_deep = moment(2) + zipped(deep)
    return begun(
        (Kind.DELTA, 0, moment(2) + deep), (Kind.FULL, ZSTD, zip_of_deep), (Kind.HEADER, 0, deep)
    )


def many_rows() -> bytes:
    rows = [[], [], [], [], [], [[0, [b"x"] * 16, [1] * 64]] * 20_000]
    plain = full(rows=rows)[len(moment(2)) :]
    return begun((Kind.FULL, ZSTD, moment(2) + zipped(plain[: 4 << 20])))


def no_header() -> bytes:
    return make_frame(Kind.FULL, 0, 0, full()) * 200_000


INF = float("inf")
WRONG: tuple[object, ...] = (None, "x", [], [[]], {"a": [1]}, 1e308)

CASES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "random": lambda: bytes((i * i * 31 + i // 7) % 251 for i in range(2_000_000)),
    "markers": lambda: b"\xf6ioh" * 2_000_000,
    "heads of huge records": lambda: begun()
    + (make_frame(Kind.DELTA, 0, 9, b"x" * MAX_PAYLOAD_BYTES)[:40] * 50_000),
    "bombs": bombs,
    "stream bombs": stream_bombs,
    "wide lists": wide_lists,
    "deep nesting": deep_nesting,
    "many rows": many_rows,
    "no header": no_header,
    "wrong types": lambda: begun(
        *((kind, 0, packed(bad)) for kind in Kind for bad in WRONG)
    ),
    "time beyond calendars": lambda: begun((Kind.FULL, 0, full(2, 1e300))),
    "time that is none": lambda: begun((Kind.FULL, 0, full(2, float("nan")))),
    "marks beyond calendars": lambda: begun(
        *((Kind.MARK, 0, packed([when, b"\x1b[2J"])) for when in (-1e18, 1e300, INF, float("nan")))
    ),
    "a host of infinities": lambda: begun(
        (Kind.FULL, 0, full(changes=changes(f2=[0, 0, 0], f3=[INF] * 3)))
    ),
    "unknown layers": lambda: begun((Kind.FULL, 0, full(layers=[[b"zfs", b"bpf"]]))),
    "counts that are none": lambda: begun((Kind.DELTA, 0, delta(changes(f2=[25], f3=[INF])))),
    "positions beyond the end": lambda: begun(
        (Kind.DELTA, 0, delta(changes(f0=[1 << 40], f1=[1])))
    ),
    "cells beyond the end": lambda: begun(
        (Kind.DELTA, 0, delta(changes(f4=b"\xab\xab", f5=b"\xff" * 9)))
    ),
    "parts that are none": lambda: begun((Kind.DELTA, 0, delta(changes(f6=True, f7=[[0, [999]]])))),
    "layers that are none": lambda: begun((Kind.DELTA, 0, delta(changes(f6=True, f7=[[63, [0]]])))),
    "a stream that never began": lambda: begun((Kind.DELTA, STREAM, moment(2) + b"x" * 90)),
    "samples too short": lambda: begun(*((kind, 0, b"x" * 11) for kind in SAMPLE_KINDS)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", ["text", "verify"])
def test_a_hostile_file_is_soon_over(name: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.ioh"
    path.write_bytes(CASES[name]())
    arguments = [command, str(path), *(["-d", "all"] if command == "text" else [])]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    *said, last = ran.stderr.decode().splitlines()
    code, spent_s, peak_kb = last.split()
    assert int(code) in {0, 1}
    assert len(said) <= 1
    assert "Traceback" not in ran.stderr.decode()
    assert b"\x1b" not in ran.stdout + ran.stderr
    assert float(spent_s) < LIMIT_S
    assert int(peak_kb) * 1024 < LIMIT_BYTES


def test_the_records_above_are_taken_when_nothing_is_wrong_with_them() -> None:
    for good in (full(), delta(NO_CHANGE)):
        kind = Kind.FULL if good == full() else Kind.DELTA
        told = list(items(begun((kind, 0, good))))
        assert [item.tick for item in told if isinstance(item, Tick)] == [0, 1, 2]
        assert not any(isinstance(item, BadRecord) for item in told)


def test_the_limits_are_those_of_a_harmless_run(tmp_path: Path) -> None:
    """The same measure on a good file, so that the limits above mean what they say."""
    path = tmp_path / "good.ioh"
    path.write_bytes(recorded(fakes.first(5)))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "verify", str(path)],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    code, spent_s, peak_kb = ran.stderr.split()
    assert int(code) == 0
    assert 0 < float(spent_s) < LIMIT_S
    assert 10_000 < int(peak_kb) < LIMIT_BYTES // 1024
