"""Commands that findings print: a shell takes each, whatever the names in it are."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from ioh.findings.engine import MAX_TEXT, Engine
from ioh.findings.window import Window, busiest_file, rows_of
from ioh.model.finding import Finding
from ioh.model.late import LateMapping
from ioh.model.sample import LayerSample, Sample
from ioh.model.snapshot import LayerSnapshot, TableRow
from ioh.pipeline import judged, snapshots
from ioh.session.reader import Session
from tests.demo_samples import intervals
from tests.scenarios.verdict import NFS_RECORDING, RECORDINGS
from tests.unit.snapshot_maker import disk, found, layer, op

HOSTILE = "; '$(id) `id` \\x2d \"#"
EVERY = (NFS_RECORDING, *sorted(RECORDINGS.glob("*.ioh")))
# Rules whose commands hold a name that somebody else chose.
NAMING = {
    "cache_below",
    "connection_limits",
    "device_limit",
    "fragmentation",
    "io_limit",
    "maintenance",
    "nfs_fragmentation",
    "nfs_no_answer",
    "read_ahead_waste",
    "saturation",
    "slow_disk",
    "time_above_disk",
}


def samples_of_each() -> Iterator[list[Sample]]:
    for path in EVERY:
        with Session(str(path)) as session:
            yield [tick.sample for tick in session.ticks(0)]


def commands(samples: Iterable[Sample]) -> Iterator[tuple[str, str]]:
    """Rule and command of everything found."""
    for snapshot in judged(snapshots(samples), Engine()):
        for finding in snapshot.findings:
            yield finding.rule, finding.command


def complaint(command: str) -> str:
    """What a shell says of it; "" for nothing."""
    shell = subprocess.run(
        ["bash", "-n"], input=command, capture_output=True, text=True, check=False
    )
    return shell.stderr


def words(command: str) -> list[str]:
    """The command's words as a shell has them, without what is said of it."""
    return shlex.split(command, comments=True)


def renamed(sample: Sample) -> Sample:
    """The same with names that would be commands of their own."""

    def device(name: str) -> str:
        return name + HOSTILE if name.startswith("loop") else name

    def key(table: str, old: tuple[str, ...]) -> tuple[str, ...]:
        first, *rest = old
        if table == "device":
            return (device(first), *rest)
        if table == "limit":
            return (first + HOSTILE, *map(device, rest))
        if table == "interface":
            return (first + HOSTILE, *rest)
        if table == "mount" and first.startswith("/"):
            server = [HOSTILE + rest[0]] if len(old) > 2 else rest[:1]
            return (first + HOSTILE, *server, *rest[1:])
        if table == "process" and rest == ["badblocks"]:
            return (first, "fsck" + HOSTILE)
        return old

    def changed(layer: LayerSample) -> LayerSample:
        tables = {
            name: {key(name, old): row for old, row in rows.items()}
            for name, rows in layer.tables.items()
        }
        return replace(
            layer, tables=tables, parts={device(name): x for name, x in layer.parts.items()}
        )

    layers = {
        name: changed(each) if isinstance(each, LayerSample) else each
        for name, each in sample.layers.items()
    }
    return replace(sample, layers=layers)


def test_a_shell_takes_each_command_as_it_is_and_what_is_said_of_it_is_a_comment() -> None:
    """No word stands for another one that the reader has to know."""
    found_in = {pair for samples in samples_of_each() for pair in commands(samples)}
    assert len(found_in) > 20
    for rule, command in found_in:
        assert complaint(command) == "", f"{rule}: {command}"
        assert not re.search(r" {2,}(?!#| )", command), f"{rule}: {command}"
        run = command.partition("   #")[0]
        meant = re.search(r"\.\.\.|\b(FILE|DEVICE|DIR|MOUNT|SERVER)\b", run)
        assert not meant, f"{rule}: {run}"


def test_a_name_in_a_command_is_no_command() -> None:
    met = set()
    hostile = (map(renamed, samples) for samples in samples_of_each())
    for rule, command in {pair for samples in hostile for pair in commands(samples)}:
        assert complaint(command) == "", f"{rule}: {command}"
        if "id" in command and "$(" in command:
            assert any(HOSTILE in word for word in words(command)), f"{rule}: {command}"
            met.add(rule)
    assert met == NAMING


def found_by_limit(cgroup: str, version: int = 2) -> Finding:
    device = disk("sda", op(100, 1 << 20, 9e3))
    limit = {"read_limit_bytes_per_s": 100 << 20, "cgroup_version": version}
    tables = {**device["tables"], "limit": [((cgroup, "sda"), limit)]}
    return found({"block": layer("block", **{**device, "tables": tables})})["io_limit"]


@pytest.mark.parametrize("cgroup", [r"/system.slice/a\x2db.service", "/a;reboot", "/a b"])
def test_a_control_groups_file_is_one_word(cgroup: str) -> None:
    assert words(found_by_limit(cgroup).command) == ["cat", f"/sys/fs/cgroup{cgroup}/io.max"]
    files = f"/sys/fs/cgroup/blkio{cgroup}/blkio.throttle.read_*_device"
    assert words(found_by_limit(cgroup, 1).command) == ["grep", ".", files]


def test_half_a_command_is_none() -> None:
    assert len(found_by_limit("/" + "g" * 200).command) > 200
    finding = found_by_limit("/" + "g" * MAX_TEXT)
    assert finding.command == ""
    assert finding.cause


def test_only_the_newest_interval_with_calls_has_rows_of_files() -> None:
    window = Window()
    for snapshot in intervals()[:9]:
        window.add(snapshot)
    calls = window.newest.layers["syscall"]
    assert isinstance(calls, LayerSnapshot)
    files = [len(rows_of(s, "syscall", "file")) for s in window]
    assert {*files[:-1]} == {0} != {files[-1]}
    path = busiest_file(window.recent(3.0))
    idle = replace(calls, ops={}, tables=LateMapping({"file": tuple[TableRow, ...]}))
    for _ in range(2):
        newest = window.newest
        at_s = newest.time_unix_s + 1
        window.add(replace(newest, time_unix_s=at_s, layers={"syscall": idle}))
    assert [len(rows_of(s, "syscall", "file")) for s in window.recent(4.0)] == [0, 1, 0, 0]
    assert busiest_file(window.recent(3.0)) == path != ""
