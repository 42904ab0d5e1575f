"""BPF programs: the cache of compiled ones, what the kernel accepts, events that they missed."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf import host as host_facts
from ioh.bpf.compiled import Compiled, find, keep, key_of, renumber
from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.totals import skipped_events
from ioh.bpf.values import count_places, fill
from tests.unit.fake_kernel import CPUS, install

MAPS = (MapSpec("totals", 6, 4, 8, 1), MapSpec("issued", 1, 8, 8, 16384, 1))
KEY = "0" * 64


def load_map(register: int, number: int) -> bytes:
    """The two instructions that load a map's address."""
    return struct.pack("=BBhi", 0x18, 0x10 | register, 0, number) + bytes(8)


def load_constant(value: int) -> bytes:
    low, high = value & 0x7FFFFFFF, value >> 32
    return struct.pack("=BBhi", 0x18, 1, 0, low) + struct.pack("=BBhi", 0, 0, 0, high)


CODE = load_map(1, 0) + load_constant(1 << 32 | 1) + load_map(3, 1) + b"\x95" + bytes(7)
COMPILED = Compiled(MAPS, {"on_issue": CODE, "on_exit": b"\x95" + bytes(7)})


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    keep(KEY, COMPILED, tmp_path / "ioh")
    return tmp_path / "ioh"


def test_maps_are_renumbered_and_constants_are_not() -> None:
    expected = load_map(1, 40) + load_constant(1 << 32 | 1) + load_map(3, 41) + b"\x95" + bytes(7)
    assert renumber(CODE, {0: 40, 1: 41}) == expected


@pytest.mark.parametrize("code", [load_map(1, 7), CODE[:-3], load_map(1, 0)[:12]])
def test_malformed_code_is_refused(code: bytes) -> None:
    with pytest.raises(ValueError, match="malformed instructions"):
        renumber(code, {0: 0, 1: 1})


def test_a_cached_program_is_found_again(cache: Path) -> None:
    assert find(KEY, cache) == COMPILED
    assert find("1" * 64, cache) is None
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in cache.iterdir()] == [0o600]


@pytest.mark.parametrize("damage", [0, 70, -1, b"", b"0" * 64 + b"\n{}"])
def test_a_damaged_file_is_not_used_but_replaced(cache: Path, damage: int | bytes) -> None:
    """One byte is damaged, or the file is torn."""
    (path,) = cache.iterdir()
    whole = bytearray(path.read_bytes())
    if isinstance(damage, int):
        whole[damage] ^= 1
    path.write_bytes(whole if isinstance(damage, int) else damage)
    assert find(KEY, cache) is None
    keep(KEY, COMPILED, cache)
    assert find(KEY, cache) == COMPILED


def test_files_that_others_could_have_written_are_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = cache.iterdir()
    for place, open_to_others, mode in ((path, 0o620, 0o600), (cache, 0o702, 0o700)):
        place.chmod(open_to_others)
        assert find(KEY, cache) is None
        place.chmod(mode)
        assert find(KEY, cache) == COMPILED
    other = cache.stat().st_uid + 1
    monkeypatch.setattr("os.geteuid", lambda: other)
    assert find(KEY, cache) is None


def test_symbolic_links_are_not_followed(cache: Path, tmp_path: Path) -> None:
    (path,) = cache.iterdir()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert find(KEY, cache) is None
    (tmp_path / "link").symlink_to(cache)
    keep("1" * 64, COMPILED, tmp_path / "link")
    assert find("1" * 64, cache) is None


def test_an_unusable_cache_directory_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    keep(KEY, COMPILED, tmp_path / "file")
    keep(KEY, COMPILED, tmp_path / "file" / "below")
    assert find(KEY, tmp_path / "file") is None


def test_a_full_disk_leaves_no_half_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.rename", full)
    keep("1" * 64, COMPILED, cache)
    assert [path.name for path in cache.iterdir()] == [f"{KEY}.probe"]


def test_only_the_newest_64_are_kept(cache: Path) -> None:
    (cache / f"{KEY}.probe").rename(cache / f"{KEY}.1000.probe")  # an older ioh named them so
    os.utime(cache / f"{KEY}.1000.probe", (0, 0))
    keys = [f"{at:064}" for at in range(1, 71)]
    for at, key in enumerate(keys, 1):
        keep(key, COMPILED, cache)
        os.utime(cache / f"{key}.probe", (at, at))
    assert sorted(path.name for path in cache.iterdir()) == [f"{key}.probe" for key in keys[-64:]]


def test_a_key_depends_on_source_flags_functions_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcc.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    first, *others = [
        key_of("int a;", ["-DX=1"], {"f"}),
        key_of("int b;", ["-DX=1"], {"f"}),
        key_of("int a;", ["-DX=2"], {"f"}),
        key_of("int a;", ["-DX=1"], {"f", "g"}),
    ]
    assert first == key_of("int a;", ["-DX=1"], {"f"})
    assert len({first, *others}) == 4
    os.utime(tmp_path / "bcc.py", (7, 7))
    assert key_of("int a;", ["-DX=1"], {"f"}) != first
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(sys.modules, "bcc", raising=False)
    assert key_of("int a;", [], set()) is None


MARKED = 0x9C7EB1D3


def load_value(register: int, which: int) -> bytes:
    """The two instructions that the compiler makes of PATCHED(marker(which))."""
    return struct.pack("=BBhIII", 0x18, register, 0, which, 0, MARKED)


END = b"\x95" + bytes(7)


def test_values_are_written_into_all_their_places_and_nowhere_else() -> None:
    functions = {
        "on_call": load_value(1, 0) + load_constant(7) + load_value(9, 1) + END,
        "on_end": load_map(1, 0) + load_value(0, 1) + END,
    }
    places = count_places(functions.values(), 2)
    assert places == (1, 2)
    most = (1 << 64) - 1
    filled = fill(functions, (7, most), places)
    load_most = struct.pack("=BBhIII", 0x18, 9, 0, most >> 32, 0, most >> 32)
    assert (
        filled["on_call"]
        == struct.pack("=BBhIII", 0x18, 1, 0, 7, 0, 0) + load_constant(7) + load_most + END
    )
    assert filled["on_end"] == load_map(1, 0) + load_most.replace(b"\x09", b"\x00") + END
    assert count_places(filled.values(), 0) == ()


@pytest.mark.parametrize("code", [b"", load_value(1, 1) + END])
def test_a_value_that_the_compiler_dropped_is_refused(code: bytes) -> None:
    with pytest.raises(ValueError, match="the compiler dropped filter value 0"):
        count_places([code], 2)


@pytest.mark.parametrize(
    "code",
    [
        load_value(1, 2),  # no such value
        load_value(0x11, 0),  # a map's number
        struct.pack("=BBhI", 0xA7, 1, 0, MARKED),  # exclusive or with the upper half
        load_value(1, 0)[8:],
        bytes(4) + load_value(1, 0),
        load_value(1, 0).replace(b"\x18", b"\xb7"),
    ],
)
def test_a_marker_in_any_other_instruction_is_refused(code: bytes) -> None:
    whole = load_value(1, 0) + load_value(1, 1) + code
    with pytest.raises(ValueError, match="computes with a filter value"):
        count_places([whole], 2)
    with pytest.raises(ValueError, match="computes with a filter value"):
        fill({"on_call": whole}, (1, 2), (1, 1))


@pytest.mark.parametrize(("values", "places"), [((5,), (2,)), ((5,), ()), ((), ())])
def test_a_program_with_a_marker_in_it_is_never_loaded(
    values: tuple[int, ...], places: tuple[int, ...]
) -> None:
    """A probe with more or fewer places than when it was compiled, or without any values."""
    with pytest.raises(ValueError, match="filter value"):
        fill({"on_call": load_value(1, 0) + END}, values, places)


CAST_ID = 4711


def call(registers: int, number: int) -> bytes:
    return struct.pack("=BBhi", 0x85, registers, 0, number)


@pytest.mark.parametrize("takes", [True, False])
def test_bpf_rdonly_cast_is_found_by_loading_a_program(
    takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {"bpf_rdonly_cast": CAST_ID}
    btf: Any = SimpleNamespace(function_id=ids.get, struct_id={"list_head": 95}.get)
    loaded: list[bytes] = []

    def load(_name: str, code: bytes, *_: object) -> int:
        if not takes:
            raise OSError(22, "calling kernel function is not allowed")
        loaded.append(code)
        return -1

    monkeypatch.setattr(host_facts, "load_typed", load)
    closed: list[int] = []
    monkeypatch.setattr("os.close", closed.append)
    assert host_facts.find_cast(btf) == (CAST_ID if takes else None)
    assert closed == [-1] * takes
    assert [call(2 << 4, CAST_ID) in code for code in loaded] == [True] * takes
    ids.clear()
    assert host_facts.find_cast(btf) is None


TURNS = MapSpec("turns", 6, 4, 16, 2)
COPIES = 3


def turns(monkeypatch: pytest.MonkeyPatch, *counts: tuple[int, int]) -> Map:
    maps, held, _ = install(monkeypatch, [TURNS])
    for event, (runs, taken) in enumerate(counts):
        rest = struct.pack("=QQ", 0, 0) * (CPUS - 2)
        both = struct.pack("=QQQQ", runs - runs // 2, taken, runs // 2, 0)
        held["turns"].entries[struct.pack("=I", event)] = both + rest
    return maps["turns"]


@pytest.mark.parametrize(
    ("misses", "counts", "lost"),
    [
        # Ten events, all handled: the second copy took those that the first one missed.
        ([2, 0, 0, 0, 0, 0], [(28, 10), (30, 10)], 0),
        # All copies were busy during the same events.
        ([2, 2, 2, 1, 1, 1], [(24, 8), (27, 9)], 3),
        # Two copies have not reached an event yet.
        ([0, 0, 0, 0, 0, 0], [(28, 10), (30, 10)], 0),
        # A program that takes no turns.
        ([5, 1, 2, 0, 0, 0], [(0, 0), (30, 10)], 0),
        # Programs before the events' own are steps, which are never skipped.
        ([0, 0, 1, 1, 1, 0, 0, 0], [(27, 9), (30, 10)], 1),
    ],
)
def test_an_event_is_lost_when_every_copy_was_busy(
    monkeypatch: pytest.MonkeyPatch, misses: list[int], counts: list[tuple[int, int]], lost: int
) -> None:
    assert skipped_events(misses, turns(monkeypatch, *counts), COPIES) == lost
    assert skipped_events(misses, None, 1) == sum(misses)  # without copies
