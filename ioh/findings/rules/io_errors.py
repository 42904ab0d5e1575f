"""Devices that return errors, and programs whose calls fail."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

from ioh.findings.format_sentence import per_s, percent
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import measured, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.failures import Failure, failures, summed
from ioh.model.finding import Evidence

_MAY_HAVE_SMART = re.compile(r"sd|hd|nvme")
_MAY_LACK_A_DISK = re.compile(r"(fd|sr)\d")
# The kernel tries these, and does without them if a device refuses.
_ON_TRIAL = frozenset({"discard", "write_zeroes", "other"})
_LOG = "dmesg -T | tail -30"
# What helps against these errnos, and the command; {} is the mount.
_CASES = (
    ("EIO EREMOTEIO ENODATA EILSEQ ENOLINK ENODEV ENXIO EHOSTDOWN", _LOG,
     "The kernel's messages name the device or the server that failed."),
    ("EUCLEAN EBADMSG", _LOG, "The file system is damaged: unmount it and run its fsck."),
    ("ENOSPC", "df -h {0}; df -i {0}", "Free space or inodes, or make the file system larger."),
    ("EDQUOT", "repquota -s {}", "Free space of this user or project, or raise the quota."),
    ("EROFS", f"findmnt {{}}; {_LOG}",
     "If nobody mounted it read-only, the kernel did so after an error: find that one."),
    ("ESTALE", "findmnt {}",
     "The server no longer has the file, or its export has changed: open it, or mount it, again."),
    ("ETIMEDOUT", f"findmnt {{}}; {_LOG}",
     "The device or the server did not answer in time. Only soft NFS mounts return this."),
    ("ENOTCONN", "findmnt {}", "The program that serves this file system (FUSE) has ended."),
    ("EINVAL", "lsblk -o NAME,LOG-SEC,PHY-SEC,MOUNTPOINT",
     "With O_DIRECT, position, size and memory must be multiples of the logical block size."),
)  # fmt: skip
_HELP = {name: (advice, how) for names, how, advice in _CASES for name in names.split()}
_REPEATED = frozenset({"EINVAL", "ESTALE"})
_MAY_BE_DIRECT = frozenset({"read_direct", "write_direct", "write_sync"})


@Rule(
    title="I/O errors",
    layer="block",
    watches="Requests that a device failed; calls that failed, by errno, program and mount.",
    sources="The probes of the block layer and of system calls.",
    blind="Without BPF, everything: /proc counts no errors. Devices without requests (dm, md, "
    "zram): look at the devices below and at the calls. Requests that a driver repeated with "
    "success. Failing calls by page faults.",
    false_alarm="A program that fills a disk or a quota on purpose. One of several paths to a disk "
    "failed, and another one has done the request.",
    wrong_if="the kernel has logged no error, and the program got none",
    check="dmesg -T | tail -30",
    thresholds={
        "device_errors_min": (1, "in 5 s; a healthy device has none"),
        "calls_min": (1, "in 5 s; most programs end at the first one"),
        "repeated_min": (10, "EINVAL, ESTALE: programs try out sizes, files are replaced"),
    },
    hold_s=0.0,
    may_be_short=True,
)
def io_errors(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each device, then each program and errno."""
    devices = _sums(recent, "block", lambda x: (x.where,))
    for (device,), group in devices.items():
        if not device or _MAY_LACK_A_DISK.match(device):
            continue
        if _number(group) >= limits["device_errors_min"] * 0.99:
            yield _of_device(recent, device, group)
    calls = _sums(recent, "syscall", lambda x: (x.error, x.comm, x.where))
    for (error, comm, mount), group in calls.items():
        least = limits["repeated_min" if error in _REPEATED else "calls_min"]
        if error in _HELP and _number(group) >= least * 0.99:
            yield _of_calls(recent, f"{error} {comm} {mount}", group)


def _sums(
    recent: RecentIntervals, layer: str, by: Callable[[Failure], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Failure]]:
    """What failed and counts, by key; each with one entry per op and process."""
    groups: dict[tuple[str, ...], list[Failure]] = defaultdict(list)
    for each in chain.from_iterable(failures(snapshot) for _, snapshot in measured(recent, layer)):
        if each.op not in _ON_TRIAL and (each.error != "EINVAL" or each.op in _MAY_BE_DIRECT):
            groups[by(each)].append(each)
    return {key: summed(group) for key, group in groups.items()}


def _number(group: Sequence[Failure]) -> float:
    return sum(each.number for each in group)


def _rates(recent: RecentIntervals, group: Sequence[Failure]) -> str:
    """``149 reads and 1 write``, each per second."""
    rates: dict[tuple[str, str], float] = defaultdict(float)
    for each in group:
        rates[each.word, each.words] += each.number / recent.seconds
    texts = ((per_s(rate), words) for words, rate in rates.items())
    return " and ".join(f"{text} {words[text != '1']}" for text, words in texts)


def _ways(group: Sequence[Failure]) -> tuple[str, ...]:
    """The kinds of calls that fail; () if not all of them are known."""
    ways = [ways_of(each.op) for each in group]
    return tuple(dict.fromkeys(chain.from_iterable(ways))) if all(ways) else ()


def _evidence(recent: RecentIntervals, group: Sequence[Failure], whose: str) -> tuple[Evidence]:
    rate = _number(group) / recent.seconds
    text = f"{_number(group):,.0f} failed within {recent.seconds:.0f} s"
    return (Evidence(text, "errors_per_s", rate, 0.0, f"probe of {whose}"),)


def _of_device(recent: RecentIntervals, device: str, group: Sequence[Failure]) -> Verdict:
    count = sum(sum_op(recent, "block", each.op, device).count for each in group)
    share = percent(_number(group) / (_number(group) + count))
    stacks = {row.key[0]: row.key[1] for row in recent[-1].rows("block", "device")}
    on = "" if stacks.get(device, device) == device else f" It is {stacks[device]}."
    node = shlex.quote(f"/dev/{device}")
    smart = f"; smartctl -a {node}" if _MAY_HAVE_SMART.match(device) and not on else ""
    return Verdict(
        subject=device,
        ways=_ways(group),
        severity="critical",
        confidence="high",
        cause=f"{device} returns errors: {_rates(recent, group)} a second fail ({share} of them)."
        f"{on}",
        evidence=_evidence(recent, group, "the block layer"),
        advice="The kernel's messages name the sectors and the reason. Save the data first: what "
        "cannot be read now will not come back.",
        command=f"dmesg -T | grep -w {shlex.quote(device)} | tail{smart}",
    )


def _of_calls(recent: RecentIntervals, subject: str, group: Sequence[Failure]) -> Verdict:
    first = group[0]
    advice, command = _HELP[first.error]
    meaning = os.strerror(getattr(errno, first.error))
    return Verdict(
        subject=subject,
        ways=_ways(group),
        layer="syscall",
        title="Failing calls",
        confidence="high",
        cause=f"{_rates(recent, group)} a second by {first.program} on {first.where} fail with "
        f"{first.error} ({meaning}).",
        evidence=_evidence(recent, group, "system calls"),
        advice=advice,
        command=command.format(shlex.quote(first.where)),
    )
