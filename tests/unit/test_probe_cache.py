"""Compiled probes in a file: the same when read again, and nothing at all where in doubt."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from ioh.bpf.compiled import Compiled, find, keep, key_of, renumber
from ioh.bpf.maps import MapSpec

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
def test_code_that_makes_no_sense_is_refused(code: bytes) -> None:
    with pytest.raises(ValueError, match="make no sense"):
        renumber(code, {0: 0, 1: 1})


def test_what_is_kept_is_found_again(cache: Path) -> None:
    assert find(KEY, cache) == COMPILED
    assert find("1" * 64, cache) is None
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in cache.iterdir()] == [0o600]


@pytest.mark.parametrize("at", [0, 70, 200, -1])
def test_a_damaged_file_is_not_used_and_made_anew(cache: Path, at: int) -> None:
    (path,) = cache.iterdir()
    whole = bytearray(path.read_bytes())
    whole[at] ^= 1
    path.write_bytes(whole)
    assert find(KEY, cache) is None
    keep(KEY, COMPILED, cache)
    assert find(KEY, cache) == COMPILED


@pytest.mark.parametrize("text", [b"", b"\n", b"0" * 64 + b"\n{}"])
def test_a_torn_file_is_not_used(cache: Path, text: bytes) -> None:
    (path,) = cache.iterdir()
    path.write_bytes(text)
    assert find(KEY, cache) is None


def test_what_others_could_have_written_is_not_used(cache: Path) -> None:
    (path,) = cache.iterdir()
    path.chmod(0o620)
    assert find(KEY, cache) is None
    path.chmod(0o600)
    cache.chmod(0o702)
    assert find(KEY, cache) is None
    cache.chmod(0o700)
    assert find(KEY, cache) == COMPILED


def test_what_others_own_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = cache.stat().st_uid + 1
    monkeypatch.setattr("os.geteuid", lambda: other)
    assert find(KEY, cache) is None


def test_a_link_is_not_followed(cache: Path, tmp_path: Path) -> None:
    (path,) = cache.iterdir()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert find(KEY, cache) is None
    (tmp_path / "link").symlink_to(cache)
    keep("1" * 64, COMPILED, tmp_path / "link")
    assert find("1" * 64, cache) is None


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path) -> None:
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


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    keys = [f"{at:064}" for at in range(40)]
    for at, key in enumerate(keys):
        keep(key, COMPILED, tmp_path / "ioh")
        os.utime(tmp_path / "ioh" / f"{key}.probe", (at, at))
    found = [key for key in keys if find(key, tmp_path / "ioh")]
    assert found == keys[-32:]


def test_a_key_tells_source_flags_functions_and_compiler_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcc.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = key_of("int a;", ["-DX=1"], {"f"})
    assert first == key_of("int a;", ["-DX=1"], {"f"})
    others = [
        key_of("int b;", ["-DX=1"], {"f"}),
        key_of("int a;", ["-DX=2"], {"f"}),
        key_of("int a;", ["-DX=1"], {"f", "g"}),
    ]
    assert len({first, *others}) == 4
    os.utime(tmp_path / "bcc.py", (7, 7))
    assert key_of("int a;", ["-DX=1"], {"f"}) != first


def test_without_a_compiler_there_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(__import__("sys").modules, "bcc", raising=False)
    assert key_of("int a;", [], set()) is None
