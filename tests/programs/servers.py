"""Database servers for tests; data and socket are not those of the system's service."""

from __future__ import annotations

from pathlib import Path

from tests.kernel.rig import Volume, run
from tests.scenarios.stage import Limit, Stage
from tests.servers import mariadb
from tests.servers.postgres import Postgres


def _home(stage: Stage, where: Volume | Path, user: str) -> Path:
    """Make a directory of that user's on the volume, which others may reach."""
    stage.folder.parent.chmod(0o711)
    stage.folder.chmod(0o711)
    home = (where if isinstance(where, Path) else where.mount) / user
    run("install", "-d", "-o", user, "-m", "755", home)
    return home


class PostgreSQL(Postgres):
    """A server on a volume, or in a directory; with ``settings`` as NAME=VALUE."""

    def __init__(self, stage: Stage, where: Volume | Path, *settings: str) -> None:
        self._stage = stage
        given = dict(setting.split("=", 1) for setting in settings)
        super().__init__(_home(stage, where, "postgres"), {"listen_addresses": "", **given})
        stage.at_end(self.stop, "immediate")

    def bench(self, *options: str) -> None:
        """Run pgbench without an end, with four clients."""
        words = ("-n", "-c", "4", "-j", "2", "-T", "3600", *options, self.database)
        self._stage.load(*self.client("pgbench", *words))

    def bench_script(self, text: str, *options: str) -> None:
        """The same with these statements as its transaction."""
        script = self.home / f"{len(list(self.home.iterdir()))}.sql"
        script.write_text(text)
        self.bench("-f", str(script), *options)

    def statements(self, text: str) -> None:
        """Run statements in a session of their own, as a load."""
        self._stage.load(*self.psql("-d", self.database, "-c", text))

    def enter(self, limit: Limit) -> None:
        """Move the server into a control group; new sessions follow."""
        for pid in self.pids:
            (limit.folder / "cgroup.procs").write_text(str(pid))

    def transactions(self, each: int) -> None:
        """Run pgbench's own mix to its end: so many transactions of each of four clients."""
        self.pgbench("-c", "4", "-j", "2", "-t", str(each))

    def back_up(self, name: str) -> None:
        """Run pg_basebackup into a new directory, as a load."""
        where = ("-D", self.home / name, "-c", "fast", "-X", "none")
        self._stage.load(*self.client("pg_basebackup", *where))


class MariaDB(mariadb.MariaDB):
    """A server on a volume; with ``options`` of mariadbd."""

    def __init__(self, stage: Stage, volume: Volume, *options: str) -> None:
        self._stage = stage
        super().__init__(*options, home=_home(stage, volume, "mysql"))
        stage.at_end(self.stop)

    def fill(self, rows: int) -> None:
        run(*self.sysbench("oltp_read_write", "prepare", rows=rows))

    def bench(self, rows: int, load: str) -> None:
        """Run sysbench without an end, with four clients."""
        options = ("--threads=4", "--time=0", "--events=0")
        self._stage.load(*self.sysbench(load, "run", *options, rows=rows))
