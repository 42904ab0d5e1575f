"""Make and install the systemd unit of ``ioh serve``."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ioh.model.errors import IohError, refuse_if
from ioh.model.printable import printable

NAME = "ioh.service"
UNIT_DIR = Path("/etc/systemd/system")
_PACKAGE = Path(__file__).resolve().parents[1]
# In a checkout or its copy; in a wheel (see pyproject.toml).
_TEMPLATES = (_PACKAGE.parent / "contrib" / "systemd" / NAME, _PACKAGE / "data" / NAME)
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 (from the unit)
_INSTALL = "Install ioh first: sudo ./ioh.sh --install; then: sudo ioh serve --install-unit"


def unit_text(words: Sequence[str]) -> str:
    """The unit for this installation; ``words`` are options of ``ioh serve``.

    IohError: the unit's user cannot reach this ioh, or users other than root can change it.
    """
    python = Path(sys.executable)
    for path in (python.parent, python.resolve().parent, _PACKAGE):
        if any(path.is_relative_to(hidden) for hidden in _HIDDEN):
            cause = f"a service cannot reach {os.fspath(path)}"
            raise IohError(cause, _INSTALL)
        _refuse_others_than_root(path)
    template = next(path for path in _TEMPLATES if path.exists()).read_text(encoding="utf-8")
    command = (sys.executable, "-I", "-B", "-m", "ioh", "serve", *words)
    start = f"ExecStart={' '.join(map(_quoted, command))}"
    lines = (start if line.startswith("ExecStart=") else line for line in template.splitlines())
    return "\n".join(lines) + "\n"


def _refuse_others_than_root(path: Path) -> None:
    for each in (path, *path.parents):  # a directory that can be renamed can be replaced
        status = each.stat()
        is_sticky = each != path and status.st_mode & stat.S_ISVTX
        if status.st_uid or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky):
            cause = f"users other than root can change {os.fspath(each)}, and gain BPF"
            raise IohError(cause, _INSTALL)


def _quoted(word: str) -> str:
    """Quote one word of ExecStart, so that systemd replaces nothing in it."""
    cause = f"{word} cannot be used in a unit"
    refuse_if(printable(word) != word, cause, "Use printable characters only")
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(char, escape)
    return f'"{word}"' if not word or set(word) & set(" ;'\"\\$") else word


def refuse_another(text: str, directory: Path = UNIT_DIR) -> None:
    """IohError: another unit of this name is installed, which ioh does not replace."""
    path = directory / NAME
    cause = f"{os.fspath(path)} exists and differs"
    differs = os.path.lexists(path) and path.read_bytes() != text.encode()
    refuse_if(differs, cause, f"Change it: systemctl edit {NAME}; or remove it first")


def install_unit(text: str, directory: Path = UNIT_DIR) -> Path:
    """Write the unit and reload systemd; call refuse_another() before.

    IohError: it cannot be written, or systemd cannot be reloaded.
    """
    path = directory / NAME
    new = path.with_name(f".{NAME}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(0o644)
        new.rename(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        cause = f"cannot write {os.fspath(path)}: {error.strerror}"
        raise IohError(cause, "It must be writable for root") from error
    if Path("/run/systemd/system").is_dir():
        process = subprocess.run(
            ["/usr/bin/systemctl", "daemon-reload"], capture_output=True, text=True, check=False
        )
        if process.returncode:
            cause = f"systemctl daemon-reload failed: {process.stderr.strip()}"
            raise IohError(cause, f"{path} is installed; see: systemctl status")
    return path
