"""A cache of compiled probes: compiling takes 1 to 2 s of CPU time, loading 0.2 s.

A probe's code depends only on its source, its flags and the compiler; together they are its key.
The kernel verifies the code each time.  If the cache cannot be read or written, ioh compiles.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ioh.bpf.maps import MapSpec

CACHE_DIR = Path("/var/cache/ioh")
_KEPT = 64  # of this and earlier versions and kernels, with each set of filters
_MAX_BYTES = 8 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX = ".probe"
_INSTRUCTION = struct.Struct("=BBhi")
_LOAD_64 = 0x18  # two instructions; the second has the constant's upper half
_IS_MAP = 1  # BPF_PSEUDO_MAP_FD instead of the source register


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled probe, independent of any process.

    ``functions``: code by name; instructions that load a map hold its index in ``maps``, and those
    that load a filter's value hold a marker: see values.py.  ``places``: of each value.
    """

    maps: tuple[MapSpec, ...]
    functions: Mapping[str, bytes]
    places: tuple[int, ...] = ()


def renumber(code: bytes, numbers: Mapping[int, int]) -> bytes:
    """Replace the map numbers in instructions; ValueError if the code is malformed."""
    out, at = bytearray(code), 0
    try:
        while at < len(code):
            opcode, registers, _, number = _INSTRUCTION.unpack_from(code, at)
            if opcode == _LOAD_64 and registers >> 4 == _IS_MAP:
                struct.pack_into("=i", out, at + 4, numbers[number])
            at += 16 if opcode == _LOAD_64 else 8
    except (KeyError, struct.error) as error:
        msg = f"malformed instructions: {error}"
        raise ValueError(msg) from error
    if at != len(code):
        msg = "malformed instructions: the last one is cut off"
        raise ValueError(msg)
    return bytes(out)


def key_of(source: str, flags: Iterable[str], functions: Iterable[str]) -> str | None:
    """The key of a compiled probe; None if bcc is not installed."""
    try:
        spec = importlib.util.find_spec("bcc")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).stat()
    wanted = ",".join(sorted(functions))
    parts = [source, *flags, wanted, spec.origin, str(found.st_size), str(found.st_mtime_ns)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find(key: str, directory: Path = CACHE_DIR) -> Compiled | None:
    """Find a cached probe; None if missing, damaged, or writable by somebody else."""
    import msgspec

    try:
        with _opened(directory) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(f"{key}{_SUFFIX}", flags, dir_fd=folder)
            with os.fdopen(fd, "rb") as file:
                _refuse_others(os.fstat(file.fileno()))
                digest, body = file.read(hashlib.sha256().digest_size), file.read(_MAX_BYTES)
        if hashlib.sha256(body).digest() != digest:
            return None
        kept = msgspec.msgpack.decode(body, type=Compiled)
        for code in kept.functions.values():
            renumber(code, dict(enumerate(range(len(kept.maps)))))
    except (OSError, ValueError):
        return None
    return kept


def keep(key: str, compiled: Compiled, directory: Path = CACHE_DIR) -> None:
    """Store a probe under its key; delete the oldest if there are too many."""
    import msgspec

    body = msgspec.msgpack.encode(compiled)
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        with _opened(directory) as folder:
            name = f"new.{os.getpid()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(hashlib.sha256(body).digest() + body)
                os.rename(name, f"{key}{_SUFFIX}", src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:  # e.g. the disk is full
                os.unlink(name, dir_fd=folder)
            _forget_oldest(folder)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Open the directory; refuse one that somebody else can write to."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_others(os.fstat(folder))
        yield folder
    finally:
        os.close(folder)


def _refuse_others(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        msg = "another user can write to it"
        raise PermissionError(msg)


def _forget_oldest(folder: int) -> None:
    names = os.listdir(folder)
    ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime for name in names}
    for name in sorted(names, key=ages.__getitem__)[:-_KEPT]:
        os.unlink(name, dir_fd=folder)
