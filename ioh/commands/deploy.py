"""``ioh deploy``: a copy of this ioh at a host that has none, through ssh."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from ioh.commands.output import agrees, say, write_stdout
from ioh.model.errors import refuse_if
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.hosts.deploy import Copy, There

_RIGHTS = {
    "root": "as root",
    "sudo": "through sudo -n",
    "none": "which only root can: neither you nor sudo -n there; without them /proc alone",
}


SUMMARY = "put a copy of this ioh on another host, through ssh"
EXAMPLES = """\
  ioh deploy db01
  ioh deploy admin@db01:2222 --yes

Says first what it will do there, and asks. Afterwards: ioh --host db01"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("host", metavar="HOST", help="a name for ssh, user@name, name:port")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> None:
    """Copy, set up, and prove that it runs."""
    from ioh.hosts.deploy import look, make_copy, send, set_up
    from ioh.hosts.ssh import check_host

    host = check_host(args.host)
    cause = "ioh deploy asks before it changes a host, and there is no terminal"
    refuse_if(not args.yes and not sys.stdin.isatty(), cause, "Answer with --yes")
    copy = make_copy()
    there = look(host, copy.name)
    write_stdout(_plan(host, copy, there))
    if not args.yes and not agrees("Go on?"):
        say("nothing was done")
        return
    if not there.is_there:
        send(host, copy)
    version = set_up(host, copy.name, lambda line: say(f"{host}: {line}"))
    write_stdout(_result(host, there, version))


def _plan(host: str, copy: Copy, there: There) -> str:
    size = f"{copy.files} files, {copy.size_bytes / 1e6:.1f} MB"
    copies = f"copies {size}, to {there.folder}"
    if there.is_there:
        copies = f"copies nothing: {there.folder} is there already"
    return f"""\
At {printable(host)}, ioh deploy
- {copies}
- runs ioh.sh --setup there, which installs what is missing of Python, its venv and bcc with
  apt-get, dnf or zypper ({_RIGHTS[there.rights]}),
  and makes a virtual environment in that directory, with packages from PyPI
- makes {there.folder.rpartition("/")[0]}/current lead to it
"""


def _result(host: str, there: There, version: str) -> str:
    launcher = f"{there.folder}/ioh.sh"
    words = ["sudo", "-n", launcher] if there.rights == "sudo" else [launcher]
    name = printable(shlex.quote(host))
    command = shlex.quote(shlex.join(words))
    return f"""\
{printable(host)} has {printable(version, 80)}. Use it:
  ioh text --host {name} --remote-command {command}
or, where no other ioh is on the PATH there: ioh text --host {name}
"""
