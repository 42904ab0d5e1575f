"""Whether what fio measured is the storage: its bytes against a layer's, limits, and findings.

Pure: from a test, its figures and what was seen meanwhile to a BenchVerdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ioh.bench.results import BenchDevice, BenchVerdict, Figures, LayerFigures, Spoken, TestSpec
from ioh.findings.format_sentence import percent, rate, size
from ioh.procfs.io_limits import Limits

OK = BenchVerdict(ok=True)
# A little is missing where a test ends amid requests; more did not come from the storage.
_MISSING = 0.9
# Of fio's bytes, what others may move on the same device before they share the result.
_OTHERS = 0.1
_LIMIT_USED = 0.85
_NFS = ("nfs", "nfs4")
_STORAGE = {"block", "nfs_client"}
# What explains bytes that never reached the storage, the most telling first.
_EXPLAINING = ("holes", "caching", "server_cache", "compression")
# What says by itself that something else than the storage was measured.
_REFUSING = ("maintenance", "shared_drive", "swapping")
_KERNEL_CAP_BYTES = 1280 << 10  # of max_sectors_kb, unless somebody lowered it
_SATA_BYTES_PER_S = 600e6


@dataclass(frozen=True, slots=True)
class Case:
    """All that a verdict rests on.

    ``fio`` by direction, rival included; ``watched`` names the layers that were measured, idle
    ones, too; ``own_read_bytes`` are those that fio itself had the devices read; ``others`` names
    programs beside fio with the bytes that they had the devices move; ``limits`` as
    conditions.own_limits(); ``link_bytes_per_s`` what the network of an NFS mount can carry.
    """

    spec: TestSpec
    run_s: float
    fio: Mapping[str, Figures]
    layers: tuple[LayerFigures, ...] = ()
    findings: tuple[Spoken, ...] = ()
    file_system: str = ""
    devices: tuple[BenchDevice, ...] = ()
    own_read_bytes: int | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, tuple[str, Limits]] = field(default_factory=dict)
    link_bytes_per_s: float | None = None
    watched: frozenset[str] = frozenset()


def judge(case: Case) -> BenchVerdict:
    """``ok``, or the first reason why not."""
    for look in (_nothing_below, _missing_bytes, _others, _limited, _cut, _link, _found):
        for verdict in look(case):
            return verdict
    return OK


def refused(rule: str, sentence: str, *evidence: str) -> BenchVerdict:
    """A verdict that is not ok."""
    return BenchVerdict(False, rule, sentence, evidence)  # noqa: FBT003 (its first field)


def below(case: Case, op: str) -> Figures | None:
    """What the layer that stands for the storage did: the NFS client, or the devices' requests.

    None where that layer was not measured; figures of 0 where it did nothing.
    """
    name = "nfs_client" if case.file_system in _NFS else "block"
    measured = [each for each in case.layers if each.layer == name]
    carriers = {device.name for device in case.devices if device.carries}
    if name == "block" and carriers:
        chosen = [each for each in measured if each.op == op and each.part in carriers]
    else:
        chosen = [each for each in measured if each.op == op and not each.part]
    if not measured and name not in case.watched:
        return None
    return Figures(
        ops=sum(each.figures.ops or 0 for each in chosen),
        bytes=sum(each.figures.bytes or 0 for each in chosen),
    )


def _nothing_below(case: Case) -> Iterator[BenchVerdict]:
    if case.file_system in {"tmpfs", "ramfs"}:
        yield refused("unwatched", f"the files are in memory ({case.file_system})")
    elif case.fio and not _STORAGE & {*case.watched, *(each.layer for each in case.layers)}:
        yield refused(
            "unwatched",
            "nothing reached a device, or nobody watched",
            "no layer below the calls counted anything meanwhile",
        )


def _missing_bytes(case: Case) -> Iterator[BenchVerdict]:
    for op in ("read", "write"):
        asked = case.fio[op].bytes if op in case.fio else None
        under = below(case, op)
        if not asked or under is None or case.spec.rw == "delete":
            continue
        reached = under.bytes or 0
        if op == "read" and case.own_read_bytes is not None and case.file_system not in _NFS:
            reached = min(reached, case.own_read_bytes)  # what others read is none of fio's
        if reached >= _MISSING * asked:
            continue
        found = [each for rule in _EXPLAINING for each in case.findings if each.rule == rule]
        verb = "read" if op == "read" else "written"
        where = "the server" if case.file_system in _NFS else "the device"
        fact = f"fio: {size(asked)} {verb}; {where}: {size(reached)}"
        if found:
            yield refused(found[0].rule, found[0].cause, fact)
        share = percent(1 - reached / asked)
        yield refused("bytes", f"{share} of what fio has {verb} never reached {where}", fact)


def _others(case: Case) -> Iterator[BenchVerdict]:
    """Who else used the devices: what is certain to be of others, by the devices' own count."""
    moved = {op: (case.fio[op].bytes or 0) if op in case.fio else 0 for op in ("read", "write")}
    total = sum(moved.values())
    if not total or case.file_system in _NFS or case.spec.files:
        return
    foreign = 0
    reads, writes = below(case, "read"), below(case, "write")
    # Read-ahead fetches what fio may never ask for; a write of part of a page reads it before.
    if reads is not None and (case.spec.direct or not moved["read"]):
        own = max(moved["read"], case.own_read_bytes or 0)
        foreign += max(0, (reads.bytes or 0) - own)
    if writes is not None and not moved["write"]:
        foreign += writes.bytes or 0
    elif case.others:
        # They may have used other devices: here it is at most what is not fio's.
        moved_below = sum((each.bytes or 0) for each in (reads, writes) if each is not None)
        beyond = max(0, moved_below - total)
        foreign = max(foreign, min(sum(case.others.values()), beyond))
    if foreign <= _OTHERS * total:
        return
    most = sorted(case.others.items(), key=lambda each: -each[1])[:3]
    names = ", ".join(f"{name} {size(bytes_)}" for name, bytes_ in most)
    yield refused(
        "others",
        f"others moved {size(foreign)} on the same device meanwhile, fio {size(total)}",
        *([names] if names else []),
    )


def _limited(case: Case) -> Iterator[BenchVerdict]:
    rates = [
        (figures.bytes_per_s if of_bytes else figures.iops) or 0.0
        if (figures := case.fio.get(op)) is not None
        else 0.0
        for of_bytes in (True, False)
        for op in ("read", "write")
    ]
    for name, (words, limits) in case.limits.items():
        used = [r / limit for r, limit in zip(rates, limits, strict=True) if limit]
        if max(used, default=0.0) >= _LIMIT_USED:
            yield refused(
                "io_limit", f"{name} limits it: {words}", f"{percent(max(used))} of it used"
            )


def _cut(case: Case) -> Iterator[BenchVerdict]:
    """Requests cut by max_sectors_kb that somebody set below what hardware and kernel allow."""
    for device in case.devices:
        now, most = (
            int(text) << 10 if (text := device.limits.get(name, "")).isdecimal() else 0
            for name in ("max_sectors_kb", "max_hw_sectors_kb")
        )
        if not device.carries or not now or now >= min(most, _KERNEL_CAP_BYTES):
            continue
        for op in ("read", "write"):
            figures, under = case.fio.get(op), below(case, op)
            if figures is None or under is None or not figures.ops or not figures.bytes:
                continue
            pieces = (under.ops or 0) / figures.ops
            if figures.bytes / figures.ops > now and pieces >= 0.95 * figures.bytes / (
                figures.ops * now
            ):
                yield refused(
                    "fragmentation",
                    f"max_sectors_kb of {device.name} cuts each {op} of "
                    f"{size(figures.bytes / figures.ops)} into {pieces:.1f} requests",
                    f"max_sectors_kb is {now >> 10}, the hardware takes {most >> 10}",
                )


def _link(case: Case) -> Iterator[BenchVerdict]:
    speed, link = case.link_bytes_per_s, "the network"
    if any(device.carries and device.transport == "sata" for device in case.devices):
        speed, link = _SATA_BYTES_PER_S, "a SATA link"
    rates = [figures.bytes_per_s or 0.0 for figures in case.fio.values()]
    carriers = sum(device.carries for device in case.devices)
    if speed and max(rates, default=0.0) > 1.02 * speed * max(1, carriers):
        yield refused("link", f"{rate(max(rates))} is more than {link} carries ({rate(speed)})")


def _found(case: Case) -> Iterator[BenchVerdict]:
    names = {device.name for device in case.devices} | {""}
    for each in case.findings:
        if each.rule in _REFUSING and (each.subject in names or each.rule == "swapping"):
            yield refused(each.rule, each.cause)
