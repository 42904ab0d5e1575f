"""The command that reads another host, and what it means when it ends."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence

from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable

CLOCK = "ioh-clock"  # how a line of the far clock begins
_OPTIONS = (
    *("-o", "BatchMode=yes", "-C", "-T"),
    # A connection that was cut is no longer waited for.
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
# Answers on stderr to each line from stdin, the far end of which is closed with the connection.
_TELL_CLOCK = (
    "exec 3<&0 </dev/null; "
    f'{{ while read -r n <&3; do echo "{CLOCK} $n $(date +%s.%N)" >&2; done; }} >/dev/null & '
    "exec 3<&-; "
)
_RUN_DEFAULT = (
    'if [ "$(id -u)" != 0 ] && sudo -n ioh --version >/dev/null 2>&1; '
    'then exec sudo -n ioh "$@"; fi; ! command -v ioh >/dev/null || exec ioh "$@"; '
    # The copy that ioh deploy made: nobody else's, whatever XDG_CACHE_HOME says.
    "copy=${XDG_CACHE_HOME:-${HOME-}/.cache}/ioh/current/ioh.sh; "
    '[ -x "$copy" ] && [ -O "$copy" ] || exit 127; '
    'if [ "$(id -u)" != 0 ] && sudo -n "$copy" --version >/dev/null 2>&1; '
    'then exec sudo -n "$copy" "$@"; fi; exec "$copy" "$@"'
)
_SSH_FAILED, _NOT_THERE = 255, (126, 127)
_WITH_PORT = re.compile(r"([^:\[\]]+|[^:\[\]]*\[[^\[\]]+\]):\d{1,5}")


def check_host(name: str) -> str:
    """A host as ssh takes it.  IohError: it would be an option of ssh, or is no name at all."""
    is_wrong = not name or name.startswith("-") or not name.isprintable() or " " in name
    hint = "Give a name as for ssh: db01, root@db01, db01:2222"
    refuse_if(is_wrong, f'"{printable(name)}" is not the name of a host', hint)
    return name


def ssh_command(host: str, command: str | None, arguments: Sequence[str]) -> list[str]:
    """What to run here to have ``ioh`` with these arguments run there.

    ``host`` is ``name``, ``user@name`` or either with ``:port``; ``command`` how ioh is called
    there, in the words of a shell, None for _RUN_DEFAULT.
    """
    run = _RUN_DEFAULT if command is None else f'exec {command} "$@"'
    return ssh_words(host, ["sh", "-c", _TELL_CLOCK + run, "ioh", *arguments])


def ssh_words(host: str, there: Sequence[str]) -> list[str]:
    """What to run here to have these words run there."""
    target = f"ssh://{host}" if _WITH_PORT.fullmatch(host) else host
    return ["ssh", *_OPTIONS, "--", target, shlex.join(there)]


def start(
    command: Sequence[str], stdin: int, stderr: int, *, apart: bool = False
) -> subprocess.Popen[bytes]:
    """Run ssh; ``apart`` in a session of its own.  IohError: it cannot be run."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, 0, stdin=stdin, stdout=pipe, stderr=stderr, start_new_session=apart
        )
    except OSError as error:
        hint = "Install it: openssh-client" if isinstance(error, FileNotFoundError) else ""
        cause = f"cannot run {command[0]}: {error.strerror}"
        raise IohError(cause, hint) from None


def why_ended(host: str, command: str | None, status: int | None, said: str) -> IohError:
    """What an end that nobody asked for means.

    ``status`` is ssh's, None where it did not end; ``said`` the last line on its stderr.
    """
    name, text = printable(host), printable(said, 200).rstrip(". ")
    if status == _SSH_FAILED:
        hint = f"Try: ssh -o BatchMode=yes {name} true"
        return IohError(f"{name}: {text or 'the connection failed'}", hint)
    if status in _NOT_THERE:
        if command is None:
            deploy = f"Put it there: ioh deploy {name}"
            hint = f"{deploy}; or say where it is: --remote-command 'sudo -n /PATH/ioh.sh'"
            return IohError(f"ioh is not on the PATH of {name}", hint, ExitCode.UNAVAILABLE)
        cause = f"{name} cannot run {printable(command)}"
        return IohError(cause, "Correct --remote-command", ExitCode.UNAVAILABLE)
    if status:
        return IohError(f"{name}: {text or f'ioh ended with status {status}'}", "Try ioh there")
    return IohError(f"{name}: the stream ended", "")
