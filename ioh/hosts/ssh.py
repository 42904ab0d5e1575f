"""The ssh command that reads another host, and the meaning of its exit status."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence

from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

CLOCK = "ioh-clock"  # the prefix of the far clock's answers
_OPTIONS = (
    *("-o", "BatchMode=yes", "-C", "-T"),
    # Give up on a broken connection.
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
# Answers each line from stdin on stderr; stdin ends with the connection.
_PRINT_CLOCK = (
    "exec 3<&0 </dev/null; "
    f'{{ while read -r n <&3; do echo "{CLOCK} $n $(date +%s.%N)" >&2; done; }} >/dev/null & '
    "exec 3<&-; "
)
_RUN_DEFAULT = (
    'if [ "$(id -u)" != 0 ] && sudo -n ioh --version >/dev/null 2>&1; '
    'then exec sudo -n ioh "$@"; fi; ! command -v ioh >/dev/null || exec ioh "$@"; '
    # The copy of ioh deploy, only if it is our own, whatever XDG_CACHE_HOME is.
    "copy=${XDG_CACHE_HOME:-${HOME-}/.cache}/ioh/current/ioh.sh; "
    '[ -x "$copy" ] && [ -O "$copy" ] || exit 127; '
    'if [ "$(id -u)" != 0 ] && sudo -n "$copy" --version >/dev/null 2>&1; '
    'then exec sudo -n "$copy" "$@"; fi; exec "$copy" "$@"'
)
_SSH_FAILED, _NOT_THERE = 255, (126, 127)
_WITH_PORT = re.compile(r"([^:\[\]]+|[^:\[\]]*\[[^\[\]]+\]):\d{1,5}")


def check_host(name: str) -> str:
    """Check a host's name.  IohError: ssh would take it for an option, or it is invalid."""
    is_wrong = not name or name.startswith("-") or not name.isprintable() or " " in name
    hint = "Give a name as for ssh: db01, root@db01, db01:2222"
    refuse_if(is_wrong, f'"{name}" is not a host name', hint)
    return name


def ssh_command(host: str, command: str | None, arguments: Sequence[str]) -> list[str]:
    """The local command that runs ``ioh`` with these arguments on the host.

    ``host`` is ``name``, ``user@name`` or either with ``:port``; ``command`` is the shell command
    for ioh there, None for _RUN_DEFAULT.
    """
    run = _RUN_DEFAULT if command is None else f'exec {command} "$@"'
    return ssh_words(host, ["sh", "-c", _PRINT_CLOCK + run, "ioh", *arguments])


def ssh_words(host: str, there: Sequence[str]) -> list[str]:
    """The local command that runs these words on the host."""
    target = f"ssh://{host}" if _WITH_PORT.fullmatch(host) else host
    return ["ssh", *_OPTIONS, "--", target, shlex.join(there)]


def start(
    command: Sequence[str], stdin: int, stderr: int, *, apart: bool = False
) -> subprocess.Popen[bytes]:
    """Run ssh; ``apart`` in its own session.  IohError: it cannot be run."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, 0, stdin=stdin, stdout=pipe, stderr=stderr, start_new_session=apart
        )
    except OSError as error:
        hint = "Install it: openssh-client" if isinstance(error, FileNotFoundError) else ""
        cause = f"cannot run {command[0]}: {error.strerror}"
        raise IohError(cause, hint) from None


def why_ended(host: str, command: str | None, status: int | None, line: str) -> IohError:
    """Explain an unexpected end.

    ``status`` is ssh's, None if it had to be killed; ``line`` is the last line on its stderr.
    """
    name, text = printable(host), printable(line, 200).rstrip(". ")
    if status == _SSH_FAILED:
        hint = f"Try: ssh -o BatchMode=yes {name} true"
        return IohError(f"{name}: {text or 'the connection failed'}", hint)
    if status in _NOT_THERE:
        if command is None:
            path = "--remote-command 'sudo -n /PATH/ioh'"
            hint = f"Run: ioh deploy {name}; or give its path: {path}"
            return IohError(f"ioh is not on the PATH of {name}", hint, ExitCode.UNAVAILABLE)
        cause = f"{name} cannot run {command}"
        return IohError(cause, "Correct --remote-command", ExitCode.UNAVAILABLE)
    if status:
        return IohError(f"{name}: {text or f'ioh ended with status {status}'}", "Try ioh there")
    return IohError(f"{name}: the stream ended", "")
