"""Copy this checkout to another host and set it up there."""

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
WHOLE = ".deployed"  # the last file of the stream: without it, a copy is incomplete
_SAID = "ioh-deploy "  # the prefix of our scripts' output lines
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
    f'[ -e "$new/{WHOLE}" ] || fail "the copy is incomplete"; '
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
    """The files as a tar stream; ``name`` of the directory: version and hash of the content."""

    name: str
    files: int
    size_bytes: int
    stream: bytes


@dataclass(frozen=True, slots=True)
class FarHost:
    """The state of the host; ``rights`` is root, sudo or none."""

    rights: str
    is_there: bool
    folder: str


def make_copy(root: Path = ROOT) -> Copy:
    """Pack this checkout's files; equal content gives an equal stream.

    IohError: ioh does not run from a checkout, or a file cannot be read.
    """
    archive, whole = io.BytesIO(), hashlib.sha256()
    files = size_bytes = 0
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as stream:
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
        cause = f"cannot copy this ioh: {error.filename or str(root)}: {error.strerror}"
        raise IohError(cause, "Run ioh deploy from a complete checkout: ./ioh.sh") from None
    return Copy(name, files, size_bytes, archive.getvalue())


def _add(stream: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
    member.size = len(data)
    stream.addfile(member, io.BytesIO(data))


def _paths(root: Path) -> list[Path]:
    paths = []
    for name in COPIED:
        top = root / name
        inside = sorted(top.rglob("*")) if top.is_dir() else [top]
        paths += [
            path
            for path in inside
            if not path.is_dir()
            and "__pycache__" not in path.parts
            and not path.name.startswith(".")
        ]
    return paths


def look(host: str, name: str) -> FarHost:
    """Check the host.  IohError: it cannot be reached, or lacks what copying needs."""
    answer = _run(host, _LOOK, name)
    rights, is_there, base = (*answer.split(" ", 2), "", "")[:3]
    if is_there == "tarless":
        cause = f"{host} has no tar"
        raise IohError(cause, "Install tar there, then run this again", ExitCode.UNAVAILABLE)
    # It is shown as part of a command, so it must not need escapes.
    is_plain = base.startswith("/") and printable(base) == base
    if rights not in {"root", "sudo", "none"} or not is_plain:
        cause = f"{host} has no usable cache directory: {printable(base, 200)}"
        raise IohError(cause, "Set HOME or XDG_CACHE_HOME there to an absolute path")
    return FarHost(rights, is_there == "there", f"{base}/{name}")


def send(host: str, copy: Copy) -> None:
    """Copy the files, all or none.  IohError: that failed."""
    _run(host, _COPY, copy.name, stream=copy.stream)


def set_up(host: str, name: str, report: Callable[[str], None]) -> str:
    """Run the set-up of a copy, and then ``ioh --version``, whose output is returned.

    ``report`` gets each line of the set-up, unescaped.  IohError: the set-up failed, or ioh does
    not run.
    """
    _run(host, _SETUP, name, report=report)
    return _run(host, _PROVE, name)


def _run(
    host: str,
    script: str,
    name: str,
    *,
    stream: bytes = b"",
    report: Callable[[str], None] | None = None,
) -> str:
    """Run a script there; return its last line that begins with _SAID."""
    command = ssh_words(host, ["sh", "-c", script, "ioh", name])
    last_line = answer = ""
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
                        last_line = text
                        if report is not None:
                            report(text)
                status = ssh.wait()
            finally:
                ssh.kill()
    if status == 0:
        return answer
    if answer.startswith("failed "):
        cause = f"{host}: {printable(answer.removeprefix('failed '), 300).rstrip('. ')}"
        raise IohError(cause, "Fix that there, then run this again")
    error = why_ended(host, "sh", status if status > 0 else None, last_line)
    if report is not None and status != 255:
        cause = f"{host}: the set-up ended with status {status}"
        raise IohError(cause, "Fix what it reports above, then run this again")
    raise IohError(error.cause, error.hint if status == 255 else "Try again", error.code)
