"""The ``-D`` constants of ``probes/block.c`` on a given kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.defines import PLEASE_REPORT, argument_at, offset_defines
from ioh.bpf.layout import Layout
from ioh.bpf.totals import WORDS
from ioh.bpf.values import FilterValue, text_values
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from ioh.procfs.blockdev import read_block_device, ways_to

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts

_FLUSH_SEQ_BIT_BEFORE_6_12 = 4
_REQ_OPS = tuple(
    f"REQ_OP_{name}"
    for name in ["READ", "WRITE", "FLUSH", "DISCARD", "SECURE_ERASE", "WRITE_ZEROES", "ZONE_APPEND"]
)
DEV_OP = Layout("dev_op", "u32 dev, op;")
_RECENT_ENDS = 8
RECENT = Layout(
    "recent",
    f"""
    u64 ends[{_RECENT_ENDS}]; /* of the last requests kept: a sequential one begins there */
    u64 next; /* one more than the number judged */
    u64 sequential;
    u64 kept_ns; /* when the last one was kept */
    """,
)
DISK_NAME_BYTES = 32  # the kernel's DISK_NAME_LEN
STACKED = 1024  # stacked devices that the probe knows when it has no room for all devices
_MOST_BYTES = 64 << 20  # of kernel memory for the per-device totals of all CPUs


def block_defines(host: HostFacts, filters: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets of the request, its queue and disk, and the flag bits of this kernel.

    Unavailable for a device that has no requests of its own.  A multipath NVMe disk has those of
    its paths.
    """
    btf = host.btf
    disk = None if filters.device is None else read_block_device(filters.device)
    if disk is not None and not disk.has_requests and not ways_to(disk.name):
        below = disk.stack if disk.is_stacked else "no other device"
        return Unavailable(
            f"{disk.name} has no requests of its own", f"its I/O becomes requests of {below}"
        )
    # Commit f3fa33acca9f (5.17) took rq_disk out of struct request; 309dca309fc3 (5.12)
    # replaced bio's bi_disk by bi_bdev.
    has_rq_disk, has_bi_disk = btf.offset("request", "rq_disk"), btf.offset("bio", "bi_disk")
    offsets = offset_defines(
        btf,
        "request cmd_flags rq_flags __data_len __sector bio start_time_ns io_start_time_ns",
        "gendisk major first_minor disk_name",
        "task_struct pid tgid group_leader comm",
        "bio bi_opf bi_iter.bi_size",
        *(["request q", "request_queue disk"] if has_rq_disk is None else ["request rq_disk"]),
        *(["bio bi_bdev", "block_device bd_disk"] if has_bi_disk is None else ["bio bi_disk"]),
    )
    if isinstance(offsets, Unavailable):
        return offsets
    ops = btf.enumerators("req_op") or btf.enumerators("req_opf")  # renamed in 6.0
    missing = [name for name in _REQ_OPS if name not in ops]
    if missing:
        return Unavailable(f"this kernel's enum req_op has no {missing[0]}", PLEASE_REPORT)
    # An enumerator since 6.12, at first in an unnamed enum (Debian 13); before that, a macro, which
    # BTF does not have.
    flush_seq = btf.enumerators("rqf_flags").get("__RQF_FLUSH_SEQ")
    if flush_seq is None:
        flush_seq = btf.enumerator("__RQF_FLUSH_SEQ")
    if flush_seq is None:
        flush_seq = _FLUSH_SEQ_BIT_BEFORE_6_12
    flags = btf.enumerators("req_flag_bits")
    defines: dict[str, int] = {
        **offsets,
        "MAX_DEV_OPS": _room(host),
        "STACKED": STACKED,
        "RECENT": _RECENT_ENDS,
        "DISK_NAME_BYTES": DISK_NAME_BYTES,
        "RQF_FLUSH_SEQ": 1 << flush_seq,
        "PREFLUSH": 1 << flags.get("__REQ_PREFLUSH", 18),
        # Commit a54895fa057c (5.11) dropped the queue from these tracepoints' arguments.
        "ISSUE_ARG": argument_at(btf, "block_rq_issue", "request"),
        "BIO_ARG": argument_at(btf, "block_getrq", "bio"),
        "MERGE_BIO_ARG": argument_at(btf, "block_bio_backmerge", "bio"),
    }
    defines |= {name: ops[name] for name in _REQ_OPS}
    if filters.device is not None:
        defines["FILTER_DEVICE"] = FilterValue(filters.device)
    if disk is not None and not disk.has_requests:
        head, _, tail = disk.name.rpartition("n")
        for name, text in (("WAY_HEAD", f"{head}c"), ("WAY_TAIL", f"n{tail}")):
            defines[f"{name}_CHARS"] = len(text)
            defines |= text_values(f"FILTER_{name}", text, 2)
    return defines


def _room(host: HostFacts) -> int:
    """Entries for (device, op) pairs: enough for every disk, but limited on large hosts."""
    disks = len(list(Path("/sys/block").iterdir()))
    most = _MOST_BYTES // (WORDS * 8 * host.cpu_count)
    return max(16, min(most, max(64, 4 * disks)))
