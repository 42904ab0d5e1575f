"""Database servers of one's own: data, socket and user apart from those of the system's service."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from tests.kernel.rig import Volume, run
from tests.scenarios.stage import Limit, Stage

_START_S = 60.0


def _program(name: str) -> str:
    """Debian keeps the server's programs off the PATH."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(newest[-1]) if newest else shutil.which(name)
    assert found, f"{name} is not installed: ./ioh.sh --test-programs installs it"
    return found


def _home(stage: Stage, volume: Volume, user: str) -> Path:
    """A directory of that user's on the volume, which others may reach."""
    stage.folder.parent.chmod(0o711)
    home = volume.mount / user
    run("install", "-d", "-o", user, "-m", "755", home)
    return home


class PostgreSQL:
    """A cluster on a volume; with ``settings`` of the server, as NAME=VALUE."""

    def __init__(self, stage: Stage, volume: Volume, *settings: str) -> None:
        self._stage, self._home = stage, _home(stage, volume, "postgres")
        self._data = self._home / "data"
        self._settings = ("listen_addresses=", f"unix_socket_directories={self._home}", *settings)
        self._as_user("initdb", "-D", self._data, "-A", "trust", "--no-sync", "--no-locale")
        stage.at_end(self.stop, "immediate")
        self.start()

    def _words(self, name: str, *words: str | Path) -> tuple[str, ...]:
        user = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
        return (*user, _program(name), *map(str, words))

    def _as_user(self, name: str, *words: str | Path) -> str:
        return run(*self._words(name, *words))

    def start(self) -> None:
        settings = " ".join(f"-c {setting}" for setting in self._settings)
        log = self._home / "log"
        self._as_user("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", settings, "start")

    def stop(self, how: str = "fast") -> None:
        if (self._data / "postmaster.pid").exists():
            self._as_user("pg_ctl", "-D", self._data, "-w", "-m", how, "stop")

    def fill(self, scale: int) -> None:
        """pgbench's tables, 15 MB for each of the scale; nothing is left to be written."""
        self._as_user("pgbench", "-h", self._home, "-i", "-q", "-s", str(scale), "postgres")
        self.sql("CHECKPOINT")

    def sql(self, text: str) -> str:
        return self._as_user("psql", "-h", self._home, "-qAtc", text, "postgres")

    def bench(self, *options: str) -> None:
        """pgbench without an end, of four clients."""
        words = ("-h", str(self._home), "-n", "-c", "4", "-j", "2", "-T", "3600", *options)
        self._stage.load(*self._words("pgbench", *words, "postgres"))

    def bench_script(self, text: str, *options: str) -> None:
        """The same with these statements as its transaction."""
        script = self._home / f"{len(list(self._home.iterdir()))}.sql"
        script.write_text(text)
        self.bench("-f", str(script), *options)

    def enter(self, limit: Limit) -> None:
        """Into a control group; sessions follow."""
        first = (self._data / "postmaster.pid").read_text().split()[0]
        for pid in (first, *run("pgrep", "--parent", first).split()):
            (limit.folder / "cgroup.procs").write_text(pid)

    def transactions(self, each: int) -> None:
        """pgbench's own mix: so many of each of four clients, to their end."""
        words = ("-h", self._home, "-n", "-c", "4", "-j", "2", "-t", str(each))
        self._as_user("pgbench", *words, "postgres")

    def back_up(self, name: str) -> None:
        """pg_basebackup into a new directory, as a load."""
        words = ("-h", str(self._home), "-D", str(self._home / name), "-c", "fast", "-X", "none")
        self._stage.load(*self._words("pg_basebackup", *words))


class MariaDB:
    """A server on a volume; with ``options`` of mariadbd."""

    def __init__(self, stage: Stage, volume: Volume, *options: str) -> None:
        self._stage, self._home = stage, _home(stage, volume, "mysql")
        self._socket = f"--socket={self._home}/socket"
        data = f"--datadir={self._home}/data"
        run("mariadb-install-db", "--no-defaults", data, "--user=mysql", "--skip-test-db",
            "--auth-root-authentication-method=normal")  # fmt: skip
        log = volume.mount / "mariadb.log"
        with log.open("wb") as errors:
            self._server = subprocess.Popen(
                [_program("mariadbd"), "--no-defaults", data, self._socket, "--user=mysql",
                 "--skip-networking", f"--pid-file={self._home}/pid", *options],
                stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
        stage.at_end(self.stop)
        deadline = time.monotonic() + _START_S
        while not (self._home / "socket").exists():
            assert self._server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "mariadbd does not begin"
            time.sleep(0.1)

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait(_START_S)

    def _sysbench(self, rows: int, *words: str) -> tuple[str, ...]:
        here = f"--mysql-socket={self._home}/socket", "--mysql-user=root", "--mysql-db=bench"
        return ("sysbench", words[0], *here, "--tables=2", f"--table-size={rows}", *words[1:])

    def fill(self, rows: int) -> None:
        run("mariadb", "--no-defaults", self._socket, "-u", "root", "-e", "CREATE DATABASE bench")
        run(*self._sysbench(rows, "oltp_read_write", "prepare"))

    def bench(self, rows: int, load: str) -> None:
        """sysbench without an end, of four clients."""
        words = ("--threads=4", "--time=0", "--events=0", "run")
        self._stage.load(*self._sysbench(rows, load, *words))
