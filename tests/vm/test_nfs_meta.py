"""Metadata calls over NFS: by group exactly as mountstats and nfsd count them, and by process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ioh.layers.nfs_procedures import METADATA, METADATA_NAMES, PROCEDURES
from ioh.procfs.mountstats import ProcedureStats
from ioh.procfs.nfsd import read_nfsd
from tests.kernel.part import Part, part_of
from tests.kernel.rig import Ioh, recording, run
from tests.kernel.test_meta_strace import PROGRAMS, SETTINGS, make_archive
from tests.vm.nfs import EXPORT, Server, minus, mount_of, mounted

# argv: folder, times.  Each step is one system call; by NFSv3 the server answers each of them.
PROGRAM = """
import fcntl, os, sys
folder, times, locks = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
os.mkdir(folder)
for n in range(times):
    at = f"{folder}/{n}"
    os.mkdir(at)
    os.close(os.open(f"{at}/a", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.symlink("a", f"{at}/s")
    os.link(f"{at}/a", f"{at}/h")
    os.chmod(f"{at}/a", 0o600)
    os.rename(f"{at}/a", f"{at}/b")
    for _ in range(3):
        os.stat(f"{at}/b")
    os.access(f"{at}/b", os.R_OK)
    try:
        os.stat(f"{at}/none")
    except FileNotFoundError:
        pass
    fd = os.open(f"{at}/b", os.O_RDWR)
    if locks:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        fcntl.lockf(fd, fcntl.LOCK_UN)
    os.close(fd)
    for entry in os.scandir(at):
        entry.stat(follow_symlinks=False)
    os.seteuid(7)
    try:
        os.chmod(f"{at}/b", 0o600)
    except PermissionError:
        pass
    os.seteuid(0)
    for name in "bhs":
        os.unlink(f"{at}/{name}")
    os.rmdir(at)
"""
# What the program must cause at least, each time: it is sure of these, whatever the cache knows.
V3_SURE = {"create": 3, "rename": 2, "remove": 4, "setattr": 1}
V4_SURE = {"create": 2, "rename": 2, "remove": 4, "setattr": 1, "open": 1, "close": 1}


def start(place: Path, name: str, times: int, version: str) -> subprocess.Popen[bytes]:
    words = [str(place / name), str(times), "0" if version == "3" else "1"]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words])


def by_group(counts: Mapping[str, int]) -> Counter[str]:
    groups = {name: op for op, names in PROCEDURES.items() for name in names}
    found: Counter[str] = Counter()
    for name, count in counts.items():
        if name in groups and count:
            found[groups[name]] += count
    return found


def told_by_client(place: Path, older: Mapping[str, ProcedureStats]) -> dict[str, ProcedureStats]:
    now = mount_of(place).procedures
    return {name: minus(stats, older[name]) for name, stats in now.items()}


def served() -> Counter[str]:
    """Calls of each op that nfsd served so far, by its own numbers in /proc."""
    stats = read_nfsd()
    assert stats is not None
    return Counter({op: stats.calls(*names) or 0 for op, names in PROCEDURES.items()})


def ended(part: Part, layer: str) -> Counter[str]:
    """Metadata calls of each op, also those that failed."""
    return +Counter({op: part.total(layer, op) + part.errors(layer, op) for op in METADATA})


@pytest.mark.parametrize("version", ["3", "4.1", "4.2"])
def test_each_group_equals_the_kernels_counts(both_ends: Ioh, server: Server, version: str) -> None:
    """Two programs at a time with known numbers of calls, each on a mount of its own."""
    with (
        mounted(version, "noac") as one,
        mounted(version, "noac", client=3) as two,
        part_of(both_ends) as part,
    ):
        before, served_before = {at: mount_of(at).procedures for at in (one, two)}, served()
        programs = {
            at: start(at, f"{at.name}-{version}", n, version) for at, n in ((one, 7), (two, 13))
        }
        assert [program.wait() for program in programs.values()] == [0, 0]
        part.settle()  # the last CLOSE has no program that waits for it
        told = {at: told_by_client(at, before[at]) for at in (one, two)}
        served_now = +(served() - served_before)
        mounts = {f"{mount_of(at).export} on {at}": at for at in (one, two)}
    calls = {at: by_group({name: s.calls for name, s in told[at].items()}) for at in told}
    every = calls[one] + calls[two]
    print(version, dict(every), dict(served_now))
    for op, least in (V3_SURE if version == "3" else V4_SURE).items():
        assert every[op] >= 20 * least, op
    # A new server delegates a file to the client that creates it: no second OPEN, and no LOCK.
    assert version == "3" or every["open"] == 20 or every["lock"] >= 20 * 2
    assert ended(part, "nfs_client") == every
    assert ended(part, "nfs_server") == served_now
    assert part.metric("nfs_client", "rpc_metas") == every.total()
    assert part.lost("nfs_client") == part.lost("nfs_server") == {}
    check_times(part, list(told.values()))
    # Each program asks once a round for a name that does not exist, and for a change of a file of
    # another user: answers.  What else failed is an error, and is in /proc's numbers of the mount
    # only.
    errors = {at: by_group({name: s.errors for name, s in told[at].items()}) for at in told}
    for op in ("lookup", "setattr"):
        assert {at: errors[at].pop(op) for at in told} == {one: 7, two: 13}
    failed = errors[one] + errors[two]
    assert {op: part.errors("nfs_client", op) for op in METADATA} == {
        op: failed[op] for op in METADATA
    }
    rows = part.table("nfs_client", "mount", "mount")
    assert {at: rows[str(at),]["metas"] for at in told} == {at: calls[at].total() for at in told}
    totals = {at: calls[at].total() - errors[at].total() for at in told}
    assert mounts_of(part) == {name: totals[at] for name, at in mounts.items()}
    processes = part.table("nfs_client", "process", "pid", "comm")
    by_process = {key: row["metas"] for key, row in processes.items() if row["metas"]}
    comm = Path(sys.executable).name
    own = {(str(programs[at].pid), comm): totals[at] for at in told}
    # A delegation may be returned later, by a thread of the kernel.
    returned = sum(told[at]["DELEGRETURN"].calls for at in told if "DELEGRETURN" in told[at])
    assert sum(by_process.values()) == sum(own.values())
    assert sum(by_process[key] for key in by_process.keys() - own.keys()) <= returned
    assert all(0 <= count - by_process[key] <= returned for key, count in own.items())
    clients = part.table("nfs_server", "client", "client")
    by_client = {at.rpartition(":")[0]: row["metas"] for (at,), row in clients.items()}
    assert sum(by_client.values()) == part.total("nfs_server", "meta")
    assert by_client["10.99.3.2"] > by_client["10.99.1.2"] > 0


def check_times(part: Part, told: Sequence[Mapping[str, ProcedureStats]]) -> None:
    """The time of all calls within 1 % of mountstats, which has whole milliseconds."""
    for op, names in (("meta", METADATA_NAMES), *PROCEDURES.items()):
        stats = [each[name] for each in told for name in names if name in each]
        wanted_ms = pytest.approx(sum(s.execute_ms for s in stats), rel=0.01, abs=2 * len(stats))
        count = part.total("nfs_client", op)
        if count and not part.errors("nfs_client", op):
            assert part.latency_us("nfs_client", op) * count / 1e3 == wanted_ms, op
        if op == "meta":  # of all attempts
            assert part.metric("nfs_client", "rpc_meta_execute_ns") / 1e6 == wanted_ms
    count = part.total("nfs_client", "meta")
    queue_us = [n["queue_us"] for n in part.ops("nfs_client", "meta") if n["count"]]
    assert all(each is not None for each in queue_us)
    assert {size: n for size, n in part.sizes("nfs_client", "meta").items() if n} == {512: count}


def mounts_of(part: Part) -> dict[str, int]:
    """Metadata calls of each mount, from the parts of the probe's totals."""
    sums: Counter[str] = Counter()
    for interval in part.intervals_of("nfs_client"):
        for name, ops in interval["layers"]["nfs_client"]["parts"]["mount"].items():
            sums[name] += ops.get("meta", {}).get("count") or 0
    return dict(+sums)


@pytest.mark.parametrize("version", ["3", "4.1", "4.2"])
def test_calls_that_real_programs_cause_are_those_of_the_kernel(
    both_ends: Ioh, server: Server, version: str, tmp_path: Path
) -> None:
    """tar, cp, find, git, a mail delivery and rm, with the client's caches in use."""
    archive = make_archive(tmp_path, 31)
    (tmp_path / ".gitconfig").write_text(SETTINGS)
    with mounted(version) as place:
        folder = place / f"programs-{version}"
        folder.mkdir()
        with part_of(both_ends) as part:
            before, served_before = mount_of(place).procedures, served()
            # All at once: no program waits for its last CLOSE, so that it may end in the next.
            for words in PROGRAMS.values():
                command = [word.format(archive=archive) if "{a" in word else word for word in words]
                run("env", "-C", folder, "LC_ALL=C", f"HOME={tmp_path}", *command)
            for _ in range(3):
                part.settle()
            told, served_now = told_by_client(place, before), +(served() - served_before)
    calls = by_group({name: stats.calls for name, stats in told.items()})
    print(version, dict(calls), dict(served_now))
    assert ended(part, "nfs_client") == calls
    assert ended(part, "nfs_server") == served_now
    assert part.lost("nfs_client") == part.lost("nfs_server") == {}
    for op in ("lookup", "create" if version == "3" else "open", "remove", "rename", "setattr"):
        assert calls[op] > 20, op


def test_the_file_system_of_a_commit_is_known(both_ends: Ioh, server: Server, version: str) -> None:
    with (
        mounted(version) as place,
        part_of(both_ends) as part,
        (place / "committed").open("wb") as stream,
    ):
        stream.write(os.urandom(1 << 20))
        stream.flush()
        os.fsync(stream.fileno())
    assert part.total("nfs_server", "commit")
    rows = part.table("nfs_server", "file", "path")
    assert {path for (path,), row in rows.items() if row["commits"]} == {str(EXPORT / "committed")}


def test_proc_has_the_same_counts(server: Server, version: str) -> None:
    with (
        mounted(version, "noac") as place,
        recording("--proc", "--layers", "nfs_client,nfs_server", cycle_s=0.5) as ioh,
    ):
        ioh.settle()
        before, served_before = mount_of(place).procedures, served()
        assert start(place, f"proc-{version}", 5, version).wait() == 0
        ioh.settle()
        told, served_now = told_by_client(place, before), served() - served_before
        ioh.settle()
    calls = by_group({name: stats.calls for name, stats in told.items()})
    for layer, counts in (("nfs_client", calls), ("nfs_server", +served_now)):
        assert +Counter({op: ioh.total(layer, op) for op in METADATA}) == counts
    execute_ms = sum(told[name].execute_ms for name in METADATA_NAMES if name in told)
    time_ms = ioh.latency_us("nfs_client", "meta") * calls.total() / 1e3
    assert time_ms == pytest.approx(execute_ms, rel=0.01)
    assert {n["p99_us"] for n in ioh.ops("nfs_client", "meta")} == {None}
