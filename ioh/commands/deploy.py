"""``ioh deploy``: copy this ioh to another host over ssh."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from ioh.commands.output import agrees, say, write_stdout
from ioh.model.errors import refuse_if
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.hosts.deploy import Copy, FarHost

_RIGHTS = {
    "root": "as root",
    "sudo": "through sudo -n",
    "none": "needs root, and you have neither root nor sudo -n there; without them only /proc",
}


SUMMARY = "copy this ioh to another host over ssh"
EXAMPLES = """\
  ioh deploy db01
  ioh deploy admin@db01:2222 --yes

It first shows what it will do there, and asks. Then use it with: ioh --host db01"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("host", metavar="HOST", help="an ssh host, user@host or host:port")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> None:
    """Copy ioh, set it up, and check that it runs."""
    from ioh.hosts.deploy import look, make_copy, send, set_up
    from ioh.hosts.ssh import check_host

    host = check_host(args.host)
    cause = "ioh deploy asks before it changes a host, but stdin is not a terminal"
    refuse_if(not args.yes and not sys.stdin.isatty(), cause, "Give --yes")
    copy = make_copy()
    there = look(host, copy.name)
    write_stdout(_plan(host, copy, there))
    if not args.yes and not agrees("Continue?"):
        say("nothing was done")
        return
    if not there.is_there:
        send(host, copy)
    version = set_up(host, copy.name, lambda line: say(f"{host}: {line}"))
    write_stdout(_result(host, there, version))


def _plan(host: str, copy: Copy, there: FarHost) -> str:
    size = f"{copy.files} files, {copy.size_bytes / 1e6:.1f} MB"
    copies = f"copies {size}, to {there.folder}"
    if there.is_there:
        copies = f"copies nothing: {there.folder} already exists"
    return f"""\
On {printable(host)}, ioh deploy
- {copies}
- runs ioh.sh --setup there, which installs missing packages of Python, venv and bcc with
  apt-get, dnf or zypper ({_RIGHTS[there.rights]}),
  and creates a virtual environment in that directory, with packages from PyPI
- points the link {there.folder.rpartition("/")[0]}/current to it
"""


def _result(host: str, there: FarHost, version: str) -> str:
    launcher = f"{there.folder}/ioh.sh"
    words = ["sudo", "-n", launcher] if there.rights == "sudo" else [launcher]
    name = printable(shlex.quote(host))
    command = shlex.quote(shlex.join(words))
    return f"""\
{printable(host)} now has {printable(version, 80)}. Use it with:
  ioh text --host {name} --remote-command {command}
or, if no other ioh is on the PATH there: ioh text --host {name}
"""
