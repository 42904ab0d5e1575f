"""Every scenario of the virtual machine by name; the host's: tests/scenarios/catalogue.py."""

from __future__ import annotations

from tests.scenarios.catalogue import Scenario
from tests.vm import block_scenarios as block
from tests.vm import nfs_scenarios as nfs

VM_ANOMALIES = (
    Scenario("md_resync", "an md raid1 that is being made the same (mdadm)", block.md_resync,
             "maintenance"),
    Scenario("md_chunk", "1 MB direct reads of an md raid0 with chunks of 64 KB", block.md_chunk,
             "fragmentation", ("single_stream",)),
    Scenario("few_segments", "1 MB direct reads of a disk that takes 30 segments",
             block.few_segments, "fragmentation", ("single_stream",)),
    Scenario("turning_cached", "a disk that says it turns and answers from memory (scsi_debug)",
             block.turning_cached, "cache_below", ("single_stream",)),
    Scenario("two_threads", "8 reads at once for 2 threads of nfsd", nfs.two_threads,
             "nfsd_threads", ("nfs_latency",)),
    Scenario("server_memory", "reads of a file in the NFS server's page cache",
             nfs.server_memory, "server_cache", ("single_stream", "nfs_latency")),
    Scenario("few_session_slots", "8 reads at once, v4.1, nfs.max_session_slots=2",
             nfs.few_session_slots, "nfs_latency"),
    Scenario("few_rpc_slots", "8 reads at once, v3, sunrpc.tcp_max_slot_table_entries=2",
             nfs.few_rpc_slots, "nfs_latency"),
    Scenario("small_wsize", "1 MB direct writes, wsize=32768", nfs.small_wsize,
             "nfs_fragmentation", ("single_stream", "nfs_latency", "nfsd_threads")),
    Scenario("silent_server", "v4.2: the network is gone while 4 reads are under way",
             nfs.silent_server, "nfs_no_answer",
             ("tcp_retransmits", "tcp_no_answer", "nfs_latency", "nfs_retransmits")),
    Scenario("silent_for_stat", "v3: the network is gone while a program looks at a file's "
             "attributes", nfs.silent_for_stat, "nfs_no_answer",
             ("tcp_retransmits", "tcp_no_answer", "nfs_retransmits")),
    Scenario("no_attributes", "v4.2, noac: a program looks at 60 files again and again",
             nfs.no_attributes, "nfs_revalidation"),
    Scenario("small_files", "v4.2: 60 files of 2 KB, each opened for one read",
             nfs.small_files, "open_close"),
    Scenario("lost_calls", "a network that is gone for 0.9 s again and again, v3, timeo=5",
             nfs.lost_calls, "nfs_retransmits",
             ("tcp_retransmits", "tcp_no_answer", "nfs_latency")),
)  # fmt: skip

VM_HEALTHY = (
    Scenario("md_in_sync", "4 KB direct reads and writes of an md raid1 in sync",
             block.md_in_sync),
    Scenario("md_whole_chunks", "512 KB direct reads of an md raid0 with chunks of 512 KB",
             block.md_whole_chunks),
    Scenario("few_segments_fit", "64 KB direct reads of a disk that takes 30 segments",
             block.few_segments_fit),
    Scenario("turning_disk", "random reads of a turning disk of 8 ms (scsi_debug)",
             block.turning_disk),
    Scenario("enough_threads", "4 reads at once for 8 threads of nfsd", nfs.enough_threads),
    Scenario("server_disk", "reads of a file that the NFS server has on disk", nfs.server_disk),
    Scenario("enough_slots", "4 reads at once, v3, slots for all", nfs.enough_slots),
    Scenario("slow_answers", "v3: each answer takes 2.5 s", nfs.slow_answers),
    Scenario("kept_attributes", "v4.2: a program looks at 60 files again and again",
             nfs.kept_attributes),
    Scenario("idle_mount", "v3: a mount that nobody uses", nfs.idle_mount),
    Scenario("killed_programs", "v3: the server is back, who waited for it was killed",
             nfs.killed_programs),
    Scenario("whole_writes", "64 KB direct writes, wsize=1048576", nfs.whole_writes),
)  # fmt: skip

VM_SCENARIOS = {scenario.name: scenario for scenario in (*VM_ANOMALIES, *VM_HEALTHY)}
