"""Each program run for real on this machine, recorded and judged; nothing is kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.kernel.rig import MIB, recording, run
from tests.kernel.talker import settled
from tests.programs.catalogue import DB_SCENARIOS, PROGRAMS
from tests.programs.servers import PostgreSQL
from tests.programs.tools import mapped_database
from tests.scenarios.make import play
from tests.scenarios.stage import stage
from tests.scenarios.verdict import complaint

_QUIET = ("autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=2GB")


@pytest.mark.parametrize("name", DB_SCENARIOS)
def test_the_rules_say_what_is_wrong_with_a_database_and_no_more(name: str, tmp_path: Path) -> None:
    assert complaint(DB_SCENARIOS[name], play(DB_SCENARIOS[name], tmp_path / "s.ioh")) == ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_rule_warns_of_what_is_healthy(name: str, tmp_path: Path) -> None:
    assert complaint(PROGRAMS[name], play(PROGRAMS[name], tmp_path / "program.ioh")) == ""


def test_postgresql_and_the_disk_count_the_same() -> None:
    """Against PostgreSQL's own count and time of commits' fsyncs, and the kernel's of requests."""
    with (
        tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder,
        stage(Path(folder) / "stage", Path(folder) / "unused.ioh") as made,
    ):
        volume = made.volume(1024 * MIB)
        server = PostgreSQL(made, volume, "track_wal_io_timing=on", *_QUIET)
        server.fill(8)
        server.stop()
        volume.drop_caches()
        server.start()

        def synced() -> tuple[float, float]:
            told = server.sql("SELECT wal_sync, wal_sync_time FROM pg_stat_wal")
            count, ms = map(float, told.split("|"))
            return count, ms

        volume.sync()
        with recording("--device", volume.loop.name, "--layers", "syscall,block") as ioh:
            before, (count, ms) = volume.loop.stats(), synced()
            server.transactions(100)
            more, more_ms = settled(synced)
            volume.sync()
            disk = volume.loop.stats() - before
    assert ioh.total("syscall", "fsync") == more - count > 0
    assert ioh.latency_us("syscall", "fsync") == pytest.approx(
        (more_ms - ms) / (more - count) * 1e3, rel=0.05
    )
    ioh.assert_block_agrees(disk)


def test_what_lmdb_maps_is_counted_as_page_faults() -> None:
    """mdb_dump never reads the database by a call: all comes by faults, as the disk confirms."""
    with (
        tempfile.TemporaryDirectory(prefix="ioh-", dir="/var/tmp") as folder,
        stage(Path(folder) / "stage", Path(folder) / "unused.ioh") as made,
    ):
        volume = made.volume(1024 * MIB)
        database, text = mapped_database(volume)
        database.mkdir()
        run("mdb_load", "-f", text, database)
        volume.drop_caches()
        with recording("--device", volume.loop.name, "--layers", "syscall,block") as ioh:
            before = volume.loop.stats()
            run("sh", "-c", f"mdb_dump {database} >/dev/null")
            disk = volume.loop.stats() - before
            size = (database / "data.mdb").stat().st_size
    faulted = ioh.total("syscall", "fault_read", "bytes")
    assert 0.9 * size <= faulted <= disk.read_bytes <= 1.02 * faulted
