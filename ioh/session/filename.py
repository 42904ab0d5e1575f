"""What recordings are called."""

from __future__ import annotations

import os
import re
import time


def default_name(hostname: str, now_unix_s: float) -> str:
    """``ioh-<host>-<local date and time>.ioh``."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname)[:64].lstrip(".-") or "host"
    return f"ioh-{host}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now_unix_s))}.ioh"


def is_part_of(name: str, path: str) -> bool:
    """Whether ``name`` is one file of an endless recording into ``path``; see part_name()."""
    stem, extension = os.path.splitext(path)  # noqa: PTH122
    return bool(re.fullmatch(rf"{re.escape(stem)}-[0-9]{{4,9}}{re.escape(extension)}", name))


def part_name(path: str, part: int) -> str:
    """The name of one file of an endless recording: ``x.ioh`` gives ``x-0001.ioh``."""
    stem, extension = os.path.splitext(path)  # noqa: PTH122
    return f"{stem}-{part:04}{extension}"
