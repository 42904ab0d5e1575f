"""One tick's operations in every layer, made so that the layers agree with each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ioh.sources.demo import names
from ioh.sources.demo.counts import STEADY, UNEVEN, Batch, Dice, Share
from ioh.sources.demo.story import Load

KB, MB = 1024, 1 << 20
RSIZE_BYTES = WSIZE_BYTES = 128 * KB
_PAGE_BYTES = 8 * KB  # the database's
_DISK_MAX_BYTES = 512 * KB  # max_sectors_kb
_MERGED_BYTES = 256 * KB  # two WRITEs that the disk gets as one request
_SERVER_HIT_RATIO = 0.35
_CLIENT_MISS_RATIO = 0.01  # of bytes that the client's cache should have
_RTO_US = 204_000.0  # what a READ takes whose segment was lost and timed out
_LOST_READS_PER_LOSS = 0.2  # READs that wait for a timeout, of those that lose a segment
_COMMIT_EVERY = 64  # unstable WRITEs


class Work(NamedTuple):
    """Operations of one op of one layer.

    Shape:
        ``place``: the part of the layer, such as its mount or device; "" where it has none.
        ``queue_us``: how long each of them waited before it was sent or issued.
    """

    op: str
    batch: Batch
    place: str
    who: Share
    queue_us: float = 0.0


@dataclass(slots=True)
class Traffic:
    """All of one tick.

    Shape:
        ``late`` READs waited for a TCP timeout.  ``cached_bytes`` were read by programs of NFS
        files and fetched by no READ.  ``read_through`` calls on NFS files waited for a READ,
        ``written_through`` for a WRITE, each one of its own.
        ``sequential`` requests began where one of the last ended; ``merges`` were joined.
    """

    app: list[Work] = field(default_factory=list)
    client: list[Work] = field(default_factory=list)
    server: list[Work] = field(default_factory=list)
    block: list[Work] = field(default_factory=list)
    late: int = 0
    cached_bytes: int = 0
    nfs_read_bytes: int = 0
    local_reads: int = 0
    local_misses: int = 0
    local_syncs: int = 0
    read_through: int = 0
    written_through: int = 0
    sequential: int = 0
    write_merges: int = 0
    splits: int = 0


def make_traffic(load: Load, dice: Dice, interval_s: float) -> Traffic:
    """What ``load`` becomes in one tick."""
    traffic = Traffic()
    network_us = dice.around(load.wire_us) + 10
    disk_us = dice.around(105.0) * (1 + 0.02 * load.readers)
    _random_reads(traffic, load, dice, interval_s, (network_us, disk_us))
    _scans(traffic, load, dice, interval_s, network_us)
    _hits(traffic, load, dice, interval_s, network_us)
    _dirty(traffic, load, dice, interval_s, network_us)
    _log(traffic, load, dice, interval_s, network_us)
    _other_client(traffic, dice, interval_s)
    _local(traffic, load, dice, interval_s)
    return traffic


def _random_reads(
    traffic: Traffic, load: Load, dice: Dice, interval_s: float, times_us: tuple[float, float]
) -> None:
    """8 KB each: one call, one READ; two thirds of them one request of the disk."""
    network_us, disk_us = times_us
    hit_us, miss_us = 14.0, disk_us + 22
    late_ratio = load.loss_ratio * _LOST_READS_PER_LOSS
    mean_us = UNEVEN.mean_factor * 1.07 * (
        network_us + 10 + late_ratio * _RTO_US
        + _SERVER_HIT_RATIO * hit_us + (1 - _SERVER_HIT_RATIO) * miss_us
    )  # fmt: skip
    reads = dice.count(load.readers / mean_us * 1e6 * interval_s)
    late = dice.count(reads * late_ratio) if late_ratio else 0
    hits = dice.count((reads - late) * _SERVER_HIT_RATIO)
    traffic.late += late
    traffic.read_through += reads
    traffic.nfs_read_bytes += reads * _PAGE_BYTES
    for count, op, server_us, extra_us in (
        (hits, "read_cached", hit_us, 0.0),
        (reads - late - hits, "read_disk", miss_us, 0.0),
        (late, "read_disk", miss_us, _RTO_US),
    ):
        client_us = server_us + network_us + extra_us
        medians_us = (client_us * 1.07 + 8, client_us, server_us, disk_us)
        shape = STEADY if extra_us else UNEVEN
        app, rpc, served, request = dice.batches(count, _PAGE_BYTES, medians_us, shape)
        traffic.app.append(Work("read_direct", app, "", names.CALLS_RANDOM))
        traffic.client.append(Work("read", rpc, names.PART_DB, names.RPCS_RANDOM, 5.0))
        traffic.server.append(Work(op, served, names.FS_DB, names.SERVED_RANDOM))
        if op == "read_disk":
            queue_us = 2.0 + 2.5 * load.readers
            work = Work("read", request, names.DISK_DB, names.SUBMITTED_NFSD, queue_us)
            traffic.block.append(work)


def _scans(traffic: Traffic, load: Load, dice: Dice, interval_s: float, network_us: float) -> None:
    """1 MB each: one call, eight READs of rsize side by side; the server's disk reads ahead."""
    # The more READs are under way, the longer each waits for its turn on the link.
    rpc_us = 150 + network_us + 760 * load.scanners
    app_us = rpc_us * 1.25 + 60
    rate = load.scanners / (app_us * STEADY.mean_factor) * 1e6
    scans = dice.count(rate * interval_s)
    if not scans:
        return
    rpcs = scans * (MB // RSIZE_BYTES)
    traffic.nfs_read_bytes += scans * MB
    traffic.read_through += scans
    traffic.app.append(
        Work("read_direct", dice.batch(scans, MB, app_us, STEADY), "", names.CALLS_SCAN)
    )
    sent = dice.batch(rpcs, RSIZE_BYTES, rpc_us, STEADY)
    queue_us = 30 * load.scanners
    traffic.client.append(Work("read", sent, names.PART_DB, names.RPCS_SCAN, queue_us))
    for op, count, median_us in (
        ("read_disk", scans, 420.0),  # the one that sets off the next read-ahead
        ("read_cached", rpcs - scans, 48.0),
    ):
        served = dice.batch(count, RSIZE_BYTES, median_us, STEADY)
        traffic.server.append(Work(op, served, names.FS_DB, names.SERVED_SCAN))
    requests = scans * (MB // _DISK_MAX_BYTES)
    ahead = dice.batch(requests, _DISK_MAX_BYTES, 380, STEADY)
    traffic.block.append(Work("read", ahead, names.DISK_DB, names.SUBMITTED_NFSD, 40.0))
    traffic.sequential += requests
    traffic.splits += scans


def _hits(traffic: Traffic, load: Load, dice: Dice, interval_s: float, network_us: float) -> None:
    """8 KB each, nearly all from the client's page cache; a READ of rsize fetches the rest."""
    calls = dice.count(dice.around(load.hits_per_s) * interval_s)
    rpcs = min(calls, dice.count(calls * _PAGE_BYTES * _CLIENT_MISS_RATIO / RSIZE_BYTES))
    rpcs = min(rpcs, calls * _PAGE_BYTES // RSIZE_BYTES)
    rpc_us = 160 + network_us
    for count, median_us in ((calls - rpcs, 1.9), (rpcs, rpc_us * 1.1 + 15)):
        batch = dice.batch(count, _PAGE_BYTES, median_us, STEADY)
        traffic.app.append(Work("read_buffered", batch, "", names.CALLS_HITS))
    sent, served = dice.batches(rpcs, RSIZE_BYTES, (rpc_us, 46.0))
    traffic.client.append(Work("read", sent, names.PART_DB, names.RPCS_HITS, 6.0))
    traffic.server.append(Work("read_cached", served, names.FS_DB, names.SERVED_HITS))
    traffic.read_through += rpcs
    traffic.nfs_read_bytes += calls * _PAGE_BYTES
    traffic.cached_bytes += calls * _PAGE_BYTES - rpcs * RSIZE_BYTES


def _dirty(traffic: Traffic, load: Load, dice: Dice, interval_s: float, network_us: float) -> None:
    """16 KB buffered writes; write-back sends them as WRITEs of wsize, and COMMITs."""
    size = 16 * KB
    writes = dice.count(dice.around(load.dirty_bytes_per_s) / size * interval_s)
    calls = dice.batch(writes, size, 9.0)
    traffic.app.append(Work("write_buffered", calls, "", names.CALLS_DIRTY))
    whole, rest = divmod(writes * size, WSIZE_BYTES)
    for count, size_bytes in ((whole, WSIZE_BYTES), (1 if rest else 0, rest)):
        sent, served = dice.batches(count, size_bytes, (300 + network_us, 62.0))
        traffic.client.append(Work("write_unstable", sent, names.PART_DB, names.RPCS_DIRTY, 25.0))
        traffic.server.append(Work("write_unstable", served, names.FS_DB, names.SERVED_DIRTY))
    pairs, rest = divmod(writes * size, _MERGED_BYTES)
    for count, size_bytes in ((pairs, _MERGED_BYTES), (1 if rest else 0, rest)):
        written = dice.batch(count, size_bytes, 290.0)
        work = Work("write", written, names.DISK_DB, names.SUBMITTED_NFSD, 60.0)
        traffic.block.append(work)
    traffic.write_merges += pairs
    traffic.sequential += pairs
    _commits(traffic, load, dice, interval_s, (whole, network_us))
    _direct_writes(traffic, load, dice, interval_s, network_us)


def _commits(
    traffic: Traffic, load: Load, dice: Dice, interval_s: float, of: tuple[int, float]
) -> None:
    """A COMMIT after so many unstable WRITEs, and one for each fsync; each flushes the disk."""
    unstable, network_us = of
    syncs = dice.count(load.dirty_bytes_per_s / 8e6 * interval_s)
    commits = dice.count(unstable / _COMMIT_EVERY) + syncs
    called = dice.batch(syncs, 0, 3_600 + 1.2 * network_us)
    traffic.app.append(Work("fsync", called, "", names.CALLS_DIRTY))
    sent, served, flushed = dice.batches(commits, 0, (2_900 + network_us, 2_600, 900))
    traffic.client.append(Work("commit", sent, names.PART_DB, names.RPCS_DIRTY, 12.0))
    traffic.server.append(Work("commit", served, names.FS_DB, names.SERVED_DIRTY))
    traffic.block.append(Work("flush", flushed, names.DISK_DB, names.SUBMITTED_NFSD))


def _direct_writes(
    traffic: Traffic, load: Load, dice: Dice, interval_s: float, network_us: float
) -> None:
    """64 KB with O_DIRECT: one WRITE that asks for FILE_SYNC."""
    size = 64 * KB
    writes = dice.count(load.dirty_bytes_per_s * 0.05 / size * interval_s)
    traffic.written_through += writes
    medians_us = (560 + 1.1 * network_us, 500 + network_us, 460, 340)
    called, sent, served, written = dice.batches(writes, size, medians_us)
    traffic.app.append(Work("write_direct", called, "", names.CALLS_DIRTY))
    traffic.client.append(Work("write_file_sync", sent, names.PART_DB, names.RPCS_DIRECT, 6.0))
    traffic.server.append(Work("write_file_sync", served, names.FS_DB, names.SERVED_DIRTY))
    traffic.block.append(Work("write", written, names.DISK_DB, names.SUBMITTED_NFSD, 15.0))


def _log(traffic: Traffic, load: Load, dice: Dice, interval_s: float, network_us: float) -> None:
    """Log writes with O_DSYNC: one FILE_SYNC WRITE, one write and one flush of the disk each."""
    writes = dice.count(dice.around(load.syncs_per_s) * interval_s)
    small = dice.count(writes * 0.8) if writes else 0
    medians_us = (340 + 1.1 * network_us, 300 + network_us, 270, 120)
    for count, size in ((min(small, writes), 4 * KB), (max(0, writes - small), 32 * KB)):
        called, sent, served, written = dice.batches(count, size, medians_us)
        traffic.app.append(Work("write_sync", called, "", names.CALLS_LOG))
        traffic.client.append(Work("write_file_sync", sent, names.PART_LOG, names.RPCS_LOG, 4.0))
        traffic.server.append(Work("write_file_sync", served, names.FS_LOG, names.SERVED_LOG))
        traffic.block.append(Work("write", written, names.DISK_LOG, names.SUBMITTED_NFSD, 3.0))
    traffic.written_through += writes
    traffic.sequential += writes
    flushed = dice.batch(writes, 0, 95)
    traffic.block.append(Work("flush", flushed, names.DISK_LOG, names.SUBMITTED_NFSD))


def _other_client(traffic: Traffic, dice: Dice, interval_s: float) -> None:
    """Another machine, which reads the same server's cache."""
    served = dice.batch(dice.count(25 * interval_s), 32 * KB, 30)
    traffic.server.append(Work("read_cached", served, names.FS_DB, names.SERVED_OTHER))


def _local(traffic: Traffic, load: Load, dice: Dice, interval_s: float) -> None:
    """Programs that work on the machine's own disk."""
    size = 16 * KB
    reads = dice.count(dice.around(300) * interval_s)
    misses = min(reads, dice.count(reads * 0.3))
    for count, median_us in ((reads - misses, 3.4), (misses, 470.0)):
        called = dice.batch(count, size, median_us)
        traffic.app.append(Work("read_buffered", called, "", names.CALLS_SEARCH))
    request = dice.batch(misses, size, 430)
    traffic.block.append(Work("read", request, names.DISK_ROOT, names.SUBMITTED_SEARCH, 14.0))
    lines = dice.count(40 * interval_s)
    called = dice.batch(lines, 4 * KB, 6)
    traffic.app.append(Work("write_buffered", called, "", names.CALLS_JOURNAL))
    written = dice.batch(lines, 4 * KB, 240)
    traffic.block.append(Work("write", written, names.DISK_ROOT, names.SUBMITTED_KWORKER, 9.0))
    syncs = dice.count(2 * interval_s)
    called, flushed = dice.batch(syncs, 0, 2_400), dice.batch(syncs, 0, 1_900)
    traffic.app.append(Work("fsync", called, "", names.CALLS_JOURNAL))
    traffic.block.append(Work("flush", flushed, names.DISK_ROOT, names.SUBMITTED_JOURNAL))
    traffic.local_reads += reads
    traffic.local_misses += misses
    traffic.local_syncs += syncs
    if load.readers < 0.5:  # at night, the log is archived
        _archive(traffic, dice, interval_s)


def _archive(traffic: Traffic, dice: Dice, interval_s: float) -> None:
    """copy_file_range from a cached file into another, written back and trimmed."""
    size = 256 * KB
    copies = dice.count(12 * interval_s)
    copied = dice.batch(copies, size, 95)
    written = dice.batch(copies, size, 1_100)
    trimmed = dice.batch(dice.count(0.5 * interval_s), MB, 600)
    traffic.app.append(Work("copy", copied, "", names.CALLS_COPY))
    traffic.block.append(Work("write", written, names.DISK_ROOT, names.SUBMITTED_KWORKER, 80.0))
    traffic.block.append(Work("discard", trimmed, names.DISK_ROOT, names.SUBMITTED_KWORKER))
