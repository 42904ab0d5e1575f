"""A PostgreSQL of a test's own: data and socket in a directory, a port nobody else has."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.kernel.rig import run

PASSWORD = "correct-horse-battery"
# Where another system with another version lies: debootstrap --include=postgresql sid DIR.
ROOT = Path(os.environ.get("IOH_SERVER_ROOT", "/"))
# Nothing of its own accord: what is counted is the test's.
_SETTINGS = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "16MB",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "shared_preload_libraries": "pg_stat_statements",
    "listen_addresses": "127.0.0.1",
}
_HBA = """\
local all postgres peer
host  all ioh 127.0.0.1/32 scram-sha-256
host  all all 127.0.0.1/32 reject
"""


def _program(name: str) -> str:
    newest = sorted((ROOT / "usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = inside(newest[-1]) if newest else shutil.which(name)
    assert found, f"{name} is not installed: ./ioh.sh --test-servers installs it"
    return found


def inside(path: Path) -> str:
    """What the server itself calls it."""
    return str("/" / path.relative_to(ROOT))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Cluster:
    """The server, with databases ``postgres`` and ``bench``, and a role ``ioh`` by password.

    Args:
        where: The directory that its own is made in.
        scale: Of pgbench: 15 MB each.
    """

    def __init__(self, where: Path | None = None, scale: int = 2) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ioh-pg-", dir=where or ROOT / "tmp"))
        self.home.chmod(0o755)
        shutil.chown(self.home, "postgres", "postgres")
        self.port = _free_port()
        self._as_user("initdb", "-D", self.home / "data", "-A", "trust", "--no-sync", "--no-locale")
        (self.home / "data" / "pg_hba.conf").write_text(_HBA)
        self.start()
        self.sql(f"create role ioh login password '{PASSWORD}'; grant pg_monitor to ioh")
        self.sql("create extension pg_stat_statements")
        self.sql("create database bench")
        self.pgbench("-i", "-q", "-s", str(scale))
        self.sql("checkpoint")

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=ioh dbname=postgres password={PASSWORD}"

    def _words(self, name: str, *words: str | Path) -> list[str]:
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        known = [inside(x) if isinstance(x, Path) else x for x in words]
        return ["chroot", str(ROOT), *user, _program(name), *known]

    def _as_user(self, name: str, *words: str | Path) -> str:
        return run(*self._words(name, *words))

    def start(self) -> None:
        given = {**_SETTINGS, "port": self.port, "unix_socket_directories": inside(self.home)}
        settings = " ".join(f"-c {name}={value}" for name, value in given.items())
        data, log = self.home / "data", self.home / "log"
        self._as_user("pg_ctl", "-D", data, "-w", "-l", log, "-o", settings, "start")

    def stop(self) -> None:
        self._as_user("pg_ctl", "-D", self.home / "data", "-w", "-m", "fast", "stop")

    @property
    def version(self) -> int:
        """The major one."""
        return int((self.home / "data" / "PG_VERSION").read_text())

    @property
    def pid(self) -> int:
        """Of the first process."""
        return int((self.home / "data" / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """All of its processes at once, as a crash of the machine ends them."""
        pids = run("pgrep", "--parent", str(self.pid)).split()
        for pid in (self.pid, *map(int, pids)):
            with contextlib.suppress(ProcessLookupError):  # a session that has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        # Nobody may have waited for the dead process yet, which start() would take for a server.
        for lock in ("data/postmaster.pid", f".s.PGSQL.{self.port}.lock"):
            (self.home / lock).unlink()

    def is_ready(self) -> bool:
        """Whether it takes connections."""
        done = subprocess.run(self.psql("-c", "select 1"), check=False, capture_output=True)
        return done.returncode == 0

    def close(self) -> None:
        if (self.home / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.home)

    def psql(self, *words: str) -> list[str]:
        """The command."""
        where = ("-h", self.home, "-p", str(self.port), "-U", "postgres", "-qAt")
        return self._words("psql", *where, *words)

    def sql(self, text: str, database: str = "postgres") -> str:
        return run(*self.psql("-d", database, "-c", text)).strip()

    def pgbench(self, *options: str) -> str:
        where = ("-h", self.home, "-p", str(self.port), "-U", "postgres")
        return self._as_user("pgbench", *where, "-n", *options, "bench")

    def run_script(self, text: str, *options: str) -> str:
        """What pgbench says of these statements as its transaction."""
        (self.home / "script.sql").write_text(f"{text}\n")
        return self.pgbench("-f", inside(self.home / "script.sql"), *options)

    def session(self, text: str) -> subprocess.Popen[str]:
        """A session that does this, and stays until its input is closed."""
        made = subprocess.Popen(
            self.psql("-d", "bench"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PGOPTIONS": ""},
        )
        assert made.stdin is not None
        assert made.stdout is not None
        made.stdin.write(f"{text};\n\\echo ready\n")
        made.stdin.flush()
        assert made.stdout.readline() == "ready\n"
        return made
