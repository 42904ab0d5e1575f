"""Disks, volumes and file systems that do not answer: what has begun does not end."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ioh.findings.devices import below, is_disk_of, sys_folder
from ioh.findings.format_sentence import duration, program
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.snapshot import Snapshot, TableRow

_DONE = ("reads_per_s", "writes_per_s", "flushes_per_s", "discards_per_s", "errors_per_s")
_DISKSTATS = "/proc/diskstats"
_LOG = "dmesg -T | tail -30"


@Rule(
    title="Disk does not answer",
    layer="block",
    watches="Devices with requests in flight that complete none; calls on a device that has "
    "nothing in flight and completes nothing: a frozen file system, a suspended volume.",
    sources="/proc/diskstats, also of dm, md and zram; the probe of system calls.",
    blind="A request that never ends while the device completes others. A frozen file system or "
    "suspended volume without the probe of system calls, on a disk that other file systems "
    "use, or with an I/O limit of a control group.",
    false_alarm="A disk that spins up, a path that fails over, a discard of a whole disk: the "
    "finding ends with it.",
    wrong_if="the disk's counts grow",
    check="cat /proc/diskstats",
    thresholds={
        "silent_min_s": (5.0, "the slowest disk answers within 1 s, spun up in 10"),
    },
    needs=("block",),
    span_s=12.0,
    hold_s=0.0,
    release_s=2.0,
    recent_s=5.0,
    may_be_short=True,
)
def disk_no_answer(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each device, then the devices of calls that wait."""
    newest, least_us = recent[-1], limits["silent_min_s"] * 1e6
    silent = _old_rows(newest, "block", least_us, 0)
    calls = _old_rows(newest, "syscall", least_us, 4)
    for name in [each for each, rows in silent.items() if not _waits_for_another(rows[0], silent)]:
        waiting = [rows for on, rows in calls.items() if _is_on(newest, on, name)]
        yield _of_device(name, silent[name], _oldest(chain(*waiting)))
    in_flight = (row.key[0] for row in newest.rows("block", IN_PROGRESS))
    names = [*in_flight, *(row.key[1] for row in newest.rows("block", "limit"))]
    for name, rows in calls.items():
        stuck = [x for x in rows if x.values.get("blocked") and not _is_throttled(newest, x)]
        is_known = "(" in name or any(_is_on(newest, name, other) for other in names)
        if stuck and not is_known and not _has_done(recent, name):
            yield _of_calls(name, stuck)


def _old_rows(newest: Snapshot, layer: str, least_us: float, at: int) -> dict[str, list[TableRow]]:
    """What has been in flight for so long, by the part of the key that names the device."""
    by_name: defaultdict[str, list[TableRow]] = defaultdict(list)
    for row in newest.rows(layer, IN_PROGRESS):
        if row.key[at] and number(row, "age_us") >= least_us:
            by_name[row.key[at]].append(row)
    return by_name


def _waits_for_another(row: TableRow, silent: Iterable[str]) -> bool:
    return any(is_disk_of(disk, low) for low in below(row.key[1]) for disk in silent)


def _is_on(newest: Snapshot, name: str, disk: str) -> bool:
    """Whether a device is this disk, a partition of it, or lies on it."""
    if name == disk or is_disk_of(disk, name):
        return True
    rows = chain(newest.rows("block", IN_PROGRESS), newest.rows("block", "device"))
    stacks = (row.key[1] for row in rows if row.key[0] == name)
    return any(is_disk_of(disk, low) for stack in stacks for low in below(stack))


def _has_done(recent: Sequence[Snapshot], name: str) -> bool:
    """Whether the device, or the disk that it is a partition of, has completed anything."""
    return any(
        number(row, done)
        for snapshot in recent
        for row in snapshot.rows("block", "device")
        if is_disk_of(row.key[0], name)
        for done in _DONE
    )


def _is_throttled(newest: Snapshot, row: TableRow) -> bool:
    """Whether the kernel may hold up this write because too much memory is dirty."""
    host = newest.host
    limit, start = host.dirty_limit_bytes, host.dirty_background_bytes
    if row.key[2] != "write_buffered" or limit is None or start is None:
        return False
    return (host.dirty_bytes or 0) + (host.writeback_bytes or 0) >= (limit + start) / 2


def _oldest(rows: Iterator[TableRow]) -> TableRow | None:
    return max(rows, key=lambda row: number(row, "age_us"), default=None)


def _waits(row: TableRow | None) -> str:
    if row is None:
        return ""
    op, since = row.key[2].replace("_", " "), duration(number(row, "age_us"))
    who = program((row.key[0], row.key[1]), "")
    return f" {who} has waited for {since}, longest of all: {op}, {row.key[3]}."


def _number_of(row: TableRow) -> str:
    count = number(row, "count")
    return f"{count:.0f} {row.key[2]}{'s' * (count != 1)}"


def _of_device(name: str, rows: Sequence[TableRow], caller: TableRow | None) -> Verdict:
    since = duration(number(rows[0], "age_us"))
    what = ", ".join(_number_of(row) for row in rows)
    on = "" if rows[0].key[1] == name else f" ({rows[0].key[1]})"
    text = f"{what} in flight; none has completed for at least {since}"
    return Verdict(
        subject=name,
        severity="critical",
        confidence="high",
        cause=f"{name}{on} does not answer: {what} in flight, and nothing has completed for at "
        f"least {since}.{_waits(caller)}",
        evidence=(
            Evidence(text, "inflight", sum(number(row, "count") for row in rows), None, _DISKSTATS),
        ),
        advice="The disk, the path to it or the host of a virtual disk is stuck: check the "
        "kernel's messages, the controller, multipath and the storage network. A loop device "
        "waits for its file's file system, which may be frozen.",
        command=f"{_LOG}; grep . {shlex.quote(sys_folder(name))}/{{inflight,state}}; multipath -ll",
    )


def _of_calls(name: str, rows: Sequence[TableRow]) -> Verdict:
    first = _oldest(iter(rows))
    calls = sum(number(row, "count") for row in rows)
    they = "call waits" if calls == 1 else "calls wait"
    text = f"{calls:.0f} {they}, and {name} has nothing in flight and completes nothing"
    volume = f"dmsetup info {shlex.quote('/dev/' + name)}; " if name.startswith("dm-") else ""
    return Verdict(
        subject=name,
        severity="critical",
        confidence="medium",
        cause=f"Calls on {name} do not end, although it has nothing in flight: its file system is "
        f"frozen, or the volume is suspended.{_waits(first)}",
        evidence=(Evidence(text, "inflight", calls, None, "probe of system calls"),),
        advice="A snapshot or a backup freezes a file system or suspends a volume for a moment: "
        "find it. Then fsfreeze -u MOUNT or dmsetup resume VOLUME.",
        command=f"{volume}findmnt /dev/{shlex.quote(name)}; {_LOG}",
    )
