"""A PostgreSQL server for one test: data and socket in a directory, a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.kernel.rig import run
from tests.kernel.talker import Talker

PASSWORD = "correct-horse-battery"
# The root of another system with another version: debootstrap --include=postgresql sid DIR.
ROOT = Path(os.environ.get("IOH_SERVER_ROOT", "/"))
# No background work: only what the test does is counted.
_SETTINGS = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "bgwriter_lru_maxpages": "0",
    "max_logical_replication_workers": "0",  # their launcher commits every three minutes
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


def program(name: str) -> str:
    """The newest version's program of that name, as the server itself sees it."""
    newest = sorted((ROOT / "usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = inside(newest[-1]) if newest else shutil.which(name)
    assert found, f"{name} is not installed: ./ioh.sh --test-servers installs it"
    return found


def inside(path: Path) -> str:
    """A path as the server itself sees it."""
    return str("/" / path.relative_to(ROOT))


def give_to(user: str, path: Path) -> None:
    """Give a directory to the server's user, whose number differs in another system."""
    run("chroot", str(ROOT), "chown", f"{user}:{user}", inside(path))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Postgres:
    """A server with these settings; its data and socket are in a directory of its own."""

    database = "postgres"  # pgbench's

    def __init__(self, home: Path, settings: Mapping[str, object], hba: str = "") -> None:
        self.home, self.data = home, home / "data"
        self.port = settings.get("port", 5432)
        self._settings: dict[str, object] = {"unix_socket_directories": inside(home), **settings}
        give_to("postgres", home)
        self.as_user("initdb", "-D", self.data, "-A", "trust", "--no-sync", "--no-locale")
        if hba:
            (self.data / "pg_hba.conf").write_text(hba)
        self.start()

    def words(self, name: str, *words: str | Path) -> list[str]:
        """A command, run by the server's user."""
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        known = [inside(x) if isinstance(x, Path) else x for x in words]
        return ["chroot", str(ROOT), *user, program(name), *known]

    def client(self, name: str, *words: str | Path) -> list[str]:
        """A client's command."""
        return self.words(name, "-h", self.home, "-p", str(self.port), "-U", "postgres", *words)

    def as_user(self, name: str, *words: str | Path) -> str:
        return run(*self.words(name, *words))

    def start(self, **more: object) -> None:
        settings = " ".join(f"-c {name}={value}" for name, value in (self._settings | more).items())
        self.as_user(
            "pg_ctl", "-D", self.data, "-w", "-l", self.home / "log", "-o", settings, "start"
        )

    def stop(self, how: str = "fast") -> None:
        if (self.data / "postmaster.pid").exists():
            self.as_user("pg_ctl", "-D", self.data, "-w", "-m", how, "stop")

    @property
    def pid(self) -> int:
        """The pid of the first process."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    @property
    def pids(self) -> list[int]:
        """The pids of all of its processes."""
        return [self.pid, *map(int, run("pgrep", "--parent", str(self.pid)).split())]

    def psql(self, *words: str) -> list[str]:
        """The command of psql."""
        return self.client("psql", "-qAt", *words)

    def sql(self, text: str, database: str = "postgres") -> str:
        return run(*self.psql("-d", database, "-c", text)).strip()

    def pgbench(self, *options: str) -> str:
        return run(*self.client("pgbench", "-n", *options, self.database))

    def fill(self, scale: int) -> None:
        """Create pgbench's tables, 15 MB per unit of scale; nothing is left to be written."""
        self.pgbench("-i", "-q", "-s", str(scale))
        self.sql("checkpoint")


class Cluster(Postgres):
    """A server that also has a database ``bench``, and a role ``ioh`` with a password."""

    database = "bench"

    def __init__(self, where: Path | None = None, scale: int = 2) -> None:
        home = Path(tempfile.mkdtemp(prefix="ioh-pg-", dir=where or ROOT / "tmp"))
        home.chmod(0o755)
        super().__init__(home, {**_SETTINGS, "port": _free_port()}, _HBA)
        self.sql(f"create role ioh login password '{PASSWORD}'; grant pg_monitor to ioh")
        self.sql("create extension pg_stat_statements")
        self.sql("create database bench")
        self.fill(scale)

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=ioh dbname=postgres password={PASSWORD}"

    @property
    def version(self) -> int:
        """The major version."""
        return int((self.data / "PG_VERSION").read_text())

    def kill(self) -> None:
        """Kill all of its processes at once, as a crash of the machine does."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):  # a session that has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        # The dead process may not have been reaped yet, and start() would take it for a server.
        for lock in ("data/postmaster.pid", f".s.PGSQL.{self.port}.lock"):
            (self.home / lock).unlink()

    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        done = subprocess.run(self.psql("-c", "select 1"), check=False, capture_output=True)
        return done.returncode == 0

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.home)

    def run_script(self, text: str, *options: str) -> str:
        """Run pgbench with these statements as its transaction; returns its output."""
        (self.home / "script.sql").write_text(f"{text}\n")
        return self.pgbench("-f", inside(self.home / "script.sql"), *options)

    def session(self, text: str) -> Talker:
        """A session that runs this, and stays until its input is closed."""
        made = Talker(*self.psql("-d", "bench"), env={**os.environ, "PGOPTIONS": ""})
        assert made.ask(f"{text};\n\\echo ready") == "ready"
        return made
