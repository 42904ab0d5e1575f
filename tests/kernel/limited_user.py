"""A mount namespace with an installed ioh, and a user who may run only that ioh as root."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.machine import ROOT

NAME, UID = "tester", 12345

# Stands in for a Python whose environments need no network, and run this checkout's ioh.  What the
# set-up compiles in advance, at 20 s each time, is compiled when it is needed.
_PYTHON = f"""#!/bin/sh
case " $* " in
*" -m venv "*)
    for new; do :; done
    mkdir -p "$new/bin" "$new/lib/python3.11/site-packages"
    cp "$0" "$new/bin/python"
    : >"$new/pyvenv.cfg"
    ;;
*" -m pip "*) [ ! -e FOLDER/slow ] || sleep 60 ;;
*" -m ensurepip "* | *" -m compileall "* | *" -m ioh.commands.prepare "*) ;;
*) exec {sys.executable} "$@" ;;
esac
"""
# /etc as it is, but changes vanish; the others are empty.
_ENTER = """
mkdir etc
mount -t tmpfs -o mode=755 none etc
cp -a /etc/. etc/
mount --bind etc /etc
for place in /opt /run /usr/local /var/cache; do mount -t tmpfs -o mode=755 none "$place"; done
mkdir /usr/local/bin
userdel ioh 2>/dev/null || :
useradd --uid "$2" --no-create-home --home-dir "$PWD/home" --shell /bin/sh "$1"
printf '%s\\n' "$3" >/etc/sudoers.d/ioh
chmod 440 /etc/sudoers.d/ioh
visudo -cqf /etc/sudoers
echo ready
exec cat
"""


def documented_rule() -> str:
    """The rule for sudo in docs/security.md, for NAME."""
    (rule,) = re.findall(r"(?m)^USER .*", (ROOT / "docs/security.md").read_text())
    return str(rule).replace("USER", NAME)


class Host:
    """Runs commands in the namespace; ``home`` is the user's, ``folder`` root's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        os.chown(self.home, UID, UID)
        self.python = folder / "python3"
        self.python.write_text(_PYTHON.replace("FOLDER", str(folder)))
        self.python.chmod(0o755)
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _ENTER, "sh"]
        pipe = subprocess.PIPE
        self.holder = subprocess.Popen(
            [*words, NAME, str(UID), documented_rule()], stdin=pipe, stdout=pipe, cwd=folder
        )
        assert self.holder.stdout
        assert self.holder.stdout.readline() == b"ready\n"

    def close(self) -> None:
        self.holder.communicate(timeout=10)

    def inside(self, user: bool = False) -> list[str]:
        """The words that run a command in the namespace."""
        enter = ["nsenter", "--mount", "--target", str(self.holder.pid), "--"]
        who = ["setpriv", "--reuid", NAME, "--regid", str(UID), "--init-groups"]
        return enter + (who if user else [])

    def environment(self, **more: str) -> dict[str, str]:
        path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        kept = {"PATH": path, "LC_ALL": "C.UTF-8", "TERM": "xterm", "HOME": str(self.home)}
        return {**kept, "IOH_PYTHON": str(self.python), **more}

    def run(
        self, *words: str, user: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.inside(user), *words],
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def launcher(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run this checkout's launcher as root."""
        return self.run("sh", str(ROOT / "ioh.sh"), *words, user=False, **environment)

    def tree(self, *places: str) -> list[str]:
        """Names, owners, modes, targets and times of everything below these places."""
        form = "%p %y %U %G %m %s %l %T@\n"
        done = self.run("find", *places, "-printf", form)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())
