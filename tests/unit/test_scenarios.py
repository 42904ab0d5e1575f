"""The rules on recordings of scenarios that ran on a real kernel, and what they advise.

``python -m tests.scenarios.make`` and ``python -m tests.vm.make_scenarios`` recreate them, as root.
A shell accepts each command that a finding prints, whatever names are in it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.findings.engine import MAX_TEXT, Engine
from ioh.model.finding import Finding
from ioh.model.sample import LayerSample, Sample
from ioh.pipeline import snapshots
from ioh.session.reader import Session
from tests.programs.catalogue import DB_ANOMALIES, DB_SCENARIOS, PROGRAMS
from tests.scenarios.catalogue import ANOMALIES, SCENARIOS
from tests.scenarios.table import PAGE, page
from tests.scenarios.verdict import NFS_RECORDING, RECORDINGS, complaint, judge_recorded
from tests.unit.snapshot_maker import disk, found, layer, op
from tests.vm.catalogue import VM_ANOMALIES, VM_SCENARIOS

EVERY = {**SCENARIOS, **VM_SCENARIOS, **DB_SCENARIOS, **PROGRAMS}


@pytest.mark.parametrize("name", EVERY)
def test_the_rules_say_what_is_wrong_and_no_more(name: str) -> None:
    assert complaint(EVERY[name], judge_recorded(name, EVERY[name].sign)) == ""


_WRONG = [("sync_log", "sync_writes"), ("misaligned_writes", "read_before_write")]


@pytest.mark.parametrize(("name", "rule"), _WRONG)
def test_these_faults_are_warnings(name: str, rule: str) -> None:
    assert judge_recorded(name, EVERY[name].sign).last[rule].severity == "warning"


@pytest.mark.parametrize(
    ("name", "rule", "ways"),
    [
        ("cached_reads", "caching", ("read",)), ("dd_buffered", "caching", ("write",)),
        ("split_reads", "fragmentation", ("read",)), ("split_writes", "fragmentation", ("write",)),
        ("one_reader", "single_stream", ("read",)), ("dd_sync", "single_stream", ("write",)),
        ("full_cache", "dirty_throttling", ("write",)), ("sparse_direct", "holes", ("read",)),
        ("sync_log", "sync_writes", ("sync",)), ("lmdb", "sync_writes", ("write", "sync")),
        ("stalls", "tail_latency", ("read",)), ("few_rpc_slots", "nfs_latency", ("read",)),
        ("log_beside_copy", "shared_drive", ("write",)), ("compressed", "compression", ("write",)),
        ("limited_volume", "device_limit", ()), ("lossy_link", "tcp_retransmits", ()),
    ],
)  # fmt: skip
def test_a_finding_says_which_calls_it_is_about(
    name: str, rule: str, ways: tuple[str, ...]
) -> None:
    """Those whose steps the screen marks; () is all."""
    assert judge_recorded(name, EVERY[name].sign).last[rule].ways == ways


def test_every_recording_has_its_scenario() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.ioh")} == set(EVERY)


def test_the_page_of_findings_is_current() -> None:
    """``python -m tests.scenarios.table`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


HOSTILE = "; '$(id) `id` \\x2d \"#"
# Findings report what is wrong in each of these, mostly with a command.
WRONG = (*ANOMALIES, *DB_ANOMALIES, *VM_ANOMALIES)
RECORDED = (NFS_RECORDING, *(RECORDINGS / f"{scenario.name}.ioh" for scenario in WRONG))
# Rules whose commands contain a name that somebody else chose.
NAMING = {
    "cache_below",
    "connection_limits",
    "device_limit",
    "fragmentation",
    "io_limit",
    "maintenance",
    "nfs_fragmentation",
    "nfs_no_answer",
    "nfs_revalidation",
    "read_ahead_waste",
    "saturation",
    "slow_disk",
    "sync_writes",
    "time_above_disk",
}


def commands(path: Path) -> Iterator[tuple[str, str]]:
    """Rule and command of each finding in a recording, whose names are made hostile."""
    with Session(str(path)) as session:
        samples = [renamed(tick.sample) for tick in session.ticks(0)]
    for snapshot in snapshots(samples, Engine):
        for finding in snapshot.findings:
            yield finding.rule, finding.command


def shell_says(command: str) -> str:
    """The shell's complaints about its syntax; "" for none."""
    shell = subprocess.run(
        ["bash", "-n"], input=command, capture_output=True, text=True, check=False
    )
    return shell.stderr


def words(command: str) -> list[str]:
    """The command's words as a shell splits them, without comments."""
    return shlex.split(command, comments=True)


def renamed(sample: Sample) -> Sample:
    """The same sample with names that a shell could take for commands."""

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


def test_a_shell_accepts_each_command_and_runs_no_name_in_it() -> None:
    """Remarks are comments, and no word is a placeholder that the reader has to replace."""
    met = set()
    for rule, command in {pair for path in RECORDED for pair in commands(path)}:
        said = f"{rule}: {command}"
        assert shell_says(command) == "", said
        assert not re.search(r" {2,}(?!#| )", command), said
        run = command.partition("   #")[0]
        assert not re.search(r"\.\.\.|\b(FILE|DEVICE|DIR|MOUNT|SERVER)\b", run), said
        if "id" in command and "$(" in command:
            assert any(HOSTILE in word for word in words(command)), said
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


def test_a_command_that_is_too_long_is_left_out_not_cut() -> None:
    assert len(found_by_limit("/" + "g" * 200).command) > 200
    finding = found_by_limit("/" + "g" * MAX_TEXT)
    assert finding.command == ""
    assert finding.cause
