"""Compiled probes kept between runs: compiling is 1 to 2 s of CPU time, loading 0.2 s.

A probe's code follows from its source, its flags and the compiler alone, and they are its key;
the kernel verifies it each time.  Nothing here is needed: what cannot be read or written is
compiled instead.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ioh.bpf.compiled import Compiled, renumber
from ioh.bpf.maps import MapSpec

CACHE_DIR = Path("/var/cache/ioh")
_KEPT = 32  # each set of filters has its own probes
_MAX_BYTES = 8 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX = ".probe"


def key_of(source: str, flags: Iterable[str], functions: Iterable[str]) -> str | None:
    """What names a compiled probe; None where bcc is not installed, and nothing compiles."""
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
    """The probe of that key; None where it is not kept, damaged, or of anybody else's making."""
    try:
        with _opened(directory) as folder:
            fd = os.open(key + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(fd, "rb") as file:
                _refuse_others(os.fstat(file.fileno()))
                digest, _, body = file.read(_MAX_BYTES).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        return _unpacked(json.loads(body))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(key: str, compiled: Compiled, directory: Path = CACHE_DIR) -> None:
    """Keep a probe under its key, and forget the oldest where there are too many."""
    body = json.dumps(_packed(compiled)).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        with _opened(directory) as folder:
            name = f"{key}.{os.getpid()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(digest + b"\n" + body)
                os.rename(name, key + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:  # a full disk
                os.unlink(name, dir_fd=folder)
            _forget_oldest(folder)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """The directory's descriptor; whatever is in it was put there by us alone.

    Raises:
        OSError: There is none, or somebody else could have written into it.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_others(os.fstat(folder))
        yield folder
    finally:
        os.close(folder)


def _refuse_others(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        msg = "somebody else could have written it"
        raise PermissionError(msg)


def _forget_oldest(folder: int) -> None:
    names = os.listdir(folder)
    ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime for name in names}
    for name in sorted(names, key=ages.__getitem__)[:-_KEPT]:
        os.unlink(name, dir_fd=folder)


def _packed(compiled: Compiled) -> dict[str, object]:
    code = {name: base64.b64encode(code).decode() for name, code in compiled.functions.items()}
    maps = [astuple(spec) for spec in compiled.maps]
    return {"maps": maps, "functions": code}


def _unpacked(kept: dict[str, Any]) -> Compiled:
    maps = tuple(MapSpec(*spec) for spec in kept["maps"])
    known = {index: index for index in range(len(maps))}
    code = {name: base64.b64decode(text) for name, text in kept["functions"].items()}
    functions = {name: renumber(instructions, known) for name, instructions in code.items()}
    return Compiled(maps, functions)
