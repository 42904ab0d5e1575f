"""An OpenSSH server for one test on loopback, and a configuration of ssh for it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil

from tests.kernel.rig import run
from tests.kernel.talker import wait_until

SSHD = "/usr/sbin/sshd"
_SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/mine.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
"""
_CLIENT = """\
Host keyless
  IdentityFile {folder}/other
Host db01 nfs01 stranger
  IdentityFile {folder}/mine
Host db01 nfs01 keyless
  UserKnownHostsFile {folder}/known
Host stranger
  UserKnownHostsFile {folder}/none
Host db01 nfs01 stranger keyless
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentitiesOnly yes
  StrictHostKeyChecking yes
Host *
  GlobalKnownHostsFile {folder}/none
"""


class Sshd:
    """``db01`` and ``nfs01`` are this machine; a context manager.

    ``stranger`` is this machine with an unknown host key, ``keyless`` is this machine for a user
    key that it does not accept.  A ``user`` other than root must be able to read the folder.
    """

    def __init__(self, folder: Path, user: str = "root") -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        for name in ("host", "mine", "other"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{self._port} {key}")
        (folder / "bin").mkdir()
        names = {"folder": folder, "port": self._port, "user": user}
        (folder / "server").write_text(_SERVER.format(**names))
        (folder / "client").write_text(_CLIENT.format(**names))
        ssh = folder / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/client "$@"\n')
        ssh.chmod(0o755)
        Path("/run/sshd").mkdir(exist_ok=True)  # its chroot for privilege separation
        self.start()

    def __enter__(self) -> Sshd:  # noqa: PYI034 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which ``ssh`` knows these hosts."""
        return {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def start(self) -> None:
        """Start, and wait until it listens."""
        self._process = subprocess.Popen([SSHD, "-D", "-e", "-f", self.folder / "server"])

        def listens() -> bool:
            with socket.socket() as asking:
                return asking.connect_ex(("127.0.0.1", self._port)) == 0

        wait_until(listens, 10)

    @property
    def sessions(self) -> list[psutil.Process]:
        """Its processes for connections."""
        found = psutil.Process(self._process.pid).children(recursive=True)
        return [each for each in found if each.name().startswith("sshd")]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to each connection's processes."""
        for each in self.sessions:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def stop(self) -> None:
        """Stop the server and all connections."""
        self.send(signal.SIGKILL)
        self._process.terminate()
        self._process.wait(10)
