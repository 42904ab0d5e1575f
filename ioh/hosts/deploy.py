"""A copy of this checkout at another host: what is copied, and the commands that put it there."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ioh import __version__
from ioh.hosts.ssh import ssh_words, start, why_ended
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

ROOT = Path(__file__).resolve().parents[2]
# What the launcher, its set-up and ioh itself read.
COPIED = ("LICENSE", "contrib", "ioh", "ioh.sh", "probes", "pyproject.toml", "requirements.lock")
WHOLE = ".deployed"  # the last file of the stream: a copy without it was cut
_SAID = "ioh-deploy "  # how a line of the scripts begins
_LINE_BYTES = 4096
# Without line breaks and single quotes: the far login shell may be any.
_BASE = "base=${XDG_CACHE_HOME:-${HOME-}/.cache}/ioh; "
_FAIL = f'fail() {{ printf "{_SAID}failed %s\\n" "$1"; exit 1; }}; '
_LOOK = (
    f"{_BASE}how=none; "
    'if [ "$(id -u)" = 0 ]; then how=root; elif sudo -n true >/dev/null 2>&1; then how=sudo; fi; '
    f'is=new; [ ! -e "$base/$1/{WHOLE}" ] || is=there; '
    "command -v tar >/dev/null || is=tarless; "
    f'printf "{_SAID}%s %s %s\\n" "$how" "$is" "$base"'
)
_COPY = (
    f'{_FAIL}{_BASE}umask 022; said=$(mkdir -p "$base" 2>&1) || fail "$said"; '
    'new=$(mktemp -d "$base/.new.XXXXXX" 2>&1) || fail "$new"; '
    'trap "rm -rf \\"\\$new\\"" EXIT; trap "exit 1" HUP INT TERM PIPE; '
    'said=$(tar -xmof - -C "$new" 2>&1) || fail "$said"; '
    f'[ -e "$new/{WHOLE}" ] || fail "the copy was cut"; '
    '[ ! -e "$base/$1" ] || fail "$base/$1 is in the way"; '
    'said=$(chmod 755 "$new" && mv "$new" "$base/$1" 2>&1) || fail "$said"'
)
_SETUP = f'{_BASE}exec sh "$base/$1/ioh.sh" --setup </dev/null'
_PROVE = (
    f'{_FAIL}{_BASE}said=$(sh "$base/$1/ioh.sh" --version 2>&1) || fail "$said"; '
    'lack=$(ln -sfn "$1" "$base/current" 2>&1) || fail "$lack"; '
    f'printf "{_SAID}%s\\n" "$said"'
)


@dataclass(frozen=True, slots=True)
class Copy:
    """What is copied, as a tar file; ``name`` of its directory: version and hash of all content."""

    name: str
    files: int
    size_bytes: int
    stream: bytes


@dataclass(frozen=True, slots=True)
class There:
    """What was found at the host: ``rights`` is root, sudo or none."""

    rights: str
    is_there: bool
    folder: str


def make_copy(root: Path = ROOT) -> Copy:
    """This checkout's files as one stream, the same for the same content.

    IohError: ioh does not run from a checkout, or a file cannot be read.
    """
    held, whole = io.BytesIO(), hashlib.sha256()
    files = size_bytes = 0
    try:
        with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as stream:
            for path in _paths(root):
                data = path.read_bytes()
                member = tarfile.TarInfo(str(path.relative_to(root)))
                member.mode = 0o755 if os.access(path, os.X_OK) else 0o644
                whole.update(f"{member.name}\0{member.mode}\0{len(data)}\0".encode() + data)
                _add(stream, member, data)
                files, size_bytes = files + 1, size_bytes + len(data)
            name = f"{__version__}-{whole.hexdigest()[:12]}"
            _add(stream, tarfile.TarInfo(WHOLE), f"{name}\n".encode())
    except OSError as error:
        cause = f"cannot copy this ioh: {printable(error.filename or str(root))}: {error.strerror}"
        raise IohError(cause, "Run ioh deploy from a whole checkout: ./ioh.sh") from None
    return Copy(name, files, size_bytes, held.getvalue())


def _add(stream: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
    member.size = len(data)
    stream.addfile(member, io.BytesIO(data))


def _paths(root: Path) -> list[Path]:
    found = []
    for name in COPIED:
        top = root / name
        inside = sorted(top.rglob("*")) if top.is_dir() else [top]
        found += [
            path
            for path in inside
            if not path.is_dir()
            and "__pycache__" not in path.parts
            and not path.name.startswith(".")
        ]
    return found


def look(host: str, name: str) -> There:
    """Find out what is there.  IohError: no host, or one that lacks what copying needs."""
    answer = _run(host, _LOOK, name)
    rights, is_there, base = (*answer.split(" ", 2), "", "")[:3]
    if is_there == "tarless":
        hint = "Install tar there, then run this again"
        cause = f"{printable(host)} has no tar"
        raise IohError(cause, hint, ExitCode.UNAVAILABLE)
    # It is shown as a command to use: as it is, or not at all.
    is_plain = base.startswith("/") and printable(base) == base
    if rights not in {"root", "sudo", "none"} or not is_plain:
        cause = f"{printable(host)} has no cache directory to use: {printable(base, 200)}"
        raise IohError(cause, "Set HOME or XDG_CACHE_HOME there to an absolute path")
    return There(rights, is_there == "there", f"{base}/{name}")


def send(host: str, copy: Copy) -> None:
    """Put it there, whole or not at all.  IohError: it did not get there."""
    _run(host, _COPY, copy.name, stream=copy.stream)


def set_up(host: str, name: str, tell: Callable[[str], None]) -> str:
    """Run the set-up of the copy of that name, and then ioh; returns what its ``--version`` says.

    ``tell`` takes each line of the set-up; nothing of it is escaped.  IohError: the set-up failed,
    or ioh does not run.
    """
    _run(host, _SETUP, name, tell=tell)
    return _run(host, _PROVE, name)


def _run(
    host: str,
    script: str,
    name: str,
    *,
    stream: bytes = b"",
    tell: Callable[[str], None] | None = None,
) -> str:
    """Run a script there; what it said of itself."""
    command = ssh_words(host, ["sh", "-c", script, "ioh", name])
    told = answer = ""
    with os.fdopen(os.memfd_create("ioh-deploy"), "w+b") as stdin:
        stdin.write(stream)
        stdin.seek(0)
        with start(command, stdin.fileno(), subprocess.STDOUT) as ssh:
            try:
                while ssh.stdout and (line := ssh.stdout.readline(_LINE_BYTES)):
                    text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
                    if text.startswith(_SAID):
                        answer = text.removeprefix(_SAID)
                    elif text.strip():
                        told = text
                        if tell is not None:
                            tell(text)
                status = ssh.wait()
            finally:
                ssh.kill()
    if status == 0:
        return answer
    if answer.startswith("failed "):
        cause = f"{printable(host)}: {printable(answer.removeprefix('failed '), 300).rstrip('. ')}"
        raise IohError(cause, "Mend that there, then run this again")
    error = why_ended(host, "sh", status if status > 0 else None, told)
    if tell is not None and status != 255:
        cause = f"{printable(host)}: the set-up ended with status {status}"
        raise IohError(cause, "Mend what it says above, then run this again")
    raise IohError(error.cause, error.hint if status == 255 else "Try again", error.code)
