"""A MariaDB server for one test: data and socket in a directory, no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.kernel.rig import run
from tests.kernel.talker import wait_until
from tests.servers.postgres import ROOT, give_to, inside

_START_S = 60.0
# Debian has no MySQL: a MySQL of another system, in ROOT, is tested with the tests of MariaDB.
IS_MYSQL = (ROOT / "usr/sbin/mysqld").exists() and not (ROOT / "usr/sbin/mariadbd").exists()
_SERVER, _CLIENT = ("mysqld", "mysql") if IS_MYSQL else ("mariadbd", "mariadb")


class MariaDB:
    """The server, with an empty database ``bench``; with ``options`` of mariadbd."""

    def __init__(self, *options: str, home: Path | None = None) -> None:
        self.home = home or Path(tempfile.mkdtemp(prefix="ioh-mariadb-", dir=ROOT / "tmp"))
        self.home.chmod(0o755)
        give_to("mysql", self.home)
        self.options = options
        if IS_MYSQL:
            run(*self._server, "--initialize-insecure")
        else:
            is_there = (ROOT / "usr/sbin/mariadbd").exists() or shutil.which("mariadbd")
            assert is_there, "no mariadbd: ./ioh.sh --test-servers installs it"
            how = ("--user=mysql", "--skip-test-db", "--auth-root-authentication-method=normal")
            here = f"--datadir={inside(self.home)}/data"
            run("chroot", str(ROOT), "mariadb-install-db", "--no-defaults", here, *how)
        self.start()
        self.sql("create database bench", "")

    @property
    def _server(self) -> list[str]:
        here = inside(self.home)
        return ["chroot", str(ROOT), _SERVER, "--no-defaults", f"--datadir={here}/data",
                "--user=mysql", f"--socket={here}/s", f"--pid-file={here}/pid",
                "--skip-networking", "--secure-file-priv="]  # fmt: skip

    def start(self) -> None:
        log = self.home / "log"
        with log.open("ab") as messages:
            self.process = subprocess.Popen([*self._server, *self.options], stderr=messages)

        def has_begun() -> bool:
            assert self.process.poll() is None, log.read_text()
            return (self.home / "s").exists()

        wait_until(has_begun, _START_S)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(_START_S)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.home)

    def client(self, *words: str) -> list[str]:
        """The command of a client."""
        how = ["--no-defaults", f"--socket={inside(self.home)}/s", "-uroot", "-NB"]
        return ["chroot", str(ROOT), _CLIENT, *how, *words]

    def sql(self, text: str, database: str = "bench") -> str:
        """Run statements in one session, which continues after errors."""
        done = subprocess.run(
            self.client("--force", database), input=text, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        return done.stdout.strip()

    def status(self) -> dict[str, int]:
        """The server's own counters, read with this one statement."""
        rows = [line.split("\t") for line in self.sql("show global status").splitlines()]
        return {name: int(value) for name, value in rows if re.fullmatch(r"\d+", value)}

    def sysbench(self, load: str, command: str, *options: str, rows: int = 500) -> list[str]:
        """The command of sysbench on two tables of ``rows`` rows each."""
        here = [f"--mysql-socket={self.home}/s", "--mysql-user=root", "--mysql-db=bench"]
        return ["sysbench", load, *here, "--tables=2", f"--table-size={rows}", *options, command]
