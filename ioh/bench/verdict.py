"""Judge whether fio measured the storage, by the layers' bytes, limits, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ioh.bench.results import BenchDevice, BenchVerdict, Figures, LayerFigures, RunFinding, TestSpec
from ioh.findings.format_sentence import percent, rate, size
from ioh.model.file_systems import NFS
from ioh.procfs.io_limits import Limits

OK = BenchVerdict(ok=True)
# A little is missing if a test ends during requests; more did not come from the storage.
_MISSING = 0.9
# Of fio's bytes: what others may move on the same device without affecting the result.
_OTHERS = 0.1
_LIMIT_USED = 0.85
_STORAGE = {"block", "nfs_client"}
# Findings that explain missing bytes, the most specific first.
_EXPLAINING = ("holes", "caching", "server_cache", "compression")
# Findings that show by themselves that something else was measured.
_REFUSING = ("maintenance", "shared_drive", "swapping")
_KERNEL_CAP_BYTES = 1280 << 10  # the kernel's default of max_sectors_kb
_SATA_BYTES_PER_S = 600e6


@dataclass(frozen=True, slots=True)
class Case:
    """The basis of a verdict.

    ``fio`` by direction, including the rival; ``watched`` names all layers that were measured, even
    if idle; ``own_read_bytes`` are what fio itself read from the devices; ``others`` names other
    programs with the bytes that they moved on the devices; ``limits`` as conditions.own_limits();
    ``link_bytes_per_s`` is the network's speed for an NFS mount.
    """

    spec: TestSpec
    run_s: float
    fio: Mapping[str, Figures]
    layers: tuple[LayerFigures, ...] = ()
    findings: tuple[RunFinding, ...] = ()
    file_system: str = ""
    devices: tuple[BenchDevice, ...] = ()
    own_read_bytes: int | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, tuple[str, Limits]] = field(default_factory=dict)
    link_bytes_per_s: float | None = None
    watched: frozenset[str] = frozenset()


def judge(case: Case) -> BenchVerdict:
    """Return ``ok``, or the first reason against it."""
    for look in (
        _nothing_below,
        _from_memory,
        _missing_bytes,
        _others,
        _limited,
        _cut,
        _link,
        _refusing_findings,
    ):
        for verdict in look(case):
            return verdict
    return OK


def refused(rule: str, sentence: str, *evidence: str) -> BenchVerdict:
    """Make a verdict that is not ok."""
    return BenchVerdict(False, rule, sentence, evidence)  # noqa: FBT003 (its first field)


def below(case: Case, op: str) -> Figures | None:
    """The figures of the storage's layer: the NFS client, or the devices' requests.

    None if that layer was not measured, figures of 0 if it was idle.
    """
    name = "nfs_client" if case.file_system in NFS else "block"
    layers = [each for each in case.layers if each.layer == name]
    carriers = {device.name for device in case.devices if device.carries}
    if name == "block" and carriers:
        figures = [each for each in layers if each.op == op and each.part in carriers]
    else:
        figures = [each for each in layers if each.op == op and not each.part]
    if not layers and name not in case.watched:
        return None
    return Figures(
        ops=sum(each.figures.ops or 0 for each in figures),
        bytes=sum(each.figures.bytes or 0 for each in figures),
    )


def _nothing_below(case: Case) -> Iterator[BenchVerdict]:
    if case.file_system in {"tmpfs", "ramfs"}:
        yield refused("unwatched", f"the files are in memory ({case.file_system})")
    elif case.fio and not _STORAGE & {*case.watched, *(each.layer for each in case.layers)}:
        yield refused(
            "unwatched",
            "no I/O reached a device, or no device was measured",
            "no layer below the system calls counted anything",
        )


def _from_memory(case: Case) -> Iterator[BenchVerdict]:
    """Metadata calls that neither waited for a request nor sent one: names and inodes are cached.

    One journal commit serves all users that wait for it.
    """
    if case.spec.kind != "metadata":
        return
    calls = {name: figures.ops or 0 for name, figures in case.fio.items()}
    total, reads = sum(calls.values()), sum(calls.get(name, 0) for name in ("stat", "open_read"))
    is_remote = case.file_system in NFS
    ops = ("meta", "read", "write", "commit") if is_remote else ("read", "write")
    under = [below(case, op) for op in ops]
    if not total or any(each is None for each in under):
        return
    reached = sum(each.ops or 0 for each in under if each is not None)
    shared = case.spec.users if case.spec.sync and not is_remote else 1
    if reached < _MISSING * (reads + (total - reads) / shared):
        where = "the server" if is_remote else "the device"
        yield refused(
            "caching",
            f"memory answered: {total:,} calls became {reached:,} requests to {where}",
            *(f"{count:,} × {name}" for name, count in calls.items()),
        )


def _missing_bytes(case: Case) -> Iterator[BenchVerdict]:
    for op in ("read", "write"):
        fio_bytes = case.fio[op].bytes if op in case.fio else None
        under = below(case, op)
        if not fio_bytes or under is None or case.spec.rw == "delete":
            continue
        reached = under.bytes or 0
        if op == "read" and case.own_read_bytes is not None and case.file_system not in NFS:
            reached = min(reached, case.own_read_bytes)  # without what others read
        if reached >= _MISSING * fio_bytes:
            continue
        findings = [each for rule in _EXPLAINING for each in case.findings if each.rule == rule]
        verb = "read" if op == "read" else "written"
        where = "the server" if case.file_system in NFS else "the device"
        fact = f"fio: {size(fio_bytes)} {verb}; {where}: {size(reached)}"
        if findings:
            yield refused(findings[0].rule, findings[0].cause, fact)
        share = percent(1 - reached / fio_bytes)
        yield refused("bytes", f"{share} of the bytes {verb} by fio never reached {where}", fact)


def _others(case: Case) -> Iterator[BenchVerdict]:
    """Bytes that others certainly moved, by the devices' own counts."""
    fio_bytes = {op: (case.fio[op].bytes or 0) if op in case.fio else 0 for op in ("read", "write")}
    total = sum(fio_bytes.values())
    if not total or case.file_system in NFS or case.spec.files:
        return
    foreign = 0
    reads, writes = below(case, "read"), below(case, "write")
    # Read-ahead reads more than fio requests; a write of a part of a page reads the page first.
    if reads is not None and (case.spec.direct or not fio_bytes["read"]):
        own = max(fio_bytes["read"], case.own_read_bytes or 0)
        foreign += max(0, (reads.bytes or 0) - own)
    if writes is not None and not fio_bytes["write"]:
        foreign += writes.bytes or 0
    elif case.others:
        # They may have used other devices: on these, at most what is not fio's.
        bytes_below = sum((each.bytes or 0) for each in (reads, writes) if each is not None)
        beyond = max(0, bytes_below - total)
        foreign = max(foreign, min(sum(case.others.values()), beyond))
    if foreign <= _OTHERS * total:
        return
    most = sorted(case.others.items(), key=lambda each: -each[1])[:3]
    names = ", ".join(f"{name} {size(bytes_)}" for name, bytes_ in most)
    yield refused(
        "others",
        f"other programs moved {size(foreign)} on the same device, fio {size(total)}",
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
        shares = [r / limit for r, limit in zip(rates, limits, strict=True) if limit]
        if max(shares, default=0.0) >= _LIMIT_USED:
            yield refused(
                "io_limit", f"{name} limits fio: {words}", f"{percent(max(shares))} of it used"
            )


def _cut(case: Case) -> Iterator[BenchVerdict]:
    """Requests split by a max_sectors_kb below what hardware and kernel allow."""
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
                    f"max_sectors_kb of {device.name} splits each {op} of "
                    f"{size(figures.bytes / figures.ops)} into {pieces:.1f} requests",
                    f"max_sectors_kb is {now >> 10}, the hardware allows {most >> 10}",
                )


def _link(case: Case) -> Iterator[BenchVerdict]:
    speed, link = case.link_bytes_per_s, "the network"
    if any(device.carries and device.transport == "sata" for device in case.devices):
        speed, link = _SATA_BYTES_PER_S, "a SATA link"
    rates = [figures.bytes_per_s or 0.0 for figures in case.fio.values()]
    carriers = sum(device.carries for device in case.devices)
    if speed and max(rates, default=0.0) > 1.02 * speed * max(1, carriers):
        yield refused("link", f"{rate(max(rates))} is more than {link} can carry ({rate(speed)})")


def _refusing_findings(case: Case) -> Iterator[BenchVerdict]:
    names = {device.name for device in case.devices} | {""}
    for each in case.findings:
        if each.rule in _REFUSING and (each.subject in names or each.rule == "swapping"):
            yield refused(each.rule, each.cause)
