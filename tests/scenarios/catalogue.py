"""Every scenario by name: what it does, which rule must find it, which others may fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.scenarios import anomalies, healthy, mistaken, names, network, storage
from tests.scenarios.evidence import READ_FASTER, WRITTEN_BACK, Sign


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Shape:
        ``play`` takes a Stage.  ``rule`` must fire; if it is ``""``, no rule may warn.  ``says``
        are further rules that must fire; ``also`` are rules that may, since what they report is
        true of the scenario, too.  The finding must come within WITHIN_S of the mark, or of
        ``sign`` if nothing can be seen yet at the mark.
    """

    name: str
    what: str
    play: Callable[[Any], None]
    rule: str = ""
    also: tuple[str, ...] = ()
    sign: Sign | None = None
    says: tuple[str, ...] = ()


ANOMALIES = (
    Scenario("split_reads", "1 MB direct reads, max_sectors_kb lowered to 64",
             anomalies.split_reads, "fragmentation", ("single_stream",)),
    Scenario("split_writes", "1 MB direct writes, max_sectors_kb lowered to 64",
             anomalies.split_writes, "fragmentation", ("single_stream",)),
    Scenario("small_window", "1 MB buffered reads, read_ahead_kb and max_sectors_kb 64",
             anomalies.small_window, "fragmentation"),
    Scenario("joined_reads", "4 KB buffered reads in order", anomalies.joined_reads,
             "consolidation"),
    Scenario("joined_writes", "4 KB buffered writes in order, written back",
             anomalies.joined_writes, "consolidation", ("dirty_throttling",), sign=WRITTEN_BACK),
    Scenario("late_write_back", "4 KB buffered writes in order, left to the kernel to write back",
             anomalies.late_write_back, "consolidation", sign=WRITTEN_BACK),
    Scenario("misaligned_writes", "4 KB buffered writes that begin 512 bytes into a page",
             anomalies.misaligned_writes, "read_before_write"),
    Scenario("cached_reads", "buffered reads of a small file again and again",
             anomalies.cached_reads, "caching"),
    Scenario("large_folder", "20,000 files in one directory, listed with their attributes",
             names.large_folder, "directory_scan", ("slow_disk", "metadata_bound", "tail_latency")),
    Scenario("many_folders", "a walk through 2,000 directories that are not in memory",
             names.many_folders, "metadata_bound", ("slow_disk",)),
    Scenario("held_lock", "two programs that hold the same lock in turns",
             names.held_lock, "lock_wait"),
    Scenario("slow_disk", "the disk below limited to 30 reads a second",
             anomalies.slow_disk, "slow_disk", ("single_stream", "tail_latency")),
    Scenario("limited_group", "a control group limited to 30 reads a second",
             anomalies.limited_group, "io_limit", ("time_above_disk",)),
    Scenario("held_above", "the same group: the time passes above the disk",
             anomalies.limited_group, "time_above_disk", ("io_limit",)),
    Scenario("limited_volume", "the disk below limited to 700 reads a second, eight at a time",
             anomalies.limited_volume, "device_limit", ("tail_latency",)),
    Scenario("deep_queue", "256 requests at once on a disk that serves 128",
             anomalies.deep_queue, "saturation", ("tail_latency", "slow_disk")),
    Scenario("stalls", "a disk that stalls for 90 ms after each 30 reads",
             anomalies.stalls, "tail_latency", ("single_stream", "slow_disk", "device_limit")),
    Scenario("one_reader", "one thread, one direct read at a time",
             anomalies.one_reader, "single_stream"),
    Scenario("one_buffered_reader", "one thread, buffered reads of what is not in memory",
             anomalies.one_buffered_reader, "single_stream", ("tail_latency", "slow_disk")),
    Scenario("sync_log", "4 KB writes, each with fsync", anomalies.sync_log, "sync_writes",
             ("single_stream", "tail_latency", "slow_disk")),
    Scenario("full_cache", "a buffered writer, vm.dirty_bytes lowered to 64 MB",
             anomalies.full_cache, "dirty_throttling", ("consolidation",)),
    Scenario("random_window", "16 KB at random places by 4 KB calls, read_ahead_kb raised to 1024",
             anomalies.random_window, "read_ahead_waste"),
    Scenario("local_rival", "a second fio begins on the same disk", anomalies.local_rival,
             "shared_drive", ("saturation", "tail_latency", "slow_disk", "device_limit")),
    Scenario("remote_rival", "the disk below gets slower, nobody here does more",
             anomalies.remote_rival, "shared_drive",
             ("saturation", "tail_latency", "slow_disk", "device_limit")),
    Scenario("faster_tier", "the disk below gets faster for two minutes", anomalies.faster_tier,
             "tiering", ("saturation", "tail_latency", "slow_disk"), sign=READ_FASTER),
    Scenario("zeroing", "blocks zeroed before use (blkdiscard --zeroout)", anomalies.zeroing,
             "first_write"),
    Scenario("sparse_direct", "direct reads of a sparse file", anomalies.sparse_direct, "holes",
             ("single_stream",)),
    Scenario("sparse_buffered", "buffered reads of a sparse file", anomalies.sparse_buffered,
             "holes", ("caching",)),
    Scenario("trim", "discards all over the disk", anomalies.trim, "maintenance"),
    Scenario("surface_scan", "badblocks reads the disk", anomalies.surface_scan, "maintenance",
             ("single_stream", "shared_drive")),
    Scenario("scrub", "a btrfs scrub", storage.scrub, "maintenance", ("single_stream",)),
    Scenario("cached_image", "a loop device whose file is in the page cache",
             storage.cached_image, "cache_below", ("single_stream",)),
    Scenario("half_cached", "6 of 10 reads of a disk answered from memory below it",
             storage.half_cached, "cache_below", ("single_stream", "tail_latency")),
    Scenario("compressed", "data that compresses, written to btrfs with compress=lzo",
             storage.compressed, "compression", ("consolidation",)),
    Scenario("compressed_reads", "data that compresses, read of btrfs with compress=zstd",
             storage.compressed_reads, "compression", ("consolidation", "single_stream")),
    Scenario("file_heads", "the first 4 KB of files of 100 KB", mistaken.file_heads,
             "read_ahead_waste", ("single_stream",)),
    Scenario("sparse_once", "reads of 1 GB of a sparse file", mistaken.sparse_once, "holes"),
    Scenario("sparse_again", "a sparse file read again and again, not in memory",
             mistaken.sparse_again, "holes"),
    Scenario("long_rival", "another fio beside a calm reader, for 45 s", mistaken.long_rival,
             "shared_drive", ("saturation", "tail_latency", "slow_disk", "device_limit")),
    Scenario("one_limited_reader", "one thread in a control group limited to 80 reads a second",
             mistaken.one_limited_reader, "io_limit", ("time_above_disk",)),
    Scenario("starved_reader", "one thread whose CPUs others take", mistaken.starved_reader,
             "cpu_wait", ("tail_latency", "time_above_disk"), says=("single_stream",)),
    Scenario("scattered_memory", "1 MB direct reads into memory of single pages",
             mistaken.scattered_memory, "fragmentation", ("single_stream",)),
    Scenario("unseen_completions", "a program that takes libaio's completions from the ring",
             storage.unseen_completions, "losses"),
    Scenario("swapping", "a program of 200 MB that may use 64 MB, swap on a disk",
             storage.swapping, "swapping",
             ("single_stream", "tail_latency", "slow_disk", "saturation", "shared_drive")),
    Scenario("swapping_zram", "the same program, swap in compressed memory (zram)",
             storage.swapping_zram, "swapping"),
    Scenario("memory_writes", "dd without O_DIRECT and without fsync", storage.memory_writes,
             "caching", ("dirty_throttling", "consolidation")),
    Scenario("dark_peer", "the other machine is gone while data is sent to it",
             network.dark_peer, "tcp_no_answer", ("tcp_retransmits",)),
    Scenario("lossy_link", "2 % of the packets dropped", network.lossy_link, "tcp_retransmits",
             ("connection_limits",)),
    Scenario("shaped_link", "a link of 80 Mbit/s (tc tbf) that is full", network.shaped_link,
             "connection_limits", ("tcp_retransmits",)),
    Scenario("full_backlog", "a server that does not accept", network.full_backlog,
             "connection_limits", ("tcp_retransmits",)),
    Scenario("slow_receiver", "a receiver that reads slowly", network.slow_receiver,
             "connection_limits"),
)  # fmt: skip

HEALTHY = (
    Scenario("large_requests", "1 MB direct reads in whole requests", healthy.large_requests),
    Scenario("small_reads", "4 KB direct reads, eight at a time", healthy.small_reads),
    Scenario("busy_disk", "the same, as many as the disk can", healthy.busy_disk),
    Scenario("late_reaper", "4 KB direct reads whose completions the program asks for late",
             healthy.late_reaper),
    Scenario("mixed", "4 KB direct reads and writes, 70 to 30", healthy.mixed),
    Scenario("page_random", "4 KB buffered reads at random, told to be random",
             healthy.page_random),
    Scenario("aligned_writes", "4 KB buffered writes at random, not in memory",
             healthy.aligned_writes),
    Scenario("calm_writer", "a buffered writer of 10 MB/s", healthy.calm_writer),
    Scenario("group_commit", "1 MB writes, each with fsync", healthy.group_commit),
    Scenario("overwriter", "direct writes over what is there", healthy.overwriter),
    Scenario("two_from_the_start", "two fios from the beginning", healthy.two_from_the_start),
    Scenario("steady", "direct reads, 150 s the same", healthy.steady),
    Scenario("direct_image", "direct reads of a loop device, of all disks",
             storage.direct_image),
    Scenario("incompressible", "random data written to btrfs with compress=lzo",
             storage.incompressible),
    Scenario("incompressible_reads", "random data read of btrfs with compress=zstd",
             storage.incompressible_reads, also=("consolidation", "single_stream")),
    Scenario("read_btrfs", "direct reads of btrfs", storage.read_btrfs),
    Scenario("cached_names", "ten thousand files in memory, looked at again and again",
             names.cached_names),
    Scenario("few_trims", "a few discards a second", healthy.few_trims),
    Scenario("clean_link", "the same traffic without drops", network.clean_link),
    Scenario("half_used_link", "the same link of 80 Mbit/s, half used",
             network.half_used_link),
    Scenario("copies", "copies of a file in memory, on a loop device that uses the page cache",
             healthy.copies),
    Scenario("small_files", "whole files of 1,500 bytes, not in memory", mistaken.small_files,
             also=("single_stream",)),
    Scenario("shared_memory", "a file in memory read into shared memory", mistaken.shared_memory,
             also=("caching",)),
    Scenario("other_writer", "reads of a file in memory while another disk is written",
             mistaken.other_writer, also=("caching",)),
    Scenario("idle", "nothing", healthy.idle),
)  # fmt: skip

SCENARIOS = {scenario.name: scenario for scenario in (*ANOMALIES, *HEALTHY)}
